"""Folders on their way from one machine to another: one block of bytes, checked when it is opened."""

import hashlib
import io
import tarfile
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from cumulant.storage import Unreadable, write_whole

MOST_BYTES = 2**28  # of a folder
_MOST_FILES = 1_000
_DEEPEST = 4  # folders


class Archive(NamedTuple):
    """A folder's files as bytes, and the checksum of these."""

    data: bytes
    sha256: str


def pack(folder: Path) -> Archive:
    """A folder as an archive; ValueError if it is too large to travel, or holds more than plain files."""
    files = sorted(path for path in folder.rglob("*") if not path.is_dir() or path.is_symlink())
    if (size := sum(path.lstat().st_size for path in files)) > MOST_BYTES or len(files) > _MOST_FILES:
        most = f"{MOST_BYTES:,} in {_MOST_FILES:,}"
        raise ValueError(f"its folder has {size:,} bytes in {len(files):,} files, and more than {most} do not travel")
    names = {str(path.relative_to(folder)): path for path in files}
    if odd := next((name for name, path in names.items() if path.is_symlink() or not _is_inside(name)), None):
        raise ValueError(f"its folder holds {odd!r}, and only plain files that lie no deeper than {_DEEPEST} travel")
    block = io.BytesIO()
    with tarfile.open(fileobj=block, mode="w") as tar:
        for name, path in names.items():
            tar.add(path, name)
    data = block.getvalue()
    return Archive(data, hashlib.sha256(data).hexdigest())


def unpack(archive: Archive, folder: Path) -> None:
    """The folder again. Unreadable, before anything is written, if it is not just what was packed: plain files."""
    if hashlib.sha256(archive.data).hexdigest() != archive.sha256:
        raise Unreadable(f"what came for {folder.name} is damaged: its checksum is another")
    try:
        with tarfile.open(fileobj=io.BytesIO(archive.data), mode="r:") as tar:
            members = tar.getmembers()
            if len(members) > _MOST_FILES or sum(each.size for each in members) > MOST_BYTES:
                raise Unreadable(f"what came for {folder.name} is larger than what it should hold")
            if odd := next((each.name for each in members if not (each.isreg() and _is_inside(each.name))), None):
                raise Unreadable(f"what came for {folder.name} is no plain folder: {odd!r}")
            files = {each.name: tar.extractfile(each) for each in members}
            for name, file in files.items():
                assert file  # it is regular
                write_whole(folder / name, file.read())
    except tarfile.TarError as error:
        raise Unreadable(f"what came for {folder.name} cannot be read: {error}") from None


def _is_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return 0 < len(path.parts) <= _DEEPEST and not path.is_absolute() and not {"..", "\0"} & {*path.parts, *name}
