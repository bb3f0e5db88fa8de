"""Cumulant: play freely once, with no reward; then act on any goal at once, in words or as a reward."""

from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cumulant.evaluation import Success, evaluate
    from cumulant.freeplay import pretrain
    from cumulant.language import LanguageError, parse
    from cumulant.library import Library
    from cumulant.oracle import oracle_policy
    from cumulant.policy import Policy, play, random_policy
    from cumulant.renderer import render
    from cumulant.spriteworld import Spriteworld
    from cumulant.successor import PRESETS, FreePlay
    from cumulant.suites import suite
    from cumulant.tasks import Task, reached
    from cumulant.world import World

_MODULES = {
    "evaluation": ("Success", "evaluate"),
    "language": ("LanguageError", "parse"),
    "library": ("Library",),
    "oracle": ("oracle_policy",),
    "policy": ("Policy", "play", "random_policy"),
    "freeplay": ("pretrain",),
    "renderer": ("render",),
    "spriteworld": ("Spriteworld",),
    "successor": ("PRESETS", "FreePlay"),
    "suites": ("suite",),
    "tasks": ("Task", "reached"),
    "world": ("World",),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}
__all__ = sorted(_HOME)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: JAX takes seconds, and `cumulant --help` should not."""
    if name == "__version__":
        return metadata.version("cumulant")
    if name not in _HOME:
        raise AttributeError(f"module 'cumulant' has no attribute {name!r}")
    return getattr(import_module(f"cumulant.{_HOME[name]}"), name)
