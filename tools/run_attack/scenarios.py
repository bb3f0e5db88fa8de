"""What is disturbed: free play, learning to see, the parts of a figure, each with how a user goes on with it.

Nothing of JAX is imported before it is needed: real deaths fork, and come first.
"""

import contextlib
import io
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from run_attack.wholeness import is_whole

SPRITES = ("square", "circle")


class Scenario(NamedTuple):
    """Something that fills a folder, and how a user goes on with it when it was disturbed."""

    begin: Callable[[Path], object]
    go_on: Callable[[Path], object]
    results: tuple[str, ...]  # the files that must be the same in the end
    saved: Callable[[Path], float]  # how far what is safe has come: it must never go back
    old: Callable[[Path], object] = lambda folder: None  # what is there before


def free_play(world: Any, settings: Any, every: float = 0.0, forced: bool = False, features: Any = None) -> Scenario:
    """A run of free play, with a checkpoint after every part; `forced`, over the library of another seed."""
    from cumulant.features.coordinates import true_features
    from cumulant.freeplay.checkpoints import finished, was_begun
    from cumulant.transfer.pretraining import pretrain

    def play(out: Path, seed: int = 0, resume: bool = False, force: bool = False) -> object:
        f = features or true_features
        return pretrain(world, settings, seed, out, f, resume, checkpoint_every=every, force=force)

    def go_on(out: Path) -> object:
        try:
            return play(out, resume=was_begun(out))
        except ValueError as error:
            if "finished run" not in str(error):
                raise
        return play(out, force=True) if forced and (out / "weights.safetensors").read_bytes() == old[0] else None

    def saved(out: Path) -> float:
        if is_whole(out):
            return float("inf") if not old or (out / "weights.safetensors").read_bytes() != old[0] else -1
        return max((int(path.name) for path in finished(out) if is_whole(path)), default=-1)

    old: list[bytes] = []

    def before(out: Path) -> None:
        if forced:
            play(out, seed=1)
            old[:] = [(out / "weights.safetensors").read_bytes()]

    results = ("weights.safetensors", "config.json", "metrics.jsonl")
    return Scenario(lambda out: play(out, force=forced), go_on, results, saved, before)


def seeing(forced: bool) -> Scenario:
    """`cumulant represent`, whose learning, judging and drawing are done beforehand; `forced`, over another encoder."""
    import equinox as eqx
    import jax

    from cumulant.commands import represent as command
    from cumulant.config import Represent
    from cumulant.features import encoder as encoders
    from cumulant.features import representation
    from cumulant.storage import write_whole

    settings = Represent(latents=8, width=4, pairs=64, updates=4, batch=4, restarts=1)
    asked = command.RepresentCommand(Path(), objects=SPRITES[:1], size=16, labelled=0, json=True, settings=settings)
    encoder = representation.represent(asked.world(), settings, 0, 0)
    other = eqx.tree_at(lambda encoder: encoder.high, encoder, 2 * encoder.high)
    measures = encoders.measure(encoder, jax.random.key(0), 100)

    def draw(folder: Path, *args: object) -> None:
        for name in ("reconstructions", "traversals", "correlations"):
            write_whole(folder / f"{name}.png", b"picture" * 100)

    def run(out: Path, force: bool) -> None:
        with (
            contextlib.redirect_stdout(io.StringIO()),
            mock.patch.object(representation, "represent", return_value=encoder),
            mock.patch.object(encoders, "measure", return_value=measures),
            mock.patch.object(command, "_draw", draw),
        ):
            replace(asked, out=out, force=force).run()

    def go_on(out: Path) -> None:
        if not is_whole(out) or (forced and eqx.tree_equal(encoders.Encoder.load(out), other)):
            run(out, force=(out / "config.json").exists())

    results = ("weights.safetensors", "config.json", "reconstructions.png")
    before = other.save if forced else lambda folder: None
    return Scenario(lambda out: run(out, forced), go_on, results, lambda out: 0.0, before)


def series() -> Scenario:
    """Three parts of a figure, one after the other, each of which keeps a library."""
    from cumulant.experiments.parts import FULL, Part, Ran, Scale, run_part
    from cumulant.experiments.run_folders import Row
    from cumulant.transfer.library import Library

    @dataclass(frozen=True)
    class Keeps(Part):
        measured: bool

        def settings(self) -> "Keeps":
            return self

        def shrunk(self) -> "Keeps":
            return self

        def run(self, name: str, scale: Scale, folder: Path) -> Ran:
            library.save(folder / "library-0")
            rows = [Row(name, "kind", "task", seed, 0, seed / 7, 16) for seed in scale.seeds]
            return Ran(rows, {}, [{"seed": 0, "disentanglement": 1.0}] if self.measured else None)

    library = Library.load()
    parts = {f"part-{i}": Keeps(i % 2 == 0) for i in range(3)}

    def run(out: Path) -> None:
        for name, part in parts.items():
            run_part(name, part, FULL, out, lambda words: None)

    results = tuple(f"runs/{name}/{file}" for name in parts for file in ("metrics.jsonl", "library-0/config.json"))
    return Scenario(run, run, (*results, "runs/part-0/measures.json"), _parts_done)


def sweeping() -> Scenario:
    """A sweep of three trials, whose learning is done beforehand; one has failed before."""
    from cumulant.experiments import swept
    from cumulant.experiments.engines import Local, failed
    from cumulant.experiments.parts import Ran
    from cumulant.experiments.run_folders import Row
    from cumulant.experiments.sweeps import Trial, sweep
    from cumulant.freeplay.checkpoints import write_metrics
    from cumulant.transfer.library import Library
    from cumulant.worlds.spriteworld import Spriteworld

    library = Library.load()
    trials = [Trial(Spriteworld(), seed=seed) for seed in range(3)]

    def fill(given: Any, folders: Any) -> Iterator[Ran]:
        for trial, folder in zip(given, folders, strict=True):
            library.save(folder / "library")
            write_metrics(folder / "library", ["{}"])
            yield Ran([Row("zero-shot", "kind", "task", trial.seed, 0, trial.seed / 7, 16)], {})

    def run(out: Path) -> None:
        stub = swept.METHODS["play"]._replace(check=lambda trial: None, fill=fill)
        with mock.patch.dict(swept.METHODS, {"play": stub}):
            assert not sweep(trials, out, Local(in_step=2)).failed

    def before(out: Path) -> None:
        out.mkdir()
        failed(trials[1].name, "it was tired", out)

    files = ("metrics.jsonl", "library/config.json", "library/weights.safetensors", "library/metrics.jsonl")
    results = tuple(f"{trial.name}/{file}" for trial in trials for file in files)
    return Scenario(run, run, results, lambda out: float(len(list(out.glob("*/config.json")))), before)


def _parts_done(out: Path) -> float:
    return float(len(list(out.glob("runs/*/config.json"))))


@contextlib.contextmanager
def quickly() -> Iterator[None]:
    """Have free play compiled once for all runs of the same settings, and not judged: only its files matter.

    Nor is anything synced, for no power is cut; that it would be is a step all the same.
    """
    import equinox as eqx

    from cumulant.freeplay import runs
    from cumulant.transfer import pretraining

    programs: dict[Any, Any] = {}
    compiled = runs.compiled

    def once(world: Any, config: Any, features: Any, *arrays: Any) -> Any:
        key = (world, config, id(features))
        if key not in programs:
            programs[key] = compiled(world, config, features, *arrays)
        return programs[key]

    with (
        mock.patch.object(os, "fsync"),
        mock.patch.object(runs, "compiled", once),
        mock.patch.object(runs, "start", eqx.filter_jit(runs.start)),
        mock.patch.object(pretraining, "_held_out_success", return_value=0.5),
    ):
        yield


def scenarios(updates: int) -> Iterator[tuple[str, Callable[[], Scenario]]]:
    """All of them, by name, each made when it is wanted."""
    from cumulant.config import FreePlay
    from cumulant.worlds.spriteworld import Spriteworld

    world = Spriteworld(SPRITES, max_steps=10)
    settings = FreePlay(width=8, num_envs=4, batch=8, env_steps=4 * updates, replay=160)
    yield "pretrain", lambda: free_play(world, settings)
    yield "pretrain --force", lambda: free_play(world, settings, forced=True)
    yield "represent", lambda: seeing(False)
    yield "represent --force", lambda: seeing(True)
    yield "series", series
    yield "sweep", sweeping
