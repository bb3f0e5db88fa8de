"""Runs of free play: compiled in chunks, with metrics, checkpoints and a resume that leaves no trace."""

import json
import math
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from cumulant import store
from cumulant.features import Features, encoder_in, folder_of, is_learnt, named_features
from cumulant.files import write_whole
from cumulant.library import Library, encoder_folder
from cumulant.store import Unreadable
from cumulant.successor import FreePlay, Training, start, train
from cumulant.suites import coverage
from cumulant.together import Together
from cumulant.world import World

_CHUNKS = 40  # a run's parts, after each of which it reports and may be stopped
_HELD_OUT_SEED = 90_000  # of the goals that show success on the way; no evaluation uses it
_KEPT = 2  # checkpoints


class Diverged(Exception):
    """The loss stopped being a number."""


def pretrain(
    world: World,
    config: FreePlay,
    seed: int = 0,
    out: Path | None = None,
    features: str = "true",
    resume: bool = False,
    report: Callable[[dict[str, Any]], None] = lambda metrics: None,
    should_stop: Callable[[], bool] = lambda: False,
    checkpoint_every: float = 60.0,
) -> Library | None:
    """Play freely and learn Ψ. With `out`, metrics, checkpoints and the finished library go there.

    Returns the library, or None if `should_stop` ended the run; then `resume` goes on from the last checkpoint, and the
    weights at the end are the same, bit for bit on a CPU, as if nothing had happened.
    """
    if out and not resume and holds_a_run(out):
        raise ValueError(f"{out} already holds a run: resume it, or choose another folder")
    if out and is_learnt(features):
        features = _kept(world, config, features, out, resume)
    run = Library(world, config, None, features)
    arrays, static = eqx.partition(start(world, config, run.features, jax.random.key(seed)), eqx.is_array)
    described = run.describe() | {"seed": seed}
    if out and resume:
        arrays = _latest_checkpoint(out, arrays, described, report)
        _truncate_metrics(out, int(arrays.update))
    advance, compile_seconds = _compiled(run, arrays, static)
    report({"event": "compiled", "seconds": compile_seconds})
    chunk, seconds, saved = math.ceil(config.updates / _CHUNKS), 0.0, time.monotonic()
    while int(arrays.update) < config.updates:
        begun = time.perf_counter()
        arrays, loss = jax.block_until_ready(advance(arrays, jnp.minimum(arrays.update + chunk, config.updates)))
        seconds += time.perf_counter() - begun
        update = int(arrays.update)
        if not math.isfinite(float(loss)):
            raise Diverged(f"the loss is {float(loss)} at update {update}; {_last_good(out)}")
        metrics = {"event": "progress", "update": update, "env_steps": update * config.num_envs, "loss": float(loss)}
        library = replace(run, network=eqx.combine(arrays.network, static.network))
        if library.understands_goals and (update % (chunk * 8) == 0 or update == config.updates):
            metrics["success"] = _held_out_success(library)
        report(metrics | {"seconds": seconds})
        stopping = should_stop() and update < config.updates
        if out:
            _append_metrics(out, metrics)
            if stopping or time.monotonic() - saved > checkpoint_every:
                _save_checkpoint(out, arrays, described)
                saved = time.monotonic()
        if stopping:
            return None
    if out:
        library.save(out)
        shutil.rmtree(out / "checkpoints", ignore_errors=True)
    report({"event": "finished", "seconds": seconds})
    return library


def _kept(world: World, config: FreePlay, features: str, out: Path, resume: bool) -> str:
    """Learnt features by their place in the run's own folder, which from now on needs no other."""
    given, kept = folder_of(features), encoder_folder(out)
    if not (resume and (kept / "config.json").exists()):
        Library(world, config, None, features).features.save(kept)
    elif given.exists() and not eqx.tree_equal(encoder_in(given), encoder_in(kept)):
        raise ValueError(f"{out} holds a run with another encoder: resume it with the same")
    return f"learnt:{kept}"


def _compiled(run: Library, arrays: Any, static: Any) -> tuple[Callable, float]:
    """Training as one program over arrays alone, and the seconds it took to compile."""
    f, f_static = eqx.partition(run.features, eqx.is_array)

    def advance(f: Any, arrays: Training, until: jax.Array) -> tuple[Any, jax.Array]:
        features = eqx.combine(f, f_static)
        training, loss = train(run.world, run.config, features, eqx.combine(arrays, static), until)
        return eqx.filter(training, eqx.is_array), loss

    begun = time.perf_counter()
    program = jax.jit(advance, donate_argnums=1).lower(f, arrays, arrays.update).compile()
    return partial(program, f), time.perf_counter() - begun


def pretrain_together(
    world: World, config: FreePlay, seeds: Sequence[int], features: Sequence[str]
) -> tuple[list[Library], dict[str, float]]:
    """Several seeds' free play as one program: their libraries, and the seconds of compiling and of training."""

    def advance(f: Features, training: Training, until: Array) -> tuple[Training, Array]:
        return train(world, config, f, training, until)

    each = [named_features(name, len(world.feature_names)) for name in features]
    begun = [start(world, config, f, jax.random.key(seed)) for f, seed in zip(each, seeds, strict=True)]
    together = Together(advance, each, begun)
    for part in range(1, _CHUNKS + 1):
        losses = together.advance(config.updates * part // _CHUNKS)
        if not jnp.isfinite(losses).all():
            raise Diverged(f"the losses of the seeds {list(seeds)} are {losses}")
    libraries = [Library(world, config, together.run(i).network, name) for i, name in enumerate(features)]
    return libraries, {"compile_s": together.compile_seconds, "train_s": together.train_seconds}


def _held_out_success(library: Library) -> float:
    """Success on some of the theorem's (m + 1)^k goals, which no evaluation uses; any world has them."""
    goals = coverage(library.world.feature_names, 16, _HELD_OUT_SEED, library.config.bins)
    results = library.evaluate({"goals": goals}, jax.random.key(_HELD_OUT_SEED), episodes=16)
    return results["goals"].success


def _save_checkpoint(out: Path, arrays: Any, run: dict[str, Any]) -> None:
    folder = out / "checkpoints"
    store.write(folder / f"{int(arrays.update):09d}", arrays, run)
    for old in sorted(folder.iterdir())[:-_KEPT]:
        shutil.rmtree(old)


def _latest_checkpoint(out: Path, like: Any, run: dict[str, Any], report: Callable[[dict[str, Any]], None]) -> Any:
    """The newest checkpoint that can be read; a run that was stopped before its first one starts anew."""
    folder = out / "checkpoints"
    found = sorted(folder.iterdir(), reverse=True) if folder.is_dir() else []
    for path in found:
        try:
            info = store.read_info(path)
            if {name: info.get(name) for name in run} != json.loads(json.dumps(run)):
                raise ValueError(f"{out} holds a run with other settings: resume it with the same")
            return store.read(path, like)
        except Unreadable as error:
            report({"event": "damaged", "message": str(error)})
    if found:
        raise Unreadable(f"none of the checkpoints in {folder} can be read")
    return like


def _last_good(out: Path | None) -> str:
    found = sorted((out / "checkpoints").iterdir()) if out and (out / "checkpoints").is_dir() else []
    return f"the last good checkpoint is {found[-1]}" if found else "there is no checkpoint yet"


def _append_metrics(out: Path, metrics: dict[str, Any]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    with (out / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({name: value for name, value in metrics.items() if name != "event"}) + "\n")


def _truncate_metrics(out: Path, update: int) -> None:
    """Forget what was recorded after the checkpoint: it will be recorded again."""
    path = out / "metrics.jsonl"
    if path.exists():
        lines = [line for line in path.read_text().splitlines() if _update_of(line) <= update]
        write_whole(path, "".join(f"{line}\n" for line in lines).encode())


def _update_of(line: str) -> float:
    try:
        return float(json.loads(line)["update"])
    except (ValueError, KeyError):
        return math.inf  # half a line, cut off when the run was killed


def holds_a_run(out: Path) -> bool:
    """Whether a folder has something that a new run would overwrite."""
    return any((out / name).exists() for name in ("config.json", "weights.safetensors", "metrics.jsonl", "checkpoints"))
