"""Clauses as weights w over the cumulants: what GPI acts on."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


def weights(
    table: Bool[Array, "c k b"], bins: int, edges: Float[Array, "k b+1"] | None = None
) -> Float[Array, "c k m"]:
    """Each clause as w over m bins: the share of a bin that the clause allows; 0 for a coordinate that may be anything.

    This is what regression gives for states spread evenly within a bin. Clauses that never hold get w = -1. The regions
    are equal parts of the unit interval, or lie between `edges`, which may fall as well as rise.
    """
    k, regions = table.shape[1:]
    if edges is None:
        edges = jnp.broadcast_to(jnp.arange(regions + 1) / regions, (k, regions + 1))
    left, right = jnp.sort(jnp.stack([edges[:, :-1], edges[:, 1:]]), axis=0)[:, :, None]  # [k, 1, b] each
    low = jnp.arange(bins)[:, None] / bins
    overlap = jnp.minimum(low + 1 / bins, right) - jnp.maximum(low, left)
    share = jnp.einsum("ckb,kmb->ckm", table.astype(jnp.float32), jnp.clip(overlap * bins, 0, 1))
    matters = ~table.all(axis=2, keepdims=True)
    possible = table.any(axis=2).all(axis=1)[:, None, None]
    return jnp.where(possible, share * matters, -1.0)


def padded(w: Float[Array, "c k m"], clauses: int) -> Float[Array, "clauses k m"]:
    """More clauses, which never hold, so that goals of different lengths fit into one array or one program."""
    return jnp.concatenate([w, jnp.full((clauses - len(w), *w.shape[1:]), -1.0)])


def unit(largest: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """The power of two at or below a magnitude, 1 for 0: what it is in units of it is exact, and between 1 and 2."""
    exponent = jnp.frexp(largest)[1]
    return jnp.where(largest > 0, jnp.ldexp(jnp.ones_like(largest), exponent - 1), 1.0)


def in_units(w: Float[Array, "c k m"]) -> Float[Array, "c k m"]:
    """The same goal with weights of ordinary size, whatever its reward was counted in.

    Only weights above 0 say how large a goal's are: clauses that never hold are -1 beside any others.
    """
    return w / unit(jnp.maximum(w.max(), 0))
