"""Goals on any grid in arrays of one shape, so that one program serves all grids.

A task's table has as many clauses and bins as the task, and every other shape would be compiled anew. Here the table is
padded to the largest there is, and the number of bins is a number like any other.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from cumulant.features.grounding import Grounding
from cumulant.goals import weights as clauses
from cumulant.goals.clauses import MAX_CLAUSES
from cumulant.goals.regions import MAX_BINS
from cumulant.goals.tasks import Task

_THIRDS = 3  # what a grounding's edges lie between


class AnyGrid(NamedTuple):
    """A goal, whatever its grid: MAX_CLAUSES clauses, the last of which never hold, and MAX_BINS bins.

    The bins beyond the task's own repeat its last one and are of no width: so they change neither whether a coordinate
    may lie anywhere, nor what share of anything is allowed.
    """

    table: Bool[np.ndarray | Array, "c k b"]
    edges: Float[np.ndarray | Array, " b+1"]  # where the bins begin and end, in [0, 1]
    bins: Int[np.ndarray | Array, ""]


def on_any_grid(task: Task) -> AnyGrid:
    """The task in arrays of the common shape."""
    table, beyond = task.table(MAX_CLAUSES), MAX_BINS - task.bins
    own = np.arange(task.bins + 1, dtype=np.float32) * (np.float32(1) / np.float32(task.bins))  # rounded as XLA does
    table = np.pad(table, ((0, 0), (0, 0), (0, beyond)), "edge")
    return AnyGrid(table, np.pad(own, (0, beyond), "edge"), np.asarray(task.bins, np.int32))


def reached(goal: AnyGrid, f: Float[Array, " k"]) -> Bool[Array, ""]:
    """Whether features f satisfy the goal: to the bit as `goals.tasks.reached` has it for the task's own table."""
    index = jnp.clip(jnp.floor(f * goal.bins.astype(jnp.float32)).astype(jnp.int32), 0, goal.bins - 1)
    return jnp.take_along_axis(jnp.asarray(goal.table), index[None, :, None], axis=2)[:, :, 0].all(axis=1).any()


def bin_index(f: Float[np.ndarray, "*n"], bins: int) -> Int[np.ndarray, "*n"]:
    """The bin that each feature lies in: `goals.bins.bin_index` to the bit, but nothing is compiled."""
    return np.clip(np.floor(f.astype(np.float32) * np.float32(bins)).astype(np.int32), 0, bins - 1)


def met(table: Bool[np.ndarray, "c k b"], places: Float[np.ndarray, "n k"]) -> Bool[np.ndarray, "n c k"]:
    """Which conditions hold in each of n states: `goals.tasks.met` to the bit, but nothing is compiled."""
    index = bin_index(places, table.shape[-1])
    return np.take_along_axis(table[None], index[:, None, :, None], axis=3)[..., 0]


def weights(goal: AnyGrid, bins: int, grounding: Grounding | None) -> Float[Array, "c d m"]:
    """The clauses as weights over the cumulants, as `Library.weights_of` has them."""
    table, k = jnp.asarray(goal.table), goal.table.shape[1]
    if grounding is None:
        return clauses.weights(table, bins, jnp.broadcast_to(goal.edges, (k, len(goal.edges))))
    thirds = jnp.linspace(0, 1, _THIRDS + 1)
    own = clauses.weights(table, bins, jax.vmap(lambda edges: jnp.interp(goal.edges, thirds, edges))(grounding.edges))
    never = own.min(axis=(1, 2), keepdims=True) < 0
    return jnp.where(never, -1.0, jnp.zeros((len(own), grounding.latents, bins)).at[:, grounding.latent].set(own))


def halved(table: Bool[np.ndarray, "c k b"]) -> Bool[np.ndarray, "c k 2*b"]:
    """The same goal with every bin cut in two. Twice as many is the one refinement that floats do not round."""
    return np.repeat(table, 2, axis=2)
