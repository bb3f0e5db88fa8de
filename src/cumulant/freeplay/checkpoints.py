"""What a run keeps on its way: metrics, a line for every report, and the newest checkpoints; and who may write them.

A checkpoint is a folder, written under a name that does not count and renamed when it is whole: a run that is killed at
any moment leaves whole checkpoints, and some that do not count. Old ones go when a newer one has been read back.
"""

import contextlib
import fcntl
import hashlib
import json
import math
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from cumulant import storage
from cumulant.storage import Unreadable, Unwritable, write_whole

_KEPT = 2  # checkpoints
_FOLDER, _LOCK, _METRICS = "checkpoints", ".lock", "metrics.jsonl"
Arrays = TypeVar("Arrays")
Report = Callable[[dict[str, Any]], None]


class Locked(ValueError):
    """A folder that another run is writing to; the message names it."""


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Be the only one who writes to a folder; Locked if somebody else is.

    The system gives the lock back when a process ends, however it ends. Of a killed one the empty file stays, and tells
    that something was begun here.
    """
    path = folder / _LOCK
    with _in_one_line(path):
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(OSError):  # one may write to a folder in another that one may not open
            storage.sync_folder(folder.absolute().parent)
        handle = _lock(path)
    try:
        yield
    finally:
        try:
            with contextlib.suppress(OSError):
                path.unlink()  # before the lock is given back: nobody else's file is removed
        finally:
            os.close(handle)


def _lock(path: Path) -> int:
    """The open file that holds the lock."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise Locked(f"{path.parent} is being written by another run") from None
        except OSError:
            return handle  # a file system without locks: better unguarded than not at all
        if _is_at(handle, path):
            return handle
        os.close(handle)  # of a run that ended, and removed its file, just after we opened it


def _is_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def _in_one_line(path: Path) -> Iterator[None]:
    """What the system refuses, as Unwritable."""
    try:
        yield
    except OSError as error:
        raise Unwritable(f"cannot write {path}: {error.strerror or error}") from None


def holds_a_run(out: Path) -> bool:
    """Whether a folder has something that a new run would overwrite."""
    return any((out / name).exists() for name in ("config.json", "weights.safetensors", _METRICS, _FOLDER))


def was_begun(out: Path) -> bool:
    """Whether there is a run to go on with, were it one that was killed before it had written anything."""
    return holds_a_run(out) or (out / _LOCK).exists()


def finished(out: Path) -> list[Path]:
    """The checkpoints that were written to their end, oldest first; whether they can still be read is not known."""
    folder = out / _FOLDER
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    return [path for path in found if path.name.isdecimal() and (path / "config.json").exists()]


def save(out: Path, update: int, arrays: Arrays, about: dict[str, Any]) -> None:
    """Write a checkpoint, read it back, and only then forget the old. Unwritable leaves all others as they are."""
    path = out / _FOLDER / f"{update:09d}"
    unfinished = _aside(path)
    with _in_one_line(path):
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
    if not _is_whole(path):
        discard(path)
        raise Unwritable(f"cannot write {path}: it reads back as something else")
    _forget_all_but(out, [known for known in finished(out) if known.name <= path.name][-_KEPT:])


def _aside(path: Path, ending: str = "") -> Path:
    return path.with_name(f".{path.name}{ending}.tmp")


def _is_whole(path: Path) -> bool:
    """Whether the arrays are those that config.json vouches for."""
    try:
        data = (path / "weights.safetensors").read_bytes()
        return hashlib.sha256(data).hexdigest() == storage.read_info(path).get("sha256")
    except (OSError, Unreadable):
        return False


def _forget_all_but(out: Path, kept: Sequence[Path]) -> None:
    """Remove other checkpoints, and what killed runs have left. What cannot be removed stays until the next time."""
    with contextlib.suppress(OSError):
        for path in [path for path in (out / _FOLDER).iterdir() if path not in kept]:
            discard(path)


def discard(path: Path, ending: str = "") -> None:
    """Remove a folder, if it is there: renamed first, so that half a folder never counts."""
    hidden = path.name.startswith(".")
    if not hidden:
        shutil.rmtree(_aside(path, ending), ignore_errors=True)
        with contextlib.suppress(OSError):
            os.rename(path, _aside(path, ending))
    shutil.rmtree(path if hidden else _aside(path, ending), ignore_errors=True)


def discard_all(out: Path) -> None:
    """Remove the checkpoints of a run that needs none any more."""
    discard(out / _FOLDER)


def clear(out: Path) -> None:
    """Remove a run, so that no moment of it looks like another run: first what makes it count, then the rest."""
    with _in_one_line(out):
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
            settings = about | {"format": info.get("format")}  # how it was written does not matter: version 0.1 differs
            if {name: info.get(name) for name in settings} != json.loads(json.dumps(settings)):
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
    try:
        lines = (out / _METRICS).read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise Unreadable(f"{out / _METRICS} cannot be read: {error.strerror}") from None
    return [line for line in lines if _update_of(line) <= update]


def _update_of(line: str) -> float:
    try:
        return float(json.loads(line)["update"])
    except (ValueError, KeyError, TypeError):
        return math.inf  # half a line: earlier versions added one at a time
