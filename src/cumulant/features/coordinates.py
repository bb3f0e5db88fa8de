"""What features are, and two that need no learning: the true coordinates, and a rotation of them."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped

from cumulant.worlds.protocol import World

if TYPE_CHECKING:
    from cumulant.features.grounding import Grounding

# Features are a function of the observation, or a Module. Beside being called they may have a `resolution` (how far off
# they may be) and a `grounding` (what words mean for them).
Features = Callable[[Shaped[Array, "..."]], Float[Array, " d"]]


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
    """d: how many features there are of what the world shows. They need not be the k that it is made of."""
    return jax.eval_shape(lambda key: features(world.observe(world.reset(key))), jax.random.key(0)).shape[0]


def resolution_of(features: Features) -> float:
    """How far off features may be: those that tremble, as learnt ones do, have a `resolution`; others are exact."""
    return getattr(features, "resolution", 0.0)


def grounding_of(features: Features) -> "Grounding | None":
    """What words mean for features that are not the true ones, if that is known."""
    return getattr(features, "grounding", None)
