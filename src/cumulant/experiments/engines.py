"""Where work is done that fills folders: `Local` is this process. Folders are whole before they are in their place."""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Protocol, runtime_checkable

import jax
from msgspec import Meta

from cumulant.config import check_settings
from cumulant.storage import discard, in_one_line, parsed, read_plain, sync_folder, write_json

Report = Callable[[dict[str, Any]], None]  # hears {"event": ..., "trial": a folder's name, ...}
FAILURE = "failure.json"  # in the folder of what failed: the reason
_MAKING = ".making.tmp"  # where folders are until they are whole
_FAILURE_BYTES = 2**16
InOneProgram = Annotated[int, Meta(ge=1, le=10_000)]  # runs: a sweep has no more
ON_A_GPU = 16  # runs in one program: small networks leave most of it idle
_LONGEST = 500  # characters of a reason


class Filled(NamedTuple):
    """A folder that is whole: what came of it, or why nothing did."""

    name: str
    failure: str = ""


@runtime_checkable
class Work(Protocol):
    """What fills folders. It is a plain value, which can be sent to another process, and depends on nothing else."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of the folders."""

    def fill(self, place: Path) -> Iterator[Filled]:
        """Make them in a place, and tell of each as soon as it is whole. What fails, fails alone."""

    def apart(self) -> "Sequence[Work]":
        """The same in pieces of one folder each."""


@runtime_checkable
class Engine(Protocol):
    """What does work."""

    def together(self) -> int:
        """How many runs of a kind it does best as one program."""

    def ready(self) -> AbstractContextManager[object]:
        """What it takes to work, for as long as it is entered; a ValueError, if it is not there."""

    def run(self, works: Sequence[Work], out: Path, report: Report) -> None:
        """Have every folder of every work in its place, finished or failed."""


@dataclass(frozen=True)
class Local:
    """The process itself: one work after the other, on the first device.

    >>> Local(in_step=4).together()
    4
    """

    in_step: InOneProgram | None = None  # Runs in one program, at most; by default what suits this machine.

    def __post_init__(self) -> None:
        """Refuse what is no number of runs."""
        check_settings(self)

    def together(self) -> int:
        """One on a CPU, which does them one after another anyway; several on a GPU."""
        return self.in_step or (1 if jax.default_backend() == "cpu" else ON_A_GPU)

    def ready(self) -> AbstractContextManager[object]:
        """It is."""
        return nullcontext()

    def run(self, works: Sequence[Work], out: Path, report: Report) -> None:
        """Do all."""
        with making(out) as place:
            for work in works:
                for name in work.names:
                    report({"event": "started", "trial": name})
                for filled in work.fill(place):
                    deliver(filled, place, out, report)


@contextmanager
def making(out: Path) -> Iterator[Path]:
    """A place beside the folders, on the same disk, for those that are not whole yet. Nobody else may be using it."""
    place = out / _MAKING
    shutil.rmtree(place, ignore_errors=True)  # of a sweep that was killed
    with in_one_line(place):
        place.mkdir(parents=True)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def deliver(filled: Filled, place: Path, out: Path, report: Report) -> None:
    """Put a whole folder where it belongs, in place of an earlier failure, and tell."""
    made, folder = place / filled.name, out / filled.name
    with in_one_line(folder):
        for each in (made, *(path for path in made.rglob("*") if path.is_dir())):
            sync_folder(each)
        discard(folder)
        os.rename(made, folder)
        sync_folder(out)
    told = {"event": "failed", "reason": filled.failure} if filled.failure else {"event": "finished"}
    report(told | {"trial": filled.name})


def failed(name: str, reason: str | BaseException, place: Path) -> Filled:
    """A folder that says why there is nothing else in it."""
    words = in_words(reason) if isinstance(reason, BaseException) else reason
    shutil.rmtree(place / name, ignore_errors=True)
    write_json(place / name / FAILURE, {"failure": words})
    return Filled(name, words)


def in_words(error: BaseException) -> str:
    """An error in one line, without what could move a terminal's cursor."""
    said = (str(error).strip().splitlines() or [""])[0]
    words = f"{type(error).__name__}: {said}" if said else type(error).__name__
    return printable(words)


def printable(words: str) -> str:
    """Words of somebody else's, as they can be shown."""
    return "".join(c if c.isprintable() else "?" for c in words)[:_LONGEST]


def failure_of(folder: Path) -> str | None:
    """Why there is nothing in a folder; None, if it holds no failure."""
    if not (folder / FAILURE).exists():
        return None
    told = parsed(read_plain(folder, FAILURE, _FAILURE_BYTES), folder / FAILURE)
    return printable(str(told.get("failure"))) if isinstance(told, dict) else None
