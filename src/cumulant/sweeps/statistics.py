"""Success of rows with its 95 % interval: a point, or a curve against steps."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from cumulant.sweeps.run_folders import Row
from cumulant.transfer.evaluation import interval

_RESAMPLES = 2000  # of the bootstrap
_LEVEL = 0.95  # of its interval


class Curve(NamedTuple):
    """Mean success over tasks and seeds against steps, with a 95 % interval."""

    steps: Float[np.ndarray, " n"]
    mean: Float[np.ndarray, " n"]
    low: Float[np.ndarray, " n"]
    high: Float[np.ndarray, " n"]


class Point(NamedTuple):
    """One point of a curve."""

    mean: float
    low: float
    high: float


def lines_of(rows: Sequence[Row]) -> tuple[str, ...]:
    """Return the lines that rows belong to, in the order of their first appearance."""
    return tuple(dict.fromkeys(row.line for row in rows))


def last(rows: Sequence[Row], line: str) -> list[Row]:
    """Return the rows of a line after all of its steps."""
    mine = [row for row in rows if row.line == line]
    steps = max(row.steps for row in mine)
    return [row for row in mine if row.steps == steps]


def by_class(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Return the mean success after all steps, by line and class."""
    found: dict[str, dict[str, list[float]]] = {}
    for line in lines_of(rows):
        for row in last(rows, line):
            found.setdefault(line, {}).setdefault(row.kind, []).append(row.success)
    return {line: {kind: float(np.mean(each)) for kind, each in kinds.items()} for line, kinds in found.items()}


def interval_over_seeds(success: Float[np.ndarray, "seeds tasks"]) -> tuple[float, float]:
    """Return the bootstrap interval of the mean.

    A seed is drawn with all of its tasks, because one training was judged on all of them.
    """
    seeds = len(success)
    drawn = np.random.default_rng(0).integers(seeds, size=(_RESAMPLES, seeds))
    means = success.mean(axis=1)[drawn].mean(axis=1)
    low, high = np.quantile(means, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
    return float(low), float(high)


def point_of(rows: Sequence[Row]) -> Point:
    """Return mean success over tasks and seeds with its interval: over seeds or, of one seed, over its episodes.

    >>> point_of([Row("zero-shot", "one", "lamp on", 0, 0, 1.0, 10)]).high
    1.0
    """
    by_task: dict[tuple[str, str], dict[int, float]] = {}
    for row in rows:
        by_task.setdefault((row.kind, row.task), {})[row.seed] = row.success
    success = np.array([[seeds[seed] for seed in sorted(seeds)] for seeds in by_task.values()]).T  # [seeds, tasks]
    if len(success) > 1:
        return Point(float(success.mean()), *interval_over_seeds(success))
    solved = round(sum(row.success * row.episodes for row in rows))
    return Point(float(success.mean()), *interval(solved, sum(row.episodes for row in rows)))
