"""Statistics of figures: where lines end, and what free play costs and saves."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cumulant.goals.suites import CLASSES
from cumulant.sweeps.run_folders import Row, Run
from cumulant.sweeps.statistics import Curve, Point, interval_over_seeds, last, lines_of

COVERAGE = "coverage"  # the class of the (m + 1)^k goals, which are no tasks of the paper's
ZERO_SHOT = "-zero-shot"  # ends the name of a line that needs no labelled steps beside one that does
MARGIN = 0.02  # of success: the last hundredths take a method's curve far longer than the rest, and are mostly noise


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


def curve(rows: Sequence[Row], line: str, kind: str) -> Curve:
    """Return one line of one panel."""
    at: dict[int, dict[str, list[float]]] = {}  # steps, task: the success of every seed
    for row in sorted(rows, key=lambda row: row.seed):
        if row.line == line and row.kind == kind:
            at.setdefault(row.steps, {}).setdefault(row.task, []).append(row.success)
    steps = sorted(at)
    success = [np.array(list(at[step].values())).T for step in steps]
    points = [(each.mean(), *interval_over_seeds(each)) for each in success]
    mean, low, high = np.array(points).reshape(-1, 3).T
    return Curve(np.array(steps, float), mean, low, high)


def ends(rows: Sequence[Row]) -> dict[str, End]:
    """Return where every line ends."""
    return {line: _end(last(rows, line), line) for line in lines_of(rows)}


def _end(rows: Sequence[Row], line: str) -> End:
    found = {kind: curve(rows, line, kind) for kind in CLASSES}
    return End(rows[0].steps, {kind: _at(c) for kind, c in found.items()})


def _at(curve: Curve) -> Point:
    """Return a curve's last point."""
    return Point(float(curve.mean[-1]), float(curve.low[-1]), float(curve.high[-1]))


def disentanglement(runs: Sequence[Run]) -> dict[str, dict[int, float]]:
    """Return DCI's disentanglement of the features of every part that measured them, seed by seed."""
    return {run.name: {m["seed"]: m["disentanglement"] for m in run.measures} for run in runs if run.measures}


class Standing(NamedTuple):
    """What a method came to from words alone, in one world."""

    classes: dict[str, Point]
    goals: dict[int, Point]  # by the number of features that the (m + 1)^k goals ask for
    coverage: float  # of all those goals


def standings(rows: Sequence[Row]) -> dict[str, Standing]:
    """Return what every line that needs no labelled steps came to, by its name without the ending."""
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
    """Return what the run of a larger world came to."""
    kinds = dict.fromkeys(row.kind for row in run.rows)
    success = {kind: float(np.mean([row.success for row in run.rows if row.kind == kind])) for kind in kinds}
    seeds = len({row.seed for row in run.rows})
    preset, objects = run.name.partition("-")[0], run.settings["what"]["objects"]
    return LargerWorld(preset, objects, run.seconds["train_s"], seeds, success)


def steps_to_reach(curve: Curve, level: float) -> float:
    """Return the steps after which a curve's mean first reaches a level; inf if it never does.

    Between points, steps are interpolated on a log scale.
    """
    above = np.flatnonzero(curve.mean >= level)
    if not len(above):
        return float("inf")
    first = int(above[0])
    if not first or curve.steps[first - 1] == 0:
        return float(curve.steps[first])
    (x, y), (low, high) = np.log(curve.steps[first - 1 : first + 1]), curve.mean[first - 1 : first + 1]
    return float(np.exp(x + (y - x) * (level - low) / (high - low)))


def paybacks(rows: Sequence[Row], line: str, scratch: str, kinds: Sequence[str] = CLASSES) -> list[Payback]:
    """Compare a line's few-shot GPI with a line from scratch, class by class."""
    found = []
    for kind in kinds:
        ours, theirs = curve(rows, line, kind), curve(rows, scratch, kind)
        level = float(ours.mean[-1]) - MARGIN
        needed = steps_to_reach(theirs, level)
        found.append(Payback(kind, level, steps_to_reach(ours, level), needed, min(needed, float(theirs.steps[-1]))))
    return found


def break_even(free_play: int, found: Sequence[Payback]) -> float:
    """Return the tasks after which free play has paid for itself, a task of every class in turn: 23 in the paper.

    Where DQN never came so far, the steps that it was given count: the true number is then smaller still.
    """
    saved = sum(payback.scratch_at_least - payback.few_shot for payback in found) / len(found)
    return free_play / saved if saved > 0 else float("inf")
