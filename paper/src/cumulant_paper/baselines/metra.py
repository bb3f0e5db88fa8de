"""METRA (Park et al., 2024): skills that go as far as they can in a space φ where a step is at most one long.

A skill z is a direction, rewarded with (φ(s') - φ(s))·z, and φ is learnt to make that large under the constraint
‖φ(s') - φ(s)‖ ≤ 1, which dual descent enforces: so ‖φ(g) - φ(s)‖ is no more than the steps from s to g. A goal is
pursued, as in its paper, by the skill that points from φ(s) to φ(g). Values are scaled by 1 - γ.
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
from cumulant.worlds.episodes import Policy
from cumulant.worlds.protocol import World
from cumulant_paper.baselines.clauses import within
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

_PLACES = 64  # that a clause, or a reward, is made of


@dataclass(frozen=True)
class Metra(Guided):
    """Settings."""

    dimensions: int = 6  # Of φ, and of a skill.
    first_multiplier: float = 30.0  # Of the constraint.
    slack: float = 1e-3  # Of the constraint: a step that is shorter than need be counts as much at most.
    replay: int = 200_000  # Transitions remembered: φ must see what skills do now.


class Networks(eqx.Module):
    """φ, the values of any skill, and the constraint's multiplier."""

    phi: Trunk  # [k] → [d]
    q: Trunk  # [k + d] → [a]
    log_multiplier: Float[Array, ""]

    def values(self, x: Float[Array, " k"], z: Float[Array, " d"]) -> Float[Array, " a"]:
        """Return what each action is worth to a skill."""
        return self.q(jnp.concatenate([x, z * len(z) ** 0.5]))  # so that its numbers are about as large as a feature

    def way(self, step: Step) -> Float[Array, " d"]:
        """Return how far a step goes in φ."""
        return self.phi(step.next_x) - self.phi(step.x)


class Places(NamedTuple):
    """Places in φ, of which any will do."""

    of: Float[Array, "n d"]
    good: Bool[Array, " n"]  # those that are meant


class Towards(eqx.Module):
    """A policy maker for `evaluate`: the guide is the places of states that meet the task."""

    networks: Networks
    seen: Float[Array, "n k"]  # replayed states
    config: Metra = eqx.field(static=True)

    def __call__(self, world: World, guide: Places) -> Policy:
        """Return the skill that points from wherever it is to the nearest place; it remembers nothing."""

        def q(obs: Float[Array, " k"]) -> Float[Array, " a"]:
            way = guide.of - self.networks.phi(obs)
            nearest = jnp.where(guide.good, jnp.linalg.norm(way, axis=1), jnp.inf).argmin()
            return self.networks.values(obs, on_sphere(way[nearest]))

        return greedy(world, q, self.config.epsilon)

    def from_words(self, table: Bool[Array, "c k m"]) -> Places:
        """Return those of states within each clause."""
        states = self.seen[:_PLACES]
        meeting = jax.vmap(lambda clause: within(clause, states, jax.random.key(0)))(table)  # [c, n, k]
        possible = table.any(axis=2).all(axis=1)
        places = jax.vmap(self.networks.phi)(meeting.reshape(-1, states.shape[1]))
        return Places(places, jnp.repeat(possible, _PLACES))

    def from_labels(self, f: Float[Array, "n k"], reward: Float[Array, " n"], taken: Bool[Array, " n"]) -> Places:
        """Return those of the steps with the highest rewards, as far as these are above the mean."""
        mean = (reward * taken).sum() / jnp.maximum(taken.sum(), 1)
        best, where = jax.lax.top_k(jnp.where(taken, reward, -jnp.inf), min(_PLACES, len(reward)))
        return Places(jax.vmap(self.networks.phi)(f[where]), best > mean)


def player(config: Metra, learning: Learning, key: PRNGKeyArray) -> Towards:
    """Return what a run has learnt."""
    return Towards(learning.networks, replayed(learning, key), config)


def start(world: World, config: Metra, key: PRNGKeyArray) -> Learning:
    """Return the first moment of a run."""
    key_phi, key_q, key_guide, key_learn = jax.random.split(key, 4)
    k, d, size = len(world.feature_names), config.dimensions, (config.width, config.depth, True)
    phi = Trunk(Inputs(k), (), d, *size, key_phi)
    q = Trunk(Inputs(k, d), (), world.num_actions, *size, key_q)
    networks = Networks(phi, q, jnp.log(jnp.float32(config.first_multiplier)))
    guide = directions(jnp.zeros((config.num_envs, d)), key_guide)
    return first_moment(world, config, networks, jax.random.split(key_learn), guide, extra=guide[0])


def train(world: World, config: Metra, learning: Learning, until: Int[Array, ""]) -> Learning:
    """Play and learn up to update `until`."""
    return rounds(learning, until, *follow_and_teach(world, config, greedily, directions, loss))


def loss(config: Metra, networks: Networks, target: Networks, step: Step, z: Float[Array, " d"]) -> Float[Array, ""]:
    """Return the loss of φ, which goes where the step's own skill points, of the constraint, and of any skill."""
    way, multiplier = networks.way(step), jnp.exp(networks.log_multiplier)
    room = jnp.minimum(config.slack, 1 - way @ way)  # below 0 where the step is too long
    of_phi = -(way @ step.extra) - jax.lax.stop_gradient(multiplier) * room
    of_multiplier = multiplier * jax.lax.stop_gradient(room)
    following = target.values(step.next_x, z)[networks.values(step.next_x, z).argmax()]
    taught = jax.lax.stop_gradient((1 - config.gamma) * (way @ z) + config.gamma * following)
    return of_phi + of_multiplier + optax.losses.huber_loss(networks.values(step.x, z)[step.action], taught)
