"""A sweep's report: each choice of settings with success and intervals, how it learnt, and which is best."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cumulant.freeplay.checkpoints import read_metrics
from cumulant.storage import Unreadable
from cumulant.sweeps.experiments import failure_of, printable
from cumulant.sweeps.judging import TUNING_SEED
from cumulant.sweeps.run_folders import Row, Run, read_run
from cumulant.sweeps.statistics import Curve, Point, last, lines_of, point_of
from cumulant.sweeps.trials import LIBRARY

_ALL = 2**31  # updates: the metrics of a whole run
_MOST = 2**53  # episodes, or environment steps


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
    seconds: float  # of training, in the mean: of the program that a trial was in


class Best(NamedTuple):
    """The best settings of those that were judged in the same world by the same tasks."""

    label: str
    line: str
    success: Point
    not_told_apart: tuple[str, ...]  # others whose intervals overlap
    chosen_on: str


class SweepReport(NamedTuple):
    """What the folders of a sweep say, all together."""

    folder: str
    settings: list[Setting]
    common: dict[str, str]  # what none of them varied, by its dotted name
    best: list[Best]
    failed: dict[str, str]


class Table(NamedTuple):
    """Words and numbers in rows."""

    title: str
    columns: list[str]
    rows: list[list[str]]


def summarise_sweep(folder: Path) -> SweepReport:
    """Read the finished and failed folders of a sweep. Unreadable if there are none, or one is damaged."""
    try:
        folders = sorted(each for each in folder.iterdir() if each.is_dir() and not each.is_symlink())
    except OSError as error:
        raise Unreadable(f"{folder} cannot be read: {error.strerror or error}") from None
    folders = [each for each in folders if not each.name.startswith(".")]
    failed = {each.name: reason for each in folders if (reason := failure_of(each)) is not None}
    alike: dict[str, list[tuple[Run, Path]]] = {}
    for path in folders:
        if (path / "config.json").exists():
            run = read_run(path)
            _check(run, path)
            told = {name: value for name, value in run.settings.items() if name != "seed"}
            alike.setdefault(json.dumps(told, sort_keys=True), []).append((run, path))
    if not alike and not failed:
        raise Unreadable(f"there is no sweep in {folder}: it holds no trial that is finished or failed")
    flat = [_flat(json.loads(key)) for key in alike]
    names = dict.fromkeys(name for each in flat for name in each)
    varied = [name for name in names if len({json.dumps(each.get(name)) for each in flat}) > 1]
    settings = [_setting(json.loads(key), varied, group) for key, group in alike.items()]
    settings.sort(key=lambda each: -next((point.mean for point in each.overall.values()), 0.0))
    shared = [(name, value) for each in flat[:1] for name, value in each.items() if name not in varied]
    common = {printable(name): printable(_short(value)) for name, value in shared}
    return SweepReport(str(folder), settings, common, list(_best(settings)), failed)


def _check(run: Run, path: Path) -> None:
    """Refuse a run that is no trial's; its numbers were checked when it was read."""
    kinds = {"world": dict, "what": dict, "seed": int, "evaluation": dict}
    named = all(isinstance(run.settings.get(name), kind) for name, kind in kinds.items())
    if not (named and all(row.seed == run.settings["seed"] for row in run.rows)):
        raise Unreadable(f"{path} is no trial of a sweep")


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    """Return nested settings as one level, such as "world.max_steps"."""
    if not isinstance(value, dict):
        return {name: value}
    return {k: v for key, each in value.items() for k, v in _flat(each, f"{name}.{key}" if name else key).items()}


def _short(value: Any) -> str:
    if isinstance(value, list):
        return "+".join(map(_short, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _setting(told: dict[str, Any], varied: Sequence[str], group: Sequence[tuple[Run, Path]]) -> Setting:
    flat = _flat(told)
    words = [f"{name.removeprefix('what.')} {_short(flat[name])}" for name in varied if name in flat]
    judged = [{(row.line, row.steps, row.kind, row.task) for row in run.rows} for run, _ in group]
    if other := next((path for (_, path), tasks in zip(group, judged, strict=True) if tasks != judged[0]), None):
        raise Unreadable(f"{other} and {group[0][1]} differ in their seeds alone, but were judged by other tasks")
    rows = [row for run, _ in group for row in run.rows]
    ended = {line: last(rows, line) for line in lines_of(rows)}
    labelled: dict[int, list[Row]] = {}
    for row in rows:
        if row.line == "few-shot":
            labelled.setdefault(row.steps, []).append(row)
    return Setting(
        label=printable(", ".join(words) or str(told["world"].get("kind", "all trials"))),
        settings=told,
        seeds=tuple(sorted(run.settings["seed"] for run, _ in group)),
        trials=tuple(run.name for run, _ in group),
        success={
            line: {kind: point_of([r for r in mine if r.kind == kind]) for kind in dict.fromkeys(r.kind for r in mine)}
            for line, mine in ended.items()
        },
        overall={line: point_of(mine) for line, mine in ended.items()},
        few_shot=_curve({steps: point_of(labelled[steps]) for steps in sorted(labelled)}) if labelled else None,
        learning=dict(_learning([path / LIBRARY for _, path in group])),
        seconds=float(np.mean([run.seconds.get("train_s", 0.0) for run, _ in group])),
    )


def _curve(points: Mapping[int, Point]) -> Curve:
    return Curve(np.array([*points], float), *np.array([*points.values()], float).T)


def _learning(libraries: Sequence[Path]) -> Iterator[tuple[str, Curve]]:
    """Yield what was known on the way: the mean over seeds, and their range."""
    lines = [json.loads(line) for library in libraries for line in read_metrics(library, _ALL)]
    for name in ("loss", "success"):
        at: dict[int, list[float]] = {}
        for line in lines:
            steps, value = line.get("env_steps"), line.get(name)
            if isinstance(steps, int) and 0 <= steps < _MOST and isinstance(value, float) and math.isfinite(value):
                at.setdefault(steps, []).append(value)
        if at:
            yield (
                name,
                _curve(
                    {steps: Point(float(np.mean(at[steps])), min(at[steps]), max(at[steps])) for steps in sorted(at)}
                ),
            )


def _best(settings: Sequence[Setting]) -> Iterator[Best]:
    """Yield the best of those that are alike in world and evaluation, where there are two to choose from."""
    contests: dict[tuple[str, str], list[Setting]] = {}
    for each in settings:
        judged = json.dumps([each.settings["world"], each.settings["evaluation"]], sort_keys=True)
        for line in each.overall:
            contests.setdefault((judged, line), []).append(each)
    for (_, line), rivals in contests.items():
        best = max(rivals, key=lambda each: each.overall[line].mean)
        point, seed = best.overall[line], best.settings["evaluation"].get("task_seed")
        close = tuple(each.label for each in rivals if each is not best and each.overall[line].high >= point.low)
        words = f"chosen on tasks of seed {seed} after training with the seeds {', '.join(map(str, best.seeds))}"
        if seed != TUNING_SEED:
            words += f"; settings are to be chosen on tasks of seed {TUNING_SEED}, so that those of others stay unseen"
        if len(rivals) > 1:
            yield Best(best.label, line, point, close, words)


def success_tables(report: SweepReport) -> list[Table]:
    """Return a table for each line: success by settings and class."""
    return [_table(line, [each for each in report.settings if line in each.overall]) for line in lines(report)]


def lines(report: SweepReport) -> list[str]:
    """Return the names of the lines, each once."""
    return list(dict.fromkeys(line for each in report.settings for line in each.overall))


def _table(line: str, judged: Sequence[Setting]) -> Table:
    kinds = list(dict.fromkeys(kind for each in judged for kind in each.success[line]))
    columns = ["settings", "seeds", "all tasks", *(kind.replace("_", ", ") for kind in kinds), "training, s"]
    rows = [
        [each.label, str(len(each.seeds)), in_figures(each.overall[line])]
        + [in_figures(each.success[line].get(kind)) for kind in kinds]
        + [f"{each.seconds:.1f}"]
        for each in judged
    ]
    return Table(f"Success, {line}, with 95 % intervals", columns, rows)


def in_figures(point: Point | None) -> str:
    """Return a mean and its interval as a table shows them."""
    return "–" if point is None else f"{point.mean:.3f} [{point.low:.3f}, {point.high:.3f}]"


def in_words(best: Best) -> list[str]:
    """Return sentences on the best settings."""
    told = [f"Best, {printable(best.line)}: {best.label}, {in_figures(best.success)}, {best.chosen_on}."]
    if best.not_told_apart:
        told.append(f"Its interval does not tell it apart from: {'; '.join(best.not_told_apart)}.")
    return told


def as_plain(value: Any) -> Any:
    """Return a report, or a part of it, as JSON holds it."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, tuple) and hasattr(value, "_asdict") and not isinstance(value, Point):
        value = value._asdict()
    if isinstance(value, dict):
        return {name: as_plain(each) for name, each in value.items()}
    return [as_plain(each) for each in value] if isinstance(value, list | tuple) else value
