"""What the baselines share: settings, one training state, how they play, explore and descend.

A guided baseline follows a guide, a goal or a skill, for a while and then another one. What is its own stands in its
own file: `start`, `train` and, where one training serves all tasks, `player`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray, PyTree, Shaped

from cumulant.freeplay.learning import FINAL_RATE
from cumulant.freeplay.replay import Replay, add, empty, sample
from cumulant.goals.bins import bin_index
from cumulant.goals.weights import weights
from cumulant.transfer.reward_models import Labelled, least_squares
from cumulant.worlds.episodes import Policy
from cumulant.worlds.protocol import Episodes, World, advance, begin

_REPLAYED = 20_000  # states that a baseline keeps, to see what words mean


@dataclass(frozen=True)
class Play:
    """Settings of every baseline; by default as much play as our preset `fast`."""

    gamma: float = 0.95  # Discount.
    width: int = 512  # Units of a layer.
    depth: int = 2  # Layers.
    env_steps: int = 10_240_000  # Steps of play, all copies of the world together.
    num_envs: int = 256  # Copies of the world; one step of each comes before every update.
    batch: int = 1024  # Transitions in an update.
    learning_rate: float = 1e-3  # Of Adam, at first.
    final_rate: float = FINAL_RATE  # Of the learning rate, the share to which it falls linearly.
    target_rate: float = 0.01  # How fast the target networks follow.
    replay: int = 1_000_000  # Transitions remembered.

    @property
    def updates(self) -> int:
        """Updates in all."""
        return max(1, self.env_steps // self.num_envs)


@dataclass(frozen=True)
class Exploring(Play):
    """Settings of those that explore by random actions."""

    epsilon_low: float = 0.05  # Random actions of the most determined copy of the world.
    epsilon_high: float = 1.0  # Random actions of the least determined; in between, geometrically.
    epsilon: float = 0.0  # Random actions when evaluated.


@dataclass(frozen=True)
class Guided(Exploring):
    """Settings of those that `follow` guides."""

    switch_every: int = 25  # Mean steps until a copy follows another guide; 0: at each episode's start.


@dataclass(frozen=True)
class Binned(Guided):
    """Settings of those that learn successor features on our cumulants."""

    bins: int = 3  # Bins of the cumulants.


class Step(NamedTuple):
    """A transition, and what the method has to know beside it: what guided it, or whether the task was done."""

    x: Float[Array, "*batch k"]
    action: Int[Array, "*batch"]
    next_x: Float[Array, "*batch k"]
    extra: PyTree = None


class Learning(NamedTuple):
    """All that one run carries from update to update."""

    networks: PyTree
    target: PyTree
    optimiser: optax.OptState
    replay: Replay
    episodes: Episodes
    guide: PyTree  # what each copy of the world follows: [n, ...]
    key: PRNGKeyArray
    update: Int[Array, ""]


Stage = Callable[[Learning, PRNGKeyArray], Learning]


def first_moment(
    world: World,
    config: Play,
    networks: PyTree,
    keys: Key[Array, "2"],
    guide: PyTree = None,
    extra: PyTree = None,
) -> Learning:
    """Return a run that has learnt nothing.

    Args:
        world: Where it is to play.
        config: Its settings.
        networks: What is to be learnt; the targets begin as the same.
        keys: One for the copies of the world, one for all that follows.
        guide: The first one of each copy of the world: [n, ...].
        extra: Something of the shape of `Step.extra`.
    """
    k = len(world.feature_names)
    return Learning(
        networks=networks,
        target=networks,
        optimiser=_adam(config).init(eqx.filter(networks, eqx.is_inexact_array)),
        replay=empty(Step(jnp.zeros(k), jnp.int32(0), jnp.zeros(k), extra), config.replay, k),
        episodes=begin(world, keys[0], config.num_envs),
        guide=guide,
        key=keys[1],
        update=jnp.zeros((), jnp.int32),
    )


def rounds(learning: Learning, until: Int[Array, ""], *stages: Stage) -> Learning:
    """Go through the stages, each with a key of its own, again and again up to update `until`."""

    def once(_: Array, learning: Learning) -> Learning:
        key, *keys = jax.random.split(learning.key, len(stages) + 1)
        learning = learning._replace(key=key)
        for stage, key_stage in zip(stages, keys, strict=True):
            learning = stage(learning, key_stage)
        return learning

    return jax.lax.fori_loop(learning.update, until, once, learning)


def follow(
    world: World,
    config: Guided,
    act: Callable[[PyTree, Float[Array, " k"], Array, PRNGKeyArray], Int[Array, ""]],
    draw: Callable[[Learning, PRNGKeyArray], Shaped[Array, "n ..."]],
) -> Stage:
    """Return the stage that takes a step in every copy of the world under its guide, and puts it into the replay.

    Args:
        world: Where to play.
        config: How much is random, and how often a copy gets another guide.
        act: Chooses an action, from the networks, what is seen, the guide and a key.
        draw: Draws a new guide for every copy: [n, ...]. Steps keep their guides if the replay has room for them.
    """

    def stage(learning: Learning, key: PRNGKeyArray) -> Learning:
        key_act, key_explore, key_reset, key_switch, key_guides = jax.random.split(key, 5)
        n = config.num_envs
        x = jax.vmap(world.observe)(learning.episodes.state)
        chosen = jax.vmap(act, (None, 0, 0, 0))(learning.networks, x, learning.guide, jax.random.split(key_act, n))
        action = explored(world, config, chosen, key_explore)
        episodes, timestep = advance(world, learning.episodes, action, key_reset)
        kept = learning.guide if learning.replay.rings.extra is not None else None
        replay = add(learning.replay, Step(x, action, timestep.final_obs, kept), stratified=True)
        switch = timestep.ended
        if config.switch_every:
            switch |= jax.random.uniform(key_switch, (n,)) < 1 / config.switch_every
        guide = jax.vmap(jnp.where)(switch, draw(learning, key_guides), learning.guide)
        return learning._replace(replay=replay, episodes=episodes, guide=guide)

    return stage


def epsilon_greedy(
    chosen: Int[Array, "*n"], epsilon: float | Float[Array, "*n"], actions: int, keys: Key[Array, "2"]
) -> Int[Array, "*n"]:
    """Return the chosen actions, but for a share ε of them that are random."""
    explore = jax.random.uniform(keys[0], chosen.shape) < epsilon
    return jnp.where(explore, jax.random.randint(keys[1], chosen.shape, 0, actions), chosen)


def explored(world: World, config: Exploring, chosen: Int[Array, " n"], key: PRNGKeyArray) -> Int[Array, " n"]:
    """Return ε-greedy actions, ε rising from `epsilon_low` in the first copy of the world to `epsilon_high`."""
    epsilon = jnp.geomspace(config.epsilon_low, config.epsilon_high, len(chosen))
    return epsilon_greedy(chosen, epsilon, world.num_actions, jax.random.split(key))


def restless(world: World, policy: Policy, epsilon: float) -> Policy:
    """Return the policy, ε-greedily: what goes to and fro between two states gets away."""

    def act(memory: PyTree, obs: PyTree, key: PRNGKeyArray) -> tuple[PyTree, Int[Array, ""]]:
        keys = jax.random.split(key, 3)
        memory, action = policy.act(memory, obs, keys[0])
        return memory, epsilon_greedy(action, epsilon, world.num_actions, keys[1:])

    return Policy(policy.begin, act)


def greedy(world: World, q: Callable[[Float[Array, " k"]], Float[Array, " a"]], epsilon: float) -> Policy:
    """Return the ε-greedy policy of the values that `q` gives actions; it remembers nothing."""
    return restless(world, Policy(lambda obs: (), lambda memory, obs, key: (memory, q(obs).argmax())), epsilon)


def descend(config: Play, learning: Learning, loss: Callable[[PyTree], Float[Array, ""]]) -> Learning:
    """Take one step of Adam down the loss, and let the targets follow the networks."""
    gradients = eqx.filter_grad(loss)(learning.networks)
    updates, optimiser = _adam(config).update(gradients, learning.optimiser)
    networks = eqx.apply_updates(learning.networks, updates)
    arrays = (eqx.filter(each, eqx.is_array) for each in (networks, learning.target))
    target = eqx.combine(optax.incremental_update(*arrays, config.target_rate), networks)
    return learning._replace(networks=networks, target=target, optimiser=optimiser, update=learning.update + 1)


def _adam(config: Play) -> optax.GradientTransformation:
    last = config.final_rate * config.learning_rate
    return optax.adam(optax.schedules.linear_schedule(config.learning_rate, last, config.updates))


def teach(
    config: Play,
    draw: Callable[[Step, PRNGKeyArray], PyTree],
    loss: Callable[[PyTree, PyTree, Step, Array], Float[Array, "*several"]],
) -> Stage:
    """Return the stage of an update in which each step teaches guides drawn for it, whichever it was made under.

    Args:
        config: The settings.
        draw: Draws what each of a batch of steps is learnt from with: [batch, ...].
        loss: Of the networks, their targets, a step and what was drawn for it.
    """

    def stage(learning: Learning, key: PRNGKeyArray) -> Learning:
        key_batch, key_guides = jax.random.split(key)
        batch = sample(learning.replay, key_batch, config.batch)
        guides = draw(batch, key_guides)

        def mean_loss(networks: PyTree) -> Float[Array, ""]:
            return jax.vmap(partial(loss, networks, learning.target))(batch, guides).mean()

        return descend(config, learning, mean_loss)

    return stage


def greedily(networks: PyTree, x: Float[Array, " k"], guide: Array, key: PRNGKeyArray) -> Int[Array, ""]:
    """Return the action of the highest of the networks' `values`: what `follow` does of most."""
    return networks.values(x, guide).argmax()


def follow_and_teach(
    world: World,
    config: Guided,
    act: Callable[[PyTree, Float[Array, " k"], Array, PRNGKeyArray], Int[Array, ""]],
    draw: Callable[[Array, PRNGKeyArray], Array],
    loss: Callable[[Any, PyTree, PyTree, Step, Array], Float[Array, ""]],
) -> tuple[Stage, Stage]:
    """Return the stages of a method whose play and learning draw guides alike: steps keep theirs.

    Args:
        world: Where to play.
        config: The settings.
        act: See `follow`.
        draw: Draws as many guides as it is given.
        loss: Of the settings, the networks, their targets, a step and its guide.
    """
    play = follow(world, config, act, lambda learning, key: draw(learning.guide, key))
    return play, teach(config, lambda batch, key: draw(batch.extra, key), partial(loss, config))


def on_sphere(vector: Float[Array, "*n d"], radius: float = 1.0) -> Float[Array, "*n d"]:
    """Return the vectors, each stretched to a length."""
    return radius * vector / jnp.maximum(jnp.linalg.norm(vector, axis=-1, keepdims=True), 1e-6)


def directions(like: Float[Array, "*n d"], key: PRNGKeyArray) -> Float[Array, "*n d"]:
    """Draw as many vectors of length one, in any direction."""
    return on_sphere(jax.random.normal(key, like.shape))


def replayed(learning: Learning, key: PRNGKeyArray) -> Float[Array, "n k"]:
    """Draw states as the networks were taught with them."""
    return sample(learning.replay, key, _REPLAYED).next_x


class OverBins(eqx.Module):
    """A policy maker for `evaluate` whose guides are weights of our cumulants, for each clause."""

    config: Binned = eqx.field(static=True)

    def from_words(self, table: Bool[Array, "c k m"]) -> Float[Array, "c k m"]:
        """Return the clauses' weights, as for our own GPI."""
        return weights(table, self.config.bins)

    def from_labels(
        self, f: Float[Array, "n k"], reward: Float[Array, " n"], taken: Bool[Array, " n"]
    ) -> Float[Array, "1 k m"]:
        """Return the paper's regression of the reward on φ, from the steps that were taken."""
        bins = self.config.bins
        return least_squares(Labelled(bin_index(f, bins), reward * taken, taken), bins).w[None]
