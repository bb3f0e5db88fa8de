"""The skill library: a finished stage 2, with all that is needed to act. A folder on disk, or the one that ships."""

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from cumulant import regression, store
from cumulant.evaluation import Success, evaluate, tables_of
from cumulant.features import is_learnt, named_features, number_of
from cumulant.gpi import Gpi, weights
from cumulant.grounding import Grounding
from cumulant.language import parse
from cumulant.networks import Network
from cumulant.pixels import PixelSpriteworld
from cumulant.policy import Policy
from cumulant.spriteworld import Spriteworld
from cumulant.store import Unreadable
from cumulant.successor import FreePlay, make_network
from cumulant.tasks import THIRDS, Task
from cumulant.world import World

FORMAT = 1
_WORLDS = {kind.__name__: kind for kind in (Spriteworld, PixelSpriteworld)}  # that a library brings with it
_ENCODER = "encoder"  # the folder of learnt features inside a library's own


@dataclass(frozen=True)
class Library:
    """Skills for every bin of every feature of a world, and their successor features."""

    world: World
    config: FreePlay
    network: Network
    features_name: str = "true"

    def __post_init__(self) -> None:
        """Refuse features that were learnt elsewhere."""
        if is_learnt(self.features_name) and self.features.world != self.world:
            raise ValueError(f"{self.features_name} was learnt in another world: {self.features.world}")

    @cached_property
    def features(self) -> Any:
        """f: observation → [0, 1]^d."""
        return named_features(self.features_name, len(self.world.feature_names))

    @property
    def feature_names(self) -> tuple[str, ...]:
        """What the d features are called: as the world calls them, or as far as words have a meaning for them."""
        coordinates, number = self.world.feature_names, number_of(self.features, self.world)
        if self.grounding:
            return self.grounding.names(coordinates)
        kind = "latent" if is_learnt(self.features_name) else "feature"
        return coordinates if self.understands_goals else tuple(f"{kind} {i}" for i in range(number))

    @property
    def bin_names(self) -> tuple[tuple[str, ...], ...]:
        """What the bins of each feature are called, [d][m]: "left", or "2/9" where there is no word."""
        m, falling = self.config.bins, self.grounding.falling if self.grounding else ()

        def names(i: int, feature: str) -> tuple[str, ...]:
            words = THIRDS.get(feature.rpartition("_")[2], ()) if m == 3 else ()
            rising = words or tuple(f"{j + 1}/{m}" for j in range(m))
            return rising[::-1] if i in falling else rising

        return tuple(names(i, feature) for i, feature in enumerate(self.feature_names))

    @property
    def grounding(self) -> Grounding | None:
        """What words mean for learnt features, if that is known."""
        return self.features.grounding if is_learnt(self.features_name) else None

    def gpi(self, committed: bool = True) -> Gpi:
        """What makes a policy from weights, for `evaluate`."""
        return Gpi(self.network, self.features, committed)

    @property
    def understands_goals(self) -> bool:
        """Whether words and tasks, which speak of the true features, speak of this library's."""
        return not self.misunderstanding

    @property
    def misunderstanding(self) -> str:
        """Why words and tasks mean nothing to it, in one line; empty if they do."""
        k, number = len(self.world.feature_names), number_of(self.features, self.world)
        if self.features_name.startswith("entangled:"):
            return "this library's features are entangled, and goals speak of the true ones"
        if is_learnt(self.features_name):
            return (
                ""
                if self.grounding
                else "this library's features are learnt, and no labels say what goals mean for them"
            )
        return "" if number == k else f"this library has {number} features, and goals speak of the {k} true ones"

    def weights(self, goal: str | Task) -> Float[Array, "c d m"]:
        """A phrase's or a task's clauses as weights over the cumulants."""
        return self.weights_of(jax.numpy.asarray(self.task(goal).table()))

    def weights_of(self, table: Bool[Array, "c k b"]) -> Float[Array, "c d m"]:
        """The clauses of `Task.table` as weights over the cumulants."""
        self._check_understanding()
        return (self.grounding.weights if self.grounding else weights)(table, self.config.bins)

    def task(self, goal: str | Task) -> Task:
        """The task that a phrase means in this library's world."""
        if isinstance(goal, Task):
            return goal
        return parse(goal, tuple(dict.fromkeys(name.rpartition("_")[0] for name in self.world.feature_names)))

    def policy(self, goal: str | Task | Float[Array, "c d m"], committed: bool = True) -> Policy:
        """The policy for a phrase, a task, or weights: zero-shot."""
        w = self.weights(goal) if isinstance(goal, str | Task) else goal
        return self.gpi(committed)(self.world, w)

    def learn_reward(
        self, reward: regression.Reward, key: PRNGKeyArray, budget: int, paper: bool = False
    ) -> Float[Array, "1 d m"]:
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
        everything = [task for group in tasks.values() for task in group]
        guides = jax.vmap(self.weights_of)(tables_of(everything))
        return evaluate(self.world, self.gpi(committed), tasks, key, episodes, guides)

    def _check_understanding(self) -> None:
        if not self.understands_goals:
            raise ValueError(f"{self.misunderstanding}: give a reward")

    def save(self, folder: str | Path) -> None:
        """Write the library as a folder, with its encoder if it has one: such a folder needs no other."""
        if is_learnt(self.features_name):
            self.features.save(encoder_folder(Path(folder)))
        store.write(Path(folder), self.network, self.describe())

    def describe(self) -> dict[str, Any]:
        """All but the weights, as JSON holds it."""
        return {
            "format": FORMAT,
            "world": {"kind": type(self.world).__name__, **dataclasses.asdict(self.world)},  # type: ignore[call-overload]
            "features": f"learnt:{_ENCODER}" if is_learnt(self.features_name) else self.features_name,
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
        learnt = info["features"] == f"learnt:{_ENCODER}"
        name = f"learnt:{encoder_folder(path)}" if learnt else info["features"]
        try:
            config = FreePlay(**info["free_play"])
            known = _WORLDS[kind](**parameters) if kind in _WORLDS else world
            if known is None:
                raise Unreadable(f"{path} was made in a world of kind {kind}: give that world to load it")
            library = cls(world or known, config, None, name)
        except (TypeError, ValueError) as error:
            raise Unreadable(f"{path / 'config.json'} is not valid: {error}") from None
        if library.describe()["world"] != _as_stored(info["world"]):
            raise Unreadable(f"{path} was made in another world: {info['world']}")
        return dataclasses.replace(library, network=store.read(path, _blank(library)))


def encoder_folder(library: Path) -> Path:
    """Where a library's folder keeps its encoder."""
    return library / _ENCODER


def _blank(library: Library) -> Network:
    """The network's shapes."""
    number = number_of(library.features, library.world)
    return eqx.filter_eval_shape(make_network, library.config, number, library.world.num_actions, jax.random.key(0))


def _as_stored(world: dict[str, Any]) -> dict[str, Any]:
    """JSON knows lists alone, where parameters hold tuples."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in world.items()}
