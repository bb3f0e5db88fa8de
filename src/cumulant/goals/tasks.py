"""Goals: Boolean combinations of conditions on coordinates, kept in a normal form.

A task is a disjunction of clauses; a clause gives, for each coordinate, the set of bins it may lie in. So `not` costs
nothing, and a clause is exactly a weight vector w over the cumulants. By default the bins are thirds of the arena.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from cumulant.goals.bins import bin_index
from cumulant.goals.clauses import MAX_CLAUSES, Clause, Clauses, Packing, packing

THIRDS = {"x": ("left", "centre", "right"), "y": ("bottom", "middle", "top")}
MAX_BINS = 99

Condition = tuple[str, tuple[int, ...]]  # a coordinate's name and its allowed bins


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
        object.__setattr__(self, "bins", checked_bins(self.bins))
        if not all(len(clause) == len(self.coordinates) for clause in self.clauses):
            raise ValueError(f"a clause has a mask for each of {', '.join(self.coordinates)}")
        if not all(0 <= mask < 1 << self.bins for clause in self.clauses for mask in clause):
            raise ValueError(f"a mask of {self.bins} bins is 0 to {2**self.bins - 1}")
        object.__setattr__(self, "clauses", self._packing.sorted(self._packing.either(self._packed())))

    @classmethod
    def where(cls, coordinates: tuple[str, ...], allowed: Mapping[str, Iterable[int]], bins: int = 3) -> "Task":
        """The conjunction of conditions, each a coordinate's name with the bins it may lie in."""
        bins = checked_bins(bins)
        masks = {name: _mask(name, values, bins) for name, values in allowed.items()}
        unknown = next((name for name in masks if name not in coordinates), None)
        if unknown is not None:
            raise ValueError(f"unknown coordinate {unknown!r}: choose from {', '.join(coordinates)}")
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
        return self._of(self._packing.both(self._packed(), self._on_same_grid(other)._packed()))

    def __or__(self, other: "Task") -> "Task":
        """Either goal."""
        return Task(self.coordinates, self.clauses + self._on_same_grid(other).clauses, self.bins)

    def __invert__(self) -> "Task":
        """Every state that misses the goal: each clause must fail in at least one of its coordinates."""
        return self._of(self._packing.neither(self._packed()))

    @property
    def _packing(self) -> Packing:
        return packing(len(self.coordinates), self.bins)

    def _packed(self) -> Clauses:
        return frozenset(map(self._packing.pack, self.clauses))

    def _of(self, clauses: Clauses) -> "Task":
        return Task(self.coordinates, self._packing.sorted(clauses), self.bins)

    def _on_same_grid(self, other: "Task") -> "Task":
        if (self.coordinates, self.bins) != (other.coordinates, other.bins):
            raise ValueError("tasks combine only over the same coordinates and the same number of bins")
        return other

    def table(self, clauses: int = 0) -> Bool[np.ndarray, "c k m"]:
        """Which bins each clause allows: [clauses, k, bins]; padded up to `clauses` with clauses that never hold."""
        if not 0 <= clauses <= MAX_CLAUSES:
            raise ValueError(f"a task has at most {MAX_CLAUSES} clauses, but got {clauses}")
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
    if not tasks:
        raise ValueError("there are no tasks")
    clauses = max(len(task.clauses) for task in tasks)
    return jnp.stack([jnp.asarray(task.table(clauses)) for task in tasks])


def clash(first: Task, second: Task) -> str:
    """Why two tasks cannot hold at once: a coordinate on which their first clauses disagree, in words."""
    masks = [task.clauses[0] for task in (first, second) if task.possible]
    for name, *wishes in zip(first.coordinates, *masks, strict=True) if len(masks) == 2 else ():
        if not wishes[0] & wishes[1]:
            thing, _, axis = name.rpartition("_")
            described = " and ".join(describe(axis, members(wish), first.bins) for wish in wishes)
            return f"the {thing} cannot be {described} at once"
    return "no state can satisfy it"


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


def checked_bins(bins: int) -> int:
    """A number of bins that tasks may have; any other is refused by name, before anything grows with it."""
    if not isinstance(bins, Integral) or not 1 <= bins <= MAX_BINS:
        raise ValueError(f"a task has 1 to {MAX_BINS} bins, but got {bins}")
    return int(bins)


def _mask(name: str, allowed: Iterable[int], bins: int) -> int:
    """A coordinate's allowed bins as a bit mask."""
    mask = 0
    for b in allowed:
        if not 0 <= int(b) < bins:
            raise ValueError(f"{name} has bins 0 to {bins - 1}, but got {b}")
        mask |= 1 << int(b)
    return mask
