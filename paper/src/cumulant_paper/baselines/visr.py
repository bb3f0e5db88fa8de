"""VISR (Hansen et al., 2020): features φ of unit length that tell which w guided the play, and USFA over them.

The play of a policy is guided by w on the sphere, with reward φ(s)·w; φ is learnt to make just that as large as can be,
for what each w came by: a discriminator whose density is von Mises and Fisher's. A new reward is regressed on φ, and
the w found is the task, for GPI over the policies of w and of others.
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
from cumulant.goals.tasks import reached
from cumulant.transfer.linear_systems import solve
from cumulant.worlds.episodes import Policy
from cumulant.worlds.protocol import World
from cumulant_paper.baselines.playing import (
    Guided,
    Learning,
    Step,
    directions,
    first_moment,
    follow_and_teach,
    greedily,
    greedy,
    on_sphere,
    replayed,
    rounds,
)
from cumulant_paper.baselines.usfa import Successor, best_of

_RIDGE = 1e-3  # precision of the regression's prior, as a share of a step's


@dataclass(frozen=True)
class Visr(Guided):
    """Settings."""

    dimensions: int = 5  # Of φ, and of w.
    policies: int = 16  # Whose values GPI takes the best of, beside the policy of w itself; 0: no GPI.
    replay: int = 200_000  # Transitions remembered: φ must see what policies do now.


class Networks(eqx.Module):
    """φ, and ψ of any w."""

    features: Trunk  # [k] → [d], before it has unit length
    psi: Successor

    def values(self, x: Float[Array, " k"], w: Float[Array, " d"]) -> Float[Array, " a"]:
        """Return what each action is worth to the policy of w, for w."""
        return self.psi.values(x, w)

    def phi(self, x: Float[Array, " k"]) -> Float[Array, " d"]:
        """Return φ(s), of unit length."""
        return on_sphere(self.features(x))


class Regressed(eqx.Module):
    """A policy maker for `evaluate`: the guide is w."""

    networks: Networks
    others: Float[Array, "n d"]  # weights whose policies GPI asks, too
    seen: Float[Array, "n k"]  # replayed states
    config: Visr = eqx.field(static=True)

    def __call__(self, world: World, guide: Float[Array, " d"]) -> Policy:
        """Return GPI over the policies; it remembers nothing."""
        psi, others = self.networks.psi, self.others
        return greedy(world, lambda obs: best_of(psi, others, obs, guide), self.config.epsilon)

    def from_words(self, table: Bool[Array, "c k m"]) -> Float[Array, " d"]:
        """Return the w of the reward that replayed states would have."""
        reward = jax.vmap(partial(reached, table))(self.seen).astype(jnp.float32)
        return self.from_labels(self.seen, reward, jnp.ones(len(reward), bool))

    def from_labels(
        self, f: Float[Array, "n k"], reward: Float[Array, " n"], taken: Bool[Array, " n"]
    ) -> Float[Array, " d"]:
        """Return the least squares of the reward on φ, of the steps that were taken."""
        return regressed(jax.vmap(self.networks.phi)(f), reward, taken)


def regressed(phi: Float[Array, "n d"], reward: Float[Array, " n"], taken: Bool[Array, " n"]) -> Float[Array, " d"]:
    """Return the weights that explain a reward best, but for a constant, which no policy can change."""
    n = jnp.maximum(taken.sum(), 1)
    phi, reward = (
        jnp.where(jnp.expand_dims(taken, range(1, each.ndim)), each - (each.T @ taken / n).T, 0)
        for each in (phi, reward)
    )
    return solve(phi.T @ phi / n + _RIDGE * jnp.eye(phi.shape[1]), phi.T @ reward / n)


def player(config: Visr, learning: Learning, key: PRNGKeyArray) -> Regressed:
    """Return what a run has learnt."""
    key_others, key_seen = jax.random.split(key)
    others = on_sphere(jax.random.normal(key_others, (config.policies, config.dimensions)))
    return Regressed(learning.networks, others, replayed(learning, key_seen), config)


def start(world: World, config: Visr, key: PRNGKeyArray) -> Learning:
    """Return the first moment of a run."""
    key_features, key_psi, key_guide, key_learn = jax.random.split(key, 4)
    k, d = len(world.feature_names), config.dimensions
    features = Trunk(Inputs(k), (), d, config.width, config.depth, True, key_features)
    networks = Networks(features, Successor(k, d, world.num_actions, config, key_psi))
    guide = directions(jnp.zeros((config.num_envs, d)), key_guide)
    return first_moment(world, config, networks, jax.random.split(key_learn), guide, extra=guide[0])


def train(world: World, config: Visr, learning: Learning, until: Int[Array, ""]) -> Learning:
    """Play and learn up to update `until`."""
    return rounds(learning, until, *follow_and_teach(world, config, greedily, directions, loss))


def loss(config: Visr, networks: Networks, target: Networks, step: Step, w: Float[Array, " d"]) -> Float[Array, ""]:
    """Return the loss of φ, which is to point where the step's own w does, and of ψ for any w over φ as it is."""
    cumulants = jax.lax.stop_gradient(networks.phi(step.x))
    psi = networks.psi(step.x, w)[:, step.action]
    taught = networks.psi.taught(config, target.psi, step, w, cumulants)
    return optax.losses.huber_loss(psi, taught).mean() - networks.phi(step.next_x) @ step.extra
