"""Goals: Boolean combinations of conditions on coordinates, kept in a normal form.

A task is a disjunction of clauses; a clause gives, for each coordinate, the set of bins it may lie in. So `not` costs
nothing, and a clause is exactly a weight vector w over the cumulants. By default the bins are thirds of the arena.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import lcm
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from cumulant.goals.bins import bin_index
from cumulant.goals.clauses import MAX_CLAUSES, Clause, Clauses, Packing, packing
from cumulant.goals.feature import WORDS as THIRDS
from cumulant.goals.feature import Feature, described, names_of
from cumulant.goals.phrases import canonical, say, shortened
from cumulant.goals.regions import MAX_BINS, Region, checked_bins, common, members

Condition = tuple[str, tuple[int, ...]]  # a coordinate's name and its allowed bins


@dataclass(frozen=True)
class Task:
    """A goal over named coordinates such as `square_x`, always in normal form. Combine tasks with `&`, `|` and `~`.

    Coordinates are a world's `feature_names`, bare or described; tasks are printed in the words of what describes them.

    >>> import cumulant
    >>> names = cumulant.Spriteworld().feature_names
    >>> left = cumulant.Task.where(names, {"square_x": [0]})
    >>> top = cumulant.Task.where(names, {"circle_y": [2]})
    >>> left & ~top
    Task('square left and circle not top')
    >>> room = (cumulant.Feature("temperature", of="room", low=10, high=30, unit="°C", words=("cold", "mild", "warm")),)
    >>> print(cumulant.Task.where(room, {"room_temperature": [2]}), "|", cumulant.parse("temperature above 21", room))
    room warm | room temperature above 21 °C
    """

    coordinates: tuple[str | Feature, ...] = field(compare=False)  # as they were given
    clauses: tuple[Clause, ...]  # none: impossible
    bins: int = 3
    features: tuple[Feature, ...] = field(init=False, repr=False)  # the coordinates, described

    def __post_init__(self) -> None:
        """Bring the clauses into normal form."""
        object.__setattr__(self, "bins", checked_bins(self.bins))
        object.__setattr__(self, "features", described(self.coordinates))
        if not all(len(clause) == len(self.coordinates) for clause in self.clauses):
            raise ValueError(f"a clause has a mask for each of {', '.join(self.names)}")
        if not all(0 <= mask < 1 << self.bins for clause in self.clauses for mask in clause):
            raise ValueError(f"a mask of {self.bins} bins is 0 to {2**self.bins - 1}")
        object.__setattr__(self, "clauses", self._packing.sorted(self._packing.either(self._packed())))

    @classmethod
    def where(
        cls, coordinates: tuple[str | Feature, ...], allowed: Mapping[str, Iterable[int]], bins: int = 3
    ) -> "Task":
        """The conjunction of conditions, each a coordinate's full name with the bins it may lie in."""
        bins, names = checked_bins(bins), names_of(coordinates)
        masks = {name: _mask(name, values, bins) for name, values in allowed.items()}
        unknown = next((name for name in masks if name not in names), None)
        if unknown is not None:
            raise ValueError(f"unknown coordinate {unknown!r}: choose from {', '.join(names)}")
        return cls(coordinates, (tuple(masks.get(name, 2**bins - 1) for name in names),), bins)

    @property
    def names(self) -> tuple[str, ...]:
        """The coordinates' full names."""
        return names_of(self.coordinates)

    @property
    def possible(self) -> bool:
        """Whether any state satisfies it."""
        return bool(self.clauses)

    def conditions(self) -> list[list[Condition]]:
        """For each clause, the coordinates that matter and the bins they may lie in."""
        anything = 2**self.bins - 1
        return [
            [(name, members(mask)) for name, mask in zip(self.names, clause, strict=True) if mask != anything]
            for clause in self.clauses
        ]

    def on(self, bins: int) -> "Task":
        """The same goal on a finer grid, of a multiple of its bins."""
        if bins == self.bins:
            return self
        if checked_bins(bins) % self.bins:
            raise ValueError(f"a task of {self.bins} bins cannot be told in {bins}: give a multiple")
        finer = tuple(tuple(Region(mask, self.bins).on(bins).mask for mask in clause) for clause in self.clauses)
        return Task(self.coordinates, finer, bins)

    def coarsest(self) -> "Task":
        """The same goal on the coarsest grid that can tell it.

        >>> import cumulant
        >>> print(cumulant.Task.where(cumulant.Spriteworld().feature_names, {"square_x": [0, 1, 2]}, bins=9).coarsest())
        square left
        """
        own = lcm(*(Region(mask, self.bins).coarsest().of for clause in self.clauses for mask in clause))
        coarse = tuple(tuple(Region(mask, self.bins).on(own).mask for mask in clause) for clause in self.clauses)
        return Task(self.coordinates, coarse, own)

    def __and__(self, other: "Task") -> "Task":
        """Both goals at once."""
        first, second = on_one_grid((self, other))
        return first._of(first._packing.both(first._packed(), second._packed()))

    def __or__(self, other: "Task") -> "Task":
        """Either goal."""
        first, second = on_one_grid((self, other))
        return Task(self.coordinates, first.clauses + second.clauses, first.bins)

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

    def table(self, clauses: int = 0) -> Bool[np.ndarray, "c k m"]:
        """Which bins each clause allows: [clauses, k, bins]; padded up to `clauses` with clauses that never hold."""
        if not 0 <= clauses <= MAX_CLAUSES:
            raise ValueError(f"a task has at most {MAX_CLAUSES} clauses, but got {clauses}")
        table = np.zeros((max(clauses, len(self.clauses)), len(self.coordinates), self.bins), bool)
        size = -(-self.bins // 8)
        for row, clause in zip(table, self.clauses, strict=False):
            masks = np.frombuffer(b"".join(mask.to_bytes(size, "little") for mask in clause), np.uint8)
            row[:] = np.unpackbits(masks.reshape(-1, size), axis=1, count=self.bins, bitorder="little")
        return table

    def __repr__(self) -> str:
        return f"Task({shortened(str(self))!r})"

    def __str__(self) -> str:
        """The canonical phrase, which parses back to this task."""
        return canonical(self.features, [self.clauses], self.bins)[0]


def on_one_grid(tasks: Sequence[Task]) -> tuple[Task, ...]:
    """The tasks on the coarsest grid that can tell them all; ValueError if they are of different worlds."""
    if any(task.features != tasks[0].features for task in tasks):
        raise ValueError("tasks go together only over the same coordinates")
    bins = common(task.bins for task in tasks)
    return tuple(task.on(bins) for task in tasks)


class GoalTable(NamedTuple):
    """Goals in arrays of one shape, or of a second for fine grids: so that one compiled program serves them all.

    Bins beyond a goal's own repeat its last one, and are of no width. Only `met`, `reached`, `goals.weights` and the
    oracle look inside. Several goals have leading axes.
    """

    allowed: Bool[Array | np.ndarray, "*n c k b"]  # b = padded_bins(the largest of the goals' own)
    bins: Int[Array | np.ndarray, "*n"]  # the goals' own


def padded_bins(bins: int) -> int:
    """Return the bins that a table has room for: few for usual grids, for thousands of goals may be stacked.

    >>> padded_bins(9), padded_bins(63)
    (16, 1000)
    """
    return 16 if bins <= 16 else -(-bins // MAX_BINS) * MAX_BINS


def goal_table(tasks: Sequence[Task], clauses: int, bins: int = 1) -> GoalTable:
    """Return tasks as one table, padded with clauses that never hold and bins of no width.

    Args:
        tasks: The goals, each on a grid of its own.
        clauses: The number of clauses to pad to.
        bins: The number of bins to have room for, at least.

    Returns:
        The table, with a leading axis over tasks. Its arrays are NumPy's, so that nothing is compiled.

    """
    width = padded_bins(max(bins, *(task.bins for task in tasks)))
    allowed = np.zeros((len(tasks), clauses, len(tasks[0].coordinates), width), bool)
    for rows, task in zip(allowed, tasks, strict=True):
        table = task.table()
        rows[: len(table), :, : task.bins], rows[: len(table), :, task.bins :] = table, table[:, :, -1:]
    return GoalTable(allowed, np.array([task.bins for task in tasks], np.int32))


def reached(table: Bool[Array, "c k m"] | GoalTable, f: Float[Array, " k"]) -> Bool[Array, ""]:
    """Return whether features satisfy a goal.

    Args:
        table: The goal: `Task.table()`, or one goal of a `GoalTable`.
        f: The features, in [0, 1].

    >>> import jax.numpy as jnp, cumulant
    >>> table = jnp.asarray(cumulant.parse("agent left").table())
    >>> bool(cumulant.reached(table, jnp.array([0.1, 0.9, 0.5, 0.5, 0.5, 0.5])))
    True

    """
    return met(table, f).all(axis=1).any()


def met(table: Bool[Array, "c k m"] | GoalTable, f: Float[Array, " k"]) -> Bool[Array, "c k"]:
    """Return which coordinates lie where each clause wants them; the arguments are those of `reached`."""
    allowed, bins = table if isinstance(table, GoalTable) else (table, table.shape[-1])
    index = bin_index(f, jnp.asarray(bins))
    return jnp.take_along_axis(jnp.asarray(allowed), index[None, :, None], axis=2)[:, :, 0]


def tables_of(tasks: Sequence[Task]) -> Bool[Array, "tasks c k m"]:
    """The tasks' tables, stacked, on one grid; the shorter ones padded with clauses that never hold."""
    if not tasks:
        raise ValueError("there are no tasks")
    clauses, bins = max(len(task.clauses) for task in tasks), common(task.bins for task in tasks)
    return jax.device_put(np.stack([np.repeat(task.table(clauses), bins // task.bins, axis=2) for task in tasks]))


def clash(first: Task, second: Task) -> str:
    """Why two tasks cannot hold at once: a coordinate on which their first clauses disagree, in words."""
    masks = [task.clauses[0] for task in (first, second) if task.possible]
    for i, wishes in enumerate(zip(*masks, strict=True) if len(masks) == 2 else ()):
        if not wishes[0] & wishes[1]:
            said = [say(first.features, i, Region(wish, first.bins)) for wish in wishes]
            if said[0].name == said[1].name and said[0].name not in THIRDS:
                about = f"{said[0].thing}'s {said[0].name}" if said[0].name else said[0].thing
                return f"the {about} cannot be {said[0].value} and {said[1].value} at once"
            return f"the {said[0].thing} cannot be {said[0].words} and {said[1].words} at once"
    return "no state can satisfy it"


def _mask(name: str, allowed: Iterable[int], bins: int) -> int:
    """A coordinate's allowed bins as a bit mask."""
    mask = 0
    for b in allowed:
        if not 0 <= int(b) < bins:
            raise ValueError(f"{name} has bins 0 to {bins - 1}, but got {b}")
        mask |= 1 << int(b)
    return mask
