"""What a feature of a world is: its name, the thing it belongs to, its range and unit, and the words of its regions."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

WORDS = {"x": ("left", "centre", "right"), "y": ("bottom", "middle", "top")}  # of coordinates
OTHER_WORDS = ("low", "middle", "high")  # of all else


@dataclass(frozen=True)
class Feature:
    """One number of a world's state, described for people: `low` to `high`, in a unit, with words for its regions.

    >>> Feature("temperature", of="room", low=10, high=30, unit="°C", words=("cold", "mild", "warm")).full_name
    'room_temperature'
    >>> Feature("x", of="square").regions
    ('left', 'centre', 'right')
    """

    name: str  # "temperature", or the axis of a thing, "x"
    of: str = ""  # the thing it belongs to, if the world has several
    low: int | float = 0.0
    high: int | float = 1.0
    unit: str = ""
    words: tuple[str, ...] = ()  # of its regions, equally wide, from low to high
    values: int = 0  # that it takes, evenly spread from low to high: 2 of a lamp that is off or on; 0: any
    resolution: int | float = 0.0  # how far off it may be, in its unit: what trembles by less has not changed

    def __post_init__(self) -> None:
        """Refuse a range that is none."""
        if not (self.low < self.high and math.isfinite(self.high - self.low)):
            raise ValueError(f"{self.full_name}: low must lie below high, but they are {self.low} and {self.high}")
        if self.values == 1 or self.values < 0:
            raise ValueError(f"{self.full_name}: a feature takes two values or more, or any (0), but got {self.values}")
        if not 0 <= self.resolution < self.high - self.low:
            raise ValueError(f"{self.full_name}: a resolution lies between 0 and the range, but is {self.resolution}")
        object.__setattr__(self, "words", tuple(self.words))

    @property
    def full_name(self) -> str:
        """Unique in its world: `square_x`, `room_temperature`, or `dial` where it belongs to nothing."""
        return f"{self.of}_{self.name}" if self.of else self.name

    @property
    def regions(self) -> tuple[str, ...]:
        """The words of its regions: its own, or those that its axis has everywhere."""
        return self.words or WORDS.get(self.name, OTHER_WORDS)


def described(names: Iterable[str | Feature]) -> tuple[Feature, ...]:
    """Features from descriptions or bare names: `square_x` is the x of the square, in [0, 1].

    >>> described(("square_x", "dial"))[0]
    Feature(name='x', of='square', low=0.0, high=1.0, unit='', words=(), values=0, resolution=0.0)
    """
    return _described(tuple(names))


@lru_cache(maxsize=64)  # every task asks
def _described(names: tuple[str | Feature, ...]) -> tuple[Feature, ...]:
    return tuple(each if isinstance(each, Feature) else Feature(*_split(each)) for each in names)


def names_of(features: Iterable[str | Feature]) -> tuple[str, ...]:
    """Their full names.

    >>> names_of((Feature("x", of="square"), "dial"))
    ('square_x', 'dial')
    """
    return tuple(each.full_name if isinstance(each, Feature) else each for each in features)


def words_of_bins(regions: tuple[str, ...], bins: int) -> tuple[str, ...]:
    """What each of so many bins is called: as the region that it alone lies in, or by its number.

    >>> words_of_bins(("left", "centre", "right"), 3), words_of_bins(("off", "on"), 3)
    (('left', 'centre', 'right'), ('off', '2/3', 'on'))
    """
    inside = [
        [b for b in range(bins) if r * bins <= b * len(regions) <= (r + 1) * bins - len(regions)]
        for r in range(len(regions))
    ]
    alone = {found[0]: word for found, word in zip(inside, regions, strict=True) if len(found) == 1}
    return tuple(alone.get(b, f"{b + 1}/{bins}") for b in range(bins))


def _split(name: str) -> tuple[str, str]:
    thing, _, axis = name.rpartition("_")
    return (name, "") if axis.isdecimal() else (axis, thing)  # "joint_0" is no feature "0" of a joint
