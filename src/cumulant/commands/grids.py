"""What a sweep is made of, read from a TOML file or from words: what is the same in all trials, and what varies."""

import ast
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from difflib import get_close_matches
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cumulant.commands.inputs import BadInput

if TYPE_CHECKING:
    from cumulant.experiments.sweeps import Trial
    from cumulant.worlds.protocol import World

_FILE_BYTES = 2**20
_TABLES = ("fixed", "grid")
_OF_WORLD = "world."
_LONGEST = 40  # Python itself refuses to read numbers of thousands of digits
Choice = dict[str, Any]  # what one trial is given, by key


def trials_in(path: Path, own: str) -> "list[Trial]":
    """The trials that a file describes; `own` is the world that the command line named."""
    from cumulant.storage import Unreadable, read_plain

    try:
        told = tomllib.loads(read_plain(path.parent, path.name, _FILE_BYTES).decode())
    except Unreadable as error:
        raise BadInput(str(error)) from None
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is no text: {error}") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadInput(f"{path} is not TOML: {error}") from None
    if unknown := next((name for name in told if name not in _TABLES), None):
        raise BadInput(f"{path} has no place for {unknown!r}: a sweep has the tables [fixed] and [grid]")
    grids = told.get("grid", {})
    fixed, several = told.get("fixed", {}), grids if isinstance(grids, list) else [grids]
    if not isinstance(fixed, dict) or not all(isinstance(grid, dict) for grid in several):
        raise BadInput(f"{path}: [fixed] and [grid] are tables of keys and values")
    return trials_of(_flat(fixed), [_flat(grid) for grid in several], own)


def trials_typed(words: Sequence[str], own: str) -> "list[Trial]":
    """The trials that `--grid key=v1,v2 ...` describes."""
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
    """A value as it was typed: a:b for the whole numbers from a to before b, a+b for one list of both."""
    first, colon, last = value.partition(":")
    if colon and first.isdecimal() and last.isdecimal():
        from cumulant.experiments.sweeps import MAX_TRIALS

        if len(value) > _LONGEST or not 0 < int(last) - int(first) <= MAX_TRIALS:
            raise BadInput(f"--grid {key}: {value[:_LONGEST]} is no range of 1 to {MAX_TRIALS:,} numbers")
        return list(range(int(first), int(last)))
    if "+" in value and all(each.isdecimal() and len(each) <= _LONGEST for each in value.split("+")):
        return [[int(each) for each in value.split("+")]]
    try:
        return [ast.literal_eval(value.capitalize() if value in ("true", "false") else value)]
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return [value]


def trials_of(fixed: Choice, grids: Sequence[Mapping[str, Any]], own: str) -> "list[Trial]":
    """Every combination of what varies, with what is fixed; BadInput for what cannot be, before anything is run."""
    from cumulant.experiments.sweeps import MAX_TRIALS

    made: list[Trial] = []
    worlds: dict[str, World] = {}
    for grid in grids:
        for key, values in grid.items():
            if not isinstance(values, list) or not values:
                raise BadInput(f"the grid's {key} must be a list of values, but is {values!r}")
            if key in fixed:
                raise BadInput(f"{key} is fixed, and in the grid: give it once")
        number = 1
        for values in grid.values():
            number *= len(values)
        if len(made) + number > MAX_TRIALS:
            raise BadInput(f"a sweep has at most {MAX_TRIALS:,} trials, but this has {len(made) + number:,}")
        made += [_trial(fixed | choice, own, worlds) for choice in _combinations(grid)]
    return made


def _combinations(grid: Mapping[str, Sequence[Any]]) -> Iterator[Choice]:
    for values in product(*grid.values()):
        yield dict(zip(grid, values, strict=True))


def _flat(table: dict[str, Any]) -> Choice:
    """A table in which `world.max_steps = 10` may be written plainly, or as a table of its own."""
    flat: Choice = {}
    for key, value in table.items():
        flat |= {f"{key}.{name}": each for name, each in value.items()} if isinstance(value, dict) else {key: value}
    return flat


def _trial(given: Choice, own: str, worlds: "dict[str, World]") -> "Trial":
    from cumulant.commands.pretrain import suited
    from cumulant.config import OutOfBounds
    from cumulant.experiments.sweeps import Evaluation, Trial
    from cumulant.experiments.swept import METHODS

    left = dict(given)
    world = _world(left, own, worlds)
    name, preset, seed = left.pop("method", "play"), left.pop("preset", None), left.pop("seed", 0)
    method = METHODS.get(name) if isinstance(name, str) else None
    if method is None:
        raise BadInput(f"there is no method {name!r}: choose from {', '.join(METHODS)}")
    preset = method.preset if preset is None else preset
    if not isinstance(preset, str) or preset not in method.presets:
        raise BadInput(f"{name} has no preset {preset!r}: choose from {', '.join(method.presets)}")
    known = [field.name for field in fields(method.settings)]
    settings = {key: _value(left.pop(key)) for key in known if key in left}
    judged = {field.name: _value(left.pop(field.name)) for field in fields(Evaluation) if field.name in left}
    if type(judged.get("budgets")) is int:  # one alone
        judged["budgets"] = (judged["budgets"],)
    if left:
        odd = next(iter(left))
        of_trials = ["world", "world.FIELD", "method", "preset", "seed", *(field.name for field in fields(Evaluation))]
        there_are = [*of_trials, *known]
        near = get_close_matches(odd, there_are, 1)
        meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(there_are)}"
        raise BadInput(f"a trial has no {odd!r}: {meant}")
    try:
        return Trial(
            world, replace(suited(method.presets[preset], world), **settings), seed, Evaluation(**judged), name
        )
    except (OutOfBounds, TypeError) as error:  # TypeError: a list where a number is wanted
        raise BadInput(str(error)) from None


def _value(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _world(left: Choice, own: str, worlds: "dict[str, World]") -> "World":
    """The world of a trial, made once for all that have the same; one of somebody's own is the command line's alone."""
    import json

    from cumulant.commands.pretrain import looked_at
    from cumulant.commands.worlds import world_named

    name = left.pop("world", own or "spriteworld")
    parameters = {key: left.pop(key) for key in list(left) if key.startswith(_OF_WORLD)}
    if not isinstance(name, str) or not name.isprintable() or " " in name:
        raise BadInput(f"a world is a name, not {name!r}")
    said = own.partition(" ")[0]
    if ":" in name and name != said:
        raise BadInput(f"code is imported only if the command line names it: give --world {name} too")
    typed = {key.removeprefix(_OF_WORLD): _as_typed(key, value) for key, value in parameters.items()}
    on_the_line = json.loads(own.partition(" ")[2] or "{}") if name == said else {}
    text = f"{name} {json.dumps(on_the_line | typed)}"
    if text not in worlds:
        worlds[text] = world_named(text)
        if name != "spriteworld":
            looked_at(worlds[text])
    return worlds[text]


def _as_typed(key: str, value: Any) -> str:
    if isinstance(value, list):
        return ",".join(_as_typed(key, each) for each in value)
    if not isinstance(value, bool | int | float | str):
        raise BadInput(f"{key} must be a number, a text, true or false, or a list of them, but is {value!r}")
    return str(value).lower() if isinstance(value, bool) else str(value)
