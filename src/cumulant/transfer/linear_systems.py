"""Small positive-definite systems, in plain JAX.

Many systems of some dozen unknowns are solved side by side here. LAPACK's batched calls share XLA's threads on a CPU
with whatever runs beside them, and in jaxlib 0.10 the two can wait for each other for ever.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def cholesky(a: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """The lower triangle L with L Lᵀ = a, column by column."""

    def column(j: Array, lower: Array) -> Array:
        rest = a[:, j] - lower @ lower[j]
        below = jnp.arange(len(a)) >= j
        return lower.at[:, j].set(jnp.where(below, rest / jnp.sqrt(rest[j]), 0))

    return jax.lax.fori_loop(0, len(a), column, jnp.zeros_like(a))


def solve_lower(lower: Float[Array, "d d"], b: Float[Array, " d"]) -> Float[Array, " d"]:
    """X with L x = b, from the first unknown to the last."""
    return jax.lax.fori_loop(
        0, len(b), lambda j, x: x.at[j].set((b[j] - lower[j] @ x) / lower[j, j]), jnp.zeros_like(b)
    )


def solve_upper(lower: Float[Array, "d d"], b: Float[Array, " d"]) -> Float[Array, " d"]:
    """X with Lᵀ x = b."""
    return solve_lower(lower.T[::-1, ::-1], b[::-1])[::-1]


def solve(a: Float[Array, "d d"], b: Float[Array, " d"]) -> Float[Array, " d"]:
    """X with a x = b."""
    lower = cholesky(a)
    return solve_upper(lower, solve_lower(lower, b))
