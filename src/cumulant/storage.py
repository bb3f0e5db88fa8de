"""What is written to disk, and how: files replaced whole, arrays under their names, damage noticed, one writer.

A folder of arrays holds weights.safetensors and config.json. This is the bottom of the house: it knows no other room.
"""

import contextlib
import errno
import hashlib
import io
import json
import math
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import safetensors
import safetensors.numpy
from jaxtyping import PyTree

Tree = TypeVar("Tree")
_LONGEST = 500  # characters of a message
CONFIG_BYTES = 2**20  # of a config.json, at most
_HEADER_BYTES = 2**20  # of what weights.safetensors says of its arrays, at most
_LOCK = ".lock"
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)  # of a file system
_SEAL = "seal"  # config.json's own checksum
_KEPT = ("config.json", "weights.safetensors", "metrics.jsonl", "measures.json", "README.md")  # what runs write
_LEFTOVER = re.compile(rf"\.({'|'.join(map(re.escape, _KEPT))})\.[a-z0-9_]{{8}}")  # as mkstemp names them


class Unreadable(Exception):
    """A folder that does not hold what it should; the message is one clear line that names it.

    >>> try:
    ...     read_info(Path("no-such-folder"))
    ... except Unreadable as error:
    ...     print(error)
    there is no folder no-such-folder
    """

    def __init__(self, message: str):
        """What a file holds may be in the message, so nothing of it can move a terminal's cursor."""
        shown = "".join(c if c.isprintable() else "?" for c in message)
        super().__init__(shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]} …")


class Unwritable(Exception):
    """A file that cannot be written, because of the place, the disk or the rights; one clear line that names it."""


class Locked(ValueError):
    """A folder that another run is writing to; the message names it."""


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that it is never half there, and is on the disk when this returns.

    A symbolic link is followed. Nothing but a plain file is ever replaced: folders, devices and pipes are refused.
    """
    target = check_writable(path)
    with in_one_line(path):
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(name, 0o644)
            os.replace(name, target)
        except BaseException:
            os.unlink(name)
            raise
        sync_folder(target.parent)


@contextlib.contextmanager
def locked(folder: Path, *inside: str) -> Iterator[None]:
    """Be the only one who writes to a folder, and to those inside that the patterns name.

    What killed writes have left there is removed. The system gives the lock back when a process ends, however it ends.
    Of a killed one the empty file stays, and tells that something was begun here. Where the file system has no locks,
    that is said on stderr, and nothing is removed.

    Raises:
        Locked: If another run is writing there.

    """
    from filelock import FileLock, Timeout  # takes longer than all else here, and few commands write

    path = folder / _LOCK
    lock = FileLock(path, fallback_to_soft=False)
    with in_one_line(path):
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(OSError):  # one may write to a folder in another that one may not open
            sync_folder(folder.absolute().parent)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            raise Locked(f"{folder} is being written by another run") from None
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            print(f"warning: {folder}: its file system has no locks; let no other run write there", file=sys.stderr)
        held = path.stat()
    try:
        if lock.is_locked:
            for each in (folder, *_really_inside(folder, inside)):
                _sweep(each)
        yield
    finally:
        try:
            with contextlib.suppress(OSError):
                if os.path.samestat(held, path.stat()):  # not another's: the folder may have been replaced meanwhile
                    path.unlink()  # before the lock is given back, or it might be another's by then
        finally:
            lock.release()


def was_locked(folder: Path) -> bool:
    """Tell whether somebody writes to a folder, or was killed while writing."""
    return (folder / _LOCK).exists()


def _really_inside(folder: Path, patterns: Sequence[str]) -> list[Path]:
    """Return the folders of these patterns; a link could lead to where somebody else writes."""
    found = [path for pattern in patterns for path in folder.glob(pattern) if path.is_dir()]
    return [path for path in found if path.resolve().is_relative_to(folder.resolve())]


def _sweep(folder: Path) -> None:
    """Remove what killed writes have left beside a run's files. Only who alone writes to a folder may do so."""
    with contextlib.suppress(OSError):  # what cannot be removed stays until the next time
        for entry in [entry for entry in os.scandir(folder) if _LEFTOVER.fullmatch(entry.name)]:
            if entry.is_file(follow_symlinks=False):
                os.unlink(entry.path)


@contextlib.contextmanager
def in_one_line(path: Path) -> Iterator[None]:
    """Raise Unwritable, which names the path, for what the system refuses."""
    try:
        yield
    except OSError as error:
        raise Unwritable(f"cannot write {path}: {error.strerror or error}") from None


def check_writable(path: Path) -> Path:
    """Return the plain file that writing to a path would replace or make, links followed; else raise Unwritable."""
    try:
        target = Path(os.path.realpath(path))
        if not path.name or target.is_dir():
            raise Unwritable(f"cannot write {path}: it is a folder")
        if os.path.lexists(target) and not target.is_file():
            raise Unwritable(f"cannot write {path}: it is not a plain file")
        virtual = any(target.is_relative_to(place) for place in ("/dev", "/proc", "/sys"))
        if not os.path.lexists(target) and virtual and not target.is_relative_to("/dev/shm"):  # which is memory
            raise Unwritable(f"cannot write {path}: it is not on a disk")
        folder = next((each for each in target.parents if os.path.lexists(each)), target.parent)
        if folder.is_dir() and not os.access(folder, os.W_OK | os.X_OK):
            raise Unwritable(f"cannot write {path}: you may not write to {folder}")
    except (OSError, ValueError) as error:  # too long a name, a loop of links, a null byte
        raise Unwritable(f"cannot write {path!r}: {error}") from None
    return target


def sync_folder(folder: Path) -> None:
    """Have the folder's own list of files on the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def discard(folder: Path, ending: str = "") -> None:
    """Remove a folder, if it is there: renamed first, so that half a folder never counts."""
    hidden = folder.name.startswith(".")
    if not hidden:
        shutil.rmtree(aside(folder, ending), ignore_errors=True)
        with contextlib.suppress(OSError):
            os.rename(folder, aside(folder, ending))
    shutil.rmtree(folder if hidden else aside(folder, ending), ignore_errors=True)


def aside(folder: Path, ending: str = "") -> Path:
    """Return the name of a folder while it does not count: it is being written, or removed."""
    return folder.with_name(f".{folder.name}{ending}.tmp")


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON; NaN and infinities, which JSON lacks, are refused."""
    write_whole(path, json.dumps(value, indent=2, allow_nan=False).encode() + b"\n")


def write(folder: Path, tree: PyTree, info: dict[str, Any]) -> None:
    """Write a pytree's arrays, and what else to know; config.json, written last, vouches for the arrays and itself."""
    data = _packed(tree)
    write_whole(folder / "weights.safetensors", data)
    write_info(folder, info | {"sha256": hashlib.sha256(data).hexdigest()})


def checksum(tree: PyTree) -> str:
    """Return the checksum of a pytree's arrays, as config.json will have it when they are written."""
    return hashlib.sha256(_packed(tree)).hexdigest()


def write_info(folder: Path, info: dict[str, Any]) -> None:
    """Write config.json, with a checksum of its own."""
    write_sealed(folder / "config.json", info)


def write_sealed(path: Path, info: dict[str, Any]) -> None:
    """Write a JSON object with a checksum of its own."""
    write_json(path, info | {_SEAL: seal_of(info)})


def read_info(folder: Path) -> dict[str, Any]:
    """Return what config.json says, once its checksum has been verified."""
    return read_sealed(folder / "config.json")


def read_sealed(path: Path) -> dict[str, Any]:
    """Read a JSON object and verify its checksum."""
    info = parsed(read_plain(path.parent, path.name, CONFIG_BYTES), path)
    if not isinstance(info, dict):
        raise Unreadable(f"{path} does not hold a JSON object")
    seal = info.pop(_SEAL, None)
    if seal is None:
        why = "it has no checksum of its own; make it anew, or read it with version 0.2"
        raise Unreadable(f"{path} is damaged, or of version 0.1: {why}")
    if seal != seal_of(info):
        raise Unreadable(f"{path} is damaged: its checksum is not its own")
    return info


def is_whole(folder: Path) -> bool:
    """Tell whether the arrays are those that config.json vouches for."""
    try:
        with open_plain(folder, "weights.safetensors", sys.maxsize) as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == read_info(folder).get("sha256")
    except (OSError, Unreadable):
        return False


def read(folder: Path, like: Tree) -> Tree:
    """Read a pytree like `like`, which has arrays or merely their shapes, with the arrays of the folder.

    Nothing is taken into memory before the file has the size that the arrays need and the checksum of config.json.
    """
    path = folder / "weights.safetensors"
    leaves, structure = jax.tree.flatten(like)
    shapes = [jax.eval_shape(_plain, leaf) if _is_array(leaf) else None for leaf in leaves]
    needed = sum(math.prod(shape.shape) * shape.dtype.itemsize for shape in shapes if shape is not None)
    with open_plain(folder, "weights.safetensors", needed + _HEADER_BYTES) as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != read_info(folder).get("sha256"):
            raise Unreadable(f"{path} is damaged: its checksum is not the one in config.json")
        file.seek(0)
        try:
            stored = safetensors.numpy.load(file.read())
        except Exception as error:  # of several kinds, as a type that NumPy does not know
            raise Unreadable(f"{path} cannot be read: {error}") from None
    names = _names(like)
    wanted = {name: shape for name, shape in zip(names, shapes, strict=True) if shape is not None}
    if {name: (a.shape, a.dtype) for name, a in stored.items()} != {n: (s.shape, s.dtype) for n, s in wanted.items()}:
        raise Unreadable(f"{path} holds other arrays than its config.json describes")
    if not all(np.isfinite(array).all() for array in stored.values() if np.issubdtype(array.dtype, np.inexact)):
        raise Unreadable(f"{path} holds values that are no numbers")
    for place, name in enumerate(names):
        if name in wanted:
            on_device = jax.device_put(stored[name])  # jnp.asarray would compile a program for each shape
            is_key = jnp.issubdtype(leaves[place].dtype, jax.dtypes.prng_key)
            leaves[place] = jax.random.wrap_key_data(on_device) if is_key else on_device
    return jax.tree.unflatten(structure, leaves)


@contextlib.contextmanager
def open_plain(folder: Path, name: str, most: int) -> Iterator[io.BufferedReader]:
    """Open a plain file of the folder, of at most so many bytes. No link is followed, and no pipe waited for."""
    path = folder / name
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        here = f"there is no {name}" if folder == Path() else f"{folder} holds no {name}"
        raise Unreadable(here if folder.is_dir() else f"there is no folder {folder}") from None
    except (OSError, ValueError) as error:
        reason = "it is a link" if path.is_symlink() else getattr(error, "strerror", None) or error
        raise Unreadable(f"{path} cannot be read: {reason}") from None
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        raise Unreadable(f"{path} cannot be read: it is not a plain file")
    with os.fdopen(handle, "rb") as file:
        if status.st_size > most:
            raise Unreadable(f"{path} is larger than what it should hold")
        yield file


def read_plain(folder: Path, name: str, most: int) -> bytes:
    """Read a plain file of the folder of at most so many bytes."""
    with open_plain(folder, name, most) as file:
        data = file.read(most + 1)  # and no more, should it be growing
    if len(data) > most:
        raise Unreadable(f"{folder / name} is larger than what it should hold")
    return data


def parsed(text: str | bytes, path: Path) -> Any:
    """Return a value from JSON that a file holds; NaN and infinities, which JSON lacks, are refused."""

    def no_number(name: str) -> float:
        raise ValueError(f"{name} is not a number")

    try:
        return json.loads(text, parse_constant=no_number)
    except RecursionError:
        raise Unreadable(f"{path} cannot be read: it is nested too deeply") from None
    except ValueError as error:
        raise Unreadable(f"{path} cannot be read: {error}") from None


def seal_of(info: dict[str, Any]) -> str:
    """Return the checksum of what config.json says, however it is laid out."""
    return hashlib.sha256(json.dumps(info, sort_keys=True).encode()).hexdigest()


def _packed(tree: PyTree) -> bytes:
    """Return a pytree's arrays as safetensors, each under its place in the tree."""
    named = zip(_names(tree), jax.tree.leaves(tree), strict=True)
    return safetensors.numpy.save({name: np.asarray(_plain(leaf)) for name, leaf in named if _is_array(leaf)})


def _names(tree: PyTree) -> list[str]:
    """Return every leaf's place in the tree, in words: "layers.0.weight"."""
    paths = [path for path, _ in jax.tree_util.tree_flatten_with_path(tree)[0]]
    return [jax.tree_util.keystr(path, simple=True, separator=".") for path in paths]


def _is_array(leaf: object) -> bool:
    return eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)


def _plain(array: jax.Array) -> jax.Array:
    """Return the array, or, of random keys, their numbers."""
    return jax.random.key_data(array) if jnp.issubdtype(array.dtype, jax.dtypes.prng_key) else array
