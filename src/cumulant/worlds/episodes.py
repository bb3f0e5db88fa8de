"""What a policy is, and how episodes are played with one: by every command, the page and the experiments alike."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray, PyTree, Shaped

from cumulant.goals.tasks import reached
from cumulant.worlds.protocol import Goal, World

# Frames seen at once: each takes up to a few hundred kilobytes on its way through an encoder.
_FRAMES_AT_ONCE = {"cpu": 1024, "elsewhere": 16_384}

Reward = Callable[[PyTree], Float[Array, ""]]  # of a state


class Policy(NamedTuple):
    """Pure functions: `begin` looks at the first observation, `act` at each one. Memory is any pytree, () for none.

    >>> import jax, cumulant
    >>> policy = cumulant.random_policy(cumulant.Spriteworld())
    >>> obs = jax.numpy.zeros(6)
    >>> memory, action = policy.act(policy.begin(obs), obs, jax.random.key(0))
    >>> action.shape
    ()
    """

    begin: Callable[[Shaped[Array, "..."]], PyTree]
    act: Callable[[PyTree, Shaped[Array, "..."], PRNGKeyArray], tuple[PyTree, Int[Array, ""]]]


# Makes the policy for a task from a guide to it: the task's table for the oracle, weights for GPI. May be a Module.
PolicyMaker = Callable[[Any, Any], Policy]


class Play(NamedTuple):
    """One episode. After the goal is reached, time stands still: the later states repeat."""

    states: PyTree  # leading axis max_steps + 1
    actions: Int[Array, " t"]
    success: Bool[Array, ""]
    steps: Int[Array, ""]  # taken until the goal, or max_steps
    memories: PyTree  # the policy's after each action, leading axis t: what it had in mind


def random_policy(world: World, table: Bool[Array, "c k m"] | None = None) -> Policy:
    """Random play, the lower bound, whatever the task.

    >>> import cumulant
    >>> cumulant.random_policy(cumulant.Spriteworld()).begin(None)
    ()
    """
    return Policy(lambda obs: (), lambda memory, obs, key: (memory, jax.random.randint(key, (), 0, world.num_actions)))


def episode_keys(seed: int, episodes: int) -> Key[Array, " episodes"]:
    """The keys, for `play`, of the episodes of seed, seed + 1, ...: everywhere the same episodes for the same seed."""
    return jax.vmap(jax.random.key)(jnp.uint32(seed) + jnp.arange(episodes, dtype=jnp.uint32))


def play(world: World, policy: Policy, goal: Goal, key: PRNGKeyArray) -> Play:
    """An episode from a random start, until the goal or the time limit. A start inside the goal is a success.

    >>> import jax, cumulant
    >>> world = cumulant.Spriteworld(max_steps=20)
    >>> never = lambda state: state.agent[0] > 2
    >>> episode = cumulant.play(world, cumulant.random_policy(world), never, jax.random.key(0))
    >>> bool(episode.success), int(episode.steps), episode.states.agent.shape
    (False, 20, (21, 2))
    """
    key_start, key_act = jax.random.split(key)
    return play_from(world, policy, goal, world.reset(key_start), key_act)


def play_from(
    world: World, policy: Policy, goal: Goal, start: PyTree, key: PRNGKeyArray, steps: int | None = None
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


def play_many(world: World, policy: Policy, goal: Goal, keys: Key[Array, " n"]) -> Play:
    """The episodes of many keys, side by side: leaves have a leading axis n."""
    return jax.vmap(lambda key: play(world, policy, goal, key))(keys)


def goal_of(world: World, table: Bool[Array, "c k m"]) -> Goal:
    """Whether a state is where a task wants it, as `Task.table` describes the task."""
    return lambda state: reached(table, world.features(state))


def reward_of(world: World, table: Bool[Array, "c k m"]) -> Reward:
    """1 where the task holds, 0 elsewhere."""
    return lambda state: reached(table, world.features(state)).astype(jnp.float32)


def attempt(world: World, make_policy: PolicyMaker, table: Bool[Array, "c k m"], guide: Any, key: PRNGKeyArray) -> Play:
    """One episode of the task that the table describes, by the policy made from the guide."""
    return play(world, make_policy(world, guide), goal_of(world, table), key)


@eqx.filter_jit
def outcomes(
    world: World,
    make_policy: PolicyMaker,
    tables: Bool[Array, "tasks c k m"],
    guides: PyTree[Shaped[Array, "tasks ..."]],
    keys: Key[Array, "tasks episodes"],
) -> tuple[Bool[Array, "tasks episodes"], Int[Array, "tasks episodes"]]:
    """Success and steps of an episode for every task and key, all at once."""

    def outcome(table: Bool[Array, "c k m"], guide: Any, key: PRNGKeyArray) -> tuple[Array, Array]:
        episode = attempt(world, make_policy, table, guide, key)
        return episode.success, episode.steps

    each = jax.vmap(outcome, (None, None, 0))
    return over_tasks(world, each, (tables, guides, keys), keys.shape[1])


def over_tasks(world: World, function: Callable[..., PyTree], xs: tuple, copies: int) -> PyTree:
    """All tasks at once; or, where the world shows frames and each task plays so many copies of it, a few at a time."""
    seen = jax.eval_shape(lambda key: world.observe(world.reset(key)), jax.random.key(0))
    if seen.ndim == 1:
        return jax.vmap(function)(*xs)
    at_once = _FRAMES_AT_ONCE["cpu" if jax.default_backend() == "cpu" else "elsewhere"]
    return jax.lax.map(lambda x: function(*x), xs, batch_size=max(1, at_once // copies))
