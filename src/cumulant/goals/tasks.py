"""Goals: Boolean combinations of conditions on coordinates, kept in a normal form.

A task is a disjunction of clauses; a clause gives, for each coordinate, the set of bins it may lie in. So `not` costs
nothing, and a clause is exactly a weight vector w over the cumulants. By default the bins are thirds of the arena.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from cumulant.goals.bins import bin_index

THIRDS = {"x": ("left", "centre", "right"), "y": ("bottom", "middle", "top")}
MAX_BINS = 99
MAX_CLAUSES = 64  # far beyond what a person means by a phrase; keeps the algebra instant

Clause = tuple[int, ...]  # for each coordinate, its allowed bins as a bit mask
Condition = tuple[str, tuple[int, ...]]  # a coordinate's name and its allowed bins


class TooComplex(ValueError):
    """The normal form would need more than MAX_CLAUSES clauses."""


@dataclass(frozen=True)
class Task:
    """A goal over named coordinates such as `square_x`, always in normal form. Combine tasks with `&`, `|` and `~`.

    >>> import cumulant
    >>> names = cumulant.Spriteworld().feature_names
    >>> left = cumulant.Task.where(names, {"square_x": [0]})
    >>> top = cumulant.Task.where(names, {"circle_y": [2]})
    >>> print(left & ~top)
    square left and circle not top
    """

    coordinates: tuple[str, ...]
    clauses: tuple[Clause, ...]  # none: impossible
    bins: int = 3

    def __post_init__(self) -> None:
        """Bring the clauses into normal form."""
        if not 1 <= self.bins <= MAX_BINS:
            raise ValueError(f"a task has 1 to {MAX_BINS} bins, but got {self.bins}")
        object.__setattr__(self, "clauses", _normal_form(self.clauses, self.bins))

    @classmethod
    def where(cls, coordinates: tuple[str, ...], allowed: Mapping[str, Iterable[int]], bins: int = 3) -> "Task":
        """The conjunction of conditions, each a coordinate's name with the bins it may lie in."""
        masks = {name: sum(1 << int(b) for b in set(values)) for name, values in allowed.items()}
        for name, mask in masks.items():
            if name not in coordinates:
                raise ValueError(f"unknown coordinate {name!r}: choose from {', '.join(coordinates)}")
            if mask >= 1 << bins:
                raise ValueError(f"{name} has bins 0 to {bins - 1}, but got {mask.bit_length() - 1}")
        return cls(coordinates, (tuple(masks.get(name, 2**bins - 1) for name in coordinates),), bins)

    @property
    def possible(self) -> bool:
        """Whether any state satisfies it."""
        return bool(self.clauses)

    def conditions(self) -> list[list[Condition]]:
        """For each clause, the coordinates that matter and the bins they may lie in."""
        anything = 2**self.bins - 1
        return [
            [(name, members(mask)) for name, mask in zip(self.coordinates, clause, strict=True) if mask != anything]
            for clause in self.clauses
        ]

    def __and__(self, other: "Task") -> "Task":
        """Both goals at once."""
        pairs = ((c, d) for c in self.clauses for d in self._on_same_grid(other).clauses)
        return Task(self.coordinates, tuple({tuple(a & b for a, b in zip(*p, strict=True)) for p in pairs}), self.bins)

    def __or__(self, other: "Task") -> "Task":
        """Either goal."""
        return Task(self.coordinates, self.clauses + self._on_same_grid(other).clauses, self.bins)

    def __invert__(self) -> "Task":
        """Every state that misses the goal: each clause must fail in at least one of its coordinates."""
        result = Task.where(self.coordinates, {}, self.bins)
        for clause in self.conditions():
            misses = [{name: set(range(self.bins)) - set(allowed)} for name, allowed in clause]
            clauses = [Task.where(self.coordinates, miss, self.bins).clauses[0] for miss in misses]
            result &= Task(self.coordinates, tuple(clauses), self.bins)
        return result

    def _on_same_grid(self, other: "Task") -> "Task":
        if (self.coordinates, self.bins) != (other.coordinates, other.bins):
            raise ValueError("tasks combine only over the same coordinates and the same number of bins")
        return other

    def table(self, clauses: int = 0) -> Bool[np.ndarray, "c k m"]:
        """Which bins each clause allows: [clauses, k, bins]; padded up to `clauses` with clauses that never hold."""
        shape = (max(clauses, len(self.clauses)), len(self.coordinates), self.bins)
        table = np.zeros(shape, bool)
        for row, clause in zip(table, self.clauses, strict=False):
            row[:] = [[mask >> b & 1 for b in range(self.bins)] for mask in clause]
        return table

    def __str__(self) -> str:
        """The canonical phrase, which parses back to this task."""
        return " or ".join(self._phrase(clause) for clause in self.conditions()) or "impossible"

    def _phrase(self, clause: list[Condition]) -> str:
        if not clause:
            sprite = self.coordinates[0].rpartition("_")[0]
            return f"{sprite} {describe('x', range(self.bins), self.bins)}"
        together: dict[str, list[str]] = {}  # sprite → the words of its place
        denials = []
        for name, allowed in reversed(clause):  # y before x, as in "top left"
            sprite, _, axis = name.rpartition("_")
            words = describe(axis, allowed, self.bins)
            if words.startswith("not"):
                denials.append(f"{sprite} {words}")
            else:
                together.setdefault(sprite, []).append(words)
        places = [f"{sprite} {' '.join(words)}" for sprite, words in together.items()]
        return " and ".join(reversed(denials + places))


def reached(table: Bool[Array, "c k m"], f: Float[Array, " k"]) -> Bool[Array, ""]:
    """Whether features f satisfy the task that `Task.table` describes: [clauses, k, bins], [k] → [].

    >>> import jax.numpy as jnp, cumulant
    >>> table = jnp.asarray(cumulant.parse("agent left").table())
    >>> bool(cumulant.reached(table, jnp.array([0.1, 0.9, 0.5, 0.5, 0.5, 0.5])))
    True
    """
    return met(table, f).all(axis=1).any()


def met(table: Bool[Array, "c k m"], f: Float[Array, " k"]) -> Bool[Array, "c k"]:
    """Which coordinates lie where each clause wants them: [clauses, k, bins], [k] → [clauses, k]."""
    index = bin_index(f, table.shape[-1])
    return jnp.take_along_axis(jnp.asarray(table), index[None, :, None], axis=2)[:, :, 0]


def tables_of(tasks: Sequence[Task]) -> Bool[Array, "tasks c k m"]:
    """The tasks' tables, stacked; the shorter ones padded with clauses that never hold."""
    clauses = max(len(task.clauses) for task in tasks)
    return jnp.stack([jnp.asarray(task.table(clauses)) for task in tasks])


def members(mask: int) -> tuple[int, ...]:
    """The bins in a bit mask."""
    return tuple(b for b in range(mask.bit_length()) if mask >> b & 1)


def describe(axis: str, allowed: Iterable[int], bins: int) -> str:
    """The words for a coordinate's allowed bins: "left", "not top", "anywhere", or "x 2,3/7" on another grid."""
    allowed = sorted(allowed)
    if bins != 3 or axis not in THIRDS:
        return f"{axis} {','.join(str(b + 1) for b in allowed)}/{bins}"
    words = [THIRDS[axis][b] for b in allowed]
    missing = [word for word in THIRDS[axis] if word not in words]
    return {1: " ".join(words), 2: f"not {' '.join(missing)}", 3: "anywhere"}[len(words)]


def _normal_form(clauses: Iterable[Clause], bins: int) -> tuple[Clause, ...]:
    """No clause is empty, none lies inside another, no two differ in one coordinate alone; sorted."""
    current = {clause for clause in clauses if all(clause)}
    while True:
        merged = _merge(current)
        if len(merged) > 4 * MAX_CLAUSES:
            raise TooComplex(f"this goal has more than {MAX_CLAUSES} alternatives: say it more simply")
        simpler = _absorb(merged, bins)
        if simpler == current:
            break
        current = simpler
    if len(current) > MAX_CLAUSES:
        raise TooComplex(f"this goal has more than {MAX_CLAUSES} alternatives: say it more simply")
    return tuple(sorted(current))


def _merge(clauses: set[Clause]) -> set[Clause]:
    """Unite clauses that differ in one coordinate alone."""
    width = len(next(iter(clauses), ()))
    for i in range(width):
        united: dict[Clause, int] = {}
        for clause in clauses:
            rest = (*clause[:i], *clause[i + 1 :])
            united[rest] = united.get(rest, 0) | clause[i]
        clauses = {(*rest[:i], mask, *rest[i:]) for rest, mask in united.items()}
    return clauses


def _absorb(clauses: set[Clause], bins: int) -> set[Clause]:
    """Drop every clause that another contains."""
    packed = {sum(mask << i * bins for i, mask in enumerate(clause)): clause for clause in clauses}
    return {clause for bits, clause in packed.items() if not any(bits & o == bits != o for o in packed)}
