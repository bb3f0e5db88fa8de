"""DQN, from scratch on one task: double, dueling, Huber; the body and the input are those of our Ψ-network.

Everything is written for one run; `InStep` makes all tasks and seeds one program.
"""

from dataclasses import dataclass
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from cumulant.features.coordinates import Inputs
from cumulant.freeplay.networks import Trunk
from cumulant.freeplay.replay import Replay, add, empty, sample
from cumulant.worlds.episodes import Policy, goal_of
from cumulant.worlds.protocol import Episodes, World, advance, begin


@dataclass(frozen=True)
class Dqn:
    """Settings, as found by `cumulant reproduce dqn-search`."""

    gamma: float = 0.95  # Discount.
    width: int = 256  # Units of a layer.
    depth: int = 2  # Layers.
    relational: bool = True  # Show the differences of features beside the features, as our Ψ-network sees them.
    env_steps: int = 1_000_000  # Steps of the task, all copies of the world together.
    num_envs: int = 4  # Copies of the world; one step of each comes before every update.
    batch: int = 256  # Transitions in an update.
    learning_rate: float = 1e-3  # Of Adam.
    target_rate: float = 0.01  # How fast the target network follows.
    replay: int = 200_000  # Transitions remembered.
    stratified: bool = True  # Replay by which feature changed, as free play does; otherwise plain.
    epsilon: float = 0.05  # Random actions in the end, and when evaluated.
    epsilon_steps: int = 50_000  # Steps over which random actions fall from all to `epsilon`.

    @property
    def updates(self) -> int:
        """Updates in all."""
        return max(1, self.env_steps // self.num_envs)


class Rewarded(NamedTuple):
    """A transition of a task. Reaching the goal gives reward 1 and ends the episode, so one flag says both."""

    x: Float[Array, "*batch k"]
    action: Int[Array, "*batch"]
    next_x: Float[Array, "*batch k"]
    success: Bool[Array, "*batch"]


class Learning(NamedTuple):
    """All that one run carries from update to update."""

    network: Trunk
    target: Trunk
    optimiser: optax.OptState
    replay: Replay
    episodes: Episodes
    key: PRNGKeyArray
    update: Int[Array, ""]


class EpsilonGreedy(eqx.Module):
    """A policy maker for `evaluate`: the network's best action, but for a part ε at random, whatever the guide."""

    network: Trunk
    epsilon: float = eqx.field(static=True)

    def __call__(self, world: World, guide: object = None) -> Policy:
        """The policy; it remembers nothing."""

        def act(memory: tuple, obs: Float[Array, " k"], key: PRNGKeyArray) -> tuple[tuple, Int[Array, ""]]:
            return memory, _epsilon_greedy(self.network(obs), jnp.float32(self.epsilon), key)

        return Policy(lambda obs: (), act)


def start(world: World, config: Dqn, key: PRNGKeyArray) -> Learning:
    """The first moment of a run."""
    key_network, key_worlds, key_learn = jax.random.split(key, 3)
    k = len(world.feature_names)
    network = Trunk(Inputs(k), (), world.num_actions, config.width, config.depth, config.relational, key_network)
    example = Rewarded(jnp.zeros(k), jnp.zeros((), jnp.int32), jnp.zeros(k), jnp.zeros((), bool))
    return Learning(
        network=network,
        target=network,
        optimiser=optax.adam(config.learning_rate).init(eqx.filter(network, eqx.is_inexact_array)),
        replay=empty(example, config.replay, k),
        episodes=begin(world, key_worlds, config.num_envs),
        key=key_learn,
        update=jnp.zeros((), jnp.int32),
    )


def train(
    world: World, config: Dqn, table: Bool[Array, "c k b"], learning: Learning, until: Int[Array, ""]
) -> Learning:
    """Rounds of a step in every copy of the world and an update, up to update `until`, on the task of the table."""

    def step(_: object, learning: Learning) -> Learning:
        key, key_play, key_learn = jax.random.split(learning.key, 3)
        return learn(config, collect(world, config, table, learning._replace(key=key), key_play), key_learn)

    return jax.lax.fori_loop(learning.update, until, step, learning)


def collect(world: World, config: Dqn, table: Bool[Array, "c k b"], learning: Learning, key: PRNGKeyArray) -> Learning:
    """One ε-greedy step of every copy of the world into the replay; success ends an episode."""
    key_act, key_reset = jax.random.split(key)
    f = jax.vmap(world.observe)(learning.episodes.state)
    done = learning.update * config.num_envs / config.epsilon_steps
    epsilon = jnp.maximum(1 - (1 - config.epsilon) * done, config.epsilon)
    keys = jax.random.split(key_act, config.num_envs)
    action = jax.vmap(_epsilon_greedy, (0, None, 0))(jax.vmap(learning.network)(f), epsilon, keys)
    episodes, timestep = advance(world, learning.episodes, action, key_reset, goal_of(world, table))
    new = Rewarded(f, action, timestep.final_obs, timestep.terminated)
    return learning._replace(replay=add(learning.replay, new, config.stratified), episodes=episodes)


def _epsilon_greedy(q: Float[Array, " a"], epsilon: Float[Array, ""], key: PRNGKeyArray) -> Int[Array, ""]:
    key_explore, key_action = jax.random.split(key)
    explore = jax.random.uniform(key_explore) < epsilon
    return jnp.where(explore, jax.random.randint(key_action, (), 0, len(q)), q.argmax())


def learn(config: Dqn, learning: Learning, key: PRNGKeyArray) -> Learning:
    """One update of the network, and of the target that follows it."""
    batch = sample(learning.replay, key, config.batch)
    gradients = eqx.filter_grad(lambda network: loss(config, network, learning.target, batch))(learning.network)
    updates, optimiser = optax.adam(config.learning_rate).update(gradients, learning.optimiser)
    network = eqx.apply_updates(learning.network, updates)
    target = optax.incremental_update(
        *(eqx.filter(n, eqx.is_array) for n in (network, learning.target)), config.target_rate
    )
    return learning._replace(
        network=network, target=eqx.combine(target, network), optimiser=optimiser, update=learning.update + 1
    )


def loss(config: Dqn, network: Trunk, target: Trunk, batch: Rewarded) -> Float[Array, ""]:
    """Mean Huber loss against r + γ Q(s', argmax Q): the network chooses, the target values. Success ends all."""
    q = jnp.take_along_axis(jax.vmap(network)(batch.x), batch.action[:, None], axis=1)[:, 0]
    choice = jax.vmap(network)(batch.next_x).argmax(axis=1)
    following = jnp.take_along_axis(jax.vmap(target)(batch.next_x), choice[:, None], axis=1)[:, 0]
    goal = jnp.where(batch.success, 1.0, config.gamma * following)
    return optax.losses.huber_loss(q, jax.lax.stop_gradient(goal)).mean()
