"""Runs of free play: compiled in chunks, with metrics, checkpoints and a resume that leaves no trace."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from cumulant.config import FreePlay
from cumulant.features.coordinates import Features
from cumulant.freeplay import checkpoints
from cumulant.freeplay.checkpoints import Report
from cumulant.freeplay.learning import Training, start, train
from cumulant.freeplay.networks import Network
from cumulant.storage import Unwritable
from cumulant.worlds.failures import plainly
from cumulant.worlds.protocol import World, at_once

_PARTS = 40  # of a run, after each of which it reports and may be stopped
_JUDGED_EVERY = 8  # parts
Advance = Callable[[PyTree, int], tuple[PyTree, Array]]  # (arrays of a Training, until) → (the same, mean loss)


class Diverged(Exception):
    """The loss stopped being a number; the message says at which update, and what the last good checkpoint is.

    >>> raise Diverged("the loss is nan at update 50; there is no checkpoint yet")
    Traceback (most recent call last):
    cumulant.freeplay.runs.Diverged: the loss is nan at update 50; there is no checkpoint yet
    """


def play_freely(
    world: World,
    config: FreePlay,
    features: Features,
    seed: int,
    *,
    judge: Callable[[Network], float | None],
    report: Report,
    should_stop: Callable[[], bool] = lambda: False,
    out: Path | None = None,
    about: dict[str, Any] | None = None,
    resume: bool = False,
    checkpoint_every: float = 60.0,
    rehearsed: Sequence[Callable[[Network], object]] = (),
) -> Network | None:
    """Learn Ψ, and return its network, or None if `should_stop` ended the run.

    `judge` gives the success of a network on the way, if there is any to tell. With `out`, metrics and checkpoints go
    there, and `about` says whose they are: `resume` goes on from the last one if it was about the same. What cannot be
    written on the way is reported as "unsaved" and tried again after the next part; at the end it is Unwritable.
    What is `rehearsed` will be called with a network later, and may be compiled while training is.
    """
    about, lines = about or {}, list[str]()
    with plainly():
        arrays, static = eqx.partition(start(world, config, features, jax.random.key(seed)), eqx.is_array)
        jax.block_until_ready(arrays)
    if resume and out:
        arrays, lines = _resumed(world, out, arrays, about, report)
    report({"event": "busy", "message": "compiling"})
    with _rehearsing(rehearsed if _compiles_beside(world) else (), eqx.combine(arrays.network, static.network)):
        advance, compile_seconds = compiled(world, config, features, arrays, static)
    report({"event": "compiled", "seconds": compile_seconds, "update": int(arrays.update)})
    parts, seconds, saved = parts_of(config.updates), 0.0, time.monotonic()
    while (update := int(arrays.update)) < config.updates:
        begun = time.perf_counter()
        with plainly():
            arrays, loss = jax.block_until_ready(advance(arrays, next(end for end in parts if end > update)))
        seconds += time.perf_counter() - begun
        update = int(arrays.update)
        if not math.isfinite(float(loss)):
            raise Diverged(f"the loss is {float(loss)} at update {update}; {checkpoints.last_good(out)}")
        metrics = {"event": "progress", "update": update, "env_steps": update * config.num_envs, "loss": float(loss)}
        if is_judged(parts, update):
            success = judge(eqx.combine(arrays.network, static.network))
            metrics |= {} if success is None else {"success": success}
        report(metrics | {"seconds": seconds})
        lines.append(checkpoints.line_of(metrics))
        stopping = should_stop() and update < config.updates
        try:
            if out:
                checkpoints.write_metrics(out, lines)  # before a checkpoint, which vouches for those up to it
            if out and (stopping or time.monotonic() - saved > checkpoint_every):
                checkpoints.save(out, update, arrays, about)
                saved = time.monotonic()
        except Unwritable as error:
            if stopping:
                raise
            report({"event": "unsaved", "message": f"{error}; going on unsaved, and trying again"})
        if stopping:
            return None
    if out:
        checkpoints.write_metrics(out, lines)  # again, for the last time could have failed
    report({"event": "finished", "seconds": seconds})
    return eqx.combine(arrays.network, static.network)


def _resumed(
    world: World, out: Path, first: Training, about: dict[str, Any], report: Report
) -> tuple[Training, list[str]]:
    """Return the arrays of the last checkpoint, and the metrics up to it."""
    arrays = checkpoints.latest(out, first, about, report)
    if at_once(world) is not None:  # episodes on the host ended with the process that played them
        arrays = arrays._replace(episodes=first.episodes, x=first.x, policy=first.policy)
    return arrays, checkpoints.read_metrics(out, int(arrays.update))


def parts_of(updates: int) -> list[int]:
    """The updates at which the parts of a run end.

    >>> parts_of(100)[:3], parts_of(100)[-1], len(parts_of(100)), parts_of(3)
    ([3, 6, 9], 100, 34, [1, 2, 3])
    """
    size = math.ceil(updates / _PARTS)
    return [*range(size, updates, size), updates]


def is_judged(parts: Sequence[int], update: int) -> bool:
    """Whether a run is judged at the end of a part; judging takes as long as some of them."""
    return (parts.index(update) + 1) % _JUDGED_EVERY == 0 or update == parts[-1]


def _compiles_beside(world: World) -> bool:
    """Whether it pays to compile several programs at once: one takes all cores of a CPU, and a host plays one."""
    return jax.default_backend() != "cpu" and at_once(world) is None


@contextmanager
def _rehearsing(functions: Sequence[Callable[[Network], object]], network: Network) -> Iterator[None]:
    """Call functions of a network in threads of their own, so that what they need is compiled beside what is done here.

    What one of them raises is not lost: it will be called again when its turn comes.
    """
    if not functions:
        yield
        return
    kept = jax.tree.map(lambda leaf: leaf.copy() if eqx.is_array(leaf) else leaf, network)  # training donates its own
    with ThreadPoolExecutor(len(functions)) as threads:
        for function in functions:
            threads.submit(function, kept)
        yield


@eqx.filter_jit(donate="all-except-first")
def _advanced(given: tuple[World, FreePlay, Features, Array], training: Training) -> tuple[Training, Array]:
    """Training up to some update: compiled once, however many runs of a kind there are."""
    world, config, features, until = given
    return train(world, config, features, training, until)


def compiled(
    world: World, config: FreePlay, features: Features, arrays: Training, static: Training
) -> tuple[Advance, float]:
    """Compile training as one program over arrays alone; return it, and the seconds that took."""
    begun = time.perf_counter()

    def given(until: int) -> tuple[World, FreePlay, Features, Array]:
        return world, config, features, jnp.int32(until)

    program = _advanced.lower(given(0), eqx.combine(arrays, static)).compile()  # type: ignore[attr-defined]

    def advance(arrays: PyTree, until: int) -> tuple[PyTree, Array]:
        training, loss = program(given(until), eqx.combine(arrays, static))
        return eqx.filter(training, eqx.is_array), loss

    return advance, time.perf_counter() - begun
