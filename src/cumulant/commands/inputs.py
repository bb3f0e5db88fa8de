"""What the user gave, made usable or refused in one clear line."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cumulant.library import Library
    from cumulant.spriteworld import Spriteworld

OBJECTS = ("square", "circle")


class BadInput(Exception):
    """What the user gave cannot be used; the message is one clear line (a phrase's error adds where it points)."""


def world_of(objects: tuple[str, ...]) -> "Spriteworld":
    """Spriteworld with the named objects."""
    from cumulant.spriteworld import Spriteworld

    try:
        return Spriteworld(objects)
    except ValueError as error:
        raise BadInput(str(error)) from None


def library_in(path: Path | None) -> "Library":
    """The library in a folder, or the one that ships."""
    from cumulant.library import Library
    from cumulant.store import Unreadable

    try:
        return Library.load(path)
    except (Unreadable, ValueError) as error:
        raise BadInput(str(error)) from None


def reward_named(name: str, library: "Library") -> Callable[[Any], Any]:
    """The user's reward as a function of the state, tried on random states before it is used."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    from cumulant.features import load_function

    try:
        function = load_function(name, "reward")
    except ValueError as error:
        raise BadInput(str(error)) from None
    world = library.world
    states = jax.vmap(world.reset)(jax.random.split(jax.random.key(0), 64))
    try:
        values = np.asarray(jax.vmap(lambda state: function(world.observe(state)))(states))
    except Exception as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise BadInput(f"reward {name!r} fails on an observation, or is not written in JAX: {first}") from None
    if values.shape != (64,):
        raise BadInput(f"reward {name!r} must return one number, but returns the shape {values.shape[1:]}")
    if not np.isfinite(values).all():
        raise BadInput(f"reward {name!r} returns NaN or an infinity")
    return lambda state: jnp.asarray(function(world.observe(state)), float)


def key_of(seed: int) -> Any:
    """The random key of a seed."""
    import jax

    if not 0 <= seed < 2**32:
        raise BadInput(f"a seed lies between 0 and {2**32 - 1}, but is {seed}")
    return jax.random.key(seed)


def at_least(name: str, value: int, least: int) -> None:
    """Refuse a number that is too small."""
    if value < least:
        raise BadInput(f"--{name} must be at least {least}, but is {value}")


def usable_folder(path: Path) -> None:
    """Make a folder, or refuse it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"cannot write to {path}: {error.strerror}") from None
