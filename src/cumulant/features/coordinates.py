"""What features are, and two that need no learning: the true coordinates, and a rotation of them."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped

from cumulant.worlds.protocol import World

if TYPE_CHECKING:
    from cumulant.features.grounding import Grounding

# A function of the observation, or a Module. Features that jitter have a `resolution`: how far off they may be.
Features = Callable[[Shaped[Array, "..."]], Float[Array, " d"]]


@runtime_checkable
class Learnt(Protocol):
    """Features that were learnt in a world, as an encoder's are."""

    @property
    def world(self) -> World:
        """Where they were learnt."""

    @property
    def grounding(self) -> "Grounding | None":
        """What words mean for them, if that is known."""

    def __call__(self, obs: Shaped[Array, "..."]) -> Float[Array, " d"]:
        """[...] → [d], each in [0, 1]."""


def true_features(obs: Float[Array, " k"]) -> Float[Array, " k"]:
    """The coordinates themselves, for a world whose observation they are: [k] → [k]."""
    return obs


class Rotation(eqx.Module):
    """Features that mix all coordinates, turned about the centre of the unit cube: [k] → [k]."""

    matrix: Float[Array, "k k"]
    seed: int = eqx.field(static=True)  # that it was drawn with

    def __call__(self, obs: Float[Array, " k"]) -> Float[Array, " k"]:
        """Each feature a weighted sum of all coordinates."""
        return jnp.clip(self.matrix @ (obs - 0.5) + 0.5, 0, 1)


def entangled_features(k: int, seed: int) -> Rotation:
    """A seeded rotation of the true features about the centre, scaled to fill [0, 1] (the paper's comparison)."""
    gaussian = np.random.default_rng(seed).standard_normal((k, k))
    q, r = np.linalg.qr(gaussian)
    rotation = q * np.sign(np.diag(r))  # this sign makes the rotation uniform
    if np.linalg.det(rotation) < 0:
        rotation[0] *= -1  # a rotation, not a reflection
    # The unit cube reaches as far as sum_j |R_ij| / 2 along row i.
    return Rotation(jnp.asarray(rotation / np.abs(rotation).sum(axis=1, keepdims=True), jnp.float32), seed)


def feature_count(features: Features, world: World) -> int:
    """d: how many features there are of what the world shows. They need not be the k that it is made of.

    ValueError if they are no features: a vector of numbers, made by a function that is written in JAX.
    """
    seen = jax.eval_shape(lambda key: world.observe(world.reset(key)), jax.random.key(0))
    try:
        found = jax.eval_shape(features, seen)
    except Exception as error:
        first = str(error).strip().partition("\n")[0] or type(error).__name__
        raise ValueError(f"the features fail on an observation, or are not written in JAX: {first}") from None
    one = isinstance(found, jax.ShapeDtypeStruct) and len(found.shape) == 1
    if not one or not jnp.issubdtype(found.dtype, jnp.floating):
        raise ValueError(f"features are a vector of numbers [d], but these are {found}")
    return found.shape[0]


def resolution_of(features: Features) -> float:
    """How far off features may be: those that jitter, as learnt ones do, have a `resolution`; others are exact."""
    return getattr(features, "resolution", 0.0)
