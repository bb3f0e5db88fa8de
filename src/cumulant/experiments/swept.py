"""The methods that a trial of a sweep can name: how each trains several seeds, and judges what came of them."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cumulant.config import PRESETS, FreePlay
from cumulant.experiments.parts import Clock, Ran
from cumulant.experiments.trials import few_shot, zero_shot
from cumulant.features.coordinates import true_features
from cumulant.freeplay.checkpoints import line_of, write_metrics
from cumulant.freeplay.learning import check_size
from cumulant.transfer.library import Library
from cumulant.transfer.pretraining import pretrain, pretrain_in_step
from cumulant.worlds.protocol import at_once

if TYPE_CHECKING:
    from cumulant.experiments.sweeps import Trial

LIBRARY = "library"  # the folder of a trial's library, inside its own


class Method(NamedTuple):
    """What can be swept: the kind of its settings, those that have names, and how it fills trials' folders.

    `fill` takes trials that differ in seed and evaluation alone, and their folders. It puts what is worth keeping into
    each folder, and yields what there is to tell of each, in order.
    """

    settings: type
    presets: Mapping[str, Any]
    preset: str  # the one that is meant where none is named
    check: "Callable[[Trial], None]"  # OutOfBounds for what takes more memory than there is
    fill: "Callable[[Sequence[Trial], Sequence[Path]], Iterator[Ran]]"


def _play(trials: "Sequence[Trial]", folders: Sequence[Path]) -> Iterator[Ran]:
    """Free play, then GPI from words and, with budgets, from labelled steps."""
    world, settings = trials[0].world, _free_play(trials[0])
    if at_once(world) is not None:  # episodes on the host: one run at a time
        for trial, folder in zip(trials, folders, strict=True):
            yield _played_alone(trial, folder)
        return
    lines: list[list[str]] = [[] for _ in trials]

    def keep(metrics: list[dict[str, Any]]) -> None:
        for mine, each in zip(lines, metrics, strict=True):
            mine.append(line_of(each))

    seeds = [trial.seed for trial in trials]
    libraries, seconds = pretrain_in_step(world, settings, seeds, [true_features] * len(trials), keep)
    for trial, library, folder, mine in zip(trials, libraries, folders, lines, strict=True):
        yield _judged(trial, library, folder, mine, seconds)


def _free_play(trial: "Trial") -> FreePlay:
    assert isinstance(trial.settings, FreePlay)  # a trial sees to it
    return trial.settings


def _played_alone(trial: "Trial", folder: Path) -> Ran:
    clock, lines = Clock(), list[str]()

    def hear(metrics: dict[str, Any]) -> None:
        clock(metrics)
        if metrics["event"] == "progress":
            lines.append(line_of(metrics))

    library = pretrain(trial.world, _free_play(trial), trial.seed, report=hear)
    assert library is not None  # nothing stops it
    return _judged(trial, library, folder, lines, {"compile_s": clock.compiling, "train_s": clock.learning})


def _judged(trial: "Trial", library: Library, folder: Path, lines: list[str], seconds: dict[str, float]) -> Ran:
    """Keep a library as `pretrain` does, and play the tasks."""
    library.save(folder / LIBRARY)
    write_metrics(folder / LIBRARY, lines)
    begun = time.perf_counter()
    world, gpi, judge, seed = library.seen, library.gpi(), trial.evaluation, trial.seed
    rows = [*zero_shot("zero-shot", world, judge, gpi, library.weights_of, seed)]
    if judge.budgets:
        rows += few_shot("few-shot", world, judge, gpi, library.config.bins, seed, paper=False)
    return Ran(rows, seconds | {"evaluate_s": time.perf_counter() - begun})


def _check_play(trial: "Trial") -> None:
    check_size(trial.world, _free_play(trial), true_features)


METHODS = {"play": Method(FreePlay, PRESETS, "cpu", _check_play, _play)}
