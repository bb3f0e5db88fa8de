"""What learnt policies are worth to a goal: GPE, and what is certain where features are known to a resolution alone."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from cumulant.features.coordinates import Resolution
from cumulant.freeplay.networks import Network
from cumulant.goals.bins import phi

_SURE_SHARE = 1 / 2  # of a bin, at least, in which features in doubt count as lying in it


def gpe(
    psi: Float[Array, "i j *cumulants a"], w: Float[Array, "k m"], phi: Float[Array, "k m"]
) -> Float[Array, "i j a"]:
    """Every policy's value for the cumulant φ_w: all of Ψ [i, j, k, m, a], or its blocks [k, m, m, a] → [i, j, a].

    Blocks are completed by the Lemma: under a policy of feature i, the other features stay as they are.
    """
    if psi.ndim == 5:
        return jnp.einsum("ijlha,lh->ija", psi, w)
    own = jnp.einsum("ijha,ih->ija", psi, w)
    present = (w * phi).sum(axis=1)
    return own + (present.sum() - present)[:, None, None]


def all_values(
    psi: Float[Array, "i j *cumulants a"], w: Float[Array, "c k m"], phi: Float[Array, "k m"]
) -> Float[Array, "c i j a"]:
    """Every policy's value for each clause: what plain GPI goes by."""
    return jax.vmap(lambda clause: gpe(psi, clause, phi))(w)


def own_values(psi: Float[Array, "k m *cumulants a"], w: Float[Array, "c k m"]) -> Float[Array, "c k m a"]:
    """Every policy's value for its own feature's part of each clause: what committed GPI goes by."""
    blocks = jnp.einsum("ijiha->ijha", psi) if psi.ndim == 5 else psi
    return jnp.einsum("ijha,cih->cija", blocks, w)


def doubt(resolution: Resolution, bins: int) -> Resolution:
    """How far off features may be: their resolution, or less where bins are so narrow that none would be certain."""
    return np.minimum(resolution, (1 - _SURE_SHARE) / (2 * bins))


def possible(f: Float[Array, " k"], resolution: Resolution) -> Float[Array, "possible k"]:
    """Where features may be that are known to a resolution alone: as they are, a little less, a little more."""
    return jnp.clip(jnp.stack([f, f - resolution, f + resolution] if np.any(resolution) else [f]), 0, 1)


def at_worst(x: Float[Array, " n"], w: Float[Array, "k m"], resolution: Resolution) -> Float[Array, " n"]:
    """What is seen, with each of the k features where it would be worth least within its resolution: [n] → [n].

    So a goal counts as reached only where there is no doubt. Without it, an agent would stand still a hair outside of
    what it believes to have reached.
    """
    if not np.any(resolution):
        return x
    k, m = w.shape
    each = possible(x[:k], resolution)
    worth = (w * phi(each, m)).sum(axis=2)  # [possible, k]
    return jnp.concatenate([jnp.take_along_axis(each, worth.argmin(axis=0)[None], axis=0)[0], x[k:]])


def in_doubt(
    network: Network, x: Float[Array, " n"], clause: Float[Array, "k m"], resolution: Resolution
) -> tuple[Float[Array, " k"], Float[Array, "k m a"]]:
    """What each feature is worth to a clause, and every policy's value for its part of it, both at worst."""
    x = at_worst(x, clause, resolution)
    k, m = clause.shape
    return (clause * phi(x[:k], m)).sum(axis=1), own_values(network(x), clause[None])[0]
