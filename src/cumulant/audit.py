"""An audit of the off-diagonal trick: what a library's policies really do to every feature, against what it assumes."""

from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray

from cumulant.cumulants import phi
from cumulant.features import number_of
from cumulant.gpi import Gpi
from cumulant.library import Library
from cumulant.policy import Policy, play_from
from cumulant.successor import FreePlay, own_value
from cumulant.world import World, never

_HORIZON = 4  # times 1 / (1 - γ) steps: what is cut off weighs e^-4


class Audit(NamedTuple):
    """Means over starts, all scaled by 1 - γ. Axes: (i, j) policy, (l, h) cumulant."""

    true: Float[np.ndarray, "k m k m"]  # Ψ of the policies as played
    lemma_error: Float[np.ndarray, "k m k m"]  # |Ψ as played - φ(s)|, what the Lemma assumes for l ≠ i
    learnt_error: Float[np.ndarray, "k m k m"]  # |Ψ as played - Ψ as learnt|; NaN where nothing is learnt
    moved: Float[np.ndarray, "k k"]  # how far feature l has moved in the end, under the policies of feature i


@eqx.filter_jit
def _play(
    world: World, config: FreePlay, skills: Gpi, keys: Key[Array, " starts"]
) -> tuple[Array, Array, Array, Array]:
    k, m, steps = number_of(skills.features, world), config.bins, int(_HORIZON / (1 - config.gamma))
    discount = (1 - config.gamma) * config.gamma ** jnp.arange(steps)

    def episode(i: Int[Array, ""], j: Int[Array, ""], key: PRNGKeyArray) -> tuple[Array, Array, Array, Array]:
        def act(memory: tuple, obs: Array, key: PRNGKeyArray) -> tuple[tuple, Array]:
            return memory, own_value(skills.network(skills.features(obs)))[i, j].argmax()

        played = play_from(world, Policy(lambda obs: (), act), never, world.reset(key), key, steps)
        f = jax.vmap(lambda state: skills.features(world.observe(state)))(played.states)
        cumulants = jax.vmap(partial(phi, bins=m))(f)
        true = jnp.einsum("t,tlh->lh", discount, cumulants[:-1])
        psi = skills.network(f[0])[i, j][..., played.actions[0]]
        learnt = psi if config.full_matrix else jnp.full((k, m), jnp.nan).at[i].set(psi)
        return true, jnp.abs(true - cumulants[0]), jnp.abs(true - learnt), jnp.abs(f[-1] - f[0])

    over_starts = jax.vmap(episode, (None, None, 0))
    over_bins = jax.vmap(lambda i, j: jax.tree.map(lambda leaf: leaf.mean(axis=0), over_starts(i, j, keys)), (None, 0))
    return jax.vmap(over_bins, (0, None))(jnp.arange(k), jnp.arange(m))


def audit(library: Library, key: PRNGKeyArray, starts: int = 200) -> Audit:
    """Play every policy from random starts, and compare."""
    played = _play(library.world, library.config, library.gpi(), jax.random.split(key, starts))
    true, lemma, learnt, moved = jax.device_get(played)
    return Audit(true, lemma, learnt, moved.mean(axis=1))
