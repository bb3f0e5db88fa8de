"""What the player has compiled, with behaviour and goal apart, so that few programs serve all goals.

An episode is always played to the time limit, and cut later where its goal was reached: behaviour depends on the goal's
weights alone, whose clauses are padded to two sizes. Where the goal itself is needed, it comes as one on any grid.
"""

from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray, PyTree, UInt, UInt8

from cumulant.features.coordinates import Features
from cumulant.features.grounding import Grounding
from cumulant.goals.bins import bin_index
from cumulant.transfer import inference
from cumulant.transfer.gpi import Gpi, Thought
from cumulant.web import grids
from cumulant.web.grids import AnyGrid
from cumulant.worlds.episodes import Policy, PolicyMaker, play_from, play_many
from cumulant.worlds.protocol import Arena, World, never

_FRAME = 320  # pixels of a film


class Actor(NamedTuple):
    """Who acts, on what, and as what the world shows itself to it."""

    world: World
    make: PolicyMaker
    guide: Array

    @property
    def policy(self) -> Policy:
        """What it does."""
        return self.make(self.world, self.guide)


@eqx.filter_jit
def begin(world: Arena, seed: UInt[Array, ""] | UInt[np.ndarray, ""]) -> tuple[Float[Array, " k"], PRNGKeyArray]:
    """Where the episode of a seed begins, and the key of what follows."""
    key_start, key_act = jax.random.split(jax.random.key(seed))  # as `episode_keys` and `play` do
    return world.features(world.reset(key_start)), key_act


@eqx.filter_jit
def play_one(
    world: Arena, features: Features, actor: Actor, first: Float[Array, " k"], key: PRNGKeyArray, bins: int
) -> tuple[Float[Array, "states k"], Int[Array, "states d"], Int[Array, " t"], Thought | None]:
    """An episode to the time limit: where all was, in which bins, what was done, and why (where GPI acts)."""
    played = play_from(actor.world, actor.policy, never, world.state_of(first), key)
    seen = jax.vmap(world.observe)(played.states)
    thoughts = None
    if isinstance(actor.make, Gpi):
        thoughts = jax.vmap(partial(actor.make.thought, actor.guide))(seen[:-1], played.memories)
    places = jax.vmap(world.features)(played.states)
    return places, bin_index(jax.vmap(features)(seen), bins), played.actions, thoughts


@eqx.filter_jit
def places_of_many(actor: Actor, keys: Key[Array, " n"]) -> Float[Array, "n states k"]:
    """Where all is in the episodes of many keys."""
    played = play_many(actor.world, actor.policy, never, keys)
    return jax.vmap(jax.vmap(actor.world.features))(played.states)


@eqx.filter_jit
def step_once(
    world: Arena, features: Features, place: Float[Array, " k"], action: Int[Array, ""], bins: int
) -> tuple[Float[Array, " k"], Int[Array, "2 d"]]:
    """What one action leads to, and the bins before and after."""
    state = world.state_of(place)
    following = world.step(state, action)
    f = jnp.stack([features(world.observe(each)) for each in (state, following)])
    return world.features(following), bin_index(f, bins)


@eqx.filter_jit
def weights_of(goal: AnyGrid, bins: int, grounding: Grounding | None) -> Float[Array, "c d m"]:
    """A goal's clauses as weights over the cumulants."""
    return grids.weights(goal, bins, grounding)


@eqx.filter_jit
def collect(world: Arena, gpi: Gpi, goal: AnyGrid, key: PRNGKeyArray, bins: int, budget: int) -> inference.Labelled:
    """Steps labelled with a reward of 1 where the goal holds."""

    def reward(state: PyTree) -> Float[Array, ""]:
        return grids.reached(goal, world.features(state)).astype(jnp.float32)

    return inference.collect_labelled(world, gpi, bins, reward, key, budget)


@partial(jax.jit, static_argnums=1)
def fit(labelled: inference.Labelled, bins: int) -> Float[Array, "d m"]:
    """Weights from labelled steps."""
    return inference.fit(labelled, bins)


@eqx.filter_jit
def frames_of(world: Arena, places: Float[Array, "t k"]) -> UInt8[Array, "t size size 3"]:
    """Pictures of states, one after the other: all at once would need a lot of memory."""
    return jax.lax.map(lambda place: world.render(world.state_of(place), _FRAME), places)
