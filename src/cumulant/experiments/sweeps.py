"""Sweeps: lists of frozen trials, each a pure function from its config to a run folder. What is finished is skipped."""

import hashlib
import json
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from msgspec import Meta

from cumulant.config import PRESETS, OutOfBounds, check_settings
from cumulant.experiments.engines import Engine, Filled, Local, Report, failed
from cumulant.experiments.parts import TUNING_SEED, Ran, described
from cumulant.experiments.run_folders import is_finished, write_run
from cumulant.experiments.statistics import by_class
from cumulant.experiments.swept import METHODS
from cumulant.experiments.trials import Trials
from cumulant.goals.suites import MAX_TASKS
from cumulant.storage import Unwritable, locked
from cumulant.transfer.evaluation import MAX_EPISODES
from cumulant.transfer.inference import check_budget
from cumulant.worlds.protocol import World
from cumulant.worlds.shipped import describe

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
else:
    DataclassInstance = object  # type checkers alone know of it

MAX_TRIALS = 10_000  # of a sweep
_SEEDS = 2**31  # not 2**32: to a seed something is added where labelled steps are collected
_READABLE = 80  # characters of a folder's name, beside the checksum
_UNREADABLE = re.compile(r"[^a-z0-9._-]+")


@dataclass(frozen=True)
class Evaluation(Trials):
    """By which tasks a trial is judged, and after how many labelled steps; without any, from words alone.

    The tasks are those that settings are chosen by: what the chosen ones come to is then to be measured on others.

    >>> Evaluation(episodes=64).task_seed
    1000
    """

    tasks_per_class: Annotated[int, Meta(ge=1, le=MAX_TASKS)] = 3
    task_seed: Annotated[int, Meta(ge=0, lt=_SEEDS)] = TUNING_SEED  # of the tasks, and of their starts
    episodes: Annotated[int, Meta(ge=1, le=MAX_EPISODES)] = 256  # a task, a seed and a point of a curve
    budgets: tuple[int, ...] = ()  # labelled steps

    def __post_init__(self) -> None:
        """Refuse what cannot be played."""
        check_settings(self)
        for budget in self.budgets:
            check_budget(budget)


BY_DEFAULT = Evaluation()


@dataclass(frozen=True)
class Trial:
    """A run to be done: a world, a method with its settings, a seed, and how it is judged. It says all that counts.

    >>> import cumulant
    >>> trial = cumulant.Trial(cumulant.Spriteworld(), cumulant.FreePlay(width=64), seed=3)
    >>> trial.name
    'spriteworld-seed-3-width-64-cb488327'
    """

    world: World
    settings: DataclassInstance = PRESETS["cpu"]
    seed: int = 0
    evaluation: Evaluation = BY_DEFAULT
    method: str = "play"

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        if self.method not in METHODS:
            raise OutOfBounds(f"there is no method {self.method!r}: choose from {', '.join(METHODS)}")
        kind = METHODS[self.method].settings
        if not isinstance(self.settings, kind):
            raise OutOfBounds(f"the settings of {self.method} are a {kind.__name__}, not {self.settings!r}")
        if not (is_dataclass(self.world) or hasattr(self.world, "described")) and getattr(self.world, "__dict__", None):
            name = type(self.world).__name__  # two that differ would be taken for one
            raise OutOfBounds(f"a sweep cannot tell what a {name} is made with: make it a frozen dataclass")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or not 0 <= self.seed < _SEEDS:
            raise OutOfBounds(f"a seed lies between 0 and {_SEEDS - 1}, but is {self.seed!r}")

    @property
    def name(self) -> str:
        """Of its folder: what is not as usual, to be read, and a checksum of all that it says."""
        world, method = describe(self.world), "" if self.method == "play" else self.method
        kind = str(world.pop("kind"))
        settings, evaluation = unusual(self.settings), unusual(self.evaluation)
        usual = {f.name: f.default for f in getattr(type(self.world), "__dataclass_fields__", {}).values()}
        odd = {name: value for name, value in world.items() if value != _plain(usual.get(name))}
        said = {"": kind, "method": method, **odd, "seed": str(self.seed), **settings, **evaluation}
        words = [f"{name} {_short(value)}".strip() for name, value in said.items() if value != ""]
        readable = _UNREADABLE.sub("-", "-".join(words).lower()).strip("-.")
        if len(readable) > _READABLE:
            readable = readable[:_READABLE].rpartition("-")[0]
        everything = [kind, world, self.method, self.seed, settings, evaluation]
        checksum = hashlib.sha256(json.dumps(everything, sort_keys=True).encode()).hexdigest()
        return f"{readable}-{checksum[:8]}"

    @property
    def config(self) -> dict[str, Any]:
        """All that it says, as its folder keeps it."""
        about = {"method": self.method, "world": describe(self.world), "seed": self.seed}
        return about | {"what": self.settings, "evaluation": self.evaluation}


def unusual(settings: DataclassInstance) -> dict[str, Any]:
    """Settings that are not the defaults, as JSON has them.

    >>> unusual(FreePlay(width=64, gamma=0.95))
    {'width': 64}
    """
    found = {f.name: (getattr(settings, f.name), f.default) for f in fields(settings)}
    return {
        name: _plain(float(value) if isinstance(usual, float) else value)
        for name, (value, usual) in found.items()
        if value != usual
    }


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _short(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "-".join(map(_short, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Group:
    """Trials that differ in seed and evaluation alone: their runs are one program."""

    trials: tuple[Trial, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Of their folders."""
        return tuple(trial.name for trial in self.trials)

    def apart(self) -> "list[Group]":
        """Each trial by itself."""
        return [Group((trial,)) for trial in self.trials]

    def fill(self, place: Path) -> Iterator[Filled]:
        """Run all; if that fails, each by itself, so that a failure has a name."""
        folders, done = [place / name for name in self.names], 0
        begun = time.perf_counter()
        try:
            for folder in folders:
                folder.mkdir()
            for ran in METHODS[self.trials[0].method].fill(self.trials, folders):
                self._write(self.trials[done], folders[done], ran, time.perf_counter() - begun)
                done += 1
                yield Filled(folders[done - 1].name)
        except Unwritable:
            raise  # a full disk is no trial's fault
        except (Exception, SystemExit) as error:  # whatever a world of somebody's own does
            if len(self.trials) == 1:
                yield failed(folders[0].name, error, place)
                return
        # Not in the handler: as long as the error lives, so does what filled the memory.
        for trial, folder in zip(self.trials[done:], folders[done:], strict=True):
            shutil.rmtree(folder, ignore_errors=True)
            yield from Group((trial,)).fill(place)

    def _write(self, trial: Trial, folder: Path, ran: Ran, seconds: float) -> None:
        """All but the library: the config, and the success at every task."""
        times = {"seconds": ran.seconds | {"total_s": seconds}, "in_step": len(self.trials)}
        told = {"trial": trial.name, "success": by_class(ran.rows)}
        write_run(folder, told | described(trial.config) | times, ran.rows, ran.measures)


class Swept(NamedTuple):
    """What came of a sweep, by the names of folders.

    >>> Swept(("a",), (), {}).failed
    {}
    """

    finished: tuple[str, ...]  # now
    skipped: tuple[str, ...]  # for they were finished before
    failed: dict[str, str]  # and why


def sweep(
    trials: Sequence[Trial],
    out: str | Path,
    engine: Literal["local", "ray"] | Engine = "local",
    report: Report = lambda event: None,
) -> Swept:
    """Run every trial that has no finished folder in `out`, and put a folder there for each: finished, or failed.

    A finished folder holds the config, the success at every task, and what was learnt: of free play, a library. It is
    whole whenever the sweep is killed; then the same call goes on. A trial that fails is tried again by the next call,
    and stops no other. Trials that differ in seed and evaluation alone may be run as one program: on a CPU each comes
    out bit for bit as by itself. `report` hears of every trial that is skipped, started, finished, failed or, on a
    cluster, retried.

    >>> import cumulant, tempfile
    >>> brief = cumulant.FreePlay(width=8, num_envs=4, batch=8, env_steps=400, replay=400)
    >>> world, quick = cumulant.Spriteworld(max_steps=10), cumulant.Evaluation(tasks_per_class=1, episodes=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     swept = cumulant.sweep([cumulant.Trial(world, brief, seed, quick) for seed in (0, 1)], folder)
    ...     library = cumulant.Library.load(f"{folder}/{swept.finished[0]}/library")
    >>> len(swept.finished), swept.failed
    (2, {})
    """
    by, out = engine_named(engine) if isinstance(engine, str) else engine, Path(out)
    check(trials, here=isinstance(by, Local))
    finished: list[str] = []
    failures: dict[str, str] = {}

    def hear(event: dict[str, Any]) -> None:
        if event["event"] == "finished":
            finished.append(event["trial"])
        elif event["event"] == "failed":
            failures[event["trial"]] = event["reason"]
        report(event)

    with by.ready(), locked(out):
        there = {trial.name: is_finished(out / trial.name, trial.config) for trial in trials}
        skipped = tuple(name for name, done in there.items() if done)
        for name in skipped:
            report({"event": "skipped", "trial": name})
        by.run(groups([trial for trial in trials if not there[trial.name]], by.together()), out, hear)
    return Swept(tuple(finished), skipped, failures)


def engine_named(name: str) -> Engine:
    """The engine of a name, as it comes."""
    if name == "ray":
        from cumulant.experiments.on_ray import Ray

        return Ray()
    if name != "local":
        raise OutOfBounds(f"there is no engine {name!r}: choose from local, ray")
    return Local()


def check(trials: Sequence[Trial], here: bool) -> None:
    """OutOfBounds for what is no sweep; and, if it is to be run here, for what takes more memory than there is."""
    if not 1 <= len(trials) <= MAX_TRIALS:
        raise OutOfBounds(f"a sweep has 1 to {MAX_TRIALS:,} trials, but this has {len(trials):,}")
    names = [trial.name for trial in trials]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise OutOfBounds(f"a trial is there twice: {twice}")
    for group in groups(trials, len(trials)) if here else ():
        METHODS[group.trials[0].method].check(group.trials[0])


def groups(trials: Sequence[Trial], at_most: int) -> list[Group]:
    """Trials that can be one program together, at most so many in each group."""
    made: list[list[Trial]] = []
    latest: dict[tuple[str, DataclassInstance], list[list[Trial]]] = {}  # in each world; a world need have no hash
    for trial in trials:
        kin = latest.setdefault((trial.method, trial.settings), [])
        at = next((i for i, group in enumerate(kin) if group[0].world == trial.world), None)
        if at is not None and len(kin[at]) < at_most:
            kin[at].append(trial)
            continue
        made.append([trial])
        if at is None:
            kin.append(made[-1])
        else:
            kin[at] = made[-1]
    return [Group(tuple(group)) for group in made]
