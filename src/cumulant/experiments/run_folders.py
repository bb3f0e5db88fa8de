"""Run folders: the only place that writes and reads them.

A run folder has metrics.jsonl, a line for every measured success; measures.json, where features were measured; and
config.json, written last, so that a folder that has one is finished. Figures are drawn from these folders alone.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple, NotRequired, TypedDict

from cumulant.storage import Unreadable, read_info, write_json, write_whole

_MEASURES = "measures.json"


class Row(NamedTuple):
    """Success of a method, trained with a seed, on a task after so many environment steps of it."""

    line: str  # the line of the figure that it belongs to
    kind: str  # the class of the task
    task: str  # its canonical phrase
    seed: int
    steps: int  # 0: zero-shot, or what needs no steps
    success: float
    episodes: int


class Measured(TypedDict):
    """What was measured of a seed's features: how disentangled they are and, where they were learnt, all the rest."""

    seed: int
    disentanglement: float  # of DCI, as are the next two
    completeness: NotRequired[float]
    informativeness: NotRequired[float]
    mig: NotRequired[float]
    rho: NotRequired[dict[str, float]]  # each factor's rank correlation with a latent of its own
    latent: NotRequired[list[int]]  # which one that is
    kept: NotRequired[int]  # latents
    correlations: NotRequired[list[list[float]]]  # of every latent with every factor
    represent_s: NotRequired[float]
    free_play_s: NotRequired[float]
    independence: NotRequired[float]  # of what policies do to the features
    disguises: NotRequired[dict[str, dict[str, float]]]  # rho where the world looks otherwise


class Run(NamedTuple):
    """A finished run, as its folder holds it."""

    name: str  # of the part that it is a run of
    settings: dict[str, Any]  # as config.json describes them: the world, the scale, and what was run
    seconds: dict[str, float]
    device: str
    rows: list[Row]
    measures: list[Measured] | None  # a seed after the other; None where there is no measures.json


def write_run(
    folder: Path, config: Mapping[str, object], rows: Iterable[Row], measures: list[Measured] | None = None
) -> None:
    """Write a finished run."""
    lines = "".join(json.dumps(row._asdict()) + "\n" for row in rows)
    write_whole(folder / "metrics.jsonl", lines.encode())
    if measures is None:
        (folder / _MEASURES).unlink(missing_ok=True)  # of a run that was killed here
    else:
        write_json(folder / _MEASURES, measures)
    write_json(folder / "config.json", config)


def read_run(folder: Path) -> Run:
    """A finished run."""
    config = read_info(folder)
    if missing := {"settings", "seconds", "device"} - config.keys():
        raise Unreadable(f"{folder / 'config.json'} is no run's: it lacks {', '.join(sorted(missing))}")
    measures = read_measures(folder) if (folder / _MEASURES).exists() else None
    return Run(folder.name, config["settings"], config["seconds"], config["device"], read_rows(folder), measures)


def read_rows(folder: Path) -> list[Row]:
    """What success a run measured."""
    try:
        return [Row(**json.loads(line)) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    except (OSError, ValueError, TypeError) as error:
        raise Unreadable(f"{folder / 'metrics.jsonl'} cannot be read: {error}") from None


def read_measures(folder: Path) -> list[Measured]:
    """What a run measured of its features, a seed after the other."""
    try:
        measures = json.loads((folder / _MEASURES).read_text())
        if not all({"seed", "disentanglement"} <= each.keys() for each in measures):
            raise ValueError("a seed or its disentanglement is missing")
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise Unreadable(f"{folder / _MEASURES} cannot be read: {error}") from None
    return measures


def is_finished(folder: Path, settings: Mapping[str, object]) -> bool:
    """Whether the folder holds a finished run of these settings; ValueError if it holds a run of others."""
    if not (folder / "config.json").exists():
        return False
    if not agrees(read_info(folder).get("settings"), settings):
        raise ValueError(f"{folder} holds a run with other settings: choose another --out")
    return True


def agrees(recorded: object, settings: object) -> bool:
    """Whether a recording's JSON describes these settings: plain values, or dictionaries and dataclasses of them.

    A dataclass may have grown since the recording. What it did not know then was not yet a choice, and counts as the
    default: so old runs stay good.
    """
    if isinstance(settings, Mapping):
        if not isinstance(recorded, Mapping) or recorded.keys() != settings.keys():
            return False
        return all(agrees(recorded[name], value) for name, value in settings.items())
    if not is_dataclass(settings):
        return recorded == (list(settings) if isinstance(settings, tuple) else settings)
    now = {field.name: getattr(settings, field.name) for field in fields(settings)}
    if not isinstance(recorded, Mapping) or not recorded.keys() <= now.keys():
        return False
    newer = [field for field in fields(settings) if field.name not in recorded]
    return all(now[field.name] == field.default for field in newer) and all(
        agrees(value, now[name]) for name, value in recorded.items()
    )
