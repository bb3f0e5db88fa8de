"""Sweeps: lists of frozen trials, each of which is free play and its evaluation."""

import hashlib
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cumulant.config import PRESETS, FreePlay, OutOfBounds
from cumulant.features.coordinates import true_features
from cumulant.freeplay.checkpoints import line_of, write_metrics
from cumulant.freeplay.learning import check_size
from cumulant.sweeps.experiments import Ended, Engine, Experiment, Local, Outcome, Report, run
from cumulant.sweeps.judging import SEEDS, Evaluation, few_shot, zero_shot
from cumulant.transfer.library import Library
from cumulant.transfer.pretraining import pretrain, pretrain_in_step
from cumulant.worlds.protocol import World, at_once
from cumulant.worlds.shipped import describe

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
else:
    DataclassInstance = object  # type checkers alone know of it

MAX_TRIALS = 10_000  # of a sweep
LIBRARY = "library"  # the folder of a trial's library, inside its own
BY_DEFAULT = Evaluation()
_READABLE = 80  # characters of a folder's name, beside the checksum
_UNREADABLE = re.compile(r"[^a-z0-9._-]+")


@dataclass(frozen=True)
class Trial:
    """Free play to be done: a world, settings, a seed, and how the library is judged. It says all that counts.

    >>> import cumulant
    >>> trial = cumulant.Trial(cumulant.Spriteworld(), cumulant.FreePlay(width=64), seed=3)
    >>> trial.name
    'spriteworld-seed-3-width-64-81f3f710'
    """

    world: World
    settings: FreePlay = PRESETS["cpu"]
    seed: int = 0
    evaluation: Evaluation = BY_DEFAULT

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        if not (is_dataclass(self.world) or hasattr(self.world, "described")) and getattr(self.world, "__dict__", None):
            name = type(self.world).__name__  # two that differ would be taken for one
            raise OutOfBounds(f"a sweep cannot tell what a {name} is made with: make it a frozen dataclass")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or not 0 <= self.seed < SEEDS:
            raise OutOfBounds(f"a seed lies between 0 and {SEEDS - 1}, but is {self.seed!r}")

    @property
    def name(self) -> str:
        """The name of its folder: what is not the default, to be read, and a checksum of all that it says."""
        world = describe(self.world)
        kind = str(world.pop("kind"))
        settings, evaluation = _unusual(self.settings), _unusual(self.evaluation)
        usual = {f.name: f.default for f in getattr(type(self.world), "__dataclass_fields__", {}).values()}
        odd = {name: value for name, value in world.items() if value != _plain(usual.get(name))}
        said = {"": kind, **odd, "seed": str(self.seed), **settings, **evaluation}
        words = [f"{name} {_short(value)}".strip() for name, value in said.items() if value != ""]
        readable = _UNREADABLE.sub("-", "-".join(words).lower()).strip("-.")
        if len(readable) > _READABLE:
            readable = readable[:_READABLE].rpartition("-")[0]
        everything = [kind, world, self.seed, settings, evaluation]
        checksum = hashlib.sha256(json.dumps(everything, sort_keys=True).encode()).hexdigest()
        return f"{readable}-{checksum[:8]}"

    @property
    def experiment(self) -> Experiment:
        """The run that fills its folder. Trials that differ in seed and evaluation alone share a program."""
        world = describe(self.world)
        said = {"world": world, "seed": self.seed, "what": self.settings, "evaluation": self.evaluation}
        program = json.dumps([world, _unusual(self.settings)], sort_keys=True)
        return Experiment(self.name, said, self, _play, program)


def _unusual(settings: DataclassInstance) -> dict[str, Any]:
    """Return the settings that are not the defaults, as JSON has them."""
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


def sweep(
    trials: Sequence[Trial],
    out: str | Path,
    engine: Literal["local", "ray"] | Engine = "local",
    report: Report = lambda event: None,
) -> Ended:
    """Run every trial that has no finished folder in `out`, and put a folder there for each: finished, or failed.

    A finished folder holds the config, the success at every task, and the library. It is whole whenever the sweep is
    killed; then the same call goes on. A trial that fails is tried again by the next call, and stops no other. Trials
    that differ in seed and evaluation alone may be run as one program: on a CPU each comes out bit for bit as by
    itself.

    Args:
        trials: At most 10,000, all different.
        out: The folder of their folders.
        engine: "local" for this process, "ray" for the cluster that this machine is part of, or an engine.
        report: Hears {"event": ..., "trial": name} of every trial that is skipped, started (of those run here),
            finished or, with the "reason", failed.

    Returns:
        The names of the trials that are finished now, that were skipped, and that failed, with the reasons.

    Raises:
        OutOfBounds: What is asked for is no sweep, or takes more memory than there is.

    >>> import cumulant, tempfile
    >>> brief = cumulant.FreePlay(width=8, num_envs=4, batch=8, env_steps=400, replay=400)
    >>> world, quick = cumulant.Spriteworld(max_steps=10), cumulant.Evaluation(tasks_per_class=1, episodes=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     swept = cumulant.sweep([cumulant.Trial(world, brief, seed, quick) for seed in (0, 1)], folder)
    ...     library = cumulant.Library.load(f"{folder}/{swept.finished[0]}/library")
    >>> len(swept.finished), swept.failed
    (2, {})

    """
    by = _engine_named(engine) if isinstance(engine, str) else engine
    if not 1 <= len(trials) <= MAX_TRIALS:
        raise OutOfBounds(f"a sweep has 1 to {MAX_TRIALS:,} trials, but this has {len(trials):,}")
    experiments: dict[str, Experiment] = {}
    for trial in trials:
        if trial.name in experiments:
            raise OutOfBounds(f"a trial is there twice: {trial.name}")
        experiments[trial.name] = trial.experiment
    if isinstance(by, Local):
        for first in {each.program: each for each in experiments.values()}.values():
            check_size(first.config.world, first.config.settings, true_features)
    return run([*experiments.values()], Path(out), by, report)


def _engine_named(name: str) -> Engine:
    if name == "ray":
        from cumulant.sweeps.on_ray import Ray

        return Ray()
    if name != "local":
        raise OutOfBounds(f"there is no engine {name!r}: choose from local, ray")
    return Local()


class Clock:
    """The seconds of compiling and, as far as it has come, of learning, as a stage reports them."""

    compiling = learning = 0.0

    def __call__(self, metrics: Mapping[str, Any]) -> None:
        """Take note of a report."""
        if metrics["event"] == "compiled":
            self.compiling = metrics["seconds"]
        else:
            self.learning = metrics.get("seconds", self.learning)


def _play(trials: Sequence[Trial], folders: Sequence[Path]) -> Iterator[Outcome]:
    """Play freely, save the libraries, and judge GPI from words and, with budgets, from labelled steps."""
    world, settings = trials[0].world, trials[0].settings
    if at_once(world) is not None:  # episodes on the host: one run at a time
        for trial, folder in zip(trials, folders, strict=True):
            yield _judged(trial, folder, *_played_alone(trial))
        return
    lines: list[list[str]] = [[] for _ in trials]

    def keep(metrics: list[dict[str, Any]]) -> None:
        for mine, each in zip(lines, metrics, strict=True):
            mine.append(line_of(each))

    seeds = [trial.seed for trial in trials]
    libraries, seconds = pretrain_in_step(world, settings, seeds, [true_features] * len(trials), keep)
    for trial, folder, library, mine in zip(trials, folders, libraries, lines, strict=True):
        yield _judged(trial, folder, library, mine, seconds)


def _played_alone(trial: Trial) -> tuple[Library, list[str], dict[str, float]]:
    clock, lines = Clock(), list[str]()

    def hear(metrics: dict[str, Any]) -> None:
        clock(metrics)
        if metrics["event"] == "progress":
            lines.append(line_of(metrics))

    library = pretrain(trial.world, trial.settings, trial.seed, report=hear)
    assert library is not None  # nothing stops it
    return library, lines, {"compile_s": clock.compiling, "train_s": clock.learning}


def _judged(trial: Trial, folder: Path, library: Library, lines: list[str], seconds: dict[str, float]) -> Outcome:
    """Save a library as `pretrain` does, and play the tasks."""
    library.save(folder / LIBRARY)
    write_metrics(folder / LIBRARY, lines)
    begun, world, gpi = time.perf_counter(), library.seen, library.gpi()
    rows = [*zero_shot("zero-shot", world, trial.evaluation, gpi, library.weights_of, trial.seed)]
    if trial.evaluation.budgets:
        rows += few_shot("few-shot", world, trial.evaluation, gpi, library.config.bins, trial.seed, paper=False)
    return Outcome(rows, seconds | {"evaluate_s": time.perf_counter() - begun})
