"""What the player has compiled, with behaviour and goal apart, so that few programs serve all goals and plans.

Episodes are played in stretches, each as long as the time limit and with one stage of a plan in mind, and cut later
where the stage was reached: behaviour depends on the stage's weights alone, whose clauses are padded to two sizes. A
plain goal is a plan of one stage. Where the goal itself is needed, it comes as one on any grid.
"""

from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray, PyTree, Shaped, UInt, UInt8

from cumulant.features.coordinates import Features
from cumulant.features.grounding import Grounding
from cumulant.transfer.exploration import collect
from cumulant.transfer.gpi import Gpi, Thought
from cumulant.transfer.inference import beliefs
from cumulant.transfer.reward_models import Belief, Labelled
from cumulant.web import grids
from cumulant.web.grids import AnyGrid
from cumulant.worlds.episodes import Policy, PolicyMaker
from cumulant.worlds.protocol import Arena, World

MAX_STAGES = 8  # of a plan on the page: an episode is as many times as long as that of a plain goal
_FRAME = 320  # pixels of a film


class Actor(NamedTuple):
    """Who acts in n episodes, on what, and as what the world shows itself to it."""

    world: World
    make: PolicyMaker
    guides: tuple[Shaped[Array | np.ndarray, "n ..."], ...]

    def policy(self, guide: tuple[Array, ...]) -> Policy:
        """What it does in an episode that is guided so."""
        return self.make(self.world, *guide)


class Moment(NamedTuple):
    """Where n episodes are, and with what in mind."""

    places: Float[Array | np.ndarray, "n k"]
    memories: PyTree  # of each episode's policy, unless it begins `anew`
    anew: Bool[Array | np.ndarray, " n"]
    keys: Key[Array, " n"]
    steps: Int[Array | np.ndarray, " n"]  # taken so far


class Stretch(NamedTuple):
    """What n episodes were like for as many steps as the world's time limit."""

    places: Float[Array | np.ndarray, "n states k"]
    features: Float[Array | np.ndarray, "n states d"]
    actions: Int[Array | np.ndarray, "n t"]
    thoughts: Thought | None  # leading axes n and t; None where nobody weighs policies, or nobody asks


@eqx.filter_jit
def begin(world: Arena, seeds: UInt[Array | np.ndarray, " n"]) -> tuple[Float[Array, "n k"], Key[Array, " n"]]:
    """Where the episodes of seeds begin, and the keys of what follows."""
    keys = jax.vmap(lambda seed: jax.random.split(jax.random.key(seed)))(seeds)  # as `episode_keys` and `play` do
    return jax.vmap(lambda key: world.features(world.reset(key)))(keys[:, 0]), keys[:, 1]


@eqx.filter_jit
def look(
    world: Arena, features: Features, actor: Actor, places: Float[Array | np.ndarray, "n k"]
) -> tuple[Float[Array, "n d"], PyTree]:
    """The features at some places, and memories that hold nothing yet."""

    def each(place: Array, guide: tuple) -> tuple[Array, PyTree]:
        state = world.state_of(place)
        empty = jax.tree.map(jnp.zeros_like, actor.policy(guide).begin(actor.world.observe(state)))
        return features(world.observe(state)), empty

    return jax.vmap(each)(jnp.asarray(places), actor.guides)


@eqx.filter_jit
def play_on(world: Arena, features: Features, actor: Actor, now: Moment, thinking: bool) -> tuple[Stretch, PyTree]:
    """Episodes from a moment on, as many steps as the world's time limit, and what the policies then remember."""

    def step(policy: Policy, carry: tuple, key: PRNGKeyArray) -> tuple[tuple, tuple]:
        state, memory = carry
        memory, action = policy.act(memory, actor.world.observe(state), key)
        following = actor.world.step(state, action)
        return (following, memory), (following, action, memory)

    def each(guide: tuple, here: Moment) -> tuple[Stretch, PyTree]:
        policy, start = actor.policy(guide), world.state_of(jnp.asarray(here.places))
        begun = policy.begin(actor.world.observe(start))
        memory = jax.tree.map(lambda new, old: jnp.where(here.anew, new, old), begun, here.memories)
        # The i-th part of a key is the same however many there are: these are the parts that `play` acts by.
        parts = jax.random.split(here.keys, (MAX_STAGES + 1) * world.max_steps)
        keys = jax.lax.dynamic_slice_in_dim(parts, here.steps, world.max_steps)
        (_, last), (states, actions, memories) = jax.lax.scan(partial(step, policy), (start, memory), keys)
        states = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), start, states)
        seen = jax.vmap(world.observe)(states)
        thoughts = None
        if thinking and isinstance(actor.make, Gpi):
            thoughts = jax.vmap(partial(actor.make.thought, actor.world, guide[0]))(seen[:-1], memories)
        return Stretch(jax.vmap(world.features)(states), jax.vmap(features)(seen), actions, thoughts), last

    return jax.vmap(each)(actor.guides, now)


@eqx.filter_jit
def step_once(
    world: Arena, features: Features, place: Float[Array, " k"], action: Int[Array, ""]
) -> tuple[Float[Array, " k"], Float[Array, "2 d"]]:
    """What one action leads to, and the features before and after."""
    state = world.state_of(place)
    following = world.step(state, action)
    return world.features(following), jnp.stack([features(world.observe(each)) for each in (state, following)])


@eqx.filter_jit
def weights_of(goal: AnyGrid, bins: int, grounding: Grounding | None) -> Float[Array, "c d m"]:
    """A goal's clauses as weights over the cumulants."""
    return grids.weights(goal, bins, grounding)


@eqx.filter_jit
def teach(
    world: Arena, gpi: Gpi, goal: AnyGrid, key: PRNGKeyArray, bins: int, budgets: tuple[int, ...]
) -> tuple[Labelled, Belief]:
    """Steps labelled with a reward of 1 where the goal holds, and what the first of them say, for each budget."""

    def reward(state: PyTree) -> Float[Array, ""]:
        return grids.reached(goal, world.features(state)).astype(jnp.float32)

    labelled = collect(world, gpi, bins, reward, key, max(budgets))
    return labelled, beliefs(labelled, bins, key, budgets)


@eqx.filter_jit
def frames_of(world: Arena, places: Float[Array, "t k"]) -> UInt8[Array, "t size size 3"]:
    """Pictures of states, one after the other: all at once would need a lot of memory."""
    return jax.lax.map(lambda place: world.render(world.state_of(place), _FRAME), places)
