"""DQN, from scratch on one task: double, dueling, Huber; the body and the input are those of our Ψ-network.

Everything is written for one run; `InStep` makes all tasks and seeds one program.
"""

from dataclasses import dataclass
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from cumulant.features.coordinates import Inputs
from cumulant.freeplay.networks import Trunk
from cumulant.freeplay.replay import add, sample
from cumulant.worlds.episodes import Policy, goal_of
from cumulant.worlds.protocol import World, advance
from cumulant_paper.baselines.playing import Learning, Play, Step, descend, epsilon_greedy, first_moment, rounds


@dataclass(frozen=True)
class Dqn(Play):
    """Settings, as found by `cumulant reproduce dqn-search`."""

    width: int = 256  # Units of a layer.
    relational: bool = True  # Show the differences of features beside the features, as our Ψ-network sees them.
    env_steps: int = 1_000_000  # Steps of the task, all copies of the world together.
    num_envs: int = 4  # Copies of the world; one step of each comes before every update.
    batch: int = 256  # Transitions in an update.
    final_rate: float = 1.0  # The learning rate stays.
    replay: int = 200_000  # Transitions remembered.
    stratified: bool = True  # Replay by which feature changed, as free play does; otherwise plain.
    epsilon: float = 0.05  # Random actions in the end, and when evaluated.
    epsilon_steps: int = 50_000  # Steps over which random actions fall from all to `epsilon`.


class EpsilonGreedy(eqx.Module):
    """A policy maker for `evaluate`: the network's best action, but for a part ε at random, whatever the guide."""

    network: Trunk
    epsilon: float = eqx.field(static=True)

    def __call__(self, world: World, guide: object = None) -> Policy:
        """Return the policy; it remembers nothing."""

        def act(memory: tuple, obs: Float[Array, " k"], key: PRNGKeyArray) -> tuple[tuple, Int[Array, ""]]:
            action = self.network(obs).argmax()
            return memory, epsilon_greedy(action, self.epsilon, world.num_actions, jax.random.split(key))

        return Policy(lambda obs: (), act)


def start(world: World, config: Dqn, key: PRNGKeyArray) -> Learning:
    """Return the first moment of a run."""
    key_network, *keys = jax.random.split(key, 3)
    inputs = Inputs(len(world.feature_names))
    network = Trunk(inputs, (), world.num_actions, config.width, config.depth, config.relational, key_network)
    return first_moment(world, config, network, jnp.stack(keys), extra=jnp.zeros((), bool))


def train(
    world: World, config: Dqn, table: Bool[Array, "c k b"], learning: Learning, until: Int[Array, ""]
) -> Learning:
    """Play and learn the task of the table, up to update `until`."""

    def learn(learning: Learning, key: PRNGKeyArray) -> Learning:
        batch = sample(learning.replay, key, config.batch)
        return descend(config, learning, lambda network: loss(config, network, learning.target, batch))

    return rounds(learning, until, partial(collect, world, config, table), learn)


def collect(world: World, config: Dqn, table: Bool[Array, "c k b"], learning: Learning, key: PRNGKeyArray) -> Learning:
    """Take one ε-greedy step in every copy of the world, and put it into the replay; success ends an episode.

    Success gives reward 1, too: one flag of a step says both.
    """
    key_act, key_reset = jax.random.split(key)
    x = jax.vmap(world.observe)(learning.episodes.state)
    done = learning.update * config.num_envs / config.epsilon_steps
    epsilon = jnp.maximum(1 - (1 - config.epsilon) * done, config.epsilon)
    keys = jax.vmap(jax.random.split)(jax.random.split(key_act, config.num_envs))
    best = jax.vmap(learning.networks)(x).argmax(axis=1)
    action = jax.vmap(lambda best, keys: epsilon_greedy(best, epsilon, world.num_actions, keys))(best, keys)
    episodes, timestep = advance(world, learning.episodes, action, key_reset, goal_of(world, table))
    new = Step(x, action, timestep.final_obs, timestep.terminated)
    return learning._replace(replay=add(learning.replay, new, config.stratified), episodes=episodes)


def loss(config: Dqn, network: Trunk, target: Trunk, batch: Step) -> Float[Array, ""]:
    """Return the mean Huber loss against r + γ Q(s', argmax Q): the network chooses, the target values."""
    q = jnp.take_along_axis(jax.vmap(network)(batch.x), batch.action[:, None], axis=1)[:, 0]
    choice = jax.vmap(network)(batch.next_x).argmax(axis=1)
    following = jnp.take_along_axis(jax.vmap(target)(batch.next_x), choice[:, None], axis=1)[:, 0]
    goal = jnp.where(batch.extra, 1.0, config.gamma * following)
    return optax.losses.huber_loss(q, jax.lax.stop_gradient(goal)).mean()
