"""The skill library: a finished stage 2, with all that is needed to act. A folder on disk, or the one that ships."""

import dataclasses
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import jax
from jaxtyping import Array, Float, PRNGKeyArray

from cumulant import regression, store
from cumulant.evaluation import Success, evaluate, tables_of
from cumulant.features import Features, named_features
from cumulant.gpi import Gpi, weights
from cumulant.language import parse
from cumulant.networks import Network
from cumulant.policy import Policy
from cumulant.spriteworld import Spriteworld
from cumulant.store import Unreadable
from cumulant.successor import FreePlay, make_network
from cumulant.tasks import Task
from cumulant.world import World

FORMAT = 1


@dataclass(frozen=True)
class Library:
    """Skills for every bin of every feature of a world, and their successor features."""

    world: World
    config: FreePlay
    network: Network
    features_name: str = "true"

    @property
    def features(self) -> Features:
        """f: observation → [0, 1]^k."""
        return named_features(self.features_name, len(self.world.feature_names))

    def gpi(self, committed: bool = True) -> Gpi:
        """What makes a policy from weights, for `evaluate`."""
        return Gpi(self.network, self.features, committed)

    @property
    def understands_goals(self) -> bool:
        """Whether words and tasks, which speak of the true features, speak of this library's."""
        return not self.features_name.startswith("entangled:")

    def weights(self, goal: str | Task) -> Float[Array, "c k m"]:
        """A phrase's or a task's clauses as weights over the cumulants."""
        self._check_understanding()
        task = self.task(goal)
        return weights(jax.numpy.asarray(task.table()), self.config.bins)

    def task(self, goal: str | Task) -> Task:
        """The task that a phrase means in this library's world."""
        if isinstance(goal, Task):
            return goal
        return parse(goal, tuple(dict.fromkeys(name.rpartition("_")[0] for name in self.world.feature_names)))

    def policy(self, goal: str | Task | Float[Array, "c k m"], committed: bool = True) -> Policy:
        """The policy for a phrase, a task, or weights: zero-shot."""
        w = self.weights(goal) if isinstance(goal, str | Task) else goal
        return self.gpi(committed)(self.world, w)

    def learn_reward(
        self, reward: regression.Reward, key: PRNGKeyArray, budget: int, paper: bool = False
    ) -> Float[Array, "1 k m"]:
        """Weights from `budget` labelled steps of a reward function of the state; `paper` is the paper's own way."""
        if budget < 1:
            raise ValueError(f"a budget is at least 1 labelled step, but is {budget}")
        bins = self.config.bins
        labelled = regression.collect_labelled(self.world, self.gpi(), bins, reward, key, budget, random=paper)
        return (regression.least_squares(labelled, bins)[0] if paper else regression.fit(labelled, bins))[None]

    def evaluate(
        self, tasks: dict[str, Any], key: PRNGKeyArray, episodes: int, committed: bool = True
    ) -> dict[str, Success]:
        """Zero-shot success by class of tasks."""
        self._check_understanding()
        everything = [task for group in tasks.values() for task in group]
        guides = jax.vmap(lambda table: weights(table, self.config.bins))(tables_of(everything))
        return evaluate(self.world, self.gpi(committed), tasks, key, episodes, guides)

    def _check_understanding(self) -> None:
        if not self.understands_goals:
            raise ValueError("this library's features are entangled, and goals speak of the true ones: give a reward")

    def save(self, folder: str | Path) -> None:
        """Write the library as a folder."""
        store.write(Path(folder), self.network, self.describe())

    def describe(self) -> dict[str, Any]:
        """All but the weights, as JSON holds it."""
        return {
            "format": FORMAT,
            "world": {"kind": type(self.world).__name__, **dataclasses.asdict(self.world)},  # type: ignore[call-overload]
            "features": self.features_name,
            "free_play": dataclasses.asdict(self.config),
        }

    @classmethod
    def load(cls, folder: str | Path | None = None, world: World | None = None) -> "Library":
        """Read a library, by default the one that ships. A world of your own must be given; it must be the same."""
        path = Path(str(resources.files("cumulant") / "shipped")) if folder is None else Path(folder)
        info = store.read_info(path)
        if info.get("format") != FORMAT or not {"world", "free_play", "features"} <= info.keys():
            raise Unreadable(f"{path} is not a skill library that this version reads")
        parameters = _as_stored(info["world"])
        kind = parameters.pop("kind", None)
        try:
            config = FreePlay(**info["free_play"])
            known = Spriteworld(**parameters) if kind == "Spriteworld" else world
        except (TypeError, ValueError) as error:
            raise Unreadable(f"{path / 'config.json'} is not valid: {error}") from None
        if known is None:
            raise Unreadable(f"{path} was made in a world of kind {kind}: give that world to load it")
        library = cls(world or known, config, _blank(world or known, config), info["features"])
        if library.describe()["world"] != _as_stored(info["world"]):
            raise Unreadable(f"{path} was made in another world: {info['world']}")
        return dataclasses.replace(library, network=store.read(path, library.network))


def _blank(world: World, config: FreePlay) -> Network:
    return make_network(config, len(world.feature_names), world.num_actions, jax.random.key(0))


def _as_stored(world: dict[str, Any]) -> dict[str, Any]:
    """JSON knows lists alone, where parameters hold tuples."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in world.items()}
