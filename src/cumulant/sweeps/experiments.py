"""The runner of experiments: each is a pure function from a configuration to a folder; finished ones are skipped.

Sweeps and the paper's figures are run by it, in this process or by another engine.
"""

import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Protocol, runtime_checkable

import jax
from msgspec import Meta

import cumulant
from cumulant.config import check_settings
from cumulant.storage import Unwritable, discard, in_one_line, locked, parsed, read_plain, sync_folder, write_json
from cumulant.sweeps.run_folders import Measured, Row, is_finished, write_run
from cumulant.sweeps.statistics import by_class

Report = Callable[[dict[str, Any]], None]  # hears {"event": ..., "trial": a folder's name, ...}
FAILURE = "failure.json"  # in the folder of a failed experiment: the reason
InOneProgram = Annotated[int, Meta(ge=1, le=10_000)]  # runs: a sweep has no more
ON_A_GPU = 16  # runs in one program: small networks leave most of it idle
_MAKING = ".making.tmp"  # where folders are until they are whole
_FAILURE_BYTES = 2**16
_LONGEST = 500  # characters of a reason


class Outcome(NamedTuple):
    """Success, seconds by stage and, where features were measured, their measures."""

    rows: list[Row]
    seconds: dict[str, float]
    measures: list[Measured] | None = None  # a seed after the other


@dataclass(frozen=True)
class Experiment:
    """A run that fills one folder, and depends on nothing but its configuration."""

    name: str  # of its folder
    settings: Mapping[str, Any]  # all that the outcome depends on: config.json keeps them, and tells it from others
    config: Any  # what `run` is given
    run: Callable[[Sequence[Any], Sequence[Path]], Iterator[Outcome]]  # an outcome for each config and its folder
    program: str = ""  # experiments of the same may be run together; without a name, each by itself


Job = Sequence[Experiment]  # those that are run together


class Filled(NamedTuple):
    """A folder that is whole: a finished one, or one that holds the reason of a failure."""

    name: str
    failure: str = ""


class Ended(NamedTuple):
    """The names of all experiments, by what came of them.

    >>> Ended(("a",), (), {}).failed
    {}
    """

    finished: tuple[str, ...]  # now
    skipped: tuple[str, ...]  # for they were finished before
    failed: dict[str, str]  # and why


@runtime_checkable
class Engine(Protocol):
    """A place where jobs are done."""

    def together(self) -> int:
        """Return how many experiments of a program it does best as one job."""

    def ready(self) -> AbstractContextManager[object]:
        """Return a context in which it can work; entering it raises a ValueError if it cannot."""

    def run(self, jobs: Sequence[Job], place: Path, report: Report) -> Iterator[Filled]:
        """Fill a folder in `place` for each experiment, and yield as soon as one is whole."""


@dataclass(frozen=True)
class Local:
    """The process itself, one job after the other.

    >>> Local(in_step=4).together()
    4
    """

    in_step: InOneProgram | None = None  # Runs in one program, at most; by default what suits this machine.

    def __post_init__(self) -> None:
        """Refuse what is no number of runs."""
        check_settings(self)

    def together(self) -> int:
        """Return 1 on a CPU, which takes runs in turn anyway, and several on a GPU."""
        return self.in_step or (1 if jax.default_backend() == "cpu" else ON_A_GPU)

    def ready(self) -> AbstractContextManager[object]:
        """Return an empty context: no setup is needed."""
        return nullcontext()

    def run(self, jobs: Sequence[Job], place: Path, report: Report) -> Iterator[Filled]:
        """Do all jobs."""
        for job in jobs:
            for experiment in job:
                report({"event": "started", "trial": experiment.name})
            yield from fill(job, place)


def run(experiments: Sequence[Experiment], out: Path, engine: Engine, report: Report) -> Ended:
    """Put a folder into `out` for every experiment that has no finished one there: finished, or failed.

    A folder is there whole or not at all, whenever this is killed; then the same call goes on. What has failed before
    is tried again.

    Args:
        experiments: With names that differ.
        out: The folder of their folders. One run at a time writes to it: else Locked is raised.
        engine: Where the work is done.
        report: Hears of every experiment that is skipped, started (of those run here), finished or failed.

    """
    finished, failures, place = list[str](), dict[str, str](), out / _MAKING
    with engine.ready(), locked(out):
        skipped = [each.name for each in experiments if is_finished(out / each.name, each.settings)]
        for name in skipped:
            report({"event": "skipped", "trial": name})
        left = [each for each in experiments if each.name not in {*skipped}]
        shutil.rmtree(place, ignore_errors=True)  # of a run that was killed
        try:
            with in_one_line(place):
                place.mkdir()
            with closing(engine.run(_jobs(left, engine.together()), place, report)) as whole:  # type: ignore[type-var]
                for name, failure in whole:
                    _deliver(place / name, out / name)
                    if failure:
                        failures[name] = failure
                        report({"event": "failed", "reason": failure, "trial": name})
                    else:
                        finished.append(name)
                        report({"event": "finished", "trial": name})
        finally:
            shutil.rmtree(place, ignore_errors=True)
    return Ended(tuple(finished), tuple(skipped), failures)


def _jobs(experiments: Sequence[Experiment], at_most: int) -> list[Job]:
    """Return experiments of the same program together, at most so many in a job."""
    jobs: list[list[Experiment]] = []
    latest: dict[str, list[Experiment]] = {}  # job of each program
    for each in experiments:
        job = latest.get(each.program)
        if each.program and job is not None and len(job) < at_most:
            job.append(each)
        else:
            jobs.append([each])
            latest[each.program] = jobs[-1]
    return list(jobs)


def fill(job: Job, place: Path) -> Iterator[Filled]:
    """Run a job in this process; if several fail together, run each by itself, so that a failure has a name."""
    left, begun = list(job), time.perf_counter()
    try:
        for each in job:
            (place / each.name).mkdir()
        outcomes = job[0].run([each.config for each in job], [place / each.name for each in job])
        for each, outcome in zip(job, outcomes, strict=True):
            _write(each, place / each.name, outcome, len(job), time.perf_counter() - begun)
            left.remove(each)
            yield Filled(each.name)
    except Unwritable:
        raise  # a full disk is no experiment's fault
    except (Exception, SystemExit) as error:  # whatever a world of somebody's own does
        if len(job) == 1:
            yield failed(job[0].name, in_words(error), place)
            return
    # Not in the handler: as long as the error lives, so does what filled the memory.
    for each in left:
        shutil.rmtree(place / each.name, ignore_errors=True)
        yield from fill([each], place)


def _write(experiment: Experiment, folder: Path, outcome: Outcome, in_step: int, seconds: float) -> None:
    plain = {name: asdict(each) if is_dataclass(each) else each for name, each in experiment.settings.items()}  # type: ignore[arg-type]
    config = {
        "name": experiment.name,
        "success": by_class(outcome.rows),
        "settings": plain,
        "device": jax.devices()[0].device_kind,
        "version": cumulant.__version__,
        "jax": jax.__version__,
        "seconds": outcome.seconds | {"total_s": seconds},
        "in_step": in_step,
    }
    write_run(folder, config, outcome.rows, outcome.measures)


def _deliver(made: Path, folder: Path) -> None:
    """Put a whole folder in its place, instead of an earlier failure."""
    with in_one_line(folder):
        for each in (made, *made.rglob("*")):
            sync_folder(each)
        discard(folder)
        os.rename(made, folder)
        sync_folder(folder.parent)


def failed(name: str, reason: str, place: Path) -> Filled:
    """Fill a folder with the reason why there is nothing else in it."""
    shutil.rmtree(place / name, ignore_errors=True)
    write_json(place / name / FAILURE, {"failure": reason})
    return Filled(name, reason)


def failure_of(folder: Path) -> str | None:
    """Return why there is nothing in a folder; None if it holds no failure."""
    if not (folder / FAILURE).exists():
        return None
    told = parsed(read_plain(folder, FAILURE, _FAILURE_BYTES), folder / FAILURE)
    return printable(str(told.get("failure"))) if isinstance(told, dict) else None


def in_words(error: BaseException) -> str:
    """Return an error in one line, without what could move a terminal's cursor."""
    said = (str(error).strip().splitlines() or [""])[0]
    return printable(f"{type(error).__name__}: {said}" if said else type(error).__name__)


def printable(words: str) -> str:
    """Return foreign words as they can be shown on a terminal."""
    return "".join(c if c.isprintable() else "?" for c in words)[:_LONGEST]
