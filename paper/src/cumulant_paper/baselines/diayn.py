"""DIAYN (Eysenbach et al., 2019): skills that a discriminator tells apart by the states they visit.

A skill z is rewarded with log q(z|s') - log p(z), and acts by the softmax of its soft Q-values. One network holds all
skills, so that every transition teaches them all, as our Ψ-network is taught. Beside them, the skills' successor
features on our cumulants are learnt, so that GPI acts over skills just as over feature-control policies.
Values are scaled by 1 - γ.
"""

from dataclasses import dataclass
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from cumulant.features.coordinates import Inputs
from cumulant.freeplay.networks import Trunk
from cumulant.freeplay.replay import add, sample
from cumulant.goals.bins import phi
from cumulant.worlds.episodes import Policy
from cumulant.worlds.protocol import World, advance
from cumulant_paper.baselines.playing import Learning, Play, Step, descend, first_moment, rounds


@dataclass(frozen=True)
class Diayn(Play):
    """Settings. As many skills as our six features have policies, and as many environment steps as free play."""

    skills: int = 54  # Skills.
    bins: int = 9  # Bins of the cumulants whose successor features are learnt.
    temperature: float = 0.1  # Worth of an action's entropy, in units of reward.
    width: int = 256  # Units of a layer.
    env_steps: int = 10_000_000  # Steps of play, all copies of the world together.
    replay: int = 200_000  # Transitions remembered: the discriminator must see what skills do now.


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
        """Return log q(z|s)."""
        return jax.nn.log_softmax(self.discriminator(f))


class Skill(eqx.Module):
    """A policy maker for `evaluate`: the guide is the number of the skill to follow."""

    q: Trunk
    config: Diayn = eqx.field(static=True)

    def __call__(self, world: World, guide: Int[Array, ""]) -> Policy:
        """Return the skill's own stochastic policy; it remembers nothing."""

        def act(memory: tuple, obs: Float[Array, " k"], key: PRNGKeyArray) -> tuple[tuple, Int[Array, ""]]:
            return memory, jax.random.categorical(key, _logits(self.config, self.q(obs))[guide])

        return Policy(lambda obs: (), act)


def _logits(config: Diayn, q: Float[Array, "*skills a"]) -> Float[Array, "*skills a"]:
    """Return the policy's logits from soft Q-values."""
    return q / (config.temperature * (1 - config.gamma))


def start(world: World, config: Diayn, key: PRNGKeyArray) -> Learning:
    """Return the first moment of a run; each copy of the world has a skill for a whole episode."""
    key_networks, key_worlds, key_skill, key_learn = jax.random.split(key, 4)
    networks = Networks(len(world.feature_names), world.num_actions, config, key_networks)
    skill = jax.random.randint(key_skill, (config.num_envs,), 0, config.skills)
    return first_moment(world, config, networks, jnp.stack([key_worlds, key_learn]), skill, extra=skill[0])


def train(world: World, config: Diayn, learning: Learning, until: Int[Array, ""]) -> Learning:
    """Play and learn up to update `until`."""

    def learn(learning: Learning, key: PRNGKeyArray) -> Learning:
        batch = sample(learning.replay, key, config.batch)

        def mean_loss(networks: Networks) -> Float[Array, ""]:
            return jax.vmap(partial(loss, config, networks, learning.target))(batch).mean()

        return descend(config, learning, mean_loss)

    return rounds(learning, until, partial(collect, world, config), learn)


def collect(world: World, config: Diayn, learning: Learning, key: PRNGKeyArray) -> Learning:
    """Take one step in every copy under its skill, and put it into the replay; a new episode has a new skill."""
    key_act, key_reset, key_skill = jax.random.split(key, 3)
    x, skill = jax.vmap(world.observe)(learning.episodes.state), learning.guide
    logits = _logits(config, jax.vmap(lambda x, z: learning.networks.q(x)[z])(x, skill))
    action = jax.random.categorical(key_act, logits)
    episodes, timestep = advance(world, learning.episodes, action, key_reset)
    replay = add(learning.replay, Step(x, action, timestep.final_obs, skill), stratified=False)
    others = jax.random.randint(key_skill, skill.shape, 0, config.skills)
    return learning._replace(replay=replay, episodes=episodes, guide=jnp.where(timestep.truncated, others, skill))


def loss(config: Diayn, networks: Networks, target: Networks, step: Step) -> Float[Array, ""]:
    """Return the sum of the three losses of one transition. Only the discriminator asks which skill made it."""
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
    return q_loss + psi_loss - told[step.extra]
