"""What a run keeps on its way: metrics, a line for every report, and the newest checkpoints.

A checkpoint is a folder, written under a name that does not count and renamed when it is whole: a run that is killed at
any moment leaves whole checkpoints, and some that do not count. Old ones go when a newer one has been read back.
"""

import contextlib
import json
import math
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from cumulant import storage
from cumulant.storage import Unreadable, Unwritable, aside, discard, in_one_line, was_locked, write_whole

_KEPT = 2  # checkpoints
_FOLDER, _METRICS = "checkpoints", "metrics.jsonl"
_METRICS_BYTES = 2**20  # at most: a run has some forty lines
Arrays = TypeVar("Arrays")
Report = Callable[[dict[str, Any]], None]


def holds_a_run(out: Path) -> bool:
    """Whether a folder has something that a new run would overwrite."""
    return any((out / name).exists() for name in ("config.json", "weights.safetensors", _METRICS, _FOLDER))


def was_begun(out: Path) -> bool:
    """Whether there is a run to go on with, were it one that was killed before it had written anything."""
    return holds_a_run(out) or was_locked(out)


def finished(out: Path) -> list[Path]:
    """The checkpoints that were written to their end, oldest first; whether they can still be read is not known."""
    folder = out / _FOLDER
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    return [path for path in found if path.name.isdecimal() and (path / "config.json").exists()]


def save(out: Path, update: int, arrays: Arrays, about: dict[str, Any]) -> None:
    """Write a checkpoint, read it back, and only then forget the old. Unwritable leaves all others as they are."""
    path = out / _FOLDER / f"{update:09d}"
    unfinished = aside(path)
    with in_one_line(path):
        shutil.rmtree(unfinished, ignore_errors=True)
        try:
            storage.write(unfinished, arrays, about)
            discard(path, ".old")  # one that could not be read, or the run would not have come here again
            os.rename(unfinished, path)
        except (OSError, Unwritable):
            shutil.rmtree(unfinished, ignore_errors=True)  # it may be what fills the disk
            raise
        storage.sync_folder(path.parent)
        storage.sync_folder(out)
    if not storage.is_whole(path):
        discard(path)
        raise Unwritable(f"cannot write {path}: it reads back as something else")
    _forget_all_but(out, [known for known in finished(out) if known.name <= path.name][-_KEPT:])


def _forget_all_but(out: Path, kept: Sequence[Path]) -> None:
    """Remove other checkpoints, and what killed runs have left. What cannot be removed stays until the next time."""
    with contextlib.suppress(OSError):
        for path in [path for path in (out / _FOLDER).iterdir() if path not in kept]:
            discard(path)


def discard_all(out: Path) -> None:
    """Remove the checkpoints of a run that needs none any more."""
    discard(out / _FOLDER)


def clear(out: Path) -> None:
    """Remove a run, so that no moment of it looks like another run: first what makes it count, then the rest."""
    with in_one_line(out):
        (out / "config.json").unlink(missing_ok=True)
        discard_all(out)
        for name in ("weights.safetensors", _METRICS):
            (out / name).unlink(missing_ok=True)


def latest(out: Path, like: Arrays, about: dict[str, Any], report: Report) -> Arrays:
    """The newest checkpoint that can be read; a run that was stopped before its first one starts anew."""
    found = finished(out)
    for path in reversed(found):
        try:
            info = storage.read_info(path)
            if {name: info.get(name) for name in about} != json.loads(json.dumps(about)):
                raise ValueError(f"{out} holds a run with other settings: resume it with the same")
            return storage.read(path, like)
        except Unreadable as error:
            report({"event": "damaged", "message": str(error)})
    if found:
        raise Unreadable(f"none of the checkpoints in {out / _FOLDER} can be read")
    return like


def last_good(out: Path | None) -> str:
    """Where to go back to, in words."""
    found = finished(out) if out else []
    return f"the last good checkpoint is {found[-1]}" if found else "there is no checkpoint yet"


def line_of(metrics: dict[str, Any]) -> str:
    """A report as a line of the metrics."""
    return json.dumps({name: value for name, value in metrics.items() if name != "event"})


def write_metrics(out: Path, lines: Sequence[str]) -> None:
    """All lines so far. There are few: written whole, they are never half there, and none is lost to a full disk."""
    write_whole(out / _METRICS, "".join(f"{line}\n" for line in lines).encode())


def read_metrics(out: Path, update: int) -> list[str]:
    """The lines up to a checkpoint: what was recorded after it will be recorded again."""
    if not os.path.lexists(out / _METRICS):
        return []
    lines = storage.read_plain(out, _METRICS, _METRICS_BYTES).decode(errors="replace").splitlines()
    return [line for line in lines if _update_of(line) <= update]


def _update_of(line: str) -> float:
    try:
        return float(json.loads(line)["update"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return math.inf  # damaged
