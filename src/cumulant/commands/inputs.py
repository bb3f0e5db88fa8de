"""Options as the user gave them, made usable or refused in one line. Names of features and functions are read here."""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

from tyro.conf import FlagCreatePairsOff, OmitArgPrefixes, arg

from cumulant.config import check_seed

if TYPE_CHECKING:
    import numpy as np
    from jaxtyping import PRNGKeyArray

    from cumulant.features.coordinates import Features
    from cumulant.transfer.library import Library
    from cumulant.worlds.episodes import Reward
    from cumulant.worlds.protocol import World
    from cumulant.worlds.spriteworld import Spriteworld

T = TypeVar("T")
NoDefault = Annotated[T, arg(help_behavior_hint="")]  # an option whose help shows no default
Objects = Annotated[tuple[str, ...] | None, arg(metavar="NAME ...", help_behavior_hint="(square circle)")]
Flag = Annotated[FlagCreatePairsOff[bool], arg(help_behavior_hint="")]  # an option that has no opposite
OBJECTS = ("square", "circle")
_LEARNT = "learnt:"
_TRIED = 64  # states on which a reward is tried before it is used


class BadInput(Exception):
    """An input that cannot be used; the message is one line."""


@dataclass(frozen=True)
class LibraryOptions:
    """The library that a command acts with."""

    library: NoDefault[Path | None] = None  # A folder; by default the library that ships.
    world: NoDefault[str] = ""  # Its world, if your own: package.module:World.
    features: NoDefault[str] = ""  # Its features, if your own: package.module:name.

    def load(self) -> "Library":
        """Load the library, or raise BadInput."""
        return library_in(self.library, self.features, self.world)


LibraryGiven = Annotated[OmitArgPrefixes[LibraryOptions], arg(name="library", help="")]  # a group of its own in help
SHIPPED = LibraryOptions()


def settings_options(shown: Any) -> Callable[[type[T]], type[T]]:
    """Make options of settings: a decorator of a subclass whose fields are None until they are given.

    tyro cannot tell a value that was given from a default that equals it. The subclass checks nothing: its base does,
    once `given_in` has replaced what was given.

    Args:
        shown: The settings whose values help shows.

    """

    def decorate(cls: type[T]) -> type[T]:
        kinds = {
            name: Annotated[
                kind | None,
                arg(metavar={int: "N", float: "X"}.get(kind), help_behavior_hint=f"({getattr(shown, name)})"),
            ]
            for name, kind in get_type_hints(type(shown)).items()
        }
        cls.__annotations__ = kinds
        for name in kinds:
            setattr(cls, name, None)
        cls.__post_init__ = lambda self: None  # type: ignore[attr-defined]
        return dataclass(frozen=True)(cls)

    return decorate


def given_in(settings: Any) -> dict[str, Any]:
    """Return the settings that were given, by name."""
    return {name: value for name, value in vars(settings).items() if value is not None}


def world_of(objects: tuple[str, ...]) -> "Spriteworld":
    """Return Spriteworld with the named objects, topmost first."""
    from cumulant.worlds.spriteworld import Spriteworld

    try:
        return Spriteworld(objects)
    except ValueError as error:
        raise BadInput(str(error)) from None


def library_in(path: Path | None, features: str = "", world: str = "") -> "Library":
    """Load a library from its folder, or the one that ships.

    Args:
        path: Its folder; None for the library that ships.
        features: `package.module:function` of the observation, if it was made with one.
        world: The world that it was made in, if that does not ship. Code is imported only because it is named here.

    """
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
    """Return the features that "true", "entangled:SEED", "learnt:FOLDER" or "package.module:function" names."""
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


def drawable(world: "World") -> None:
    """Refuse a world that has no frames to draw, before anything is played."""
    from cumulant.worlds.protocol import check_drawable

    try:
        check_drawable(world)
    except ValueError as error:
        raise BadInput(str(error)) from None


def learnt_folder(features: str) -> Path | None:
    """Return the encoder's folder of "learnt:FOLDER"; None for other names."""
    return Path(features.removeprefix(_LEARNT)) if features.startswith(_LEARNT) else None


def reward_named(name: str, library: "Library") -> "Reward":
    """Return the user's reward as a function of the state, tried on random states before it is used."""
    import jax.numpy as jnp

    function, world = function_named(name, "reward"), library.world
    values = _tried(name, "reward", function, world)
    if values.shape != (_TRIED,):
        raise BadInput(f"reward {name!r} must return one number, but returns the shape {values.shape[1:]}")
    _check_finite(f"reward {name!r}", values)
    return lambda state: jnp.asarray(function(world.observe(state)), float)


def _tried(name: str, role: str, function: "Callable[..., Any]", world: "World") -> "np.ndarray":
    """Return the values of a function of the observation in random states, with a leading axis of `_TRIED`."""
    import jax
    import numpy as np

    states = jax.vmap(world.reset)(jax.random.split(jax.random.key(0), _TRIED))
    try:
        return np.asarray(jax.vmap(lambda state: function(world.observe(state)))(states))
    except (Exception, SystemExit) as error:
        raise BadInput(
            f"{role} {name!r} fails on an observation, or is not written in JAX: {first_line(error)}"
        ) from None


def _check_finite(what: str, values: "np.ndarray") -> None:
    import numpy as np

    if values.dtype.kind not in "biuf" or not np.isfinite(values).all():
        raise BadInput(f"{what} returns NaN, an infinity, or what is no number")


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's message, or its kind if it has none."""
    return str(error).strip().partition("\n")[0] or type(error).__name__


def function_named(name: str, role: str) -> Callable[..., Any]:
    """Import the function that "package.module:function" names; modules of the working folder count."""
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
        raise BadInput(f"{role} {name!r}: the module {module!r} cannot be imported: {first_line(error)}") from None
    if not hasattr(found, function):
        raise BadInput(f"{role} {name!r}: the module {module!r} has no {function!r}")
    found = getattr(found, function)
    if not callable(found):
        raise BadInput(f"{role} {name!r} is no function")
    return found


def key_of(seed: int) -> "PRNGKeyArray":
    """Return the random key of a seed, or refuse the seed."""
    import jax

    check_seed(seed)
    return jax.random.key(seed)


def at_least(name: str, value: int | float, least: int) -> None:
    """Refuse a number that is too small, or NaN."""
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
    """Refuse files that cannot be written, before anything is computed."""
    from cumulant.storage import check_writable

    for path in paths:
        if path is not None:
            check_writable(path)
            usable_folder(path.parent)
