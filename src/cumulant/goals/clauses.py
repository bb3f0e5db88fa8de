"""Sets of clauses in normal form, each clause packed into one integer: what `and`, `or` and `not` do to tasks.

A clause gives each coordinate a bit mask of allowed bins. Packed, two clauses meet in a single `&` however many
coordinates they have, which keeps long phrases over many sprites quick.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, reduce
from operator import and_, or_

MAX_CLAUSES = 64  # far beyond what a person means by a phrase; keeps the algebra instant

Clause = tuple[int, ...]  # for each coordinate, its allowed bins as a bit mask
Packed = int  # the same in one integer
Clauses = frozenset[Packed]  # a disjunction; none: impossible


class TooComplex(ValueError):
    """The normal form would need more than MAX_CLAUSES clauses."""


@dataclass(frozen=True)
class Packing:
    """How clauses over so many coordinates lie in an integer: a field each, and above it a bit that stays 0."""

    coordinates: int
    bins: int
    fields: tuple[Packed, ...]  # each coordinate's bits
    anything: Packed  # the clause that always holds
    spare: Packed  # the bits above the fields

    def pack(self, clause: Iterable[int]) -> Packed:
        """A clause as one integer."""
        return sum(int(mask) << i * (self.bins + 1) for i, mask in enumerate(clause))

    def unpack(self, clause: Packed) -> Clause:
        """The masks of a packed clause."""
        full = (1 << self.bins) - 1
        return tuple(clause >> i * (self.bins + 1) & full for i in range(self.coordinates))

    def sorted(self, clauses: Clauses) -> tuple[Clause, ...]:
        """The clauses' masks, in the order that tasks keep."""
        return tuple(sorted(map(self.unpack, clauses)))

    def conjunction(self, masks: Mapping[int, int]) -> Clauses:
        """Conditions on coordinates, all of them at once."""
        return self.either([reduce(and_, (self._condition(i, mask) for i, mask in masks.items()), self.anything)])

    def denial(self, masks: Mapping[int, int]) -> Clauses:
        """Every state that misses at least one of the conditions."""
        full = (1 << self.bins) - 1
        return self.either(self._condition(i, full & ~mask) for i, mask in masks.items())

    def either(self, clauses: Iterable[Packed]) -> Clauses:
        """The normal form: no clause is empty, none lies inside another, no two differ in one coordinate alone."""
        # A field that is not empty carries into its spare bit.
        current = {clause for clause in clauses if (clause + self.anything) & self.spare == self.spare}
        while len(current) > 1:
            merged = self._merge(current)
            if len(merged) > 4 * MAX_CLAUSES:
                raise TooComplex(f"this goal has more than {MAX_CLAUSES} alternatives: say it more simply")
            simpler = _absorb(merged)
            if simpler == current:
                break
            current = simpler
        if len(current) > MAX_CLAUSES:
            raise TooComplex(f"this goal has more than {MAX_CLAUSES} alternatives: say it more simply")
        return frozenset(current)

    def both(self, first: Clauses, second: Clauses) -> Clauses:
        """Where both hold."""
        return self.either({a & b for a in first for b in second})

    def neither(self, clauses: Clauses) -> Clauses:
        """Where no clause holds: each must fail in at least one of its coordinates."""
        misses = (self.denial(dict(enumerate(clause))) for clause in self.sorted(clauses))
        return reduce(self.both, misses, frozenset({self.anything}))

    def _condition(self, coordinate: int, mask: int) -> Packed:
        return self.anything & ~self.fields[coordinate] | mask << coordinate * (self.bins + 1)

    def _merge(self, clauses: set[Packed]) -> set[Packed]:
        """Unite clauses that differ in one coordinate alone."""
        for field in self._differing(clauses):
            united: dict[Packed, Packed] = {}
            others = self.anything & ~field
            for clause in clauses:
                rest = clause & others
                united[rest] = united.get(rest, 0) | clause
            clauses = set(united.values())
        return clauses

    def _differing(self, clauses: set[Packed]) -> Iterator[Packed]:
        """The fields in which any two clauses differ: elsewhere there is nothing to unite."""
        differing = reduce(or_, clauses) & ~reduce(and_, clauses)
        return (field for field in self.fields if field & differing)


@cache
def packing(coordinates: int, bins: int) -> Packing:
    """The packing for so many coordinates, each with so many bins."""
    fields = tuple(((1 << bins) - 1) << i * (bins + 1) for i in range(coordinates))
    spare = sum(1 << i * (bins + 1) + bins for i in range(coordinates))
    return Packing(coordinates, bins, fields, sum(fields), spare)


def _absorb(clauses: set[Packed]) -> set[Packed]:
    """Drop every clause that another contains."""
    kept: set[Packed] = set()
    outside: list[Packed] = []  # of each clause that is kept
    for clause in sorted(clauses, key=int.bit_count, reverse=True):  # whatever contains a clause has more bits
        for other in outside:  # a loop: `all` of a generator takes twice as long, and most of the time goes here
            if not clause & other:
                break
        else:
            kept.add(clause)
            outside.append(~clause)
    return kept
