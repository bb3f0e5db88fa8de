"""Run folders: the only place that writes and reads them.

A run folder has metrics.jsonl, a line for every measured success; measures.json, where features were measured; and
config.json, written last, so that a folder that has one is finished. It vouches for the others and itself by checksums.
Figures are drawn from these folders alone.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple, NotRequired, TypedDict, TypeVar

from msgspec import Meta

from cumulant.config import OutOfBounds, Share, restored
from cumulant.storage import Unreadable, parsed, read_info, read_plain, write_info, write_whole

T = TypeVar("T")
FORMAT = 2
_METRICS, _MEASURES = "metrics.jsonl", "measures.json"
_FILE_BYTES = 2**23  # of each of them, at most: fifty times what has been recorded

_MOST = 2**53  # episodes, or environment steps
_Seconds = Annotated[float, Meta(ge=0, le=1e12)]


class Row(NamedTuple):
    """Success of a method, trained with a seed, on a task after so many environment steps of it."""

    line: str  # the line of the figure that it belongs to
    kind: str  # the class of the task
    task: str  # its canonical phrase
    seed: int
    steps: Annotated[int, Meta(ge=0, le=_MOST)]  # 0: zero-shot, or what needs no steps
    success: Share
    episodes: Annotated[int, Meta(ge=1, le=_MOST)]


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


class _Config(TypedDict):
    """What config.json says of a run; there may be more."""

    settings: dict[str, Any]
    seconds: dict[str, _Seconds]
    device: str
    files: dict[str, str]  # their checksums


def write_run(
    folder: Path, config: Mapping[str, object], rows: Iterable[Row], measures: list[Measured] | None = None
) -> None:
    """Write a finished run."""
    files = {_METRICS: "".join(f"{json.dumps(row._asdict())}\n" for row in rows).encode()}
    if measures is None:
        (folder / _MEASURES).unlink(missing_ok=True)  # of a run that was killed here
    else:
        files[_MEASURES] = json.dumps(measures, indent=2, allow_nan=False).encode() + b"\n"
    for name, data in files.items():
        write_whole(folder / name, data)
    checksums = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    write_info(folder, {**config, "format": FORMAT, "files": checksums})


def read_run(folder: Path) -> Run:
    """A finished run. Unreadable, if it is not just what was written."""
    config = read_info(folder)
    if config.get("format") != FORMAT:
        raise Unreadable(f"{folder} is not a run that this version reads")
    told = _checked(config, _Config, folder / "config.json")
    rows, measures = _read_rows(folder, told["files"]), _read_measures(folder, told["files"])
    return Run(folder.name, told["settings"], told["seconds"], told["device"], rows, measures)


def _read_rows(folder: Path, checksums: Mapping[str, str]) -> list[Row]:
    path = folder / _METRICS
    lines = [parsed(line, path) for line in _read_file(folder, _METRICS, checksums).splitlines()]
    if odd := [line for line in lines if not isinstance(line, dict) or line.keys() != set(Row._fields)]:
        raise Unreadable(f"{path} is no run's: {odd[0]!r} has not the fields {', '.join(Row._fields)}")
    return [_checked([line[name] for name in Row._fields], Row, path) for line in lines]


def _read_measures(folder: Path, checksums: Mapping[str, str]) -> list[Measured] | None:
    path = folder / _MEASURES
    if _MEASURES not in checksums:
        return None
    stored = _checked(parsed(_read_file(folder, _MEASURES, checksums), path), list, path)
    if (measures := [_checked(each, Measured, path) for each in stored]) != stored:
        raise Unreadable(f"{path} is no run's: it holds fields that nobody knows")
    return measures


def _read_file(folder: Path, name: str, checksums: Mapping[str, str]) -> bytes:
    """What a file holds, if it is what config.json vouches for."""
    data = read_plain(folder, name, _FILE_BYTES)
    if checksums.get(name) != hashlib.sha256(data).hexdigest():
        raise Unreadable(f"{folder / name} is damaged: its checksum is not the one in config.json")
    return data


def _checked(value: Any, kind: type[T], path: Path) -> T:
    """Return a JSON value as `kind` demands. Unreadable if it does not fit."""
    try:
        return restored(kind, value)
    except OutOfBounds as error:
        raise Unreadable(f"{path} is no run's: {error}") from None


def is_finished(folder: Path, settings: Mapping[str, object]) -> bool:
    """Whether the folder holds a finished run of these settings; ValueError if it holds a run of others."""
    if not (folder / "config.json").exists():
        return False
    if not agrees(read_info(folder).get("settings"), settings):
        raise ValueError(f"{folder} holds a run with other settings: choose another --out")
    return True


def agrees(recorded: object, settings: object) -> bool:
    """Whether a recording's JSON describes these settings: plain values, or dictionaries and dataclasses of them.

    A dataclass may have grown since the recording. What it did not know then counts as the default: so old runs stay
    good.
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
