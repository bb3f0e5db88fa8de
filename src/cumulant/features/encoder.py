"""Learnt features: an encoder of frames, how it is kept in a folder, and how well it tells what there is to tell."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray, UInt8
from msgspec import Struct

from cumulant import storage
from cumulant.config import Represent, restored
from cumulant.features.autoencoders import Autoencoder, Keypoints, Vae, in_half_precision
from cumulant.features.disentanglement import assignment, dci, mig, rank_correlations
from cumulant.features.grounding import Grounding
from cumulant.goals.feature import names_of
from cumulant.storage import Unreadable
from cumulant.worlds.protocol import World
from cumulant.worlds.shipped import describe, restore

FORMAT = 2
_HALF_PRECISION = ("gpu",)  # backends whose matrix units are made for it; a point moves by less than a tenth of a pixel

Rows = TypeVar("Rows", jax.Array, np.ndarray)


class _Config(Struct, forbid_unknown_fields=True):
    """What config.json says of an encoder."""

    format: int
    world: dict[str, Any]
    represent: dict[str, Any]
    kept: int
    grounded: bool
    sha256: str


class Encoder(eqx.Module):
    """Learnt features: those latents that are neither dead nor redundant, each scaled by its range in the data.

    An encoder is called on a frame [size, size, 3] and gives d features in [0, 1]. `represent` learns one.

    >>> import jax, cumulant
    >>> world = cumulant.PixelSpriteworld(("square",), size=16)
    >>> brief = cumulant.Represent(latents=8, width=4, pairs=64, updates=4, batch=4, restarts=1)
    >>> encoder = cumulant.represent(world, brief, seed=0, labelled=0)
    >>> encoder(world.observe(world.reset(jax.random.key(0)))).shape == (len(encoder.kept),)
    True
    """

    autoencoder: Autoencoder
    kept: Int[Array, " k"]
    low: Float[Array, " k"]
    high: Float[Array, " k"]
    unfold: Float[Array, "d affine"]  # all latents from the features and a 1: copies follow what they copy
    grounding: Grounding | None  # what words mean, if frames were labelled
    world: World = eqx.field(static=True)
    settings: Represent = eqx.field(static=True)

    def __call__(self, frame: UInt8[Array, "size size 3"]) -> Float[Array, " k"]:
        """[size, size, 3] → [k], in [0, 1] for unseen frames too."""
        half = jax.default_backend() in _HALF_PRECISION
        swift = in_half_precision(self.autoencoder) if half else self.autoencoder
        return scaled(swift.encode(frame)[self.kept], self.low, self.high)

    def imagine(self, f: Float[Array, " k"]) -> Float[Array, "size size 3"]:
        """What the decoder makes of features: [k] → [size, size, 3]."""
        return jnp.clip(self.autoencoder.decode(self.unfold @ jnp.append(f, 1)), 0, 1)

    @property
    def resolution(self) -> float:
        """The least change of a feature that is more than noise: about a pixel. Latents jitter when anything moves."""
        return 1 / self.autoencoder.size

    @property
    def names(self) -> tuple[str, ...]:
        """What to call each feature: the coordinate that it is grounded to, or its number."""
        if self.grounding:
            return self.grounding.names(names_of(self.world.feature_names))
        return tuple(f"latent {i}" for i in range(len(self.kept)))

    def save(self, folder: str | Path) -> None:
        """Write the encoder as a folder."""
        about = {
            "format": FORMAT,
            "world": describe(self.world),
            "represent": asdict(self.settings),
            "kept": len(self.kept),
            "grounded": self.grounding is not None,
        }
        storage.write(Path(folder), self, about)

    @classmethod
    def load(cls, folder: str | Path) -> "Encoder":
        """Read an encoder. Unreadable, if the folder holds none."""
        folder = Path(folder)
        info = storage.read_info(folder)
        if info.get("format") != FORMAT:
            raise Unreadable(f"{folder} is not an encoder that this version reads")
        try:
            stored = restored(_Config, info)
            world = restore(stored.world)
            if world is None:
                raise ValueError(f"there is no world of kind {stored.world.get('kind')!r}")
            settings = Represent(**stored.represent)
            k, grounded, names = stored.kept, stored.grounded, len(world.feature_names)
            if not 1 <= k <= settings.latents:
                raise ValueError(f"{k} of {settings.latents} latents cannot be kept")
            blank = eqx.filter_eval_shape(make_autoencoder, world, settings, jax.random.key(0))
        except (TypeError, ValueError) as error:
            first = str(error).partition("\n")[0]
            raise Unreadable(f"{folder / 'config.json'} is not an encoder's: {first}") from None
        grounding = Grounding(jnp.zeros(names, jnp.int32), jnp.zeros((names, 4)), k) if grounded else None
        kept, unfold = jnp.zeros(k, jnp.int32), jnp.zeros((settings.latents, k + 1))
        like = cls(blank, kept, jnp.zeros(k), jnp.ones(k), unfold, grounding, world, settings)
        encoder = storage.read(folder, like)
        encoder._check(folder)
        return encoder

    def _check(self, folder: Path) -> None:
        """Numbers that would not fail, but lead to nonsense: JAX takes the nearest where an index is out of range."""
        chosen, of = np.asarray(self.kept), self.settings.latents
        read = np.asarray(self.grounding.latent) if self.grounding else np.zeros(0, int)
        outside = ((chosen < 0) | (chosen >= of)).any() or ((read < 0) | (read >= len(chosen))).any()
        if outside or not (np.asarray(self.high) > np.asarray(self.low)).all():
            raise Unreadable(f"{folder} holds an encoder whose latents cannot be")


def scaled(z: Rows, low: Rows, high: Rows) -> Rows:
    """Latents by their range in the data, in [0, 1] for any: [..., k] → [..., k]."""
    return ((z - low) / (high - low)).clip(0, 1)


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
    shown, true = random_frames(world, jax.random.split(key, frames))
    latents, factors = encoded(encoder, shown), np.asarray(true)
    chosen, strength = assignment(latents, factors)
    return Measures(
        dict(zip(names_of(world.feature_names), strength.tolist(), strict=True)),
        chosen,
        *dci(latents, factors)[:3],
        mig=mig(latents, factors),
        kept=latents.shape[1],
        correlations=rank_correlations(latents, factors),
    )


@eqx.filter_jit
def random_frames(world: World, keys: Key[Array, " n"]) -> tuple[UInt8[Array, "n size size 3"], Float[Array, "n k"]]:
    """What random starts look like, and their true features."""
    states = jax.vmap(world.reset)(keys)
    return jax.vmap(world.observe)(states), jax.vmap(world.features)(states)


def make_autoencoder(world: World, settings: Represent, key: PRNGKeyArray) -> Autoencoder:
    """The autoencoder that the settings name, for the frames of a world."""
    size = _frame_size(world)
    if settings.learner == "keypoints":
        if size % 2:
            raise ValueError(f"keypoints need frames of an even size, but size is {size}")
        return Keypoints(size, settings.latents, settings.width, key)
    adaptive = settings.learner == "ada_gvae"
    return Vae(size, settings.latents, settings.width, settings.beta, adaptive, key)


def _frame_size(world: World) -> int:
    shape = jax.eval_shape(lambda key: world.observe(world.reset(key)), jax.random.key(0)).shape
    if len(shape) != 3 or shape[0] != shape[1] or shape[2] != 3:
        raise ValueError(f"features are learnt from square RGB frames, but this world shows {shape}")
    return shape[0]


def encoded(
    encode: Callable[[UInt8[Array, "size size 3"]], Float[Array, " d"]], frames: UInt8[Array, "n size size 3"]
) -> Float[np.ndarray, "n d"]:
    """Many frames' latents."""
    return np.concatenate([_each_encoded(encode, part) for part in in_parts(frames)])


@eqx.filter_jit
def _each_encoded(encode: Callable[..., Float[Array, " d"]], frames: UInt8[Array, "p size size 3"]) -> Array:
    return jax.vmap(encode)(frames)


def in_parts(rows: Rows, size: int = 256) -> list[Rows]:
    """Some rows at a time: all at once take too much memory, and on a CPU convolutions in a compiled loop are slow."""
    return [rows[i : i + size] for i in range(0, len(rows), size)]
