"""What a sweep says: each choice of settings with success and intervals, how it learnt, and which is best."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import numpy as np

from cumulant.config import OutOfBounds, restored
from cumulant.experiments.engines import failure_of, printable
from cumulant.experiments.parts import TUNING_SEED
from cumulant.experiments.run_folders import Row, Run, read_run
from cumulant.experiments.statistics import Curve, Point, interval_over_seeds, last, lines_of
from cumulant.experiments.swept import LIBRARY
from cumulant.freeplay.checkpoints import read_metrics
from cumulant.storage import Unreadable
from cumulant.transfer.evaluation import interval

_ALL = 2**31  # updates: the metrics of a whole run
_MOST = 2**53  # episodes, or environment steps
_LEARNT = ("loss", "success")  # what is known on the way


class Setting(NamedTuple):
    """All trials that differ in their seeds alone."""

    label: str  # what tells it from the others of the sweep
    settings: dict[str, Any]  # as its folders keep them, but for the seed
    seeds: tuple[int, ...]
    trials: tuple[str, ...]  # names of folders
    success: dict[str, dict[str, Point]]  # by line and class, after all steps
    overall: dict[str, Point]  # by line, over all tasks
    few_shot: Curve | None  # over all tasks, against labelled steps
    learning: dict[str, Curve]  # loss, and success on held-out goals, against environment steps
    seconds: float  # of training, in the mean: of the program that a trial was in, which may have trained up to 16


class Best(NamedTuple):
    """The best settings of those that were judged in the same world by the same tasks."""

    label: str
    line: str
    success: Point
    not_told_apart: tuple[str, ...]  # others whose intervals overlap
    chosen_on: str


class SweepReport(NamedTuple):
    """Everything."""

    folder: str
    settings: list[Setting]
    common: dict[str, str]  # what none of them varied, by its dotted name
    best: list[Best]
    failed: dict[str, str]


def summarise_sweep(folder: Path) -> SweepReport:
    """What the finished and failed folders of a sweep say. Unreadable, if there are none, or one is damaged."""
    names = sorted(path for path in _folders(folder) if not path.name.startswith("."))
    failed = {path.name: reason for path in names if (reason := failure_of(path)) is not None}
    runs = [(read_run(path), path) for path in names if (path / "config.json").exists()]
    for run, path in runs:
        if not _is_trial(run):
            raise Unreadable(f"{path} is no trial of a sweep")
    if not runs and not failed:
        raise Unreadable(f"there is no sweep in {folder}: it holds no trial that is finished or failed")
    alike: dict[str, list[tuple[Run, Path]]] = {}
    for run, path in runs:
        alike.setdefault(_but_seed(run), []).append((run, path))
    flat = [_flat(json.loads(key)) for key in alike]
    varied = _varied(flat)
    settings = [_setting(json.loads(key), varied, group) for key, group in alike.items()]
    settings.sort(key=lambda each: -next((point.mean for point in each.overall.values()), 0.0))
    shared = [(name, value) for each in flat[:1] for name, value in each.items() if name not in varied]
    common = {printable(name): printable(_short(value)) for name, value in shared}
    return SweepReport(str(folder), settings, common, list(_best(settings)), failed)


class _Settings(TypedDict):
    """What a trial's settings hold."""

    method: str
    world: dict[str, Any]
    what: dict[str, Any]
    seed: int
    evaluation: dict[str, Any]


def _is_trial(run: Run) -> bool:
    """Whether it is all there, and its rows are its own."""
    try:
        seed = restored(_Settings, run.settings)["seed"]
    except OutOfBounds:
        return False
    return all(row.seed == seed for row in run.rows)


def _folders(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if path.is_dir() and not path.is_symlink()]
    except OSError as error:
        raise Unreadable(f"{folder} cannot be read: {error.strerror or error}") from None


def _but_seed(run: Run) -> str:
    return json.dumps({name: value for name, value in run.settings.items() if name != "seed"}, sort_keys=True)


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    """Nested settings as one level: "world.max_steps", and a method's own without its first word."""
    if not isinstance(value, dict):
        return {name: value}
    flat: dict[str, Any] = {}
    for key, each in value.items():
        flat |= _flat(each, f"{name}.{key}" if name else key)
    return flat


def _varied(flat: Sequence[Mapping[str, Any]]) -> list[str]:
    """What is not the same everywhere."""
    names = dict.fromkeys(name for each in flat for name in each)
    return [name for name in names if len({json.dumps(each.get(name)) for each in flat}) > 1]


def _setting(told: dict[str, Any], varied: Sequence[str], group: Sequence[tuple[Run, Path]]) -> Setting:
    flat = _flat(told)
    words = [f"{name.removeprefix('what.')} {_short(flat[name])}" for name in varied if name in flat]
    judged = [{(row.line, row.steps, row.kind, row.task) for row in run.rows} for run, _ in group]
    if other := next((path for (_, path), tasks in zip(group, judged, strict=True) if tasks != judged[0]), None):
        raise Unreadable(f"{other} and {group[0][1]} differ in their seeds alone, but were judged by other tasks")
    rows = [row for run, _ in group for row in run.rows]
    ended = {line: last(rows, line) for line in lines_of(rows)}
    kinds = {line: dict.fromkeys(row.kind for row in mine) for line, mine in ended.items()}
    return Setting(
        label=printable(", ".join(words) or str(told["world"].get("kind", "all trials"))),
        settings=told,
        seeds=tuple(sorted(run.settings["seed"] for run, _ in group)),
        trials=tuple(run.name for run, _ in group),
        success={
            line: {kind: point_of([row for row in mine if row.kind == kind]) for kind in kinds[line]}
            for line, mine in ended.items()
        },
        overall={line: point_of(mine) for line, mine in ended.items()},
        few_shot=_few_shot([row for row in rows if row.line == "few-shot"]),
        learning=dict(_learning([path / LIBRARY for _, path in group])),
        seconds=float(np.mean([run.seconds.get("train_s", 0.0) for run, _ in group])),
    )


def _short(value: Any) -> str:
    if isinstance(value, list):
        return "+".join(map(_short, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def point_of(rows: Sequence[Row]) -> Point:
    """Mean success over tasks and seeds with its 95 % interval: over seeds or, of one seed, over its episodes.

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


def _few_shot(rows: Sequence[Row]) -> Curve | None:
    if not rows:
        return None
    steps = sorted({row.steps for row in rows})
    points = [point_of([row for row in rows if row.steps == step]) for step in steps]
    mean, low, high = np.array(points).T
    return Curve(np.array(steps, float), mean, low, high)


def _learning(libraries: Sequence[Path]) -> Iterator[tuple[str, Curve]]:
    """What was known on the way: the mean over seeds, and their range."""
    lines = [[json.loads(line) for line in read_metrics(library, _ALL)] for library in libraries]
    for name in _LEARNT:
        at: dict[int, list[float]] = {}
        for each in lines:
            for line in each:
                steps, value = line.get("env_steps"), line.get(name)
                if isinstance(steps, int) and 0 <= steps < _MOST and isinstance(value, float) and math.isfinite(value):
                    at.setdefault(steps, []).append(value)
        if at:
            known = sorted(at)
            mean, low, high = (np.array([float(of(at[step])) for step in known]) for of in (np.mean, np.min, np.max))
            yield name, Curve(np.array(known, float), mean, low, high)


def _best(settings: Sequence[Setting]) -> Iterator[Best]:
    """Of those that are alike in world and evaluation, where there are at least two to choose from."""
    contests: dict[str, list[Setting]] = {}
    for each in settings:
        judged = [each.settings["world"], each.settings["evaluation"]]
        contests.setdefault(json.dumps(judged, sort_keys=True), []).append(each)
    for rivals in contests.values():
        for line in dict.fromkeys(line for each in rivals for line in each.overall):
            yield from _winner([each for each in rivals if line in each.overall], line)


def _winner(rivals: Sequence[Setting], line: str) -> Iterator[Best]:
    if len(rivals) < 2:
        return
    best = max(rivals, key=lambda each: each.overall[line].mean)
    point, seed = best.overall[line], best.settings["evaluation"].get("task_seed")
    close = tuple(each.label for each in rivals if each is not best and each.overall[line].high >= point.low)
    seeds = ", ".join(map(str, best.seeds))
    words = f"chosen on tasks of seed {seed} after training with the seeds {seeds}"
    if seed != TUNING_SEED:
        words += f"; settings are to be chosen on tasks of seed {TUNING_SEED}, so that those of others stay unseen"
    yield Best(best.label, line, point, close, words)


def as_plain(report: SweepReport) -> dict[str, Any]:
    """Everything as JSON holds it."""

    def curve(found: Curve | None) -> dict[str, list[float]] | None:
        return found and {name: values.tolist() for name, values in found._asdict().items()}

    def points(by: Mapping[str, Point]) -> dict[str, list[float]]:
        return {name: list(point) for name, point in by.items()}

    settings = [
        each._asdict()
        | {
            "success": {line: points(by) for line, by in each.success.items()},
            "overall": points(each.overall),
            "few_shot": curve(each.few_shot),
            "learning": {name: curve(found) for name, found in each.learning.items()},
        }
        for each in report.settings
    ]
    best = [each._asdict() | {"success": list(each.success)} for each in report.best]
    return report._asdict() | {"settings": settings, "best": best}
