"""DUSDi (Hu et al., 2024): skills disentangled by factor. A skill is a choice for each feature, told from it alone.

A skill z = (z_1, ..., z_k) is rewarded with Σ_i log q_i(z_i|s'_i) + log n, as DIAYN's is, but each discriminator q_i
sees its own feature only. Values are kept apart by factor, and the policy goes by their sum. Over the joint skills'
successor features on our cumulants GPI acts, as over DIAYN's. Values are scaled by 1 - γ.
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from cumulant.features.coordinates import Inputs, true_features
from cumulant.freeplay.networks import Trunk
from cumulant.goals.bins import phi
from cumulant.transfer.gpi import plain_gpi
from cumulant.worlds.episodes import Policy
from cumulant.worlds.protocol import World
from cumulant_paper.baselines.playing import (
    Binned,
    Learning,
    OverBins,
    Step,
    first_moment,
    follow_and_teach,
    restless,
    rounds,
)


@dataclass(frozen=True)
class Dusdi(Binned):
    """Settings."""

    skills: int = 5  # Choices for each feature.
    temperature: float = 0.1  # Worth of an action's entropy, in units of reward.
    policies: int = 64  # Joint skills that GPI acts over.
    replay: int = 200_000  # Transitions remembered: discriminators must see what skills do now.
    epsilon_high: float = 0.05  # As `epsilon_low`: soft policies explore by themselves.
    switch_every: int = 0  # A skill is followed for a whole episode, as DIAYN's.


class Networks(eqx.Module):
    """Soft values by factor, a discriminator for each factor, and joint skills' successor features."""

    q: Trunk  # [k + k·n] → [k, a]
    discriminators: Trunk  # arrays with a leading axis k: [1] → [n], log-odds
    psi: Trunk  # [k + k·n] → [k, m, a]

    def __init__(self, k: int, actions: int, config: Dusdi, key: PRNGKeyArray):
        """Networks of the same body, but for discriminators, which have little to see."""
        key_q, key_discriminators, key_psi = jax.random.split(key, 3)
        inputs, size = Inputs(k, k * config.skills), (config.width, config.depth, True)
        self.q = Trunk(inputs, (k,), actions, *size, key_q)
        self.psi = Trunk(inputs, (k, config.bins), actions, *size, key_psi)
        self.discriminators = eqx.filter_vmap(
            lambda key: Trunk(Inputs(1), (), config.skills, max(1, config.width // 8), config.depth, True, key)
        )(jax.random.split(key_discriminators, k))

    def told(self, f: Float[Array, " k"]) -> Float[Array, "k n"]:
        """Return log q_i(z_i|s_i) of every choice, of each factor from its feature alone."""
        odds = eqx.filter_vmap(lambda one, f: one(f[None]), in_axes=(eqx.if_array(0), 0))(self.discriminators, f)
        return jax.nn.log_softmax(odds)


def shown(x: Float[Array, " k"], skill: Int[Array, " k"], config: Dusdi) -> Float[Array, " n"]:
    """Return what a network sees: the state, and the skill's choice for each feature."""
    return jnp.concatenate([x, jax.nn.one_hot(skill, config.skills).ravel()])


class OverSkills(OverBins):
    """A policy maker for `evaluate`: GPI over joint skills; the guide is weights of our cumulants."""

    config: Dusdi = eqx.field(static=True)
    networks: Networks
    skills: Int[Array, "n k"]

    def __call__(self, world: World, guide: Float[Array, "c k m"]) -> Policy:
        """Return the paper's GPI, each skill a policy."""
        return restless(world, plain_gpi(self.psi, true_features, guide), self.config.epsilon)

    def psi(self, x: Float[Array, " k"]) -> Float[Array, "n 1 k m a"]:
        """Return all skills' successor features, laid out as those of policies with one bin."""
        return jax.vmap(lambda skill: self.networks.psi(shown(x, skill, self.config)))(self.skills)[:, None]


def player(config: Dusdi, learning: Learning, key: PRNGKeyArray) -> OverSkills:
    """Return what a run has learnt."""
    skills = jax.random.randint(key, (config.policies, learning.guide.shape[1]), 0, config.skills)
    return OverSkills(config, learning.networks, skills)


def start(world: World, config: Dusdi, key: PRNGKeyArray) -> Learning:
    """Return the first moment of a run."""
    key_networks, key_guide, key_learn = jax.random.split(key, 3)
    k = len(world.feature_names)
    networks = Networks(k, world.num_actions, config, key_networks)
    guide = jax.random.randint(key_guide, (config.num_envs, k), 0, config.skills)
    return first_moment(world, config, networks, jax.random.split(key_learn), guide, extra=guide[0])


def train(world: World, config: Dusdi, learning: Learning, until: Int[Array, ""]) -> Learning:
    """Play and learn up to update `until`."""

    def act(networks: Networks, x: Float[Array, " k"], skill: Int[Array, " k"], key: PRNGKeyArray) -> Int[Array, ""]:
        return jax.random.categorical(key, _logits(config, networks.q(shown(x, skill, config))))

    def skills(like: Int[Array, "n k"], key: PRNGKeyArray) -> Int[Array, "n k"]:
        return jax.random.randint(key, like.shape, 0, config.skills)

    return rounds(learning, until, *follow_and_teach(world, config, act, skills, loss))


def loss(config: Dusdi, networks: Networks, target: Networks, step: Step, skill: Int[Array, " k"]) -> Float[Array, ""]:
    """Return a step's three losses together. Only discriminators ask which skill made it; any skill learns."""
    gamma, told, factors = config.gamma, networks.told(step.next_x), jnp.arange(len(skill))
    here, there = shown(step.x, skill, config), shown(step.next_x, skill, config)
    behind = target.q(there)  # [k, a]
    chances = jax.nn.softmax(_logits(config, behind))
    reward = jax.lax.stop_gradient(told)[factors, skill] + jnp.log(config.skills)
    entropy = config.temperature * (1 - gamma) * jax.scipy.special.entr(chances).sum() / len(skill)  # each its share
    q_goal = (1 - gamma) * reward + gamma * (behind @ chances + entropy)
    psi_goal = (1 - gamma) * phi(step.x, config.bins) + gamma * target.psi(there) @ chances
    q_loss = optax.losses.huber_loss(networks.q(here)[:, step.action], q_goal).sum()
    psi_loss = optax.losses.huber_loss(networks.psi(here)[..., step.action], psi_goal).mean()
    return q_loss + psi_loss - told[factors, step.extra].mean()


def _logits(config: Dusdi, q: Float[Array, "k a"]) -> Float[Array, " a"]:
    """Return the policy's logits: the sum of the factors' soft values."""
    return q.sum(axis=0) / (config.temperature * (1 - config.gamma))
