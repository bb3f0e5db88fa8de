"""The worlds that come with the package: written into folders by name, and solved by a script of their own."""

from collections.abc import Callable
from dataclasses import asdict, is_dataclass
from typing import Any, NamedTuple

from cumulant.worlds.episodes import PolicyMaker
from cumulant.worlds.oracle import can_aim, oracle_policy
from cumulant.worlds.pixels import PixelSpriteworld
from cumulant.worlds.protocol import World
from cumulant.worlds.room import Room
from cumulant.worlds.search import Numbered, search_policy
from cumulant.worlds.spriteworld import Spriteworld


def _door_key() -> Callable[..., World]:
    import xminigrid  # noqa: F401  # before anything else needs it, so that its absence is said

    from cumulant.worlds.doorkey import DoorKey

    return DoorKey


def _pusher() -> Callable[..., World]:
    from cumulant.worlds.pusher import Pusher

    return Pusher


_KINDS: dict[str, Callable[[], Callable[..., World]]] = {
    "Spriteworld": lambda: Spriteworld,
    "PixelSpriteworld": lambda: PixelSpriteworld,
    "Room": lambda: Room,
    "DoorKey": _door_key,
    "Pusher": _pusher,
}


class Shipped(NamedTuple):
    """A world that comes with the package."""

    about: str
    maker: Callable[[], Callable[..., World]]  # imports what it needs, and gives what makes the world
    extra: str = ""  # to be installed for it


def _fetch(name: str) -> Callable[[], Callable[..., World]]:
    def maker() -> Callable[..., World]:
        import gymnasium_robotics  # noqa: F401  # before anything else needs it, so that its absence is said

        from cumulant.worlds import fetch

        return getattr(fetch, name)

    return maker


SHIPPED = {
    "spriteworld": Shipped("the paper's: an agent walks over shapes and drags them", lambda: Spriteworld),
    "room": Shipped("a heater, a lamp, a blind and music: the smallest example", lambda: Room),
    "doorkey": Shipped("two rooms, a locked door and its key, on a grid", _door_key, "xland"),
    "pusher": Shipped("a hand pushes two pucks over a table, by MuJoCo's physics", _pusher, "mjx"),
    "fetch-reach": Shipped("a robot's hand reaches places in the air", _fetch("fetch_reach"), "robotics"),
    "fetch-push": Shipped("a robot's hand pushes a puck over a table", _fetch("fetch_push"), "robotics"),
}


_ON_THE_HOST = {"reach_environment": "fetch-reach", "push_environment": "fetch-push"}  # by what makes the environment


def describe(world: World) -> dict[str, Any]:
    """A world's kind and parameters, as JSON holds them. A world that is no dataclass has no parameters.

    >>> describe(Spriteworld(("square",)))["objects"]
    ['square']
    """
    if hasattr(world, "described"):  # what it is made of may be no JSON
        return {"kind": type(world).__name__, **world.described}
    parameters: dict[str, Any] = asdict(world) if is_dataclass(world) and not isinstance(world, type) else {}
    return {"kind": type(world).__name__, **_as_json(parameters)}


def _as_json(value: Any) -> Any:
    """A value as it comes back from JSON: tuples as lists, in descriptions of features too."""
    if isinstance(value, dict):
        return {name: _as_json(each) for name, each in value.items()}
    return [_as_json(each) for each in value] if isinstance(value, tuple | list) else value


def restore(described: dict[str, Any]) -> World | None:
    """The world that was described; None if it is one that the package does not bring."""
    parameters: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in described.items()
    }
    kind = parameters.pop("kind", None)
    name = _ON_THE_HOST.get(str(parameters.get("environment")))
    maker = SHIPPED[name].maker if name else _KINDS.get(str(kind))
    if maker is None:
        return None
    try:
        return maker()(max_steps=parameters.get("max_steps")) if name else maker()(**parameters)
    except ModuleNotFoundError as error:
        extra = next(each.extra for each in SHIPPED.values() if each.maker is maker)
        raise ValueError(
            f"a world of kind {name or kind} needs {error.name}: pip install 'cumulant[{extra}]'"
        ) from None


def ships(described: dict[str, Any]) -> bool:
    """Whether `restore` knows the world that was described."""
    return described.get("kind") in _KINDS or str(described.get("environment")) in _ON_THE_HOST


def oracle_of(world: World, bins: int = 1) -> tuple[World, PolicyMaker] | None:
    """Who solves a world without learning, and the world as it must be seen for that; None where nobody does.

    Goals in `bins` bins may be too fine for it.
    """
    if isinstance(world, Numbered):
        return world, search_policy
    if not isinstance(world, Spriteworld) or not can_aim(world, bins):
        return None
    return world.fully_observed, oracle_policy
