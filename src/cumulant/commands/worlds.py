"""`--world` in every command, and the commands `worlds` and `check`."""

import ast
import json as json_text
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from cumulant.commands.inputs import OBJECTS, BadInput, Flag, NoDefault, first_line, function_named, world_of
from cumulant.commands.output import doing, on_terminal, print_json, print_table

if TYPE_CHECKING:
    from cumulant.worlds.protocol import World

_OPTION = "--world"
GYMNASIUM = "gymnasium:"


@dataclass(frozen=True)
class Worlds:
    """List the worlds that ship, which are names for --world."""

    json: Flag = False  # One JSON object on stdout, and nothing else.

    def run(self) -> None:
        """Print their names, what they are, and the extra that each needs."""
        with on_terminal("loading", self.json):
            from cumulant.worlds.shipped import SHIPPED

        rows = [[name, each.about, each.extra or "-"] for name, each in SHIPPED.items()]
        if self.json:
            return print_json({name: {"about": about, "extra": extra} for name, about, extra in rows})
        print_table("Worlds that ship", ["--world", "what it is", "extra"], rows)
        print("Or your own: --world package.module:World, with --world.FIELD VALUE for its parameters.")


@dataclass(frozen=True)
class Check:
    """Check a world before anything is learnt in it.

    It is played at random, and looked at for ranges, shapes, purity, NaN, and features that no action moves. Try:
    cumulant check --world room
    """

    world: str = "spriteworld"  # Also package.module:World, gymnasium:ID.
    features: NoDefault[str] = ""  # Of gymnasium:ID: package.module:function.
    json: Flag = False  # One JSON object on stdout, and nothing else.

    def run(self) -> None:
        """Play at random, and print what is wrong."""
        refuse_features(self.world, self.features)
        with on_terminal("loading", self.json):
            from cumulant.worlds.check import check

            world = world_named(self.world, self.features, whole=False)
        with doing("playing at random", self.json):
            found = check(world)
        if self.json:
            print_json({"findings": [each._asdict() for each in found]})
        elif found:
            print_table("What is wrong, or may be", ["", "about", "what, and how to mend it"], [list(f) for f in found])
        else:
            print("nothing is wrong with this world")
        if any(each.kind == "error" for each in found):
            raise BadInput("nothing can be learnt in this world before its errors are mended")


def fold_world(argv: Sequence[str]) -> list[str]:
    """Join `--world NAME --world.FIELD VALUE ...` into one option, which `world_named` reads."""
    kept: list[str] = []
    given: dict[str, str] = {}
    words = iter(argv)
    for word in words:
        name, equals, value = word.partition("=")
        if name.startswith(f"{_OPTION}."):
            following = value if equals else next(words, None)
            if following is None:
                raise BadInput(f"{name} needs a value")
            given[name.removeprefix(f"{_OPTION}.").replace("-", "_")] = following
        else:
            kept.append(word)
    if not given:
        return kept
    places = [i for i, word in enumerate(kept) if word.partition("=")[0] == _OPTION]
    if not places:
        raise BadInput(f"{_OPTION}.{next(iter(given))} is a parameter of a world: give {_OPTION} too")
    place = places[-1]  # as the parser takes it
    name = kept[place].partition("=")[2] or "".join(kept[place + 1 : place + 2])
    after = kept[place + (1 if "=" in kept[place] else 2) :]
    return [*kept[:place], f"{_OPTION}={name} {json_text.dumps(given)}", *after]


def typed(text: str) -> str:
    """Return the options as they were typed, from the value that `fold_world` made of them."""
    name, _, parameters = text.partition(" ")
    given: dict[str, str] = json_text.loads(parameters) if parameters else {}
    return " ".join([f"{_OPTION} {name}", *(f"{_OPTION}.{field} {value}" for field, value in given.items())])


def refuse_features(world: str, features: str) -> None:
    """Refuse features where nothing would be done with them."""
    if features and not world.startswith(GYMNASIUM):
        raise BadInput(f"--features are those of {GYMNASIUM}ID, and any other world has its own: leave them out")


def world_asked(text: str, objects: tuple[str, ...] | None, features: str = "") -> "World":
    """Return the world that --world names, or Spriteworld with the --objects."""
    if text in ("", "spriteworld"):
        return world_of(objects or OBJECTS)
    if objects is not None:
        raise BadInput("--objects are spriteworld's: leave them out, or --world")
    return world_named(text, features)


def world_named(text: str, features: str = "", whole: bool = True) -> "World":
    """Make the world that "room", "package.module:World" or "gymnasium:ID" names, with the parameters given for it.

    Args:
        text: The value of --world, from `fold_world`. Code is imported only because it is named here.
        features: Of gymnasium:ID, `package.module:function` of the observation.
        whole: Refuse a world that lacks something that every world has.

    """
    from cumulant.worlds.check import structure
    from cumulant.worlds.shipped import SHIPPED

    name, _, parameters = text.partition(" ")
    given: dict[str, str] = json_text.loads(parameters) if parameters else {}
    try:
        if name in SHIPPED:
            world = _made(name, SHIPPED[name].maker(), given)
            if not given:
                return world
        elif name.startswith(GYMNASIUM):
            return _of_gymnasium(name.removeprefix(GYMNASIUM), features, given)
        elif ":" not in name:
            names = ", ".join(SHIPPED)
            raise BadInput(f"there is no world {name!r}: choose from {names}, or give package.module:World")
        else:
            world = _made(name, function_named(name, "world"), given)
    except ModuleNotFoundError as error:
        extra = SHIPPED[name].extra if name in SHIPPED else ""
        hint = f": pip install 'cumulant[{extra}]'" if extra else ""
        raise BadInput(f"the world {name!r} needs {error.name}{hint}") from None
    if whole and (wrong := next(structure(world), None)):
        raise BadInput(f"{name!r} is no world to play in: {wrong.about}: {wrong.message}")
    return world


def _made(name: str, maker: Callable[..., Any], given: dict[str, str]) -> "World":
    """Call the class or function that makes a world, with the parameters given for it."""
    kinds = {each.name: each.default for each in fields(maker)} if is_dataclass(maker) else {}
    unknown = next((field for field in given if kinds and field not in kinds), None)
    if unknown:
        raise BadInput(f"the world {name!r} has no parameter {unknown!r}: choose from {', '.join(kinds)}")
    values = {field: _value(value, kinds.get(field)) for field, value in given.items()}
    try:
        return maker(**values)
    except Exception as error:  # whatever somebody's own world does
        raise BadInput(f"the world {name!r} cannot be made: {first_line(error)}") from None


def _value(text: str, default: Any) -> Any:
    """Read a parameter as it was typed: a number, a truth value, names with commas between them, or a text."""
    if isinstance(default, tuple):
        return tuple(_value(part, default[0] if default else None) for part in text.split(","))
    if isinstance(default, str):
        return text
    try:
        return ast.literal_eval(text.capitalize() if text in ("true", "false") else text)
    except (ValueError, SyntaxError):
        return text


def _of_gymnasium(identifier: str, features: str, given: dict[str, str]) -> "World":
    """Make a world of a Gymnasium environment, with a function of its observation, which may describe its values."""
    from cumulant.worlds.host import world_of_environment

    if not features:
        raise BadInput(f"{GYMNASIUM}{identifier} needs --features package.module:function of its observation")
    function = function_named(features, "features")
    try:
        return world_of_environment(identifier, function, **{name: _value(text, 0) for name, text in given.items()})
    except Exception as error:  # whatever somebody's own environment does
        raise BadInput(f"{GYMNASIUM}{identifier}: {first_line(error)}") from None
