"""Stage 1, from pixels: features f: frame → [0, 1]^d, learnt without rewards, labels or the true state."""

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray, PyTree, UInt8

from cumulant.config import Represent, check_memory
from cumulant.features.autoencoders import Autoencoder, Decoder, image_of
from cumulant.features.encoder import Encoder, encoded, in_parts, make_autoencoder, random_frames, scaled
from cumulant.features.grounding import check_labels, ground
from cumulant.goals.bins import bin_index
from cumulant.worlds.episodes import random_policy, rollout
from cumulant.worlds.protocol import World, never

_CHUNKS = 20  # a run's parts, after each of which it reports
_JUDGED = 1024  # frames by which latents are judged
_SPACING, _MOMENTS = 10, 8  # of an episode, every tenth step, eight times: neighbours in time are too much alike


class Pairs(NamedTuple):
    """Frames and those that followed one action later."""

    before: UInt8[Array, "n size size 3"]
    after: UInt8[Array, "n size size 3"]


def explore(world: World, key: PRNGKeyArray, pairs: int) -> Pairs:
    """What random play sees, rendered where the program runs: pairs of frames, one action apart."""
    episodes = _explored(world, jax.random.split(key, -(-pairs // _MOMENTS)))
    return jax.tree.map(lambda leaf: leaf[:pairs], episodes)


@eqx.filter_jit
def _explored(world: World, keys: Key[Array, " n"]) -> Pairs:
    def episode(key: PRNGKeyArray) -> Pairs:
        key_start, key_play = jax.random.split(key)
        steps = _SPACING * _MOMENTS
        states = rollout(world, random_policy(world), never, world.reset(key_start), key_play, steps).states
        chosen = [jax.tree.map(lambda leaf, i=i: leaf[i:steps:_SPACING], states) for i in (0, 1)]
        return Pairs(*(jax.vmap(world.observe)(part) for part in chosen))

    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), jax.vmap(episode)(keys))


def represent(
    world: World,
    settings: Represent,
    seed: int = 0,
    labelled: int = 64,
    report: Callable[[dict[str, Any]], None] = lambda metrics: None,
) -> Encoder:
    """Explore, learn an autoencoder, keep the latents that count, and learn what words mean from labelled frames.

    `world` shows square RGB frames; `labelled` frames are described in words at the end, which changes nothing but the
    grounding: with none, the features have no names. `report` is called with a dictionary now and then. Returns an
    encoder, frame [size, size, 3] → [d].

    >>> import cumulant
    >>> world = cumulant.PixelSpriteworld(("square",), size=16)
    >>> brief = cumulant.Represent(latents=8, width=4, pairs=64, updates=4, batch=4, restarts=1)
    >>> 1 <= len(cumulant.represent(world, brief, seed=0, labelled=0).kept) <= 8
    True
    """
    check_size(world, settings, labelled)
    key_explore, key_train, key_label = jax.random.split(jax.random.key(seed), 3)
    eqx.filter_eval_shape(make_autoencoder, world, settings, key_train)  # refuses what it cannot be, before any play
    if labelled:
        check_labels(_labelled(world, key_label, labelled)[1])  # before hours have been spent
    report({"event": "begun"})
    report({"event": "busy", "message": f"looking at {2 * settings.pairs:,} frames of random play"})
    pairs = jax.block_until_ready(explore(world, key_explore, settings.pairs))
    autoencoder = _best(world, settings, pairs, key_train, report)
    some = pairs.before[: 16 * _JUDGED]
    z = encoded(autoencoder.encode, some)
    kept = essential(z, importance(autoencoder, some[:_JUDGED], z[:_JUDGED]))
    # A few frames may be far off where a sprite is hidden; they must not stretch the range for all others.
    low, high = np.quantile(z[:, kept], [0.002, 0.998], axis=0).astype(np.float32)
    high = np.maximum(high, low + 1e-6)
    features = np.append(scaled(z[:, kept], low, high), np.ones((len(z), 1)), axis=1)
    unfold = np.linalg.lstsq(features, z, rcond=None)[0].T
    index, low, high, unfold = jnp.asarray(kept, jnp.int32), *(jnp.asarray(a, jnp.float32) for a in (low, high, unfold))
    encoder = Encoder(autoencoder, index, low, high, unfold, None, world, settings)
    report({"event": "kept", "latents": kept, "of": z.shape[1]})
    return grounded(encoder, key_label, labelled) if labelled else encoder


def check_size(world: World, settings: Represent, labelled: int) -> None:
    """OutOfBounds for what takes more memory than there is, by what is sure to be needed at once."""
    frame = jax.eval_shape(lambda key: world.observe(world.reset(key)), jax.random.key(0))
    number = 2 * settings.pairs + labelled
    check_memory(f"looking at {number:,} frames", number * frame.size * frame.dtype.itemsize)
    layer = 4 * settings.batch * settings.width  # bytes for each of the least number of places
    check_memory(f"a batch of {settings.batch:,} frames", 4 * settings.batch * frame.size + layer)


def grounded(encoder: Encoder, key: PRNGKeyArray, labelled: int) -> Encoder:
    """The encoder with a grounding from frames of random states, each labelled by the thirds its sprites lie in."""
    frames, thirds = _labelled(encoder.world, key, labelled)
    if len(encoder.kept) < thirds.shape[1]:
        return encoder  # too few latents for all the words there are
    return replace(encoder, grounding=ground(encoded(encoder, frames), thirds))


def _labelled(
    world: World, key: PRNGKeyArray, number: int
) -> tuple[UInt8[Array, "n size size 3"], Int[np.ndarray, "n k"]]:
    """Frames of random states, and the third that each coordinate lies in."""
    frames, factors = random_frames(world, jax.random.split(key, number))
    return frames, np.asarray(bin_index(factors, 3))


class _Learning(NamedTuple):
    weights: PyTree
    optimiser: PyTree
    key: PRNGKeyArray
    total: Float[Array, ""]  # of the losses since the last report


def _best(
    world: World,
    settings: Represent,
    pairs: Pairs,
    key: PRNGKeyArray,
    report: Callable[[dict[str, Any]], None],
) -> Autoencoder:
    """Of several autoencoders, learnt one after the other by the same program, the one that reconstructs best."""
    shapes = eqx.filter_eval_shape(make_autoencoder, world, settings, key)
    static = eqx.filter(shapes, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct), inverse=True)
    report({"event": "busy", "message": "compiling"})
    begun = time.perf_counter()
    first = _started(world, settings, key)
    program = _updated.lower((settings, static, pairs), first).compile()  # type: ignore[attr-defined]
    report({"event": "compiled", "seconds": time.perf_counter() - begun})
    candidates, frames, begun = [], pairs.before[:_JUDGED], time.perf_counter()
    for restart in range(settings.restarts):
        now, done = _started(world, settings, jax.random.fold_in(key, restart)), 0
        for until in sorted({settings.updates * part // _CHUNKS for part in range(1, _CHUNKS + 1)} - {0}):
            for update in range(done, until):  # compiled, the loop is no faster; convolutions in it are slow on a CPU
                now = program((settings, static, pairs), now)
                if restart == update == 0:
                    jax.block_until_ready(now.total)
                    report({"event": "pace", "seconds": time.perf_counter() - begun})
            mean, now, done = float(now.total) / (until - done), now._replace(total=jnp.zeros(())), until
            made = restart * settings.updates + done
            if not math.isfinite(mean):
                raise ValueError(f"the loss is {mean} at update {made}: lower the learning rate")
            report({"event": "progress", "update": made, "loss": mean, "seconds": time.perf_counter() - begun})
        autoencoder = eqx.combine(now.weights, static)
        candidates.append((misfit(autoencoder, frames, encoded(autoencoder.encode, frames)), restart, autoencoder))
    return min(candidates)[2]


@eqx.filter_jit
def _started(world: World, settings: Represent, key: PRNGKeyArray) -> _Learning:
    weights = eqx.filter(make_autoencoder(world, settings, key), eqx.is_array)
    return _Learning(weights, _optimiser(settings).init(weights), key, jnp.zeros(()))


@eqx.filter_jit(donate="all-except-first")
def _updated(given: tuple[Represent, Autoencoder, Pairs], now: _Learning) -> _Learning:
    """One update of an autoencoder, whose weights are apart from all else that it is."""
    settings, static, pairs = given

    def loss(weights: PyTree, batch: Pairs, key: PRNGKeyArray) -> Float[Array, ""]:
        each = jax.vmap(eqx.combine(weights, static).loss)
        return each(*batch, jax.random.split(key, settings.batch)).mean()

    key, key_batch, key_loss = jax.random.split(now.key, 3)
    chosen = jax.random.randint(key_batch, (settings.batch,), 0, len(pairs.before))
    batch = jax.tree.map(lambda leaf: leaf[chosen], pairs)
    value, gradient = jax.value_and_grad(loss)(now.weights, batch, key_loss)
    change, state = _optimiser(settings).update(gradient, now.optimiser)
    return _Learning(optax.apply_updates(now.weights, change), state, key, now.total + value)


def _optimiser(settings: Represent) -> optax.GradientTransformation:
    rate, updates = settings.learning_rate, settings.updates
    schedule = optax.schedules.warmup_cosine_decay_schedule(0, rate, min(200, updates // 10), updates, rate / 100)
    return optax.adam(schedule)


def misfit(autoencoder: Decoder, frames: UInt8[Array, "n size size 3"], z: Float[np.ndarray, "n d"]) -> float:
    """The mean squared error of frames that are reconstructed from latents."""
    parts = zip(map(jnp.asarray, in_parts(z)), in_parts(frames), strict=True)
    return float(np.concatenate([_errors(autoencoder, *part) for part in parts]).mean())


@eqx.filter_jit
def _errors(autoencoder: Decoder, z: Float[Array, "p d"], frames: UInt8[Array, "p size size 3"]) -> Float[Array, " p"]:
    wrong = optax.losses.squared_error(jax.vmap(autoencoder.decode)(z), jax.vmap(image_of)(frames))
    return wrong.mean(axis=(1, 2, 3))


def importance(
    autoencoder: Decoder, frames: UInt8[Array, "n size size 3"], z: Float[np.ndarray, "n d"]
) -> Float[np.ndarray, " d"]:
    """How much worse the frames are reconstructed with a latent of another frame, as a share of the error: [d]."""
    shuffled = np.tile(z, (z.shape[1], 1, 1))  # [d, n, d]
    for j, other in enumerate(shuffled):
        other[:, j] = np.roll(z[:, j], len(z) // 2)  # far off: the frames of an episode lie side by side
    return np.array([misfit(autoencoder, frames, other) for other in shuffled]) / misfit(autoencoder, frames, z) - 1


def essential(
    z: Float[np.ndarray, "n d"], importance: Float[np.ndarray, " d"], dead: float = 0.15, redundant: float = 0.5
) -> list[int]:
    """The latents to keep. No truth is needed: the dead ones do not matter, the redundant ones follow from the others.

    Of those that follow from others, the one that resembles the others most goes first: a point in the middle of
    two sprites resembles both, while each of the two resembles nothing but that point.
    """
    kept = [j for j in range(z.shape[1]) if importance[j] > dead] or [int(importance.argmax())]
    while len(kept) > 1:
        correlation = np.corrcoef(z[:, kept].T)
        explained = 1 - 1 / np.diag(np.linalg.inv(correlation + 1e-6 * np.eye(len(kept))))
        likeness = np.where(explained > redundant, (correlation**2).sum(axis=1), -np.inf)
        if np.isneginf(likeness).all():
            break
        alike = likeness > likeness.max() - 0.1  # two of a kind: the one that matters less goes
        kept.pop(int(np.argmin(np.where(alike, importance[kept], np.inf))))
    return kept
