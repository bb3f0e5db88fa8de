"""Clauses as weights w over the cumulants: what GPI acts on."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from cumulant.goals.tasks import GoalTable


def weights(
    table: Bool[Array, "c k b"] | GoalTable, bins: int, edges: Float[Array, "k edges"] | None = None
) -> Float[Array, "c k m"]:
    """Return each clause as w over m bins: the share of a bin that the clause allows.

    This is what regression gives for states spread evenly within a bin.

    Args:
        table: The clauses: `Task.table()`, or one goal of a `GoalTable`.
        bins: The number m of bins.
        edges: Where the table's bins begin and end for each coordinate, if not at `edges_of`; they may fall, too.

    Returns:
        The weights: 0 for a coordinate that may be anything, -1 for a clause that never holds.

    """
    allowed = jnp.asarray(table.allowed if isinstance(table, GoalTable) else table)
    if edges is None:
        edges = jnp.broadcast_to(edges_of(table), (allowed.shape[1], allowed.shape[2] + 1))
    left, right = jnp.sort(jnp.stack([edges[:, :-1], edges[:, 1:]]), axis=0)[:, :, None]  # [k, 1, b] each
    low = jnp.arange(bins)[:, None] / bins
    overlap = jnp.minimum(low + 1 / bins, right) - jnp.maximum(low, left)
    share = jnp.einsum("ckb,kmb->ckm", allowed.astype(jnp.float32), jnp.clip(overlap * bins, 0, 1))
    matters = ~allowed.all(axis=2, keepdims=True)
    possible = allowed.any(axis=2).all(axis=1)[:, None, None]
    return jnp.where(possible, share * matters, -1.0)


def edges_of(table: Bool[Array, "c k b"] | GoalTable) -> Float[Array, " edges"]:
    """Return where the bins of a table begin and end, in [0, 1]."""
    if not isinstance(table, GoalTable):
        return jnp.arange(table.shape[2] + 1) / table.shape[2]
    # Multiplied by the reciprocal, as XLA divides by a constant: both ways round alike.
    return jnp.minimum(jnp.arange(table.allowed.shape[2] + 1), table.bins) * (1 / jnp.asarray(table.bins, jnp.float32))


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
