"""What the user gave, made usable or refused in one clear line. Names of features and functions are read here alone."""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tyro.conf import FlagCreatePairsOff

from cumulant.config import check_seed

if TYPE_CHECKING:
    import numpy as np
    from jaxtyping import PRNGKeyArray

    from cumulant.features.coordinates import Features
    from cumulant.transfer.library import Library
    from cumulant.worlds.episodes import Reward
    from cumulant.worlds.protocol import World
    from cumulant.worlds.spriteworld import Spriteworld

Flag = FlagCreatePairsOff[bool]  # an option that is given or not, and has no opposite
OBJECTS = ("square", "circle")
_LEARNT = "learnt:"
_TRIED = 64  # states on which a reward is tried before it is used


class BadInput(Exception):
    """What the user gave cannot be used; the message is one clear line (a phrase's error adds where it points)."""


@dataclass(frozen=True)
class LibraryOptions:
    """Which library, shared by all commands that act with one."""

    library: Path | None = None  # A skill library; by default the one that ships.
    world: str = ""  # Only if it was made in a world of your own: package.module:World, as for pretrain.
    features: str = ""  # Only if it was made with a function of your own: package.module:function.

    def load(self) -> "Library":
        """The library, or BadInput."""
        return library_in(self.library, self.features, self.world)


SHIPPED = LibraryOptions()


def world_of(objects: tuple[str, ...]) -> "Spriteworld":
    """Spriteworld with the named objects."""
    from cumulant.worlds.spriteworld import Spriteworld

    try:
        return Spriteworld(objects)
    except ValueError as error:
        raise BadInput(str(error)) from None


def library_in(path: Path | None, features: str = "", world: str = "") -> "Library":
    """The library in a folder, or the one that ships. Code is imported only if the user's own command names it."""
    from cumulant.commands.worlds import GYMNASIUM, world_named
    from cumulant.storage import Unreadable
    from cumulant.transfer.library import Library

    if world and path is None:
        raise BadInput("the library that ships has its own world: give one that was trained there, by --library")
    known = world_named(world, features) if world else None
    if world.startswith(GYMNASIUM):
        features = ""  # they are the world's own
    try:
        library = Library.load(path, known, function_named(features, "features") if features else None)
    except (Unreadable, ValueError, SystemExit) as error:  # somebody's own function may do anything
        raise BadInput(str(error)) from None
    if features:
        _check_finite(f"features {features!r}", _tried(features, "features", library.features, library.world))
    return library


def features_named(name: str, world: "World") -> "Features":
    """The features that "true", "entangled:SEED", "learnt:FOLDER" or "package.module:function" names."""
    from cumulant.features.coordinates import entangled_features, feature_count, true_features
    from cumulant.features.encoder import Encoder
    from cumulant.storage import Unreadable

    kind, _, rest = name.partition(":")
    try:
        if name == "true":
            return true_features
        if (folder := learnt_folder(name)) is not None:
            return Encoder.load(folder)
        if kind == "entangled" and rest.isdecimal():
            return entangled_features(len(world.feature_names), int(rest))
        function = function_named(name, "features")
        feature_count(function, world)  # before anything is computed, or overwritten
    except (Unreadable, ValueError, SystemExit) as error:  # somebody's own function may do anything
        raise BadInput(str(error)) from None
    _check_finite(f"features {name!r}", _tried(name, "features", function, world))
    return function


def learnt_folder(features: str) -> Path | None:
    """The encoder's folder in "learnt:FOLDER"; None for other names."""
    return Path(features.removeprefix(_LEARNT)) if features.startswith(_LEARNT) else None


def reward_named(name: str, library: "Library") -> "Reward":
    """The user's reward as a function of the state, tried on random states before it is used."""
    import jax.numpy as jnp

    function, world = function_named(name, "reward"), library.world
    values = _tried(name, "reward", function, world)
    if values.shape != (_TRIED,):
        raise BadInput(f"reward {name!r} must return one number, but returns the shape {values.shape[1:]}")
    _check_finite(f"reward {name!r}", values)
    return lambda state: jnp.asarray(function(world.observe(state)), float)


def _tried(name: str, role: str, function: "Callable[..., Any]", world: "World") -> "np.ndarray":
    """What a function of the observation gives in some random states."""
    import jax
    import numpy as np

    states = jax.vmap(world.reset)(jax.random.split(jax.random.key(0), _TRIED))
    try:
        return np.asarray(jax.vmap(lambda state: function(world.observe(state)))(states))
    except (Exception, SystemExit) as error:
        raise BadInput(
            f"{role} {name!r} fails on an observation, or is not written in JAX: {_first_line(error)}"
        ) from None


def _check_finite(what: str, values: "np.ndarray") -> None:
    import numpy as np

    if values.dtype.kind not in "biuf" or not np.isfinite(values).all():
        raise BadInput(f"{what} returns NaN, an infinity, or what is no number")


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def function_named(name: str, role: str) -> Callable[..., Any]:
    """The function that "package.module:function" names; modules of the working folder count."""
    module, _, function = name.partition(":")
    if not module or not function:
        raise BadInput(f"{role} {name!r} must have the form package.module:function")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found = import_module(module)
    except ModuleNotFoundError as error:
        raise BadInput(f"{role} {name!r}: there is no module {error.name!r}") from None
    except (Exception, SystemExit) as error:  # whatever somebody's own module does
        raise BadInput(f"{role} {name!r}: the module {module!r} cannot be imported: {_first_line(error)}") from None
    if not hasattr(found, function):
        raise BadInput(f"{role} {name!r}: the module {module!r} has no {function!r}")
    found = getattr(found, function)
    if not callable(found):
        raise BadInput(f"{role} {name!r} is no function")
    return found


def key_of(seed: int) -> "PRNGKeyArray":
    """The random key of a seed."""
    import jax

    check_seed(seed)
    return jax.random.key(seed)


def at_least(name: str, value: int | float, least: int) -> None:
    """Refuse a number that is too small, or none."""
    if not value >= least:
        raise BadInput(f"--{name} must be at least {least}, but is {value}")


def usable_folder(path: Path) -> None:
    """Make a folder for files, or refuse it."""
    from cumulant.storage import Unwritable, check_writable

    try:
        check_writable(path / "config.json")  # any file: devices are no place for one
    except Unwritable as error:
        raise BadInput(f"cannot write to {path}: {str(error).rpartition(': ')[2]}") from None
    try:
        Path(os.path.realpath(path)).mkdir(parents=True, exist_ok=True)  # nothing on the way that `..` leaves again
    except (OSError, ValueError) as error:  # a name with a null byte is no OSError
        raise BadInput(f"cannot write to {path}: {getattr(error, 'strerror', None) or error}") from None


def usable_files(*paths: Path | None) -> None:
    """Refuse what cannot be written, before anything is computed."""
    from cumulant.storage import check_writable

    for path in paths:
        if path is not None:
            check_writable(path)
            usable_folder(path.parent)
