"""DIAYN (Eysenbach et al., 2019): skills that a discriminator tells apart by the states they visit.

A skill z is rewarded with log q(z|s') - log p(z), and acts by the softmax of its soft Q-values. One network holds all
skills, so that every transition teaches them all, as our Ψ-network is taught. Beside them, the skills' successor
features on our cumulants are learnt, so that GPI acts over skills just as over feature-control policies.
Values are scaled by 1 - γ.
"""

from dataclasses import dataclass
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from cumulant.features.coordinates import Inputs
from cumulant.freeplay.networks import Trunk
from cumulant.freeplay.replay import Replay, add, empty, sample
from cumulant.goals.bins import phi
from cumulant.worlds.episodes import Policy
from cumulant.worlds.protocol import Episodes, World, advance, begin


@dataclass(frozen=True)
class Diayn:
    """Settings. As many skills as our six features have policies, and as many environment steps as free play."""

    skills: int = 54  # Skills.
    bins: int = 9  # Bins of the cumulants whose successor features are learnt.
    gamma: float = 0.95  # Discount.
    temperature: float = 0.1  # Worth of an action's entropy, in units of reward.
    width: int = 256  # Units of a layer.
    depth: int = 2  # Layers.
    env_steps: int = 10_000_000  # Steps of play, all copies of the world together.
    num_envs: int = 256  # Copies of the world; one step of each comes before every update.
    batch: int = 1024  # Transitions in an update.
    learning_rate: float = 1e-3  # Of Adam; it falls linearly to a hundredth.
    target_rate: float = 0.01  # How fast the target network follows.
    replay: int = 200_000  # Transitions remembered: the discriminator must see what skills do now.

    @property
    def updates(self) -> int:
        """Updates in all."""
        return max(1, self.env_steps // self.num_envs)


class Skilled(NamedTuple):
    """A transition, and the skill that made it."""

    x: Float[Array, "*batch k"]
    action: Int[Array, "*batch"]
    next_x: Float[Array, "*batch k"]
    skill: Int[Array, "*batch"]


class Networks(eqx.Module):
    """Soft Q-values of all skills, the discriminator over states, and all skills' successor features."""

    q: Trunk  # [k] → [skills, a]
    discriminator: Trunk  # [k] → [skills], log-odds
    psi: Trunk  # [k] → [skills, 1, k, m, a]: for GPI, each skill is a policy with one bin

    def __init__(self, k: int, actions: int, config: Diayn, key: PRNGKeyArray):
        """Three networks of the same body."""
        heads = ((config.skills,), actions), ((), config.skills), ((config.skills, 1, k, config.bins), actions)
        self.q, self.discriminator, self.psi = (
            Trunk(Inputs(k), shape, outputs, config.width, config.depth, True, key)
            for (shape, outputs), key in zip(heads, jax.random.split(key, 3), strict=True)
        )

    def told_apart(self, f: Float[Array, " k"]) -> Float[Array, " skills"]:
        """Log q(z|s)."""
        return jax.nn.log_softmax(self.discriminator(f))


class Learning(NamedTuple):
    """All that one run carries from update to update."""

    networks: Networks
    target: Networks
    optimiser: optax.OptState
    replay: Replay
    episodes: Episodes
    skill: Int[Array, " n"]  # of each copy of the world, for a whole episode
    key: PRNGKeyArray
    update: Int[Array, ""]


class Skill(eqx.Module):
    """A policy maker for `evaluate`: the guide is the number of the skill to follow."""

    q: Trunk
    config: Diayn = eqx.field(static=True)

    def __call__(self, world: World, guide: Int[Array, ""]) -> Policy:
        """The skill's own stochastic policy; it remembers nothing."""

        def act(memory: tuple, obs: Float[Array, " k"], key: PRNGKeyArray) -> tuple[tuple, Int[Array, ""]]:
            return memory, jax.random.categorical(key, _logits(self.config, self.q(obs))[guide])

        return Policy(lambda obs: (), act)


def _logits(config: Diayn, q: Float[Array, "*skills a"]) -> Float[Array, "*skills a"]:
    """Soft Q-values as the logits of the policy."""
    return q / (config.temperature * (1 - config.gamma))


def _optimiser(config: Diayn) -> optax.GradientTransformation:
    rate = optax.schedules.linear_schedule(config.learning_rate, 0.01 * config.learning_rate, config.updates)
    return optax.adam(rate)


def start(world: World, config: Diayn, key: PRNGKeyArray) -> Learning:
    """The first moment of a run."""
    key_networks, key_worlds, key_skill, key_learn = jax.random.split(key, 4)
    k = len(world.feature_names)
    networks = Networks(k, world.num_actions, config, key_networks)
    example = Skilled(jnp.zeros(k), jnp.zeros((), jnp.int32), jnp.zeros(k), jnp.zeros((), jnp.int32))
    return Learning(
        networks=networks,
        target=networks,
        optimiser=_optimiser(config).init(eqx.filter(networks, eqx.is_inexact_array)),
        replay=empty(example, config.replay, k),
        episodes=begin(world, key_worlds, config.num_envs),
        skill=jax.random.randint(key_skill, (config.num_envs,), 0, config.skills),
        key=key_learn,
        update=jnp.zeros((), jnp.int32),
    )


def train(world: World, config: Diayn, learning: Learning, until: Int[Array, ""]) -> Learning:
    """Rounds of a step in every copy of the world and an update, up to update `until`."""

    def step(_: object, learning: Learning) -> Learning:
        key, key_play, key_learn = jax.random.split(learning.key, 3)
        return learn(config, collect(world, config, learning._replace(key=key), key_play), key_learn)

    return jax.lax.fori_loop(learning.update, until, step, learning)


def collect(world: World, config: Diayn, learning: Learning, key: PRNGKeyArray) -> Learning:
    """One step of every copy under its skill, into the replay; a new episode has a new skill."""
    key_act, key_reset, key_skill = jax.random.split(key, 3)
    f = jax.vmap(world.observe)(learning.episodes.state)
    logits = _logits(config, jax.vmap(lambda f, z: learning.networks.q(f)[z])(f, learning.skill))
    action = jax.random.categorical(key_act, logits)
    episodes, timestep = advance(world, learning.episodes, action, key_reset)
    replay = add(learning.replay, Skilled(f, action, timestep.final_obs, learning.skill), stratified=False)
    others = jax.random.randint(key_skill, learning.skill.shape, 0, config.skills)
    skill = jnp.where(timestep.truncated, others, learning.skill)
    return learning._replace(replay=replay, episodes=episodes, skill=skill)


def learn(config: Diayn, learning: Learning, key: PRNGKeyArray) -> Learning:
    """One update of all networks, and of the target that follows them."""
    batch = sample(learning.replay, key, config.batch)

    def mean_loss(networks: Networks) -> Float[Array, ""]:
        return jax.vmap(lambda step: loss(config, networks, learning.target, step))(batch).mean()

    gradients = eqx.filter_grad(mean_loss)(learning.networks)
    updates, optimiser = _optimiser(config).update(gradients, learning.optimiser)
    networks = eqx.apply_updates(learning.networks, updates)
    target = optax.incremental_update(
        *(eqx.filter(n, eqx.is_array) for n in (networks, learning.target)), config.target_rate
    )
    return learning._replace(
        networks=networks, target=eqx.combine(target, networks), optimiser=optimiser, update=learning.update + 1
    )


def loss(config: Diayn, networks: Networks, target: Networks, step: Skilled) -> Float[Array, ""]:
    """The three losses of one transition. Only the discriminator asks which skill made it."""
    behind, gamma = target.q(step.next_x), config.gamma
    soft = config.temperature * (1 - gamma)
    told = networks.told_apart(step.next_x)
    reward = jax.lax.stop_gradient(told) + jnp.log(config.skills)  # of every skill, for having come to s'
    q_goal = (1 - gamma) * reward + gamma * soft * jax.nn.logsumexp(behind / soft, axis=-1)
    chances = jax.nn.softmax(_logits(config, behind))  # of the next action, under every skill
    following = jnp.einsum("zolha,za->zolh", target.psi(step.next_x), chances)
    psi_goal = (1 - gamma) * phi(step.x, config.bins) + gamma * following
    q_loss = optax.losses.huber_loss(networks.q(step.x)[:, step.action], q_goal).mean()
    psi_loss = optax.losses.huber_loss(networks.psi(step.x)[..., step.action], psi_goal).mean()
    return q_loss + psi_loss - told[step.skill]
