"""Features f: observation → [0, 1]^k. The true coordinates, a rotation that entangles them, or any function of yours."""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped

Features = Callable[[Shaped[Array, "..."]], Float[Array, " k"]]


def true_features(obs: Float[Array, " k"]) -> Float[Array, " k"]:
    """The coordinates themselves, for a world whose observation they are: [k] → [k]."""
    return obs


def entangled_features(k: int, seed: int) -> Features:
    """A seeded rotation of the true features about the centre, scaled to fill [0, 1] (the paper's comparison)."""
    gaussian = np.random.default_rng(seed).standard_normal((k, k))
    q, r = np.linalg.qr(gaussian)
    rotation = q * np.sign(np.diag(r))  # this sign makes the rotation uniform
    if np.linalg.det(rotation) < 0:
        rotation[0] *= -1  # a rotation, not a reflection
    # The unit cube reaches as far as sum_j |R_ij| / 2 along row i.
    scaled = jnp.asarray(rotation / np.abs(rotation).sum(axis=1, keepdims=True), jnp.float32)
    return lambda obs: jnp.clip(scaled @ (obs - 0.5) + 0.5, 0, 1)
