"""Ψ as it is played, against Ψ as it is learnt and as the Lemma has it: an audit of the off-diagonal trick."""

from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray, PyTree

from cumulant.config import FreePlay, check_memory
from cumulant.features.coordinates import feature_count
from cumulant.goals.bins import phi
from cumulant.transfer.evaluation import check_episodes
from cumulant.transfer.gpi import Gpi
from cumulant.transfer.library import Library
from cumulant.transfer.skills import features_along, play_skill
from cumulant.worlds.episodes import over_episodes
from cumulant.worlds.failures import plainly
from cumulant.worlds.protocol import World, at_once

_HORIZON = 4  # times 1 / (1 - γ) steps: what is cut off weighs e^-4


class Audit(NamedTuple):
    """Means over starts, all scaled by 1 - γ. Axes: (i, j) policy, (l, h) cumulant."""

    true: Float[np.ndarray, "k m k m"]  # Ψ of the policies as played
    lemma_error: Float[np.ndarray, "k m k m"]  # |Ψ as played - φ(s)|, what the Lemma assumes for l ≠ i
    learnt_error: Float[np.ndarray, "k m k m"]  # |Ψ as played - Ψ as learnt|; NaN where nothing is learnt
    moved: Float[np.ndarray, "k k"]  # how far feature l has moved in the end, under the policies of feature i


class PsiAt(NamedTuple):
    """Ψ of one state and action, scaled by 1 - γ. Axes: (i, j) policy, (l, h) cumulant; NaN where there is nothing."""

    learnt: Float[Array | np.ndarray, "d m d m"]
    lemma: Float[Array | np.ndarray, "d m d m"]  # φ(s) for every other feature
    played: Float[Array | np.ndarray, "d m d m"]


def audit(library: Library, key: PRNGKeyArray, starts: int = 200) -> Audit:
    """Play every policy from random starts, and compare what it does to every feature with what Ψ says.

    >>> import jax, cumulant
    >>> found = cumulant.audit(cumulant.Library.load(), jax.random.key(0), starts=4)
    >>> found.moved.shape  # policies of a feature, the feature that moved
    (6, 6)
    """
    check_starts(library, starts)
    with plainly():
        played = _audit(library.seen, library.config, library.gpi(), jax.random.split(key, starts))
        true, lemma, learnt, moved = jax.device_get(played)
    return Audit(true, lemma, learnt, moved.mean(axis=1))


def check_starts(library: Library, starts: int) -> None:
    """Refuse a number of starts that is none, or takes more memory than there is, before anything is played."""
    check_episodes(starts)
    d, m = len(library.feature_names), library.config.bins
    kept = 4 * d * m * starts * _steps(library.config.gamma) * d  # bytes: the features along the way
    check_memory(f"an audit from {starts:,} starts", kept)


@eqx.filter_jit
def _audit(
    world: World, config: FreePlay, skills: Gpi, keys: Key[Array, " starts"]
) -> tuple[Array, Array, Array, Array]:
    k, m, steps = feature_count(skills.features, world), config.bins, _steps(config.gamma)

    def episode(i: Int[Array, ""], j: Int[Array, ""], key: PRNGKeyArray) -> tuple[Array, Array, Array, Array]:
        played = play_skill(world, skills.network, skills.features, (i, j), world.reset(key), steps)
        f = features_along(world, skills.features, played.states)
        cumulants = jax.vmap(partial(phi, bins=m))(f)
        true = _discounted(cumulants[:-1], config.gamma)
        first = jax.tree.map(lambda leaf: leaf[0], played.states)
        psi = skills.network(skills.features(world.observe(first)))[i, j][..., played.actions[0]]
        learnt = psi if config.full_matrix else jnp.full((k, m), jnp.nan).at[i].set(psi)
        return true, jnp.abs(true - cumulants[0]), jnp.abs(true - learnt), jnp.abs(f[-1] - f[0])

    if at_once(world) is not None:  # where no two policies can go on from one start, each has episodes of its own
        i, j = jnp.divmod(jnp.arange(k * m), m)
        played = over_episodes(world, episode, (i, j), jnp.broadcast_to(keys, (k * m, *keys.shape)))
        return jax.tree.map(lambda leaf: leaf.mean(axis=1).reshape(k, m, *leaf.shape[2:]), played)
    over_starts = jax.vmap(episode, (None, None, 0))
    return _for_every_policy(k, m, lambda i, j: jax.tree.map(lambda leaf: leaf.mean(axis=0), over_starts(i, j, keys)))


@eqx.filter_jit
def psi_at(world: World, skills: Gpi, state: PyTree, action: Int[Array, ""], gamma: float) -> PsiAt:
    """Ψ of a state and an action as learnt, as the Lemma has it, and as it comes out when every policy goes on.

    On the host no two policies can go on from one state: of a world there, nothing is known of what would come out.
    """
    x = skills.features(world.observe(state))
    blocks = skills.network(x)[..., action]
    d, m = blocks.shape[:2]
    here, own = phi(x[:d], m), jnp.eye(d, dtype=bool)[:, None, :, None]
    learnt = blocks if blocks.ndim == 4 else jnp.where(own, blocks[:, :, None, :], jnp.nan)
    lemma = jnp.broadcast_to(jnp.where(own, jnp.nan, here), (d, m, d, m))
    if at_once(world) is not None:
        return PsiAt(learnt, lemma, jnp.full((d, m, d, m), jnp.nan))
    second = world.step(state, action)

    def policy(i: Int[Array, ""], j: Int[Array, ""]) -> Float[Array, "d m"]:
        played = play_skill(world, skills.network, skills.features, (i, j), second, _steps(gamma) - 1)
        after = jax.vmap(partial(phi, bins=m))(features_along(world, skills.features, played.states))
        return _discounted(jnp.concatenate([here[None], after]), gamma)

    return PsiAt(learnt, lemma, _for_every_policy(d, m, policy))


def _steps(gamma: float) -> int:
    return int(_HORIZON / (1 - gamma))


def _discounted(cumulants: Float[Array, "t d m"], gamma: float) -> Float[Array, "d m"]:
    """Their discounted sum, scaled by 1 - γ."""
    return jnp.einsum("t,tlh->lh", (1 - gamma) * gamma ** jnp.arange(len(cumulants)), cumulants)


def _for_every_policy(d: int, m: int, function: PyTree) -> PyTree:
    """The function of (i, j) for all policies: leaves get leading axes [d, m]."""
    over_bins = jax.vmap(function, (None, 0))
    return jax.vmap(over_bins, (0, None))(jnp.arange(d), jnp.arange(m))
