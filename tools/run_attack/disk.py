"""A disk on which a process dies, or that is full, at a step of one's choice."""

import builtins
import contextlib
import errno
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock


class Killed(BaseException):
    """What a simulated death raises."""


class Disk:
    """While entered, counts the file steps under a folder: at step `dies_at` the process dies, or the disk is full.

    A full disk takes no new files, folders and data from write `full_from` on, `full_for` times; it still renames and
    removes. The data of a write during which the process dies, or the disk is full, are half there.
    """

    _SIMPLE: ClassVar = ("rename", "replace", "unlink", "remove", "rmdir", "chmod", "truncate")

    def __init__(
        self,
        root: Path,
        dies_at: int = -1,
        full_from: int = -1,
        full_for: int = 1,
        die: Callable[[], None] | None = None,
        before: Callable[[], object] = lambda: None,
    ):
        """`die` is how to die, by default with Killed; what `before` returns just before the trouble is `found`."""
        self.steps = self.writes = self.refused = 0
        self.found: object = None
        self._root, self._dies_at, self._die, self._before = os.path.realpath(root), dies_at, die, before
        self._full, self._dead, self._paths = range(full_from, full_from + full_for), False, dict[int, str]()
        self._patches = contextlib.ExitStack()

    def __enter__(self) -> "Disk":
        """Take the place of the system's operations, which Python's own modules look up when they need them."""
        self._os = {name: getattr(os, name) for name in (*self._SIMPLE, "mkdir", "fsync", "open")}
        self._open = io.open
        instead = {name: self._simple(name) for name in self._SIMPLE}
        instead |= {"mkdir": self._mkdir, "fsync": self._fsync, "open": self._os_open}
        for name, function in instead.items():
            self._patches.enter_context(mock.patch.object(os, name, function))
        for module in (io, builtins):
            self._patches.enter_context(mock.patch.object(module, "open", self._file_open))
        return self

    def __exit__(self, *exception: object) -> None:
        self._patches.close()

    def step(self, path: str, takes_space: bool = False) -> None:
        """Count a step, and have happen what must."""
        if self._dead:
            raise Killed
        if not f"{path}/".startswith(f"{self._root}/"):
            return
        dies, full = self.steps == self._dies_at, takes_space and self.writes in self._full
        self.steps += 1
        self.writes += takes_space
        if dies or (full and not self.refused):
            self.found = self._unwatched(self._before)
        if dies:
            self._dead = True
            if self._die:
                self._die()
            raise Killed
        if full:
            self.refused += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def write(self, handle: int, data: bytes) -> int:
        """A write is a step; whatever trouble it meets, half of it is done."""
        try:
            if not self._dead:
                self.step(self._paths[handle], takes_space=True)
        except (OSError, Killed):
            os.write(handle, data[: len(data) // 2])
            raise
        if self._dead:
            raise Killed
        return os.write(handle, data)

    def _unwatched(self, function: Callable[[], object]) -> object:
        root, self._root = self._root, "\0"  # no path begins so
        try:
            return function()
        finally:
            self._root = root

    def _path(self, path: Any, folder: int | None = None) -> str:
        if isinstance(path, int):
            return self._paths.get(path, "")
        return os.path.join(self._paths.get(folder, ""), path) if folder is not None else os.path.abspath(path)

    def _simple(self, name: str) -> Callable[..., Any]:
        def operation(path: Any, *args: Any, **kwargs: Any) -> Any:
            self.step(self._path(path, kwargs.get("dir_fd")))
            return self._os[name](path, *args, **kwargs)

        return operation

    def _mkdir(self, path: Any, *args: Any, **kwargs: Any) -> None:
        if not os.path.isdir(path):
            self.step(self._path(path), takes_space=True)
        self._os["mkdir"](path, *args, **kwargs)

    def _fsync(self, handle: int) -> None:
        path = self._path(handle)
        self.step(path, takes_space=not os.path.isdir(path))  # some file systems find room for data only now
        self._os["fsync"](handle)

    def _os_open(self, path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        where = self._path(path, kwargs.get("dir_fd"))
        if flags & (os.O_WRONLY | os.O_RDWR):
            self.step(where, takes_space=not os.path.exists(where))
        handle = self._os["open"](path, flags, *args, **kwargs)
        self._paths[handle] = where
        return handle

    def _file_open(self, file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        where = self._path(file)
        if not set(mode) & set("wax+") or not f"{where}/".startswith(f"{self._root}/"):
            return self._open(file, mode, *args, **kwargs)
        kinds = {"w": os.O_CREAT | os.O_TRUNC, "a": os.O_CREAT | os.O_APPEND, "x": os.O_CREAT | os.O_EXCL}
        handle = file if isinstance(file, int) else self._os_open(file, os.O_WRONLY | kinds[mode[0]], 0o644)
        return _File(self, handle)


class _File:
    """A file that is written to, without a buffer: in a dead process no buffer is emptied."""

    def __init__(self, disk: Disk, handle: int):
        self._disk, self._handle, self._closed = disk, handle, False

    def write(self, data: str | bytes) -> int:
        return self._disk.write(self._handle, data.encode() if isinstance(data, str) else data)

    def flush(self) -> None:
        pass

    def fileno(self) -> int:
        return self._handle

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            os.close(self._handle)

    def __enter__(self) -> "_File":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
