"""Cumulants φ: each feature's unit interval cut into m bins, one indicator a bin (the paper's features equation)."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def bin_index(f: Float[Array, "*k"], bins: int | Int[Array, ""]) -> Int[Array, "*k"]:
    """The bin that each feature lies in. Bins are half-open, but the last one closes, so that f = 1 lies in it."""
    return jnp.clip(jnp.floor(f * bins).astype(jnp.int32), 0, bins - 1)


def phi(f: Float[Array, "*k"], bins: int) -> Float[Array, "*k m"]:
    """Bin indicators φ_ij = 1{f_i ∈ b_j}: [k] → [k, m]. Every row sums to 1."""
    return jax.nn.one_hot(bin_index(f, bins), bins)
