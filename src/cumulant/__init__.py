"""Cumulant: play freely once, with no reward; then act on any goal at once, in words or as a reward."""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.2.0"  # pyproject.toml reads it here, so that a source folder knows it without being installed

if TYPE_CHECKING:
    from cumulant.config import PRESETS as PRESETS
    from cumulant.config import FreePlay as FreePlay
    from cumulant.config import Represent as Represent
    from cumulant.experiments.on_ray import Ray as Ray
    from cumulant.experiments.sweeps import Evaluation as Evaluation
    from cumulant.experiments.sweeps import Trial as Trial
    from cumulant.experiments.sweeps import sweep as sweep
    from cumulant.features.encoder import Encoder as Encoder
    from cumulant.features.representation import represent as represent
    from cumulant.freeplay.runs import Diverged as Diverged
    from cumulant.goals.errors import LanguageError as LanguageError
    from cumulant.goals.feature import Feature as Feature
    from cumulant.goals.language import parse as parse
    from cumulant.goals.language import parse_plan as parse_plan
    from cumulant.goals.plans import Plan as Plan
    from cumulant.goals.plans import Stage as Stage
    from cumulant.goals.suites import suite as suite
    from cumulant.goals.tasks import Task as Task
    from cumulant.goals.tasks import reached as reached
    from cumulant.storage import Unreadable as Unreadable
    from cumulant.transfer.audit import audit as audit
    from cumulant.transfer.evaluation import Success as Success
    from cumulant.transfer.evaluation import evaluate as evaluate
    from cumulant.transfer.library import Library as Library
    from cumulant.transfer.pretraining import pretrain as pretrain
    from cumulant.worlds.check import check as check
    from cumulant.worlds.episodes import Policy as Policy
    from cumulant.worlds.episodes import play as play
    from cumulant.worlds.episodes import random_policy as random_policy
    from cumulant.worlds.failures import WorldFailed as WorldFailed
    from cumulant.worlds.films import Film as Film
    from cumulant.worlds.host import HostWorld as HostWorld
    from cumulant.worlds.oracle import oracle_policy as oracle_policy
    from cumulant.worlds.pixels import PixelSpriteworld as PixelSpriteworld
    from cumulant.worlds.primitives import primitives as primitives
    from cumulant.worlds.protocol import World as World
    from cumulant.worlds.protocol import render as render
    from cumulant.worlds.room import Room as Room
    from cumulant.worlds.spriteworld import Spriteworld as Spriteworld

_MODULES = {
    "experiments.on_ray": ("Ray",),
    "experiments.sweeps": ("Evaluation", "Trial", "sweep"),
    "features.encoder": ("Encoder",),
    "features.representation": ("represent",),
    "config": ("PRESETS", "FreePlay", "Represent"),
    "goals.feature": ("Feature",),
    "goals.language": ("parse", "parse_plan"),
    "goals.plans": ("Plan", "Stage"),
    "goals.suites": ("suite",),
    "goals.tasks": ("Task", "reached"),
    "goals.errors": ("LanguageError",),
    "freeplay.runs": ("Diverged",),
    "storage": ("Unreadable",),
    "transfer.audit": ("audit",),
    "transfer.evaluation": ("Success", "evaluate"),
    "transfer.library": ("Library",),
    "transfer.pretraining": ("pretrain",),
    "worlds.check": ("check",),
    "worlds.episodes": ("Policy", "play", "random_policy"),
    "worlds.failures": ("WorldFailed",),
    "worlds.films": ("Film",),
    "worlds.host": ("HostWorld",),
    "worlds.oracle": ("oracle_policy",),
    "worlds.pixels": ("PixelSpriteworld",),
    "worlds.primitives": ("primitives",),
    "worlds.protocol": ("World", "render"),
    "worlds.room": ("Room",),
    "worlds.spriteworld": ("Spriteworld",),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}
__all__ = sorted(_HOME)  # noqa: PLE0605

if not TYPE_CHECKING:  # so that a type checker sees the names above, and a misspelt one is an error

    def __getattr__(name: str) -> object:
        """Import a public name when it is first used: JAX takes seconds, and `cumulant --help` should not."""
        if name not in _HOME:
            raise AttributeError(f"module 'cumulant' has no attribute {name!r}")
        return getattr(import_module(f"cumulant.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
