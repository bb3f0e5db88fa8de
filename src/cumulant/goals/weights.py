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
