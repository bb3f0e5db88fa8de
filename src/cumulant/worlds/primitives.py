"""Continuous actions as a few: each one a push along some dimensions of a box, or none."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

_MOST = 81  # actions of a joint grid that nobody asked for


@dataclass(frozen=True)
class Primitives:
    """Actions of a box: the rows of a table in [-1, 1], which the box's own bounds scale. Made by `primitives`."""

    table: tuple[tuple[float, ...], ...]  # [A, d]
    repeat: int = 1  # steps of the environment that each is held for
    fence: tuple[tuple[int, int], ...] = ()  # (dimension of the action, feature that it moves up)

    @property
    def values(self) -> Float[np.ndarray, "A d"]:
        """The table."""
        return np.array(self.table, np.float32)

    def __len__(self) -> int:
        """How many actions there are."""
        return len(self.table)


def primitives(
    dimensions: int,
    levels: int = 3,
    moved: Iterable[int] | None = None,
    diagonal: Iterable[int] | None = None,
    scale: float | Sequence[float] = 1.0,
    repeat: int = 1,
    fence: Iterable[tuple[int, int]] = (),
) -> Primitives:
    """The actions of a box of so many dimensions: first to stay, then one dimension at a time, then several.

    `levels` from -1 to 1 cut every dimension: 3 are -1, 0, 1. Only the dimensions in `moved` move, by default all.
    Those in `diagonal` combine; without it all do if that makes at most 81 actions, and else none. `scale` is the
    length of a push, for all dimensions or each, as a share of what the box allows. Each action is held for `repeat`
    steps of the environment. `fence` pairs dimensions with the features that they move: a push that would lead such a
    feature further out of its range, up by a positive push and down by a negative, is none in that dimension.

    >>> len(primitives(2)), len(primitives(4)), len(primitives(5))
    (9, 81, 11)
    >>> push = primitives(4, moved=(0, 1, 2), diagonal=(0, 1))  # of a hand, whose gripper stays as it is
    >>> len(push), push.table[0], push.table[-1]
    (11, (0.0, 0.0, 0.0, 0.0), (1.0, 1.0, 0.0, 0.0))
    """
    pairs = tuple((int(dimension), int(feature)) for dimension, feature in fence)
    free = tuple(range(dimensions)) if moved is None else tuple(moved)
    joint = tuple(diagonal) if diagonal is not None else free if levels ** len(free) <= _MOST else ()
    named = {*free, *joint, *(dimension for dimension, _ in pairs)}
    if dimensions < 1 or not named <= set(range(dimensions)) or not set(joint) <= set(free):
        raise ValueError(f"a box of {dimensions} dimensions has none of {sorted(named - set(range(dimensions)))}")
    if levels < 3 or levels % 2 == 0:
        raise ValueError(f"levels are an odd number from 3, so that one of them is to stay, but are {levels}")
    if repeat < 1:
        raise ValueError(f"an action is held for at least one step, but repeat is {repeat}")
    lengths = np.broadcast_to(np.asarray(scale, float), (dimensions,))
    if not ((lengths > 0) & (lengths <= 1)).all():
        raise ValueError(f"a push is a share of what the box allows, in (0, 1], but scale is {scale}")
    steps = np.linspace(-1, 1, levels)
    alone = [_row(dimensions, {i: step}) for i in free for step in steps]
    together = [
        _row(dimensions, dict(zip(joint, grid, strict=True))) for grid in itertools.product(steps, repeat=len(joint))
    ]
    rows = sorted(set(alone + together), key=lambda row: (np.count_nonzero(row), [-abs(x) for x in row], row))
    return Primitives(tuple(tuple((np.array(row) * lengths).tolist()) for row in rows), repeat, pairs)


def _row(dimensions: int, pushes: dict[int, float]) -> tuple[float, ...]:
    return tuple(float(pushes.get(i, 0.0)) for i in range(dimensions))
