"""What rivals have in common: as much free play as our preset `fast`, how they explore, and how they descend.

A rival follows a guide, a goal or a skill, for a while and then another one. What is its own stands in its own file.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree, Shaped

from cumulant.freeplay.learning import FINAL_RATE
from cumulant.freeplay.replay import Replay, add, empty, sample
from cumulant.goals.bins import bin_index
from cumulant.goals.tasks import reached
from cumulant.transfer.reward_models import Labelled, least_squares
from cumulant.worlds.episodes import Policy
from cumulant.worlds.protocol import Episodes, World, advance, begin

_REPLAYED = 20_000  # states that a rival keeps, to see what words mean
Networks = TypeVar("Networks", bound=PyTree)


@dataclass(frozen=True)
class Play:
    """Settings that every rival has."""

    gamma: float = 0.95  # Discount.
    width: int = 512  # Units of a layer.
    depth: int = 2  # Layers.
    env_steps: int = 10_240_000  # Steps of play, all copies of the world together.
    num_envs: int = 256  # Copies of the world; one step of each comes before every update.
    batch: int = 1024  # Transitions in an update.
    learning_rate: float = 1e-3  # Of Adam; it falls linearly to a hundredth.
    target_rate: float = 0.01  # How fast the target networks follow.
    replay: int = 1_000_000  # Transitions remembered.
    epsilon_low: float = 0.05  # Random actions of the most determined copy of the world.
    epsilon_high: float = 1.0  # Random actions of the least determined; in between, geometrically.
    epsilon: float = 0.0  # Random actions when evaluated.

    @property
    def updates(self) -> int:
        """Updates in all."""
        return max(1, self.env_steps // self.num_envs)


@dataclass(frozen=True)
class Guided(Play):
    """Settings of those that play in `rounds`."""

    switch_every: int = 25  # Mean steps until a copy follows another guide; 0: at each episode's start.


class Step(NamedTuple):
    """A transition, and what it was guided by, where the method has to know."""

    x: Float[Array, "*batch k"]
    action: Int[Array, "*batch"]
    next_x: Float[Array, "*batch k"]
    guide: Shaped[Array, "..."] | None = None


class Learning(NamedTuple):
    """All that one run carries from update to update."""

    networks: PyTree
    target: PyTree
    optimiser: optax.OptState
    replay: Replay
    episodes: Episodes
    guide: Shaped[Array, "n ..."]  # that each copy of the world follows
    key: PRNGKeyArray
    update: Int[Array, ""]


def first_moment(
    world: World, config: Play, networks: PyTree, guide: Shaped[Array, "n ..."], key: PRNGKeyArray, keeps_guides: bool
) -> Learning:
    """A run that has learnt nothing; each copy of the world has its first guide, which its steps keep if need be."""
    key_worlds, key_learn = jax.random.split(key)
    k = len(world.feature_names)
    example = Step(jnp.zeros(k), jnp.int32(0), jnp.zeros(k), jnp.zeros_like(guide[0]) if keeps_guides else None)
    return Learning(
        networks=networks,
        target=networks,
        optimiser=begun(config, networks),
        replay=empty(example, config.replay, k),
        episodes=begin(world, key_worlds, config.num_envs),
        guide=guide,
        key=key_learn,
        update=jnp.zeros((), jnp.int32),
    )


def rounds(
    world: World,
    config: Guided,
    learning: Learning,
    until: Int[Array, ""],
    act: Callable[[PyTree, Float[Array, " k"], Array, PRNGKeyArray], Int[Array, ""]],
    guides: Callable[[Learning, PRNGKeyArray], Shaped[Array, "n ..."]],
    learn: Callable[[Learning, PRNGKeyArray], Learning],
) -> Learning:
    """Rounds of a step in every copy of the world and an update, up to update `until`.

    `act` chooses an action, from the networks, what is seen and the guide; `guides` draws a new one for every copy.
    """

    def collect(learning: Learning, key: PRNGKeyArray) -> Learning:
        key_act, key_explore, key_reset, key_switch, key_guides = jax.random.split(key, 5)
        n = config.num_envs
        x = jax.vmap(world.observe)(learning.episodes.state)
        keys = jax.random.split(key_act, n)
        chosen = jax.vmap(act, (None, 0, 0, 0))(learning.networks, x, learning.guide, keys)
        action = explored(world, config, chosen, key_explore)
        episodes, timestep = advance(world, learning.episodes, action, key_reset)
        kept = learning.guide if learning.replay.rings.guide is not None else None
        replay = add(learning.replay, Step(x, action, timestep.final_obs, kept), stratified=True)
        switch = timestep.ended
        if config.switch_every:
            switch |= jax.random.uniform(key_switch, (n,)) < 1 / config.switch_every
        guide = jax.vmap(jnp.where)(switch, guides(learning, key_guides), learning.guide)
        return learning._replace(replay=replay, episodes=episodes, guide=guide)

    def step(_: Array, learning: Learning) -> Learning:
        key, key_play, key_learn = jax.random.split(learning.key, 3)
        return learn(collect(learning._replace(key=key), key_play), key_learn)

    return jax.lax.fori_loop(learning.update, until, step, learning)


def restless(world: World, policy: Policy, epsilon: float) -> Policy:
    """The policy but for a part ε of its actions at random: who goes to and fro between two states gets away."""

    def act(memory: PyTree, obs: PyTree, key: PRNGKeyArray) -> tuple[PyTree, Int[Array, ""]]:
        key_policy, key_explore, key_action = jax.random.split(key, 3)
        memory, action = policy.act(memory, obs, key_policy)
        explore = jax.random.uniform(key_explore) < epsilon
        return memory, jnp.where(explore, jax.random.randint(key_action, (), 0, world.num_actions), action)

    return Policy(policy.begin, act)


def explored(world: World, config: Play, chosen: Int[Array, " n"], key: PRNGKeyArray) -> Int[Array, " n"]:
    """The chosen actions but for a part ε at random, from `epsilon_low` in the first copy to `epsilon_high`."""
    key_explore, key_action = jax.random.split(key)
    n = len(chosen)
    explore = jax.random.uniform(key_explore, (n,)) < jnp.geomspace(config.epsilon_low, config.epsilon_high, n)
    return jnp.where(explore, jax.random.randint(key_action, (n,), 0, world.num_actions), chosen)


def descend(config: Play, learning: Learning, loss: Callable[[PyTree], Float[Array, ""]]) -> Learning:
    """One update of the networks down the loss, and of the targets that follow them."""
    networks, target, optimiser = descended(config, loss, learning.networks, learning.target, learning.optimiser)
    return learning._replace(networks=networks, target=target, optimiser=optimiser, update=learning.update + 1)


def teach_anew(
    config: Play,
    learning: Learning,
    key: PRNGKeyArray,
    draw: Callable[[Array, PRNGKeyArray], Array],
    loss: Callable[[PyTree, PyTree, Step, Array], Float[Array, ""]],
) -> Learning:
    """One update in which each step teaches a guide that is drawn for it, whichever one it was made under.

    `draw` makes guides like those that it is given; `loss` is of the networks, their targets, a step and its guide.
    """
    key_batch, key_guides = jax.random.split(key)
    batch = sample(learning.replay, key_batch, config.batch)
    guides = draw(batch.guide, key_guides)

    def mean_loss(networks: PyTree) -> Float[Array, ""]:
        return jax.vmap(partial(loss, networks, learning.target))(batch, guides).mean()

    return descend(config, learning, mean_loss)


def descended(
    config: Play,
    loss: Callable[[Networks], Float[Array, ""]],
    networks: Networks,
    target: Networks,
    state: optax.OptState,
) -> tuple[Networks, Networks, optax.OptState]:
    """Networks after one step of Adam, their targets, and Adam's state."""
    gradients = eqx.filter_grad(loss)(networks)
    updates, state = _adam(config).update(gradients, state)
    networks = eqx.apply_updates(networks, updates)
    following = optax.incremental_update(
        *(eqx.filter(each, eqx.is_array) for each in (networks, target)), config.target_rate
    )
    return networks, eqx.combine(following, networks), state


def begun(config: Play, networks: PyTree) -> optax.OptState:
    """Adam's state before the first step."""
    return _adam(config).init(eqx.filter(networks, eqx.is_inexact_array))


def _adam(config: Play) -> optax.GradientTransformation:
    rate = optax.schedules.linear_schedule(config.learning_rate, FINAL_RATE * config.learning_rate, config.updates)
    return optax.adam(rate)


def on_sphere(vector: Float[Array, "*n d"], radius: float = 1.0) -> Float[Array, "*n d"]:
    """The vectors, each stretched to a length."""
    return radius * vector / jnp.maximum(jnp.linalg.norm(vector, axis=-1, keepdims=True), 1e-6)


def directions(like: Float[Array, "*n d"], key: PRNGKeyArray) -> Float[Array, "*n d"]:
    """As many vectors of length one, in any direction."""
    return on_sphere(jax.random.normal(key, like.shape))


def replayed(learning: Learning, key: PRNGKeyArray) -> Float[Array, "n k"]:
    """States as the networks were taught with them."""
    return sample(learning.replay, key, _REPLAYED).next_x


def labelled(table: Bool[Array, "c k m"], states: Float[Array, "n k"]) -> tuple[Float[Array, " n"], Bool[Array, " n"]]:
    """What reward states would have where a task is to be done, and that all of them count."""
    return jax.vmap(partial(reached, table))(states).astype(jnp.float32), jnp.ones(len(states), bool)


def regressed_on_bins(
    f: Float[Array, "n k"], reward: Float[Array, " n"], taken: Bool[Array, " n"], bins: int
) -> Float[Array, "1 k m"]:
    """The paper's regression of a reward on φ, from the steps that were taken."""
    labelled = Labelled(bin_index(f, bins), reward * taken, taken)
    return least_squares(labelled, bins).w[None]
