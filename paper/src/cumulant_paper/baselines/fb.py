"""Forward-backward representations (Touati and Ollivier, 2021): F(s, a, z)·B(s') tells how often policy z comes by s'.

F·B is the density, with respect to the states replayed, of the discounted visits that follow s and a under the policy
that is greedy for F·z. A reward r asks for the policy z = E[r(s) B(s)], so whatever comes as a reward is answered at
once: labelled steps, or a phrase with the states that meet it. Values are scaled by 1 - γ, and the loss back, so that
weights mean what they mean elsewhere.
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from cumulant.features.coordinates import Inputs
from cumulant.freeplay.networks import Trunk
from cumulant.freeplay.replay import sample
from cumulant.goals.bins import bin_index
from cumulant.worlds.episodes import Policy
from cumulant.worlds.protocol import World
from cumulant_paper.baselines.clauses import clause_around, in_goal, within
from cumulant_paper.baselines.playing import (
    Guided,
    Learning,
    Step,
    descend,
    first_moment,
    follow,
    greedily,
    greedy,
    on_sphere,
    replayed,
    rounds,
)

_SAMPLED = 512  # states of each clause, to see what it asks for


@dataclass(frozen=True)
class Fb(Guided):
    """Settings."""

    dimensions: int = 50  # d, of F and B.
    orthonormality: float = 1.0  # Weight of E[B Bᵀ] = 1 beside the measure's loss.
    from_states: float = 0.5  # Share of the z that are B of a replayed state; the others lie anywhere on the sphere.
    from_clauses: float = 0.0  # Share of the former that are the mean B of replayed states in a random clause instead.
    bins: int = 3  # Bins of a feature that clauses are made of.


class Networks(eqx.Module):
    """F of all actions, and B."""

    forward: Trunk  # [k + d] → [d, a]
    backward: Trunk  # [k] → [d]

    def __init__(self, k: int, actions: int, config: Fb, key: PRNGKeyArray):
        """Two networks of the same body."""
        key_forward, key_backward = jax.random.split(key)
        d, size = config.dimensions, (config.width, config.depth, True)
        self.forward = Trunk(Inputs(k, d), (d,), actions, *size, key_forward)
        self.backward = Trunk(Inputs(k), (), d, *size, key_backward)

    def f(self, x: Float[Array, " k"], z: Float[Array, " d"]) -> Float[Array, "d a"]:
        """Return F(s, ·, z): [d, a], scaled by 1 - γ."""
        return self.forward(jnp.concatenate([x, z]))

    def b(self, x: Float[Array, " k"]) -> Float[Array, " d"]:
        """Return B(s)."""
        return self.backward(x)

    def values(self, x: Float[Array, " k"], z: Float[Array, " d"]) -> Float[Array, " a"]:
        """Return what each action is worth to policy z."""
        return z @ self.f(x, z)


class Forward(eqx.Module):
    """A policy maker for `evaluate`: the guide is z."""

    networks: Networks
    seen: Float[Array, "n k"]  # replayed states
    config: Fb = eqx.field(static=True)

    def __call__(self, world: World, guide: Float[Array, " d"]) -> Policy:
        """Return the greedy policy; it remembers nothing."""
        return greedy(world, lambda obs: self.networks.values(obs, guide), self.config.epsilon)

    def from_words(self, table: Bool[Array, "c k m"]) -> Float[Array, " d"]:
        """Return the z of states that meet the task, each clause as heavy as it is large."""
        states = self.seen[:_SAMPLED]
        meeting = jax.vmap(lambda clause: within(clause, states, jax.random.key(0)))(table)  # [c, n, k]
        b = jax.vmap(jax.vmap(self.networks.b))(meeting).mean(axis=1)
        return z_of(table.mean(axis=2).prod(axis=1) @ b)  # a clause that never holds is nowhere

    def from_labels(
        self, f: Float[Array, "n k"], reward: Float[Array, " n"], taken: Bool[Array, " n"]
    ) -> Float[Array, " d"]:
        """Return z = Σ r B(s) of the steps that were taken, stretched to the length of those that were trained."""
        return z_of((reward * taken) @ jax.vmap(self.networks.b)(f))


def player(config: Fb, learning: Learning, key: PRNGKeyArray) -> Forward:
    """Return what a run has learnt."""
    return Forward(learning.networks, replayed(learning, key), config)


def z_of(direction: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
    """Return the z in a direction, on the sphere of radius √d."""
    return on_sphere(direction, direction.shape[-1] ** 0.5)


def draw(config: Fb, networks: Networks, states: Float[Array, "n k"], key: PRNGKeyArray) -> Float[Array, "n d"]:
    """Draw as many z as there are states: B of the state, the mean of B in a clause that it meets, or anything."""
    key_which, key_sphere, key_clauses, key_one = jax.random.split(key, 4)
    n, b = len(states), jax.vmap(networks.b)(states)
    if config.from_clauses:
        cells, keys = bin_index(states, config.bins), jax.random.split(key_clauses, n)
        clauses = jax.vmap(lambda cell, key: clause_around(cell, config.bins, key))(cells, keys)
        meets = jax.vmap(lambda clause: jax.vmap(lambda x: in_goal(clause, x))(states))(clauses)  # [clauses, states]
        one = jax.random.uniform(key_one, (n, 1)) >= config.from_clauses
        b = jnp.where(one, b, meets @ b / meets.sum(axis=1, keepdims=True))
    anywhere = jax.random.normal(key_sphere, (n, config.dimensions))
    return z_of(jnp.where(jax.random.uniform(key_which, (n, 1)) < config.from_states, b, anywhere))


def start(world: World, config: Fb, key: PRNGKeyArray) -> Learning:
    """Return the first moment of a run."""
    key_networks, key_guide, key_learn = jax.random.split(key, 3)
    networks = Networks(len(world.feature_names), world.num_actions, config, key_networks)
    guide = z_of(jax.random.normal(key_guide, (config.num_envs, config.dimensions)))
    return first_moment(world, config, networks, jax.random.split(key_learn), guide)


def train(world: World, config: Fb, learning: Learning, until: Int[Array, ""]) -> Learning:
    """Play and learn up to update `until`."""

    def guides(learning: Learning, key: PRNGKeyArray) -> Float[Array, "n d"]:
        key_states, key_draw = jax.random.split(key)
        states = sample(learning.replay, key_states, config.num_envs).next_x
        return draw(config, learning.networks, states, key_draw)

    def learn(learning: Learning, key: PRNGKeyArray) -> Learning:
        key_batch, key_others, key_draw = jax.random.split(key, 3)
        batch = sample(learning.replay, key_batch, config.batch)
        states = jax.random.permutation(key_others, batch.next_x)
        z = draw(config, learning.target, states, key_draw)
        return descend(config, learning, lambda networks: loss(config, networks, learning.target, batch, z))

    return rounds(learning, until, follow(world, config, greedily, guides), learn)


def loss(config: Fb, networks: Networks, target: Networks, batch: Step, z: Float[Array, "n d"]) -> Float[Array, ""]:
    """Return the measure's loss, of every step at every state that one led to, and B's distance from orthonormal."""
    f = jax.vmap(lambda x, z, action: networks.f(x, z)[:, action])(batch.x, z, batch.action)
    choice = jax.vmap(networks.values)(batch.next_x, z).argmax(axis=1)  # double: the network chooses
    following = jax.vmap(lambda x, z, action: target.f(x, z)[:, action])(batch.next_x, z, choice)
    b, behind = jax.vmap(networks.b)(batch.next_x), jax.vmap(target.b)(batch.next_x)
    here, there = f @ b.T, jax.lax.stop_gradient(following @ behind.T)  # [n, n] each
    measure = _mean_off_diagonal((here - config.gamma * there) ** 2) / 2 - (1 - config.gamma) * jnp.diag(here).mean()
    alike = b @ b.T
    orthonormal = _mean_off_diagonal(alike**2) - 2 * jnp.diag(alike).mean()
    return measure / (1 - config.gamma) ** 2 + config.orthonormality * orthonormal


def _mean_off_diagonal(matrix: Float[Array, "n n"]) -> Float[Array, ""]:
    n = len(matrix)
    return (matrix.sum() - jnp.trace(matrix)) / (n * (n - 1))
