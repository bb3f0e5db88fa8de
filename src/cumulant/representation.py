"""Stage 1, from pixels: features f: frame → [0, 1]^k, learnt without rewards, labels or the true state."""

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray, UInt8

from cumulant import store
from cumulant.autoencoders import Autoencoder, Keypoints, Vae, image_of, in_half_precision
from cumulant.cumulants import bin_index
from cumulant.disentanglement import assignment, dci, mig, rank_correlations
from cumulant.grounding import Grounding, check_labels, ground
from cumulant.pixels import Pairs, PixelSpriteworld, explore
from cumulant.store import Unreadable

FORMAT = 1
Learner = Literal["keypoints", "beta_vae", "ada_gvae"]
_CHUNKS = 20  # a run's parts, after each of which it reports
_JUDGED = 1024  # frames by which latents are judged


@dataclass(frozen=True)
class Represent:
    """Stage 1's settings."""

    learner: Learner = "keypoints"  # What the latents are made to be.
    latents: int = 20  # Latents before the dead and the redundant are dropped.
    width: int = 32  # Channels of a layer.
    beta: float = 1.0  # Weight of a VAE's divergence.
    pairs: int = 65_536  # Pairs of frames, one action apart, seen in random play.
    updates: int = 5_000  # Of the autoencoder.
    batch: int = 64  # Pairs in an update.
    restarts: int = 3  # Autoencoders that are learnt; the one that reconstructs best is kept.
    learning_rate: float = 1e-3  # Of Adam; it rises from 0 at first, then falls as a cosine.

    def __post_init__(self) -> None:
        """Refuse settings that cannot work."""
        if self.learner not in get_args(Learner):
            raise ValueError(f"unknown learner {self.learner!r}: choose from {', '.join(get_args(Learner))}")
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
    unfold: Float[Array, "d affine"]  # all latents from the features and a 1: copies follow what they copy
    grounding: Grounding | None  # what words mean, if frames were labelled
    world: PixelSpriteworld = eqx.field(static=True)
    settings: Represent = eqx.field(static=True)

    def __call__(self, frame: UInt8[Array, "size size 3"]) -> Float[Array, " k"]:
        """[size, size, 3] → [k], in [0, 1] for unseen frames too."""
        swift = in_half_precision(self.autoencoder) if jax.default_backend() == "gpu" else self.autoencoder
        return _scaled(swift.encode(frame)[self.kept], self.low, self.high)

    def imagine(self, f: Float[Array, " k"]) -> Float[Array, "size size 3"]:
        """What the decoder makes of features: [k] → [size, size, 3]."""
        return jnp.clip(self.autoencoder.decode(self.unfold @ jnp.append(f, 1)), 0, 1)

    @property
    def resolution(self) -> float:
        """The least change of a feature that is more than noise: about a pixel. Latents tremble when anything moves."""
        return 1 / self.world.size

    @property
    def names(self) -> tuple[str, ...]:
        """What to call each feature: the coordinate that it is grounded to, or its number."""
        if self.grounding:
            return self.grounding.names(self.world.feature_names)
        return tuple(f"latent {i}" for i in range(len(self.kept)))

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
            stored = info["world"]
            world = PixelSpriteworld(**stored | {"objects": tuple(stored["objects"])})
            settings = Represent(**info["represent"])
            k, grounded, names = int(info["kept"]), info["grounded"], len(world.feature_names)
            if not 1 <= k <= settings.latents:
                raise ValueError(f"{k} of {settings.latents} latents cannot be kept")
            blank = eqx.filter_eval_shape(_autoencoder, world, settings, jax.random.key(0))
        except (KeyError, TypeError, ValueError) as error:
            first = str(error).partition("\n")[0]
            raise Unreadable(f"{folder / 'config.json'} is not valid: {first}") from None
        grounding = Grounding(jnp.zeros(names, jnp.int32), jnp.zeros((names, 4)), k) if grounded else None
        kept, unfold = jnp.zeros(k, jnp.int32), jnp.zeros((settings.latents, k + 1))
        like = cls(blank, kept, jnp.zeros(k), jnp.ones(k), unfold, grounding, world, settings)
        return store.read(folder, like)


def _scaled(z: Any, low: Any, high: Any) -> Any:
    """Latents by their range in the data, in [0, 1] for any: [..., k] → [..., k]."""
    return ((z - low) / (high - low)).clip(0, 1)


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
    if labelled:
        check_labels(_labelled(world, key_label, labelled)[1])  # before hours have been spent
    pairs = jax.block_until_ready(explore(world, key_explore, settings.pairs))
    autoencoder = _best(world, settings, pairs, key_train, report)
    some = pairs.before[: 16 * _JUDGED]
    z = encoded(autoencoder.encode, some)
    kept = essential(z, importance(autoencoder, some[:_JUDGED], z[:_JUDGED]))
    # A few frames may be far off where a sprite is hidden; they must not stretch the range for all others.
    low, high = np.quantile(z[:, kept], [0.002, 0.998], axis=0).astype(np.float32)
    high = np.maximum(high, low + 1e-6)
    features = np.append(_scaled(z[:, kept], low, high), np.ones((len(z), 1)), axis=1)
    unfold = np.linalg.lstsq(features, z, rcond=None)[0].T
    index, low, high, unfold = jnp.asarray(kept, jnp.int32), *(jnp.asarray(a, jnp.float32) for a in (low, high, unfold))
    encoder = Encoder(autoencoder, index, low, high, unfold, None, world, settings)
    report({"event": "kept", "latents": kept, "of": z.shape[1]})
    return grounded(encoder, key_label, labelled) if labelled else encoder


def grounded(encoder: Encoder, key: PRNGKeyArray, labelled: int) -> Encoder:
    """The encoder with a grounding from frames of random states, each labelled by the thirds its sprites lie in."""
    frames, thirds = _labelled(encoder.world, key, labelled)
    if len(encoder.kept) < thirds.shape[1]:
        return encoder  # too few latents for all the words there are
    return replace(encoder, grounding=ground(encoded(encoder, frames), thirds))


def _labelled(
    world: PixelSpriteworld, key: PRNGKeyArray, number: int
) -> tuple[UInt8[Array, "n size size 3"], Int[np.ndarray, "n k"]]:
    """Frames of random states, and the third that each coordinate lies in."""
    states = jax.vmap(world.reset)(jax.random.split(key, number))
    thirds = jax.vmap(lambda state: bin_index(world.features(state), 3))(states)
    return jax.jit(jax.vmap(world.observe))(states), np.asarray(thirds)


class Measures(NamedTuple):
    """How well an encoder tells the k factors that its world is made of, on frames that it has not seen."""

    rho: dict[str, float]  # each factor's rank correlation with a latent of its own
    latent: Int[np.ndarray, " k"]  # which of the latents kept that is; -1 where there are too few
    disentanglement: float  # of DCI, as are the next two
    completeness: float
    informativeness: float
    mig: float
    kept: int  # latents
    correlations: Float[np.ndarray, "d k"]  # of every latent kept with every factor

    def plain(self) -> dict[str, Any]:
        """The same without arrays, for JSON."""
        return self._asdict() | {"latent": self.latent.tolist(), "correlations": self.correlations.tolist()}


def measure(encoder: Encoder, key: PRNGKeyArray, frames: int = 2000) -> Measures:
    """Judge an encoder by the true state, on frames of random starts."""
    world = encoder.world
    states = jax.vmap(world.reset)(jax.random.split(key, frames))
    latents = encoded(encoder, jax.jit(jax.vmap(world.observe))(states))
    factors = np.asarray(jax.vmap(world.features)(states))
    chosen, strength = assignment(latents, factors)
    return Measures(
        dict(zip(world.feature_names, strength.tolist(), strict=True)),
        chosen,
        *dci(latents, factors)[:3],
        mig=mig(latents, factors),
        kept=latents.shape[1],
        correlations=rank_correlations(latents, factors),
    )


def _autoencoder(world: PixelSpriteworld, settings: Represent, key: PRNGKeyArray) -> Autoencoder:
    if settings.learner == "keypoints":
        if world.size % 2:
            raise ValueError(f"keypoints need frames of an even size, but size is {world.size}")
        return Keypoints(world.size, settings.latents, settings.width, key)
    adaptive = settings.learner == "ada_gvae"
    return Vae(world.size, settings.latents, settings.width, settings.beta, adaptive, key)


class _Learning(NamedTuple):
    weights: Any
    optimiser: Any
    key: PRNGKeyArray
    total: Float[Array, ""]  # of the losses since the last report


def _best(
    world: PixelSpriteworld,
    settings: Represent,
    pairs: Pairs,
    key: PRNGKeyArray,
    report: Callable[[dict[str, Any]], None],
) -> Autoencoder:
    """Of several autoencoders, learnt one after the other by the same program, the one that reconstructs best."""
    shapes = eqx.filter_eval_shape(_autoencoder, world, settings, key)
    static = eqx.filter(shapes, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct), inverse=True)
    optimiser = _optimiser(settings)

    @jax.jit
    def start(key: PRNGKeyArray) -> _Learning:
        weights = eqx.filter(_autoencoder(world, settings, key), eqx.is_array)
        return _Learning(weights, optimiser.init(weights), key, jnp.zeros(()))

    def loss(weights: Any, batch: Pairs, key: PRNGKeyArray) -> Float[Array, ""]:
        each = jax.vmap(eqx.combine(weights, static).loss)
        return each(*batch, jax.random.split(key, settings.batch)).mean()

    def update(now: _Learning, pairs: Pairs) -> _Learning:
        key, key_batch, key_loss = jax.random.split(now.key, 3)
        chosen = jax.random.randint(key_batch, (settings.batch,), 0, len(pairs.before))
        batch = jax.tree.map(lambda leaf: leaf[chosen], pairs)
        value, gradient = jax.value_and_grad(loss)(now.weights, batch, key_loss)
        change, state = optimiser.update(gradient, now.optimiser)
        return _Learning(optax.apply_updates(now.weights, change), state, key, now.total + value)

    begun = time.perf_counter()
    program = jax.jit(update, donate_argnums=0).lower(start(key), pairs).compile()
    report({"event": "compiled", "seconds": time.perf_counter() - begun})
    candidates, frames, begun = [], pairs.before[:_JUDGED], time.perf_counter()
    for restart in range(settings.restarts):
        now, done = start(jax.random.fold_in(key, restart)), 0
        for until in sorted({settings.updates * part // _CHUNKS for part in range(1, _CHUNKS + 1)} - {0}):
            for _ in range(done, until):  # a compiled loop would be no faster, and on a CPU convolutions in it are slow
                now = program(now, pairs)
            mean, now, done = float(now.total) / (until - done), now._replace(total=jnp.zeros(())), until
            made = restart * settings.updates + done
            if not math.isfinite(mean):
                raise ValueError(f"the loss is {mean} at update {made}: lower the learning rate")
            report({"event": "progress", "update": made, "loss": mean, "seconds": time.perf_counter() - begun})
        autoencoder = eqx.combine(now.weights, static)
        candidates.append((misfit(autoencoder, frames, encoded(autoencoder.encode, frames)), restart, autoencoder))
    return min(candidates)[2]


def _optimiser(settings: Represent) -> optax.GradientTransformation:
    rate, updates = settings.learning_rate, settings.updates
    schedule = optax.schedules.warmup_cosine_decay_schedule(0, rate, min(200, updates // 10), updates, rate / 100)
    return optax.adam(schedule)


def encoded(
    encode: Callable[[UInt8[Array, "size size 3"]], Float[Array, " d"]], frames: UInt8[Array, "n size size 3"]
) -> Float[np.ndarray, "n d"]:
    """Many frames' latents."""
    each = eqx.filter_jit(lambda encode, part: jax.vmap(encode)(part))
    return np.concatenate([each(encode, part) for part in _parts(frames)])


def misfit(autoencoder: Autoencoder, frames: UInt8[Array, "n size size 3"], z: Float[np.ndarray, "n d"]) -> float:
    """The mean squared error of frames that are reconstructed from latents."""
    parts = zip(_parts(z), _parts(frames), strict=True)
    return float(np.concatenate([_errors(autoencoder, *part) for part in parts]).mean())


@eqx.filter_jit
def _errors(
    autoencoder: Autoencoder, z: Float[Array, "p d"], frames: UInt8[Array, "p size size 3"]
) -> Float[Array, " p"]:
    wrong = optax.losses.squared_error(jax.vmap(autoencoder.decode)(z), jax.vmap(image_of)(frames))
    return wrong.mean(axis=(1, 2, 3))


def importance(
    autoencoder: Autoencoder, frames: UInt8[Array, "n size size 3"], z: Float[np.ndarray, "n d"]
) -> Float[np.ndarray, " d"]:
    """How much worse the frames are reconstructed with a latent of another frame, as a share of the error: [d]."""
    shuffled = np.tile(z, (z.shape[1], 1, 1))  # [d, n, d]
    for j, other in enumerate(shuffled):
        other[:, j] = np.roll(z[:, j], len(z) // 2)  # far off: the frames of an episode lie side by side
    return np.array([misfit(autoencoder, frames, other) for other in shuffled]) / misfit(autoencoder, frames, z) - 1


def _parts(rows: Any, size: int = 256) -> list[Any]:
    """Some rows at a time: all at once take too much memory, and on a CPU convolutions in a compiled loop are slow."""
    return [rows[i : i + size] for i in range(0, len(rows), size)]


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
