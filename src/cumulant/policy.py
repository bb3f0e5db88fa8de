"""What a policy is, and how an episode is played with one."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Key, PRNGKeyArray, Shaped

from cumulant.world import Goal, World


class Policy(NamedTuple):
    """Pure functions: `begin` looks at the first observation, `act` at each one. Memory is any pytree, () for none."""

    begin: Callable[[Shaped[Array, "..."]], Any]
    act: Callable[[Any, Shaped[Array, "..."], PRNGKeyArray], tuple[Any, Int[Array, ""]]]


class Play(NamedTuple):
    """One episode. After the goal is reached, time stands still: the later states repeat."""

    states: Any  # leading axis max_steps + 1
    actions: Int[Array, " t"]
    success: Bool[Array, ""]
    steps: Int[Array, ""]  # taken until the goal, or max_steps
    memories: Any  # the policy's after each action, leading axis t: what it had in mind


def random_policy(world: World, table: Bool[Array, "c k m"] | None = None) -> Policy:
    """Random play, the lower bound, whatever the task."""
    return Policy(lambda obs: (), lambda memory, obs, key: (memory, jax.random.randint(key, (), 0, world.num_actions)))


def episode_keys(seed: int, episodes: int) -> Key[Array, " episodes"]:
    """The keys, for `play`, of the episodes of seed, seed + 1, ...: everywhere the same episodes for the same seed."""
    return jax.vmap(jax.random.key)(jnp.uint32(seed) + jnp.arange(episodes, dtype=jnp.uint32))


def play(world: World, policy: Policy, goal: Goal, key: PRNGKeyArray) -> Play:
    """An episode from a random start, until the goal or the time limit. A start inside the goal is a success."""
    key_start, key_act = jax.random.split(key)
    return play_from(world, policy, goal, world.reset(key_start), key_act)


def play_from(
    world: World, policy: Policy, goal: Goal, start: Any, key: PRNGKeyArray, steps: int | None = None
) -> Play:
    """An episode from a given start, of `steps` instead of the world's time limit if given."""

    def step(carry: tuple, key: PRNGKeyArray) -> tuple[tuple, tuple]:
        state, memory, done, steps = carry
        memory, action = policy.act(memory, world.observe(state), key)
        following = jax.tree.map(lambda old, new: jnp.where(done, old, new), state, world.step(state, action))
        return (following, memory, done | goal(following), steps + ~done), (following, action, memory)

    first = (start, policy.begin(world.observe(start)), goal(start), jnp.zeros((), jnp.int32))
    (_, _, success, taken), (states, actions, memories) = jax.lax.scan(
        step, first, jax.random.split(key, steps or world.max_steps)
    )
    states = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), start, states)
    return Play(states, actions, success, taken, memories)
