"""Values that cannot work are refused by name, whoever gives them: a person, a program or a file."""

import math
import os
from dataclasses import fields
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

MOST_SEED = 2**32 - 1
Bounds = tuple[int | float, int | float]  # least and greatest, both allowed


class OutOfBounds(ValueError):
    """A value that cannot work; the message is one clear line that names it."""


def check_seed(seed: int) -> None:
    """OutOfBounds for a seed that is none.

    >>> check_seed(-1)
    Traceback (most recent call last):
    cumulant.bounds.OutOfBounds: a seed lies between 0 and 4294967295, but is -1
    """
    if not 0 <= seed <= MOST_SEED:
        raise OutOfBounds(f"a seed lies between 0 and {MOST_SEED}, but is {seed}")


def check_settings(settings: "DataclassInstance", **bounds: Bounds) -> None:
    """OutOfBounds for a field that is not of its type, or lies outside of its bounds.

    Numbers, choices and texts are checked; a whole number does for a float, but a truth value is no number. None does
    where a field may be None.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Size:
    ...     width: int = 1
    >>> check_settings(Size(2.5), width=(1, 10))
    Traceback (most recent call last):
    cumulant.bounds.OutOfBounds: width must be a whole number, but is 2.5
    """
    kinds = get_type_hints(type(settings))
    for field in fields(settings):
        value, kind = getattr(settings, field.name), kinds[field.name]
        if isinstance(kind, UnionType) and value is None and NoneType in get_args(kind):
            continue
        _check_type(field.name, value, get_args(kind)[0] if isinstance(kind, UnionType) else kind)
        least, greatest = bounds.get(field.name, (-math.inf, math.inf))
        if field.name in bounds and not least <= value <= greatest:
            edge = f"at least {_plain(least)}" if value < least else f"at most {_plain(greatest)}"
            raise OutOfBounds(f"{field.name} must be {edge}, but is {value}")


def _check_type(name: str, value: Any, kind: Any) -> None:
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise OutOfBounds(f"unknown {name} {value!r}: choose from {', '.join(get_args(kind))}")
    elif kind is int and (isinstance(value, bool) or not isinstance(value, int)):
        raise OutOfBounds(f"{name} must be a whole number, but is {value!r}")
    elif kind is float and (isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value)):
        raise OutOfBounds(f"{name} must be a number, but is {value!r}")
    elif kind in (bool, str) and not isinstance(value, kind):
        raise OutOfBounds(f"{name} must be {'true or false' if kind is bool else 'a text'}, but is {value!r}")


def _plain(number: int | float) -> str:
    return f"{number:,}" if number < 1e6 else f"{number:g}"


def check_memory(what: str, size: int) -> None:
    """OutOfBounds for what takes more bytes than this machine has, so that nothing is begun that cannot end.

    >>> check_memory("a replay of so many", 10**30)
    Traceback (most recent call last):
    cumulant.bounds.OutOfBounds: a replay of so many needs more memory than this machine has
    """
    if size > os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"):
        raise OutOfBounds(f"{what} needs more memory than this machine has")
