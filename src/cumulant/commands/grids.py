"""The trials of a sweep, read from a TOML file or from words: what is the same in all of them, and what varies."""

import ast
import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from difflib import get_close_matches
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cumulant.commands.inputs import BadInput

if TYPE_CHECKING:
    from cumulant.sweeps.trials import Trial
    from cumulant.worlds.protocol import World

_FILE_BYTES = 2**20
_LONGEST = 40  # Python itself refuses to read numbers of thousands of digits
Choice = dict[str, Any]  # what one trial is given, by key


def trials_in(path: Path, own: str) -> "list[Trial]":
    """Return the trials that a file describes; `own` is the world that the command line named."""
    from cumulant.storage import Unreadable, read_plain

    try:
        told = tomllib.loads(read_plain(path.parent, path.name, _FILE_BYTES).decode())
    except Unreadable as error:
        raise BadInput(str(error)) from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadInput(f"{path} is not TOML: {error}") from None
    if unknown := next((name for name in told if name not in ("fixed", "grid")), None):
        raise BadInput(f"{path} has no place for {unknown!r}: a sweep has the tables [fixed] and [grid]")
    grids = told.get("grid", {})
    fixed, several = told.get("fixed", {}), grids if isinstance(grids, list) else [grids]
    if not isinstance(fixed, dict) or not all(isinstance(grid, dict) for grid in several):
        raise BadInput(f"{path}: [fixed] and [grid] are tables of keys and values")
    return trials_of(_flat(fixed), [_flat(grid) for grid in several], own)


def _flat(table: dict[str, Any]) -> Choice:
    """Return a table in which `world.max_steps = 10` may be written plainly, or as a table of its own."""
    flat: Choice = {}
    for key, value in table.items():
        flat |= {f"{key}.{name}": each for name, each in value.items()} if isinstance(value, dict) else {key: value}
    return flat


def trials_typed(words: Sequence[str], own: str) -> "list[Trial]":
    """Return the trials that `--grid key=v1,v2 ...` describes; `own` is the world that the command line named."""
    grid: dict[str, list[Any]] = {}
    for word in words:
        key, equals, values = word.partition("=")
        if not (key and equals and values):
            raise BadInput(f"--grid takes key=v1,v2, not {word!r}")
        if key in grid:
            raise BadInput(f"--grid has {key} twice")
        grid[key] = [each for value in values.split(",") for each in _typed(key, value)]
    return trials_of({}, [grid], own)


def _typed(key: str, value: str) -> list[Any]:
    """Return a value as it was typed: a:b for the whole numbers from a to before b, a+b for one list of both."""
    from cumulant.sweeps.trials import MAX_TRIALS

    first, colon, end = value.partition(":")
    if colon and first.isdecimal() and end.isdecimal():
        if len(value) > _LONGEST or not 0 < int(end) - int(first) <= MAX_TRIALS:
            raise BadInput(f"--grid {key}: {value[:_LONGEST]} is no range of 1 to {MAX_TRIALS:,} numbers")
        return list(range(int(first), int(end)))
    if "+" in value and all(each.isdecimal() and len(each) <= _LONGEST for each in value.split("+")):
        return [[int(each) for each in value.split("+")]]
    try:
        return [ast.literal_eval(value.capitalize() if value in ("true", "false") else value)]
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return [value]


def trials_of(fixed: Choice, grids: Sequence[Mapping[str, Any]], own: str) -> "list[Trial]":
    """Return every combination of what varies, with what is fixed; BadInput for what cannot be."""
    from cumulant.sweeps.trials import MAX_TRIALS

    made: list[Trial] = []
    worlds: dict[str, World] = {}
    for grid in grids:
        for key, values in grid.items():
            if not isinstance(values, list) or not values:
                raise BadInput(f"the grid's {key} must be a list of values, but is {values!r}")
            if key in fixed:
                raise BadInput(f"{key} is fixed, and in the grid: give it once")
        if (number := len(made) + math.prod(map(len, grid.values()))) > MAX_TRIALS:
            raise BadInput(f"a sweep has at most {MAX_TRIALS:,} trials, but this has {number:,}")
        for values in product(*grid.values()):
            made.append(_trial(fixed | dict(zip(grid, values, strict=True)), own, worlds))
    return made


def _trial(given: Choice, own: str, worlds: "dict[str, World]") -> "Trial":
    from cumulant.commands.pretrain import suited
    from cumulant.config import PRESETS, FreePlay, OutOfBounds
    from cumulant.sweeps.trials import Evaluation, Trial

    left: Choice = {key: tuple(value) if isinstance(value, list) else value for key, value in given.items()}
    world = _world(left, own, worlds)
    preset, seed = left.pop("preset", "cpu"), left.pop("seed", 0)
    if not isinstance(preset, str) or preset not in PRESETS:
        raise BadInput(f"there is no preset {preset!r}: choose from {', '.join(PRESETS)}")
    known, judging = ([field.name for field in fields(kind)] for kind in (FreePlay, Evaluation))
    settings = {key: left.pop(key) for key in known if key in left}
    judged = {key: left.pop(key) for key in judging if key in left}
    if type(judged.get("budgets")) is int:  # one alone
        judged["budgets"] = (judged["budgets"],)
    if left:
        odd, there_are = next(iter(left)), ["world", "world.FIELD", "preset", "seed", *judging, *known]
        near = get_close_matches(odd, there_are, 1)
        meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(there_are)}"
        raise BadInput(f"a trial has no {odd!r}: {meant}")
    try:
        return Trial(world, replace(suited(PRESETS[preset], world), **settings), seed, Evaluation(**judged))
    except (OutOfBounds, TypeError) as error:  # TypeError: a list where a number is wanted
        raise BadInput(str(error)) from None


def _world(left: Choice, own: str, worlds: "dict[str, World]") -> "World":
    """Take the world out of what a trial is given. Only the command line names code to import."""
    from cumulant.commands.pretrain import looked_at
    from cumulant.commands.worlds import world_named

    name = left.pop("world", own or "spriteworld")
    typed = {key.removeprefix("world."): _as_typed(key, left.pop(key)) for key in [*left] if key.startswith("world.")}
    if not isinstance(name, str) or not name.isprintable() or " " in name:
        raise BadInput(f"a world is a name, not {name!r}")
    said, _, parameters = own.partition(" ")
    if ":" in name and name != said:
        raise BadInput(f"code is imported only if the command line names it: give --world {name} too")
    text = f"{name} {json.dumps((json.loads(parameters or '{}') if name == said else {}) | typed)}"
    if text not in worlds:
        worlds[text] = world_named(text)
        if name != "spriteworld":
            looked_at(worlds[text])
    return worlds[text]


def _as_typed(key: str, value: Any) -> str:
    """Return a value from a file as it would be typed on the command line."""
    if isinstance(value, tuple):
        return ",".join(_as_typed(key, each) for each in value)
    if not isinstance(value, bool | int | float | str):
        raise BadInput(f"{key} must be a number, a text, true or false, or a list of them, but is {value!r}")
    return str(value).lower() if isinstance(value, bool) else str(value)
