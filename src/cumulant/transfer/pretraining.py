"""From a world to a library: free play, alone or several seeds in step, with what it takes to judge and keep it."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

import cumulant
from cumulant.config import FreePlay, check_seed
from cumulant.features.coordinates import Features, true_features
from cumulant.features.encoder import Encoder
from cumulant.freeplay import checkpoints
from cumulant.freeplay.in_step import InStep
from cumulant.freeplay.learning import Training, check_size, start, train
from cumulant.freeplay.networks import Network
from cumulant.freeplay.runs import Diverged, is_judged, parts_of, play_freely
from cumulant.goals.feature import described
from cumulant.goals.suites import coverage
from cumulant.storage import checksum, discard, locked
from cumulant.transfer.evaluation import Success, interval
from cumulant.transfer.library import Library
from cumulant.transfer.library_folders import DIGITS, check_features, describe, encoder_folder, forget
from cumulant.transfer.records import Made, Record, hardware
from cumulant.transfer.skills import disturbance
from cumulant.worlds.check import tremble_of
from cumulant.worlds.failures import plainly
from cumulant.worlds.protocol import World, apart, at_once
from cumulant.worlds.seen import Seen

_HELD_OUT_SEED = 90_000  # of the goals that show success on the way; no evaluation uses it
_HELD_OUT = 16  # goals, and episodes of each
_FEW = 2  # episodes of each where steps are dear


def pretrain(
    world: World,
    config: FreePlay,
    seed: int = 0,
    out: str | Path | None = None,
    features: Features = true_features,
    resume: bool = False,
    report: Callable[[dict[str, Any]], None] = lambda metrics: None,
    should_stop: Callable[[], bool] = lambda: False,
    checkpoint_every: float = 60.0,
    force: bool = False,
) -> Library | None:
    """Play freely in a world and learn Ψ. With `out`, metrics, checkpoints and the finished library go there.

    `features` is a function of the observation, or a Module such as an `Encoder`: f(obs) → [d], each in [0, 1].
    Returns the library, or None if `should_stop` ended the run; then `resume` goes on from the last checkpoint, and the
    weights at the end are the same, bit for bit on a CPU, as if nothing had happened. So they are if it was killed.
    `force` overwrites a run in the folder. Nobody else may write there at the same time.

    >>> import cumulant
    >>> brief = cumulant.FreePlay(width=8, num_envs=4, batch=8, env_steps=400, replay=400)
    >>> library = cumulant.pretrain(cumulant.Spriteworld(max_steps=10), brief, seed=0)
    >>> library.weights("square left").shape  # clauses, features, bins
    (1, 6, 3)
    """
    check_seed(seed)
    check_features(features, world)
    check_size(world, config, features)
    out = None if out is None else Path(out)

    def judge(network: Network) -> float | None:
        library = Library(apart(world), config, network, features, tremble=tremble)
        return _held_out_success(library) if library.knows_words else None

    def finish(network: Network) -> Library:
        return replace(_finished(played, config, network, features, seed), world=world, tremble=tremble)

    def noting(metrics: dict[str, Any]) -> None:
        noted.update({metrics["event"]: metrics})
        report(metrics)

    noted: dict[str, dict[str, Any]] = {}
    about = describe(world, config, features) | {"seed": seed}
    tremble = _tremble(world, features)
    played: World = Seen(world, tremble=tremble) if tremble else world
    with ExitStack() as held:
        if out:
            held.enter_context(locked(out, encoder_folder(out).name))
            _prepare(out, features, resume, force)
        network = play_freely(
            played,
            config,
            features,
            seed,
            judge=judge,
            report=noting,
            should_stop=should_stop,
            out=out,
            about=about,
            resume=resume,
            checkpoint_every=checkpoint_every,
            rehearsed=(judge, finish),
        )
        if network is None:
            return None
        library = _recorded(finish(network), seed, noted)
        if out:
            library.save(out)
            checkpoints.discard_all(out)
    return library


def pretrain_in_step(
    world: World,
    config: FreePlay,
    seeds: Sequence[int],
    features: Sequence[Features],
    report: Callable[[list[dict[str, Any]]], None] | None = None,
) -> tuple[list[Library], dict[str, float]]:
    """Several seeds' free play as one program: their libraries, and the seconds of compiling and of training.

    On a CPU each library is, bit for bit, what `pretrain` makes of its seed. `report` hears every run's metrics after
    each part, some with the success on held-out goals.
    """
    tremble = _tremble(world, features[0])
    played: World = Seen(world, tremble=tremble) if tremble else world

    def advance(f: Features, training: Training, until: Array) -> tuple[Training, Array]:
        return train(played, config, f, training, until)

    begun = [start(played, config, f, jax.random.key(seed)) for f, seed in zip(features, seeds, strict=True)]
    runs = InStep(advance, features, begun)
    del begun  # a replay for each run
    for update in (parts := parts_of(config.updates)):
        losses = runs.advance(update)
        if not jnp.isfinite(losses).all():
            raise Diverged(f"the losses of the seeds {list(seeds)} are {losses}")
        if report:
            about = {"update": update, "env_steps": update * config.num_envs, "seconds": runs.train_seconds}
            metrics = [about | {"loss": float(loss)} for loss in losses]
            if is_judged(parts, update):
                for each, network, f in zip(metrics, _networks(runs), features, strict=True):
                    each |= _judged(Library(world, config, network, f, tremble=tremble))  # noqa: PLW2901
            report(metrics)
    ended = zip(_networks(runs), features, seeds, strict=True)
    finished = [_finished(played, config, network, f, seed) for network, f, seed in ended]
    libraries = [replace(each, world=world, tremble=tremble) for each in finished]
    return libraries, {"compile_s": runs.compile_seconds, "train_s": runs.train_seconds}


def _networks(runs: InStep[Training]) -> list[Network]:
    """Every run's as it stands, without what else a run carries."""
    stacked, static = eqx.partition(runs.runs.network, eqx.is_array)
    number = len(jax.tree.leaves(stacked)[0])
    return [eqx.combine(jax.tree.map(lambda leaf, i=i: leaf[i], stacked), static) for i in range(number)]


def _judged(library: Library) -> dict[str, float]:
    return {"success": _held_out_success(library)} if library.knows_words else {}


def _tremble(world: World, features: Features) -> tuple[float, ...]:
    """How far the world's own features tremble, if it does not say so itself."""
    said = any(each.resolution for each in described(world.feature_names))
    exact = features is not true_features or getattr(world, "shows_features", False)
    return () if exact or said else tremble_of(apart(world))


def _finished(world: World, config: FreePlay, network: Network, features: Features, seed: int) -> Library:
    """The library of a run that is over, with what its skills do to each other."""
    with plainly():
        moved = jax.block_until_ready(disturbance(world, network, features, config.gamma, jax.random.key(seed)))
    as_kept = np.asarray(moved, float).round(DIGITS)  # so that it acts alike before and after it was on a disk
    return Library(world, config, network, features, jnp.asarray(as_kept, jnp.float32))


def _recorded(library: Library, seed: int, noted: dict[str, dict[str, Any]]) -> Library:
    """The library with a record of how it was made, from the last report of every kind."""
    compiled, progress, finished = (noted.get(event, {}) for event in ("compiled", "progress", "finished"))
    held_out = None
    if (rate := progress.get("success")) is not None:
        episodes = _HELD_OUT * _held_out_episodes(library.world)
        held_out = Success(rate, interval(round(rate * episodes), episodes), None, _HELD_OUT, episodes)
    seconds, since = finished.get("seconds"), compiled.get("update", 0)
    made = Made(seed, hardware(), compiled.get("seconds"), seconds, since, cumulant.__version__, held_out)
    return replace(library, record=Record(checksum(library.network), made))


def _prepare(out: Path, features: Features, resume: bool, force: bool) -> None:
    """Have a folder ready for a run: empty, or with what is to be resumed; and with the encoder, if there is one."""
    if force:
        checkpoints.clear(out)
        forget(out)
        discard(encoder_folder(out))
    if checkpoints.holds_a_run(out) and not resume:
        raise ValueError(f"{out} already holds a run: resume it, or choose another folder")
    found = checkpoints.finished(out)
    if (out / "config.json").exists() and not found:
        checkpoints.discard_all(out)  # what it had no time to remove
        raise ValueError(f"{out} holds a finished run: there is nothing to resume")
    if isinstance(features, Encoder):
        _keep_encoder(features, encoder_folder(out), begun=bool(found))


def _keep_encoder(given: Encoder, kept: Path, begun: bool) -> None:
    """Put learnt features into the run's own folder, which from now on needs no other."""
    if not begun:
        given.save(kept)
    elif not eqx.tree_equal(given, Encoder.load(kept)):
        raise ValueError(f"{kept.parent} holds a run with another encoder: resume it with the same")


def _held_out_success(library: Library) -> float:
    """Success on some of the theorem's (m + 1)^k goals, which no evaluation uses; any world has them."""
    goals = coverage(library.world.feature_names, _HELD_OUT, _HELD_OUT_SEED, library.config.bins)
    episodes = _held_out_episodes(library.world)
    results = library.evaluate({"goals": goals}, jax.random.key(_HELD_OUT_SEED), episodes)
    return results["goals"].success


def _held_out_episodes(world: World) -> int:
    return _HELD_OUT if at_once(world) is None else _FEW
