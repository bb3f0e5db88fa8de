"""Regions of a feature: some of so many equal parts of its range; and thresholds in its unit, between parts."""

from collections.abc import Iterable
from decimal import Decimal, Inexact, localcontext
from fractions import Fraction
from itertools import pairwise
from math import gcd, lcm
from numbers import Integral
from typing import NamedTuple

from cumulant.goals.feature import Feature

MAX_BINS = 1000  # of a task: the parts of all its conditions together
FINEST = 100  # a threshold cuts the range at a fraction with at most this denominator
_DIGITS = 30  # of a threshold that is spoken


class Region(NamedTuple):
    """Some of so many equal parts of a range, as a bit mask."""

    mask: int
    of: int

    @classmethod
    def between(cls, low: Fraction, high: Fraction) -> "Region":
        """All that lies between two fractions of the range."""
        of = lcm(low.denominator, high.denominator)
        return cls((1 << int(high * of)) - (1 << int(low * of)), of)

    @property
    def edges(self) -> list[Fraction]:
        """The fractions of the range at which the region begins or ends."""
        return [Fraction(b + 1, self.of) for b in members((self.mask ^ self.mask >> 1) & (1 << self.of - 1) - 1)]

    def on(self, bins: int) -> "Region":
        """The same region in other parts, which must be able to tell it.

        >>> Region(0b010, 3).on(6)
        Region(mask=12, of=6)
        """
        if bins == self.of:
            return self
        if bins % self.of:
            step = self.of // gcd(self.of, bins)  # first to what both share, which loses nothing where it can be told
            return Region(sum(1 << b // step for b in members(self.mask) if b % step == 0), self.of // step).on(bins)
        part = (1 << bins // self.of) - 1
        return Region(sum(part << b * (bins // self.of) for b in members(self.mask)), bins)

    def coarsest(self) -> "Region":
        """The same region in as few parts as can tell it.

        >>> Region(0b001100, 6).coarsest()
        Region(mask=2, of=3)
        """
        return self.on(lcm(*(edge.denominator for edge in self.edges)))

    def __and__(self, other: "Region") -> "Region":
        """What lies in both."""
        of = lcm(self.of, other.of)
        return Region(self.on(of).mask & other.on(of).mask, of)


class Cells(NamedTuple):
    """Ranges cut nowhere but where some regions begin or end, and all into equally many cells, the last ones empty.

    So the algebra of a phrase is as quick on a fine grid as on a coarse one.
    """

    begin: tuple[tuple[Fraction, ...], ...]  # of each coordinate, where its cells begin
    number: int  # of the cells of each

    @classmethod
    def of(cls, coordinates: int, regions: Iterable[tuple[int, Region]]) -> "Cells":
        """The cells that some regions need."""
        cuts: list[set[Fraction]] = [{Fraction(0)} for _ in range(coordinates)]
        for i, region in set(regions):
            cuts[i].update(region.edges)
        number = max(map(len, cuts))
        return cls(tuple((*sorted(own), *[max(own)] * (number - len(own))) for own in cuts), number)

    def mask(self, coordinate: int, region: Region) -> int:
        """The cells that lie in a region."""
        return sum((region.mask >> int(at * region.of) & 1) << b for b, at in enumerate(self.begin[coordinate]))

    def on(self, bins: int) -> list[list[int]]:
        """Each coordinate's cells as masks of bins."""
        ends = [[int(at * bins) for at in (*own, Fraction(1))] for own in self.begin]
        return [[(1 << high) - (1 << low) for low, high in pairwise(own)] for own in ends]


def members(mask: int) -> tuple[int, ...]:
    """The bins in a bit mask."""
    found = []
    while mask:
        found.append((mask & -mask).bit_length() - 1)
        mask &= mask - 1
    return tuple(found)


def checked_bins(bins: int) -> int:
    """A number of bins that tasks may have; any other is refused by name, before anything grows with it."""
    if not isinstance(bins, Integral) or not 1 <= bins <= MAX_BINS:
        raise ValueError(f"a task has 1 to {MAX_BINS:,} bins, but got {bins}")
    return int(bins)


def common(bins: Iterable[int]) -> int:
    """The grid on which tasks of all these grids can be told; ValueError if it is too fine."""
    own = sorted(set(bins))
    if lcm(*own) > MAX_BINS:
        raise ValueError(
            f"grids of {', '.join(map(str, own))} bins do not go together: they would take {lcm(*own):,}, "
            f"and at most {MAX_BINS:,} are allowed"
        )
    return lcm(*own)


def range_of(feature: Feature) -> tuple[Fraction, Fraction]:
    """Its least and greatest value, as they are written: 0.1 is a tenth."""
    return Fraction(str(feature.low)), Fraction(str(feature.high))


def value_at(feature: Feature, fraction: Fraction) -> Fraction:
    """The number, in the feature's unit, at a fraction of its range."""
    low, high = range_of(feature)
    return low + fraction * (high - low)


def fraction_at(feature: Feature, value: Fraction) -> Fraction:
    """The fraction of its range at which a number lies."""
    low, high = range_of(feature)
    return (value - low) / (high - low)


def spoken(value: Fraction, unit: str = "") -> str:
    """A number in decimals, with its unit; empty if decimals never end.

    >>> spoken(Fraction(107, 5), "°C"), spoken(Fraction(1, 3))
    ('21.4 °C', '')
    """
    with localcontext() as context:
        context.prec, context.traps[Inexact] = _DIGITS, True
        try:
            number = format(Decimal(value.numerator) / Decimal(value.denominator), "f")
        except Inexact:
            return ""
    return f"{number} {unit}".strip()


def bounds(feature: Feature, region: Region) -> str:
    """A region as thresholds tell it, "above 21 °C"; empty if they cannot, or not in numbers that can be said."""
    said = [spoken(value_at(feature, edge), feature.unit) for edge in region.edges if edge.denominator <= FINEST]
    below, above = region.mask & 1, region.mask >> region.of - 1
    if not all(said) or len(said) != len(region.edges) or len(said) not in (1, 2):
        return ""
    if len(said) == 1:
        return f"{'below' if below else 'above'} {said[0]}"
    return f"{'not ' if below and above else ''}between {said[0]} and {said[1]}"
