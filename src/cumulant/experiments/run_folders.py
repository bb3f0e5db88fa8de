"""Run folders: the only place that writes and reads them, and the statistics over what they hold.

A run folder has metrics.jsonl, a line for every measured success, and config.json, written last, so that a folder that
has one is finished. Figures are drawn from these folders alone.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from cumulant.storage import Unreadable, read_info, write_whole


class Row(NamedTuple):
    """Success of a method, trained with a seed, on a task after so many environment steps of it."""

    line: str  # the line of the figure that it belongs to
    kind: str  # the class of the task
    task: str  # its canonical phrase
    seed: int
    steps: int  # 0: zero-shot, or what needs no steps
    success: float
    episodes: int


class Curve(NamedTuple):
    """Mean success over tasks and seeds against steps, with a 95 % interval."""

    steps: Float[np.ndarray, " n"]
    mean: Float[np.ndarray, " n"]
    low: Float[np.ndarray, " n"]
    high: Float[np.ndarray, " n"]


def write_run(folder: Path, config: dict[str, Any], rows: Iterable[Row]) -> None:
    """Write a finished run."""
    lines = "".join(json.dumps(row._asdict()) + "\n" for row in rows)
    write_whole(folder / "metrics.jsonl", lines.encode())
    write_whole(folder / "config.json", json.dumps(config, indent=2).encode() + b"\n")


def is_finished(folder: Path, settings: dict[str, Any]) -> bool:
    """Whether the folder holds a finished run of these settings; ValueError if it holds a run of others."""
    if not (folder / "config.json").exists():
        return False
    if read_info(folder).get("settings") != json.loads(json.dumps(settings)):
        raise ValueError(f"{folder} holds a run with other settings: choose another --out")
    return True


def read_rows(folder: Path) -> list[Row]:
    """What a run measured."""
    try:
        return [Row(**json.loads(line)) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    except (OSError, ValueError, TypeError) as error:
        raise Unreadable(f"{folder / 'metrics.jsonl'} cannot be read: {error}") from None


def lines_of(rows: Sequence[Row]) -> tuple[str, ...]:
    """The lines that rows belong to, in the order of their first appearance."""
    return tuple(dict.fromkeys(row.line for row in rows))


def curve(rows: Sequence[Row], line: str, kind: str) -> Curve:
    """One line of one panel."""
    mine = [row for row in rows if row.line == line and row.kind == kind]
    steps = sorted({row.steps for row in mine})
    points = []
    for step in steps:
        table: dict[str, list[float]] = {}
        for row in mine:
            if row.steps == step:
                table.setdefault(row.task, []).append(row.success)
        success = np.array(list(table.values())).T  # [seeds, tasks]
        points.append((success.mean(), *stratified_interval(success)))
    mean, low, high = np.array(points).reshape(-1, 3).T
    return Curve(np.array(steps, float), mean, low, high)


def stratified_interval(
    success: Float[np.ndarray, "seeds tasks"], resamples: int = 2000, level: float = 0.95
) -> tuple[float, float]:
    """The mean's bootstrap interval; seeds are drawn anew for each task, so that every task keeps its weight."""
    seeds, tasks = success.shape
    drawn = np.random.default_rng(0).integers(seeds, size=(resamples, seeds, tasks))
    means = np.take_along_axis(success[None], drawn, axis=1).mean(axis=(1, 2))
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


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


MARGIN = 0.02  # of success: the last hundredths take a method's curve far longer than the rest, and are mostly noise


class Payback(NamedTuple):
    """What free play costs and saves in one class of tasks, in environment steps."""

    kind: str
    level: float  # the success that GPI comes to, less a margin
    few_shot: float  # labelled steps after which it is there
    scratch: float  # steps after which DQN is there; inf if it never was
    scratch_at_least: float  # the same, or as many as DQN was given


def paybacks(rows: Sequence[Row], line: str, kinds: Sequence[str]) -> list[Payback]:
    """A line's few-shot GPI against DQN from scratch, class by class."""
    found = []
    for kind in kinds:
        ours, theirs = curve(rows, line, kind), curve(rows, "dqn", kind)
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
