"""Universal successor features approximators (Borsa et al., 2019): one network ψ(s, a, w) for the policies of all w.

The cumulants φ are ours, the bins of features; what is different is that a policy is asked for by any weights w over
them, not by a feature and a bin. It acts greedily for a new task's w; or, by GPI, as the best of what ψ says of the
policies of w and of others. Values are scaled by 1 - γ.
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
from cumulant.goals.bins import phi
from cumulant.goals.weights import weights
from cumulant.worlds.episodes import Policy
from cumulant.worlds.protocol import World
from cumulant_paper.baselines.clauses import clause_around
from cumulant_paper.baselines.playing import (
    Binned,
    Learning,
    OverBins,
    Play,
    Step,
    first_moment,
    follow,
    greedily,
    greedy,
    on_sphere,
    rounds,
    teach,
)


@dataclass(frozen=True)
class Usfa(Binned):
    """Settings."""

    width: int = 256  # Units of a layer; there is a trunk for each feature's cumulants, as in our Ψ-network.
    clauses: float = 0.5  # Share of the w in training that are random clauses; the others lie anywhere on the sphere.
    drawn: int = 4  # W that a transition is learnt from with, in an update.
    policies: int = 0  # Whose values GPI takes the best of, beside the policy of w itself; 0: no GPI.


class Successor(eqx.Module):
    """ψ of any weights of unit length. Several trunks share the cumulants out among them."""

    trunks: Trunk  # arrays with a leading axis

    def __init__(self, k: int, cumulants: int, actions: int, config: Play, key: PRNGKeyArray, trunks: int = 1):
        """So many cumulants, of k features."""
        inputs, each = Inputs(k, cumulants), (cumulants // trunks,)

        def trunk(key: PRNGKeyArray) -> Trunk:
            return Trunk(inputs, each, actions, config.width, config.depth, True, key)

        self.trunks = eqx.filter_vmap(trunk)(jax.random.split(key, trunks))

    def __call__(self, x: Float[Array, " k"], w: Float[Array, " c"]) -> Float[Array, "c a"]:
        """Return ψ(s, ·, w)."""
        seen = jnp.concatenate([x, w * len(w) ** 0.5])  # so that a weight is about as large as a feature
        psi = eqx.filter_vmap(lambda trunk: trunk(seen), in_axes=eqx.if_array(0))(self.trunks)
        return psi.reshape(len(w), -1)

    def values(self, x: Float[Array, " k"], w: Float[Array, " c"]) -> Float[Array, " a"]:
        """Return what each action is worth to the policy of w, for w."""
        return w @ self(x, w)

    def taught(
        self, config: Play, target: "Successor", step: Step, w: Float[Array, " c"], cumulants: Float[Array, " c"]
    ) -> Float[Array, " c"]:
        """Return what ψ(s, a, w) is to be: φ(s) + γ ψ(s', π_w(s')), scaled. The network chooses, the target values."""
        following = target(step.next_x, w)[:, self.values(step.next_x, w).argmax()]
        return jax.lax.stop_gradient((1 - config.gamma) * cumulants + config.gamma * jnp.clip(following, -1, 1))


def best_of(
    psi: Successor, others: Float[Array, "n c"], x: Float[Array, " k"], w: Float[Array, " c"]
) -> Float[Array, " a"]:
    """Return what each action is worth to a task w under the best of policies, that of w itself among them: GPI."""
    policies = jnp.concatenate([on_sphere(w)[None], others])
    return jnp.einsum("pca,c->pa", jax.vmap(psi, (None, 0))(x, policies), w).max(axis=0)


class Universal(OverBins):
    """A policy maker for `evaluate`: the guide is weights, one vector for each clause; the best clause counts."""

    config: Usfa = eqx.field(static=True)
    psi: Successor
    others: Float[Array, "n c"]  # weights whose policies GPI asks, too

    def __call__(self, world: World, guide: Float[Array, "clauses k m"]) -> Policy:
        """Return the policy; it remembers nothing."""
        flat = guide.reshape(len(guide), -1)
        each = jax.vmap(best_of, (None, None, None, 0))
        return greedy(world, lambda obs: each(self.psi, self.others, obs, flat).max(axis=0), self.config.epsilon)


def player(config: Usfa, learning: Learning, key: PRNGKeyArray) -> Universal:
    """Return what a run has learnt."""
    k = learning.replay.rings.x.shape[-1]
    return Universal(config, learning.networks, random_weights(config, k, config.policies, key))


def random_weights(config: Usfa, k: int, number: int, key: PRNGKeyArray) -> Float[Array, "n c"]:
    """Draw so many w of unit length: of random clauses, or anything."""
    key_cell, key_clause, key_which, key_sphere = jax.random.split(key, 4)
    cells = jax.random.randint(key_cell, (number, k), 0, config.bins)
    keys = jax.random.split(key_clause, number)
    clauses = jax.vmap(lambda cell, key: clause_around(cell, config.bins, key))(cells, keys)
    asked = weights(clauses, config.bins).reshape(number, k * config.bins)
    anything = jax.random.normal(key_sphere, asked.shape)
    return on_sphere(jnp.where(jax.random.uniform(key_which, (number, 1)) < config.clauses, asked, anything))


def start(world: World, config: Usfa, key: PRNGKeyArray) -> Learning:
    """Return the first moment of a run."""
    key_network, key_guide, key_learn = jax.random.split(key, 3)
    k = len(world.feature_names)
    psi = Successor(k, k * config.bins, world.num_actions, config, key_network, trunks=k)
    guide = random_weights(config, k, config.num_envs, key_guide)
    return first_moment(world, config, psi, jax.random.split(key_learn), guide)


def train(world: World, config: Usfa, learning: Learning, until: Int[Array, ""]) -> Learning:
    """Play and learn up to update `until`."""
    k = len(world.feature_names)

    def guides(learning: Learning, key: PRNGKeyArray) -> Float[Array, "n c"]:
        return random_weights(config, k, config.num_envs, key)

    def draw(batch: Step, key: PRNGKeyArray) -> Float[Array, "n drawn c"]:
        return random_weights(config, k, config.batch * config.drawn, key).reshape(config.batch, config.drawn, -1)

    def losses(psi: Successor, target: Successor, step: Step, w: Float[Array, "drawn c"]) -> Float[Array, " drawn"]:
        return jax.vmap(partial(loss, config, psi, target, step))(w)

    return rounds(learning, until, follow(world, config, greedily, guides), teach(config, draw, losses))


def loss(config: Usfa, psi: Successor, target: Successor, step: Step, w: Float[Array, " c"]) -> Float[Array, ""]:
    """Return the Huber error of the policy of w."""
    taught = psi.taught(config, target, step, w, phi(step.x, config.bins).ravel())
    return optax.losses.huber_loss(psi(step.x, w)[:, step.action], taught).mean()
