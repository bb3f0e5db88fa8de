"""Parts of figures: each is a method with its settings, of which a scale makes an experiment."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from cumulant.config import FreePlay
from cumulant.features.coordinates import inputs_of, true_features
from cumulant.freeplay.in_step import InStep
from cumulant.freeplay.learning import make_network
from cumulant.freeplay.runs import Diverged
from cumulant.sweeps.experiments import Experiment, Outcome
from cumulant.sweeps.judging import Evaluation
from cumulant.worlds.shapes import SHAPES
from cumulant.worlds.spriteworld import Spriteworld

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
else:
    DataclassInstance = object  # type checkers alone know of it

WORLD = Spriteworld()  # of most experiments; those from pixels see it in frames
# The free play of what was recorded with version 0.1: its preset `fast`.
RECORDED_PLAY = FreePlay(network="all_policies", clipped=False, env_steps=12_800_000, num_envs=256, learning_rate=2e-3)
_DQN_STEPS = tuple(1_000 * n for n in (1, 2, 5, 10, 20, 50, 100, 150, 200, 300, 400, 500, 600, 700, 800, 900, 1_000))


@dataclass(frozen=True)
class Scale(Evaluation):
    """The size of the experiments. The defaults are those of the recorded results."""

    task_seed: int = 0
    budgets: tuple[int, ...] = (500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000)
    goals: int = 2_000  # drawn from all (m + 1)^k, where it is measured how many of them are reached
    seeds: tuple[int, ...] = (0, 1, 2)  # of training
    dqn_steps: tuple[int, ...] = _DQN_STEPS
    miniature: bool = False  # small networks and little training, to see that everything runs


FULL = Scale()
SMOKE = Scale(
    seeds=(0,), tasks_per_class=1, episodes=16, budgets=(500,), goals=20, dqn_steps=(500, 1_000), miniature=True
)
Learner = TypeVar("Learner", bound=DataclassInstance)


def in_miniature(settings: Learner) -> Learner:
    """Return the settings of a learner of networks from play, so small that it hardly learns."""
    return replace(settings, width=32, batch=32, replay=7_000, num_envs=32, env_steps=32 * 80)


class Costs(NamedTuple):
    """What a part learns, and from how much play; of a method that learns every task anew, for one task."""

    env_steps: int
    updates: int
    parameters: int

    @classmethod
    def of(cls, settings: Any, networks: PyTree) -> "Costs":
        """Return those of a learner's settings, and of its networks or of their shapes."""
        numbers = sum(leaf.size for leaf in jax.tree.leaves(networks) if hasattr(leaf, "size"))
        return cls(settings.env_steps, settings.updates, numbers)


class Part(ABC):
    """A method and its settings, of which figures are made. A kind of part is a frozen dataclass that extends this."""

    objects: int = 2

    @property
    def world(self) -> Spriteworld:
        """The world where it is judged."""
        return Spriteworld(tuple(SHAPES)[: self.objects])

    def settings(self) -> DataclassInstance | None:
        """Return what its rows depend on, beside the world and the scale: config.json keeps it as "what"."""
        return self  # type: ignore[return-value]

    def shrunk(self) -> "Part":
        """Return the part in miniature: by default, with small learners."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]
        learners = {name: in_miniature(value) for name, value in values.items() if hasattr(value, "env_steps")}
        return replace(self, **learners)  # type: ignore[type-var]

    def scaled(self, scale: Scale) -> Scale:
        """Return how large this part is where the figure is as large as `scale`."""
        return scale

    def costs(self) -> Costs | None:
        """Return what it learns, and from how much play; None for a part that learns nothing, or is not asked."""
        return None

    @abstractmethod
    def run(self, name: str, scale: Scale, folder: Path) -> Outcome:
        """Train and judge, at exactly this scale. What is worth keeping beside rows and measures goes to the folder."""

    def experiment(self, name: str, scale: Scale) -> Experiment:
        """Return the run that fills the part's folder."""
        part, scale = self.shrunk() if scale.miniature else self, self.scaled(scale)
        said = {"world": self.world, "scale": scale, "what": part.settings()}
        return Experiment(name, said, (part, name, scale), _run)


def _run(configs: Sequence[tuple[Part, str, Scale]], folders: Sequence[Path]) -> Iterator[Outcome]:
    for (part, name, scale), folder in zip(configs, folders, strict=True):
        yield part.run(name, scale, folder)


def costs_of_play(world: Spriteworld, free_play: FreePlay) -> Costs:
    """Return the costs of free play on a world's own features."""
    inputs = inputs_of(true_features, world)
    network = eqx.filter_eval_shape(make_network, free_play, inputs, world.num_actions, jax.random.key(0))
    return Costs.of(free_play, network)


def in_step(train: Callable[[Any, Any, Array], Any], each: Sequence[PyTree], begun: Sequence[Any]) -> "InStep[Any]":
    """Compile runs of a baseline in step: `train` takes what is a run's own, the run, and the update to go to."""
    return InStep(lambda own, learning, until: (train(own, learning, until), None), each, begun)


def check_finite(networks: PyTree) -> None:
    """Raise Diverged if a network has learnt what is no number: it would be judged all the same, as a weak one."""
    if not all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(eqx.filter(networks, eqx.is_inexact_array))):
        raise Diverged("the networks have come to what is no number: a lower learning rate may help")
