"""What rows of success say: curves with intervals, where they end, and what free play costs and saves."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from cumulant.goals.suites import CLASSES
from cumulant.sweeps.run_folders import Row, Run

_RESAMPLES = 2000  # of the bootstrap
_LEVEL = 0.95  # of its interval
COVERAGE = "coverage"  # the class of the (m + 1)^k goals, which are no tasks of the paper's
ZERO_SHOT = "-zero-shot"  # ends the name of a line that needs no labelled steps beside one that does
MARGIN = 0.02  # of success: the last hundredths take a method's curve far longer than the rest, and are mostly noise


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


class End(NamedTuple):
    """Where a line ends: at which step, and with what success in each class."""

    steps: int
    classes: dict[str, Point]


class Payback(NamedTuple):
    """What free play costs and saves in one class of tasks, in environment steps."""

    kind: str
    level: float  # the success that GPI comes to, less a margin
    few_shot: float  # labelled steps after which it is there
    scratch: float  # steps after which DQN is there; inf if it never was
    scratch_at_least: float  # the same, or as many as DQN was given


def lines_of(rows: Sequence[Row]) -> tuple[str, ...]:
    """The lines that rows belong to, in the order of their first appearance."""
    return tuple(dict.fromkeys(row.line for row in rows))


def curve(rows: Sequence[Row], line: str, kind: str) -> Curve:
    """One line of one panel."""
    at: dict[int, dict[str, list[float]]] = {}  # steps, task: the success of every seed
    for row in sorted(rows, key=lambda row: row.seed):
        if row.line == line and row.kind == kind:
            at.setdefault(row.steps, {}).setdefault(row.task, []).append(row.success)
    steps = sorted(at)
    points = [_point(np.array(list(at[step].values())).T) for step in steps]
    mean, low, high = np.array(points).reshape(-1, 3).T
    return Curve(np.array(steps, float), mean, low, high)


def _point(success: Float[np.ndarray, "seeds tasks"]) -> Point:
    return Point(float(success.mean()), *interval_over_seeds(success))


def interval_over_seeds(success: Float[np.ndarray, "seeds tasks"]) -> tuple[float, float]:
    """The mean's bootstrap interval. A seed is drawn with all of its tasks: one training was judged on all of them."""
    seeds = len(success)
    drawn = np.random.default_rng(0).integers(seeds, size=(_RESAMPLES, seeds))
    means = success.mean(axis=1)[drawn].mean(axis=1)
    low, high = np.quantile(means, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
    return float(low), float(high)


def last(rows: Sequence[Row], line: str) -> list[Row]:
    """The rows of a line after all of its steps."""
    mine = [row for row in rows if row.line == line]
    steps = max(row.steps for row in mine)
    return [row for row in mine if row.steps == steps]


def ends(rows: Sequence[Row]) -> dict[str, End]:
    """Where every line ends."""
    return {line: _end(last(rows, line), line) for line in lines_of(rows)}


def _end(rows: Sequence[Row], line: str) -> End:
    found = {kind: curve(rows, line, kind) for kind in CLASSES}
    return End(rows[0].steps, {kind: _at(c) for kind, c in found.items()})


def _at(curve: Curve) -> Point:
    """A curve's last point."""
    return Point(float(curve.mean[-1]), float(curve.low[-1]), float(curve.high[-1]))


def by_class(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Where every line ends, in each class that it has: the mean success."""
    found: dict[str, dict[str, list[float]]] = {}
    for line in lines_of(rows):
        for row in last(rows, line):
            found.setdefault(line, {}).setdefault(row.kind, []).append(row.success)
    return {line: {kind: float(np.mean(each)) for kind, each in kinds.items()} for line, kinds in found.items()}


def disentanglement(runs: Sequence[Run]) -> dict[str, dict[int, float]]:
    """DCI's disentanglement of the features of every part that measured them, seed by seed."""
    return {run.name: {m["seed"]: m["disentanglement"] for m in run.measures} for run in runs if run.measures}


class Standing(NamedTuple):
    """What a method came to from words alone, in one world."""

    classes: dict[str, Point]
    goals: dict[int, Point]  # by the number of features that the (m + 1)^k goals ask for
    coverage: float  # of all those goals


def standings(rows: Sequence[Row]) -> dict[str, Standing]:
    """Of every line that needs no labelled steps, by its name without saying so."""
    names = [line.removesuffix(ZERO_SHOT) for line in lines_of(rows) if line.endswith(ZERO_SHOT)]
    return {name: _standing(rows, name) for name in names}


def _standing(rows: Sequence[Row], line: str) -> Standing:
    goals = [row for row in rows if row.line == line and row.kind == COVERAGE]
    numbers = sorted({int(row.task.partition(" ")[0]) for row in goals} - {0})
    by_number = {
        number: _at(curve([row for row in goals if row.task.startswith(f"{number} ")], line, COVERAGE))
        for number in numbers
    }
    classes = {kind: _at(curve(rows, f"{line}{ZERO_SHOT}", kind)) for kind in CLASSES}
    whole = float(np.average([row.success for row in goals], weights=[row.episodes for row in goals]))
    return Standing(classes, by_number, whole)


class LargerWorld(NamedTuple):
    """What free play came to in a world."""

    preset: str
    objects: int
    seconds: float  # of learning, the longest of all seeds
    seeds: int
    classes: dict[str, float]  # success; a class that needs more objects is left out


def larger_world(run: Run) -> LargerWorld:
    """The run of a world of so many objects."""
    kinds = dict.fromkeys(row.kind for row in run.rows)
    success = {kind: float(np.mean([row.success for row in run.rows if row.kind == kind])) for kind in kinds}
    seeds = len({row.seed for row in run.rows})
    preset, objects = run.name.partition("-")[0], run.settings["what"]["objects"]
    return LargerWorld(preset, objects, run.seconds["train_s"], seeds, success)


def steps_to_reach(curve: Curve, level: float) -> float:
    """Steps after which the curve's mean first reaches a level, between points on a log scale; inf if it never does."""
    above = np.flatnonzero(curve.mean >= level)
    if not len(above):
        return float("inf")
    first = int(above[0])
    if not first or curve.steps[first - 1] == 0:
        return float(curve.steps[first])
    (x, y), (low, high) = np.log(curve.steps[first - 1 : first + 1]), curve.mean[first - 1 : first + 1]
    return float(np.exp(x + (y - x) * (level - low) / (high - low)))


def paybacks(rows: Sequence[Row], line: str, scratch: str, kinds: Sequence[str] = CLASSES) -> list[Payback]:
    """A line's few-shot GPI against a line from scratch, class by class."""
    found = []
    for kind in kinds:
        ours, theirs = curve(rows, line, kind), curve(rows, scratch, kind)
        level = float(ours.mean[-1]) - MARGIN
        needed = steps_to_reach(theirs, level)
        found.append(Payback(kind, level, steps_to_reach(ours, level), needed, min(needed, float(theirs.steps[-1]))))
    return found


def break_even(free_play: int, found: Sequence[Payback]) -> float:
    """Tasks after which free play has paid for itself, a task of every class in turn: 23 in the paper.

    Where DQN never came so far, the steps that it was given count: the true number is then smaller still.
    """
    saved = sum(payback.scratch_at_least - payback.few_shot for payback in found) / len(found)
    return free_play / saved if saved > 0 else float("inf")
