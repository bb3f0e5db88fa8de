"""Replay, stratified by what changed.

Most transitions change what is easy to change. Those that change a rare feature teach the most about it, so each
feature has a ring of its own, a transition goes to the ring of the rarest feature it changed, and a batch draws from
all rings alike once they are full. It needs no knowledge of the world.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

_ROUNDING = 1e-6  # what arithmetic alone may change


class Transition(NamedTuple):
    """What free play learns from: [batch, ...] each."""

    x: Float[Array, "*batch n"]  # what was seen, the k features first
    action: Int[Array, "*batch"]
    next_x: Float[Array, "*batch n"]
    policy: Int[Array, "*batch 2"]  # the feature and the bin that the acting policy went for
    done: Bool[Array, "*batch"] | None = None  # whether the world could not go on; None where it always can


class Replay(NamedTuple):
    """k + 1 rings, the last one for transitions that changed nothing."""

    rings: PyTree  # transitions: [k + 1, capacity, ...]
    added: Int[Array, " rings"]  # transitions ever added to each ring
    changes: Int[Array, " k"]  # how often each feature has changed


def empty(example: PyTree, capacity: int, k: int) -> Replay:
    """Room for `capacity` transitions in all, like the example: any tuple of arrays that has `x` and `next_x`.

    Of these, the first k numbers are the features.
    """
    shape = (k + 1, max(1, capacity // (k + 1)))
    rings = jax.tree.map(lambda leaf: jnp.zeros((*shape, *jnp.shape(leaf)), jnp.asarray(leaf).dtype), example)
    return Replay(rings, jnp.zeros(k + 1, jnp.int32), jnp.zeros(k, jnp.int32))


def add(replay: Replay, new: PyTree, stratified: bool, resolution: float | Float[np.ndarray, " k"] = 0.0) -> Replay:
    """Put each transition into the ring of the rarest feature that it changed, or, unstratified, into all by turns.

    A feature has changed if it did by more than its resolution.
    """
    rings, capacity = replay.rings.action.shape
    k = len(replay.changes)
    changed = jnp.abs(new.next_x[:, :k] - new.x[:, :k]) > np.maximum(resolution, _ROUNDING)
    changes = replay.changes + changed.sum(axis=0, dtype=jnp.int32)
    rarity = jnp.where(changed, changes, jnp.iinfo(jnp.int32).max)
    ring = jnp.where(changed.any(axis=1), rarity.argmin(axis=1), rings - 1)
    if not stratified:
        ring = (replay.added.sum() + jnp.arange(len(ring))) % rings
    chosen = jax.nn.one_hot(ring, rings, dtype=jnp.int32)
    place = jnp.take_along_axis(jnp.cumsum(chosen, axis=0), ring[:, None], axis=1)[:, 0] - 1
    slot = (replay.added[ring] + place) % capacity
    filled = jax.tree.map(lambda old, value: old.at[ring, slot].set(value.astype(old.dtype)), replay.rings, new)
    return Replay(filled, replay.added + chosen.sum(axis=0, dtype=jnp.int32), changes)


def sample(replay: Replay, key: PRNGKeyArray, batch: int) -> PyTree:
    """A batch that draws from all rings, alike once they are full, and seldom from those that hold little yet.

    Else the few transitions of a young ring would be learnt by heart, each a hundred times as often as any other.
    """
    capacity = replay.rings.action.shape[1]
    key_ring, key_slot = jax.random.split(key)
    held = jnp.minimum(replay.added, capacity)
    share = jnp.cumsum(jnp.sqrt(held.astype(jnp.float32)))
    turn = jnp.minimum(jax.random.uniform(key_ring, (batch,)) * share[-1], jnp.nextafter(share[-1], 0.0))
    ring = jnp.searchsorted(share, turn, side="right", method="compare_all")  # others compile to a loop
    slot = jnp.floor(jax.random.uniform(key_slot, (batch,)) * held[ring]).astype(jnp.int32)
    return jax.tree.map(lambda values: values[ring, slot], replay.rings)
