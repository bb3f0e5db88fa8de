"""What the player has compiled, with behaviour and goal apart, so that few programs serve all goals and plans.

Episodes are played in stretches, each with one stage of a plan in mind, and cut later where the stage was reached:
behaviour depends on the stage's weights alone, whose clauses are padded to two sizes. A stretch is as long as the time
limit, or shorter in a world that cannot be turned back. A plain goal is a plan of one stage. Where the goal itself is
needed, it comes as one on any grid.
"""

from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray, PyTree, Shaped, UInt, UInt8

from cumulant.features.coordinates import Features, feature_count
from cumulant.features.grounding import Grounding
from cumulant.transfer.audit import PsiAt, psi_at
from cumulant.transfer.exploration import collect
from cumulant.transfer.gpi import Gpi, Thought
from cumulant.transfer.inference import beliefs
from cumulant.transfer.reward_models import Belief, Labelled
from cumulant.web import grids
from cumulant.web.grids import AnyGrid
from cumulant.worlds.episodes import Policy, PolicyMaker
from cumulant.worlds.protocol import Arena, World, at_once, done_in, render, step_unless

MAX_STAGES = 8  # of a plan on the page: an episode is as many times as long as that of a plain goal
_FRAME = 320  # pixels of a film
_IN_VAIN = 8  # steps on the host, at most, beyond the end of an episode


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

    states: PyTree  # leading axis n
    memories: PyTree  # of each episode's policy, unless it begins `anew`
    anew: Bool[Array | np.ndarray, " n"]
    over: Bool[Array | np.ndarray, " n"]  # for which time stands still
    keys: Key[Array, " n"]
    steps: Int[Array | np.ndarray, " n"]  # taken so far


class Sight(NamedTuple):
    """What n states are like."""

    places: Float[Array | np.ndarray, "n *states k"]  # the world's own features, in [0, 1]
    features: Float[Array | np.ndarray, "n *states d"]  # the library's
    done: Bool[Array | np.ndarray, "n *states"]  # whether the world cannot go on


class Stretch(NamedTuple):
    """What n episodes were like for some steps."""

    seen: Sight
    actions: Int[Array | np.ndarray, "n t"]
    thoughts: Thought | None  # leading axes n and t; None where nobody weighs policies, or nobody asks


def stretch_length(world: World, to_the_step: bool) -> int:
    """How many steps to play before looking: on the host, few are to be in vain, and none if others are to follow.

    What runs there cannot be turned back to where a stage of a plan was reached, or the goal was changed.
    """
    if at_once(world) is None:
        return world.max_steps
    return 1 if to_the_step else min(_IN_VAIN, world.max_steps)


@eqx.filter_jit
def begin(world: World, seeds: UInt[Array | np.ndarray, " n"]) -> tuple[PyTree, Key[Array, " n"]]:
    """The states in which the episodes of seeds begin, and the keys of what follows."""
    keys = jax.vmap(lambda seed: jax.random.split(jax.random.key(seed)))(seeds)  # as `episode_keys` and `play` do
    return jax.vmap(world.reset)(keys[:, 0]), keys[:, 1]


@eqx.filter_jit
def place(world: World, states: PyTree) -> Float[Array, " k"]:
    """The features of the only one of some states, [1, ...]."""
    return jax.vmap(world.features)(states)[0]


@eqx.filter_jit
def placed(world: Arena, places: Float[Array | np.ndarray, "n k"]) -> PyTree:
    """The states with sprites at these places."""
    return jax.vmap(world.state_of)(jnp.asarray(places))


@eqx.filter_jit
def at(states: PyTree, index: Int[Array | np.ndarray, " n"]) -> PyTree:
    """Of each of n rows of states, [n, states, ...], one: [n, ...]."""
    return jax.vmap(lambda row, i: jax.tree.map(lambda leaf: leaf[i], row))(states, jnp.asarray(index))


def _sight(world: World, features: Features, state: PyTree) -> Sight:
    """One state; further numbers that the network sees behind its features are left out."""
    seen = features(world.observe(state))[: feature_count(features, world)]
    return Sight(world.features(state), seen, done_in(world, state))


@eqx.filter_jit
def look(world: World, features: Features, actor: Actor, states: PyTree) -> tuple[Sight, PyTree]:
    """What some states are like, and memories that hold nothing yet."""

    def each(state: PyTree, guide: tuple) -> tuple[Sight, PyTree]:
        empty = jax.tree.map(jnp.zeros_like, actor.policy(guide).begin(actor.world.observe(state)))
        return _sight(world, features, state), empty

    return jax.vmap(each)(states, actor.guides)


@eqx.filter_jit
def play_on(
    world: World, features: Features, actor: Actor, now: Moment, length: int, thinking: bool
) -> tuple[Stretch, PyTree, PyTree]:
    """Episodes from a moment on for a stretch, its states, [n, t + 1, ...], and what the policies then remember."""

    def step(policy: Policy, over: Bool[Array, ""], carry: tuple, key: PRNGKeyArray) -> tuple[tuple, tuple]:
        state, memory = carry
        memory, action = policy.act(memory, actor.world.observe(state), key)
        following = step_unless(actor.world, over, state, action)
        return (following, memory), (following, action, memory)

    def each(guide: tuple, here: Moment) -> tuple[Stretch, PyTree, PyTree]:
        policy, start = actor.policy(guide), here.states
        begun = policy.begin(actor.world.observe(start))
        memory = jax.tree.map(lambda new, old: jnp.where(here.anew, new, old), begun, here.memories)
        # The i-th part of a key is the same however many there are: these are the parts that `play` acts by.
        parts = jax.random.split(here.keys, (MAX_STAGES + 1) * world.max_steps)
        keys = jax.lax.dynamic_slice_in_dim(parts, here.steps, length)
        going = partial(step, policy, jnp.asarray(here.over))
        (_, last), (states, actions, memories) = jax.lax.scan(going, (start, memory), keys)
        states = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), start, states)
        thoughts = None
        if thinking and isinstance(actor.make, Gpi):
            before = jax.tree.map(lambda leaf: leaf[:-1], states)
            seen = jax.vmap(actor.world.observe)(before)
            thoughts = jax.vmap(partial(actor.make.thought, actor.world, guide[0]))(seen, memories)
        return Stretch(jax.vmap(partial(_sight, world, features))(states), actions, thoughts), states, last

    return jax.vmap(each)(actor.guides, now)


@eqx.filter_jit
def step_once(world: World, features: Features, states: PyTree, action: Int[Array, ""]) -> Sight:
    """What the only one of some states, [1, ...], is like, and what one action leads to: [2, ...]."""
    state = jax.tree.map(lambda leaf: leaf[0], states)
    both = [_sight(world, features, each) for each in (state, world.step(state, action))]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *both)


@eqx.filter_jit
def weights_of(goal: AnyGrid, bins: int, grounding: Grounding | None) -> Float[Array, "c d m"]:
    """A goal's clauses as weights over the cumulants."""
    return grids.weights(goal, bins, grounding)


@eqx.filter_jit
def teach(
    world: World, gpi: Gpi, goal: AnyGrid, key: PRNGKeyArray, bins: int, budgets: tuple[int, ...]
) -> tuple[Labelled, Belief]:
    """Steps labelled with a reward of 1 where the goal holds, and what the first of them say, for each budget."""

    def reward(state: PyTree) -> Float[Array, ""]:
        return grids.reached(goal, world.features(state)).astype(jnp.float32)

    labelled = collect(world, gpi, bins, reward, key, max(budgets))
    return labelled, beliefs(labelled, bins, key, budgets)


@eqx.filter_jit
def psi(world: World, gpi: Gpi, states: PyTree, action: Int[Array, ""], gamma: float) -> PsiAt:
    """Ψ of the only one of some states, [1, ...], and an action."""
    return psi_at(world, gpi, jax.tree.map(lambda leaf: leaf[0], states), action, gamma)


@eqx.filter_jit
def picture(world: World, states: PyTree) -> UInt8[Array, "size size 3"]:
    """A picture of the only one of some states, [1, ...]: one program for films of any length."""
    return render(world, jax.tree.map(lambda leaf: leaf[0], states), _FRAME)
