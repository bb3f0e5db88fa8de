"""Stage 1, from pixels: features f: frame → [0, 1]^k, learnt without rewards, labels or the true state."""

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray, UInt8

from cumulant import store
from cumulant.autoencoders import Autoencoder, Keypoints, Vae, image_of
from cumulant.cumulants import bin_index
from cumulant.grounding import Grounding, ground
from cumulant.pixels import Pairs, PixelSpriteworld, explore
from cumulant.store import Unreadable

FORMAT = 1
_CHUNKS = 20  # a run's parts, after each of which it reports
_JUDGED = 1024  # frames by which latents are judged


@dataclass(frozen=True)
class Represent:
    """Stage 1's settings."""

    learner: Literal["keypoints", "beta_vae", "ada_gvae"] = "keypoints"  # What the latents are made to be.
    latents: int = 20  # Latents before the dead and the redundant are dropped.
    width: int = 32  # Channels of a layer.
    beta: float = 1.0  # Weight of a VAE's divergence.
    pairs: int = 65_536  # Pairs of frames, one action apart, seen in random play.
    updates: int = 5_000  # Of the autoencoder.
    batch: int = 64  # Pairs in an update.
    restarts: int = 2  # Autoencoders that are learnt; the one that reconstructs best is kept.
    learning_rate: float = 1e-3  # Of Adam; it rises from 0 at first, then falls as a cosine.

    def __post_init__(self) -> None:
        """Refuse settings that cannot work."""
        for name in ("latents", "width", "pairs", "updates", "batch", "restarts"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, but is {getattr(self, name)}")
        if self.learner == "keypoints" and self.latents % 2:
            raise ValueError(f"a keypoint has two latents, x and y, but latents is {self.latents}")
        if not 0 < self.learning_rate <= 1:
            raise ValueError(f"learning_rate must lie in (0, 1], but is {self.learning_rate}")
        if not self.beta >= 0:
            raise ValueError(f"beta must not be negative, but is {self.beta}")


class Encoder(eqx.Module):
    """Learnt features: those latents that are neither dead nor redundant, each scaled by its range in the data."""

    autoencoder: Autoencoder
    kept: Int[Array, " k"]
    low: Float[Array, " k"]
    high: Float[Array, " k"]
    grounding: Grounding | None  # what words mean, if frames were labelled
    world: PixelSpriteworld = eqx.field(static=True)
    settings: Represent = eqx.field(static=True)

    def __call__(self, frame: UInt8[Array, "size size 3"]) -> Float[Array, " k"]:
        """[size, size, 3] → [k], in [0, 1] for unseen frames too."""
        z = self.autoencoder.encode(frame)[self.kept]
        return jnp.clip((z - self.low) / (self.high - self.low), 0, 1)

    def save(self, folder: str | Path) -> None:
        """Write the encoder as a folder."""
        about = {
            "format": FORMAT,
            "world": asdict(self.world),
            "represent": asdict(self.settings),
            "kept": len(self.kept),
            "grounded": self.grounding is not None,
        }
        store.write(Path(folder), self, about)

    @classmethod
    def load(cls, folder: str | Path) -> "Encoder":
        """Read an encoder. Unreadable, if the folder holds none."""
        folder = Path(folder)
        info = store.read_info(folder)
        if info.get("format") != FORMAT or "represent" not in info:
            raise Unreadable(f"{folder} is not an encoder that this version reads")
        try:
            world = PixelSpriteworld(**info["world"] | {"objects": tuple(info["world"]["objects"])})
            settings = Represent(**info["represent"])
            k, names = int(info["kept"]), len(world.feature_names)
        except (KeyError, TypeError, ValueError) as error:
            raise Unreadable(f"{folder / 'config.json'} is not valid: {error}") from None
        grounding = Grounding(jnp.zeros(names, jnp.int32), jnp.zeros((names, 4)), k) if info["grounded"] else None
        blank = _autoencoder(world, settings, jax.random.key(0))
        like = cls(blank, jnp.zeros(k, jnp.int32), jnp.zeros(k), jnp.ones(k), grounding, world, settings)
        return store.read(folder, like)


def represent(
    world: PixelSpriteworld,
    settings: Represent,
    seed: int = 0,
    labelled: int = 64,
    report: Callable[[dict[str, Any]], None] = lambda metrics: None,
) -> Encoder:
    """Explore, learn an autoencoder, keep the latents that count, and learn what words mean from labelled frames.

    The labels come last and change nothing but the grounding; with none, the features have no names.
    """
    key_explore, key_train, key_label = jax.random.split(jax.random.key(seed), 3)
    pairs = jax.block_until_ready(explore(world, key_explore, settings.pairs))
    autoencoder = _best(world, settings, pairs, key_train, report)
    some = pairs.before[: 16 * _JUDGED]
    z = np.asarray(_encoded(autoencoder, some))
    kept = essential(z, importance(autoencoder, some[:_JUDGED], jnp.asarray(z[:_JUDGED])))
    # A few frames may be far off where a sprite is hidden; they must not stretch the range for all others.
    low, high = np.quantile(z[:, kept], [0.002, 0.998], axis=0).astype(np.float32)
    high = np.maximum(high, low + 1e-6)
    encoder = Encoder(
        autoencoder, jnp.asarray(kept, jnp.int32), jnp.asarray(low), jnp.asarray(high), None, world, settings
    )
    report({"event": "kept", "latents": kept, "of": z.shape[1]})
    return grounded(encoder, key_label, labelled) if labelled else encoder


def grounded(encoder: Encoder, key: PRNGKeyArray, labelled: int) -> Encoder:
    """The encoder with a grounding from frames of random states, each labelled by the thirds its sprites lie in."""
    states = jax.vmap(encoder.world.reset)(jax.random.split(key, labelled))
    f = jax.jit(jax.vmap(lambda state: encoder(encoder.world.observe(state))))(states)
    thirds = jax.vmap(lambda state: bin_index(encoder.world.features(state), 3))(states)
    if f.shape[1] < thirds.shape[1]:
        return encoder  # too few latents for all the words there are
    return replace(encoder, grounding=ground(np.asarray(f), np.asarray(thirds)))


def _autoencoder(world: PixelSpriteworld, settings: Represent, key: PRNGKeyArray) -> Autoencoder:
    if settings.learner == "keypoints":
        return Keypoints(world.size, settings.latents, settings.width, key)
    adaptive = settings.learner == "ada_gvae"
    return Vae(world.size, settings.latents, settings.width, settings.beta, adaptive, key)


class _Learning(NamedTuple):
    weights: Any
    optimiser: Any
    key: PRNGKeyArray
    update: Int[Array, ""]


def _best(
    world: PixelSpriteworld,
    settings: Represent,
    pairs: Pairs,
    key: PRNGKeyArray,
    report: Callable[[dict[str, Any]], None],
) -> Autoencoder:
    """Of several autoencoders, learnt one after the other by the same program, the one that reconstructs best."""
    optimiser, static = _optimiser(settings), eqx.filter(_autoencoder(world, settings, key), eqx.is_array, inverse=True)

    def start(key: PRNGKeyArray) -> _Learning:
        weights = eqx.filter(_autoencoder(world, settings, key), eqx.is_array)
        return _Learning(weights, optimiser.init(weights), key, jnp.zeros((), jnp.int32))

    def advance(now: _Learning, pairs: Pairs, until: Int[Array, ""]) -> tuple[_Learning, Float[Array, ""]]:
        return _updated(settings, static, now, pairs, until)

    begun = time.perf_counter()
    program = jax.jit(advance, donate_argnums=0).lower(start(key), pairs, jnp.int32(0)).compile()
    report({"event": "compiled", "seconds": time.perf_counter() - begun})
    candidates, frames, begun = [], pairs.before[:_JUDGED], time.perf_counter()
    for restart in range(settings.restarts):
        now = start(jax.random.fold_in(key, restart))
        for part in range(1, _CHUNKS + 1):
            now, loss = program(now, pairs, jnp.int32(settings.updates * part // _CHUNKS))
            update = restart * settings.updates + int(now.update)
            if not math.isfinite(float(loss)):
                raise ValueError(f"the loss is {float(loss)} at update {update}: lower the learning rate")
            progress = {"update": update, "loss": float(loss), "seconds": time.perf_counter() - begun}
            report({"event": "progress"} | progress)
        autoencoder = eqx.combine(now.weights, static)
        candidates.append((float(misfit(autoencoder, frames, _encoded(autoencoder, frames))), restart, autoencoder))
    return min(candidates)[2]


def _updated(
    settings: Represent, static: Any, now: _Learning, pairs: Pairs, until: Int[Array, ""]
) -> tuple[_Learning, Float[Array, ""]]:
    """Updates up to `until`, and their mean loss."""
    optimiser = _optimiser(settings)

    def loss(weights: Any, batch: Pairs, key: PRNGKeyArray) -> Float[Array, ""]:
        each = jax.vmap(eqx.combine(weights, static).loss)
        return each(*batch, jax.random.split(key, settings.batch)).mean()

    def update(_: Any, carry: tuple[_Learning, Array]) -> tuple[_Learning, Array]:
        now, total = carry
        key, key_batch, key_loss = jax.random.split(now.key, 3)
        chosen = jax.random.randint(key_batch, (settings.batch,), 0, len(pairs.before))
        batch = jax.tree.map(lambda leaf: leaf[chosen], pairs)
        value, gradient = jax.value_and_grad(loss)(now.weights, batch, key_loss)
        change, state = optimiser.update(gradient, now.optimiser)
        return _Learning(optax.apply_updates(now.weights, change), state, key, now.update + 1), total + value

    first = now.update
    now, total = jax.lax.fori_loop(first, until, update, (now, jnp.zeros(())))
    return now, total / jnp.maximum(until - first, 1)


def _optimiser(settings: Represent) -> optax.GradientTransformation:
    rate, updates = settings.learning_rate, settings.updates
    schedule = optax.schedules.warmup_cosine_decay_schedule(0, rate, min(200, updates // 10), updates, rate / 100)
    return optax.adam(schedule)


@eqx.filter_jit
def _encoded(autoencoder: Autoencoder, frames: UInt8[Array, "n size size 3"]) -> Float[Array, "n d"]:
    return jax.lax.map(autoencoder.encode, frames, batch_size=256)


@eqx.filter_jit
def misfit(autoencoder: Autoencoder, frames: UInt8[Array, "n size size 3"], z: Float[Array, "n d"]) -> Float[Array, ""]:
    """The mean squared error of frames reconstructed from latents."""

    def of_frame(pair: tuple[Array, Array]) -> Float[Array, ""]:
        return optax.losses.squared_error(autoencoder.decode(pair[0]), image_of(pair[1])).mean()

    return jax.lax.map(of_frame, (z, frames), batch_size=256).mean()


@eqx.filter_jit
def importance(
    autoencoder: Autoencoder, frames: UInt8[Array, "n size size 3"], z: Float[Array, "n d"]
) -> Float[Array, " d"]:
    """How much worse the frames are reconstructed with a latent of another frame, as a share of the error: [d]."""

    def shuffled(j: Int[Array, ""]) -> Float[Array, ""]:
        return misfit(autoencoder, frames, z.at[:, j].set(jnp.roll(z[:, j], 1)))

    return jax.lax.map(shuffled, jnp.arange(z.shape[1])) / misfit(autoencoder, frames, z) - 1


def essential(
    z: Float[np.ndarray, "n d"], importance: Float[Any, " d"], dead: float = 0.15, redundant: float = 0.5
) -> list[int]:
    """The latents to keep. No truth is needed: the dead ones do not matter, the redundant ones follow from the others.

    Of those that follow from others, the one that resembles the others most goes first: a point in the middle of
    two sprites resembles both, while each of the two resembles nothing but that point.
    """
    importance = np.asarray(importance)
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
