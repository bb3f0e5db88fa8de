"""Who may write to a folder: one run at a time. It knows storage alone."""

import contextlib
import fcntl
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from cumulant import storage

_LOCK = ".lock"


class Locked(ValueError):
    """A folder that another run is writing to; the message names it."""


@contextlib.contextmanager
def locked(folder: Path, *inside: str) -> Iterator[None]:
    """Be the only one who writes to a folder, and to those inside that the patterns name; Locked if somebody else is.

    What killed writes have left there is removed. The system gives the lock back when a process ends, however it ends.
    Of a killed one the empty file stays, and tells that something was begun here.
    """
    path = folder / _LOCK
    with storage.in_one_line(path):
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(OSError):  # one may write to a folder in another that one may not open
            storage.sync_folder(folder.absolute().parent)
        handle, is_ours = _lock(path)
    try:
        if is_ours:
            for each in (folder, *_really_inside(folder, inside)):
                storage.sweep(each)
        yield
    finally:
        try:
            with contextlib.suppress(OSError):
                if _is_at(handle, path):  # not another's: the folder may have been replaced meanwhile
                    path.unlink()  # before the lock is given back, or it might be another's by then
        finally:
            os.close(handle)


def _really_inside(folder: Path, patterns: Sequence[str]) -> list[Path]:
    """The folders of these patterns; a link could lead to where somebody else writes."""
    found = [path for pattern in patterns for path in folder.glob(pattern) if path.is_dir()]
    return [path for path in found if path.resolve().is_relative_to(folder.resolve())]


def was_locked(folder: Path) -> bool:
    """Whether somebody writes to a folder, or was killed while writing."""
    return (folder / _LOCK).exists()


def _lock(path: Path) -> tuple[int, bool]:
    """The open file, and whether it holds the lock."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise Locked(f"{path.parent} is being written by another run") from None
        except OSError:
            return handle, False  # a file system without locks: better unguarded than not at all
        if _is_at(handle, path):
            return handle, True
        os.close(handle)  # of a run that ended, and removed its file, just after we opened it


def _is_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False
