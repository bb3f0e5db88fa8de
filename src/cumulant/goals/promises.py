"""What a number of bins can tell of a goal: skills reach bins, and a goal inside one may be missed within it."""

from math import lcm

import numpy as np
from jaxtyping import Float

from cumulant.goals.feature import Feature
from cumulant.goals.tasks import Task

_EXACT = 1e-9


def promised(task: Task, bins: int) -> Task | None:
    """The nearest goal that is made of whole bins; None if the task is one.

    >>> import cumulant
    >>> print(promised(cumulant.parse("square x 2,3/7"), 9))
    square x 2,3,4/9
    >>> promised(cumulant.parse("square left"), 9) is None
    True
    """
    everything = 2**task.bins - 1
    found = [[_shares(f, mask, task.bins, bins) for f, mask in _each(task, clause)] for clause in task.clauses]
    if all(((share < _EXACT) | (share > 1 - _EXACT)).all() for clause in found for share in clause):
        return None
    clauses = tuple(
        tuple(
            2**bins - 1 if mask == everything else _nearest(share)
            for (_, mask), share in zip(_each(task, clause), shares, strict=True)
        )
        for clause, shares in zip(task.clauses, found, strict=True)
    )
    return Task(task.coordinates, clauses, bins)


def remark(task: Task, bins: int) -> str:
    """What there is to say of a task that so many bins cannot promise; nothing, if they can.

    >>> import cumulant
    >>> remark(cumulant.parse("square x 2,3/7"), 3)
    'this library tells 3 parts of each feature apart, and the goal is finer: it can promise square left'
    """
    nearest = promised(task, bins)
    if nearest is None:
        return ""
    return f"this library tells {bins} parts of each feature apart, and the goal is finer: it can promise {nearest}"


def _each(task: Task, clause: tuple[int, ...]) -> list[tuple[Feature, int]]:
    return list(zip(task.features, clause, strict=True))


def _shares(feature: Feature, mask: int, of: int, bins: int) -> Float[np.ndarray, " bins"]:
    """How much of each bin the goal allows; of a bin in which the feature never lies, nothing."""
    number = feature.values or lcm(of, bins)
    places = np.arange(number) / (number - 1) if feature.values else (np.arange(number) + 0.5) / number
    part, bin = (np.minimum((places * n).astype(int), n - 1) for n in (of, bins))
    allowed = np.array([mask >> b & 1 for b in range(of)], float)[part]
    return np.bincount(bin, allowed, bins) / np.maximum(np.bincount(bin, minlength=bins), 1)


def _nearest(share: Float[np.ndarray, " bins"]) -> int:
    """A mask of the bins that the goal mostly allows, of one at least."""
    chosen = share >= 1 / 2 if (share >= 1 / 2).any() else share == share.max()
    return sum(1 << int(b) for b in np.flatnonzero(chosen))
