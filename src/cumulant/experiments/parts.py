"""A part of a figure: an object that knows how it is shrunk, run, measured and described. A part fills a run folder."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

import cumulant
from cumulant.config import FreePlay
from cumulant.experiments.engines import FAILURE, Engine, Filled, failed
from cumulant.experiments.run_folders import Measured, Row, is_finished, write_run
from cumulant.experiments.trials import Trials
from cumulant.features.coordinates import inputs_of, true_features
from cumulant.freeplay.learning import make_network
from cumulant.freeplay.runs import Diverged
from cumulant.storage import locked
from cumulant.worlds.protocol import World
from cumulant.worlds.shapes import SHAPES
from cumulant.worlds.spriteworld import Spriteworld

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
else:
    DataclassInstance = object  # type checkers alone know of it

WORLD = Spriteworld()  # of most experiments; those from pixels see it in frames
# The free play of what was recorded with version 0.1: its preset `fast`.
RECORDED_PLAY = FreePlay(network="all_policies", clipped=False, env_steps=12_800_000, num_envs=256, learning_rate=2e-3)
TUNING_SEED = 1000  # of what settings were searched on: tasks, or a learner of features; figures have other seeds


@dataclass(frozen=True)
class Scale(Trials):
    """How large the experiments are. The defaults are those of the recorded results."""

    seeds: tuple[int, ...] = (0, 1, 2)  # of training
    dqn_steps: tuple[int, ...] = tuple(
        1_000 * n for n in (1, 2, 5, 10, 20, 50, 100, 150, 200, 300, 400, 500, 600, 700, 800, 900, 1_000)
    )
    miniature: bool = False  # small networks and little training, to see that everything runs


FULL = Scale()
SMOKE = Scale(
    seeds=(0,), tasks_per_class=1, episodes=16, budgets=(500,), goals=20, dqn_steps=(500, 1_000), miniature=True
)
Learner = TypeVar("Learner", bound=DataclassInstance)


def world_of(objects: int) -> Spriteworld:
    """The same world with so many objects."""
    return Spriteworld(tuple(SHAPES)[:objects])


def in_miniature(settings: Learner) -> Learner:
    """The settings of whatever learns a network from play, which then hardly learns."""
    return replace(settings, width=32, batch=32, replay=7_000, num_envs=32, env_steps=32 * 80)


class Ran(NamedTuple):
    """What a run gives."""

    rows: list[Row]
    seconds: dict[str, float]
    measures: list[Measured] | None = None  # of its features, a seed after the other; None for a part that has none


class Costs(NamedTuple):
    """What a part learns, and from how much play; of a method that learns every task anew, for one task."""

    env_steps: int
    updates: int
    parameters: int

    @classmethod
    def of_play(cls, world: World, free_play: FreePlay) -> "Costs":
        """Those of free play on a world's own features."""
        inputs, actions = inputs_of(true_features, world), world.num_actions
        network = eqx.filter_eval_shape(make_network, free_play, inputs, actions, jax.random.key(0))
        return cls(free_play.env_steps, free_play.updates, parameters(network))


def parameters(networks: PyTree) -> int:
    """How many numbers are learnt: of networks, or of their shapes."""
    return sum(leaf.size for leaf in jax.tree.leaves(networks) if hasattr(leaf, "size"))


def check_finite(networks: PyTree) -> None:
    """Diverged, if somebody has learnt what is no number: it would be judged all the same, as one that is weak."""
    if not all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(eqx.filter(networks, eqx.is_inexact_array))):
        raise Diverged("the networks have come to what is no number: a lower learning rate may help")


class Clock:
    """Hears what a stage reports, and keeps the seconds of compiling and, as far as it has come, of learning."""

    compiling = learning = 0.0

    def __call__(self, metrics: Mapping[str, Any]) -> None:
        """Take note of a report."""
        if metrics["event"] == "compiled":
            self.compiling = metrics["seconds"]
        else:
            self.learning = metrics.get("seconds", self.learning)


class Part(ABC):
    """What a figure is made of: a method and its settings. A kind of part is a frozen dataclass that extends this."""

    @property
    def world(self) -> Spriteworld:
        """Where it is judged."""
        return WORLD

    @abstractmethod
    def settings(self) -> DataclassInstance | None:
        """What its rows depend on, beside the world and the scale: config.json keeps it, and knows the part by it."""

    @abstractmethod
    def shrunk(self) -> "Part":
        """The same in miniature."""

    def scaled(self, scale: Scale) -> Scale:
        """How large this part is where the figure is as large as `scale`; most are just so large."""
        return scale

    def costs(self) -> Costs | None:
        """What it learns, and from how much play; None for a part that learns nothing, or is not asked."""
        return None

    @abstractmethod
    def run(self, name: str, scale: Scale, folder: Path) -> Ran:
        """Train and judge, at exactly this scale. What is worth keeping beside rows and measures goes to the folder."""


def run_folder(name: str, out: Path) -> Path:
    """Where a part's run lies."""
    return out / "runs" / name


def is_recorded(name: str, part: Part, scale: Scale, out: Path) -> bool:
    """Whether a folder holds a part at this scale; ValueError if it holds the part at another."""
    return is_finished(run_folder(name, out), _settings(part, scale))


def run_part(name: str, part: Part, scale: Scale, out: Path, say: Callable[[str], None]) -> None:
    """Fill a part's folder, unless it already holds the part; Locked if somebody else is filling it."""
    if not is_recorded(name, part, scale, out):
        with locked(run_folder(name, out), "*", "*/*"):  # a part may keep libraries, with their encoders
            if not is_recorded(name, part, scale, out):  # by somebody who has just finished it
                _fill(name, part, scale, run_folder(name, out), say)


def run_parts(
    parts: Mapping[str, Part], scale: Scale, out: Path, engine: Engine, say: Callable[[str], None]
) -> dict[str, str]:
    """Have an engine fill the parts' folders; those that failed, and why. Locked if somebody else is filling one."""
    folder, failures = run_folder("", out), dict[str, str]()

    def hear(event: dict[str, Any]) -> None:
        say(": ".join(filter(None, (event["trial"], event["event"], event.get("reason", "")))))
        if event["event"] == "failed":
            failures[event["trial"]] = event["reason"]

    with ExitStack() as locks:
        for each in (folder, *(run_folder(name, out) for name in parts)):  # each part's too: `run_part` has no other
            locks.enter_context(locked(each))
        left = {name: part for name, part in parts.items() if not is_recorded(name, part, scale, out)}
        engine.run([PartWork(name, part, scale) for name, part in left.items()], folder, hear)
    return failures


@dataclass(frozen=True)
class PartWork:
    """A part to be run anywhere: it fills one folder."""

    name: str
    part: Part
    scale: Scale

    @property
    def names(self) -> tuple[str, ...]:
        """Of its folder."""
        return (self.name,)

    def apart(self) -> "list[PartWork]":
        """It is in one piece."""
        return [self]

    def fill(self, place: Path) -> Iterator[Filled]:
        """Run it."""
        try:
            (place / self.name).mkdir()
            _fill(self.name, self.part, self.scale, place / self.name, lambda words: None)
            yield Filled(self.name)
        except Exception as error:  # others go on
            yield failed(self.name, error, place)


def _fill(name: str, part: Part, scale: Scale, folder: Path, say: Callable[[str], None]) -> None:
    begun = time.perf_counter()
    say(f"{name} ...")
    ran = _sized(part, scale).run(name, part.scaled(scale), folder)
    seconds = ran.seconds | {"total_s": time.perf_counter() - begun}
    (folder / FAILURE).unlink(missing_ok=True)  # of an engine's earlier try
    write_run(folder, {"part": name, "seconds": seconds} | described(_settings(part, scale)), ran.rows, ran.measures)
    say(f"{name}: {seconds['total_s']:.0f} s")


def described(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What config.json says of settings, and of what a run was made with here.

    >>> described({"seed": 3})["settings"]
    {'seed': 3}
    """
    plain = {
        name: asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
        for name, value in settings.items()
    }
    about = {"device": jax.devices()[0].device_kind, "version": cumulant.__version__, "jax": jax.__version__}
    return {"settings": plain} | about


def _sized(part: Part, scale: Scale) -> Part:
    return part.shrunk() if scale.miniature else part


def _settings(part: Part, scale: Scale) -> dict[str, DataclassInstance | None]:
    """All that a part's rows depend on."""
    return {"world": part.world, "scale": part.scaled(scale), "what": _sized(part, scale).settings()}
