"""What words mean for learnt features: which latent is the square's x, which way it points, and where a third begins.

A handful of frames, each described in words ("square top left, circle bottom, ..."), is enough: free play and its
library never see them. A regression of rewards would do as well, but needs thousands of labelled steps for every word.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from cumulant.features.disentanglement import unit_ranks
from cumulant.goals.tasks import GoalTable
from cumulant.goals.weights import edges_of, weights

_REGIONS = 3  # thirds of the arena are what words tell apart


class Grounding(eqx.Module):
    """The k words' coordinates in terms of d latents."""

    latent: Int[Array, " k"]  # which latent each coordinate is read from
    edges: Float[Array, "k 4"]  # the latent's values at 0, 1/3, 2/3 and 1 of the coordinate; falling, if flipped
    latents: int = eqx.field(static=True)  # d

    def weights(self, table: Bool[Array, "c k b"] | GoalTable, bins: int) -> Float[Array, "c d m"]:
        """Clauses over the coordinates as w over the latents' bins, as `goals.weights` has it for the true features."""
        regions, thirds = edges_of(table), jnp.linspace(0, 1, _REGIONS + 1)
        own = weights(table, bins, jax.vmap(lambda edges: jnp.interp(regions, thirds, edges))(self.edges))
        never = own.min(axis=(1, 2), keepdims=True) < 0
        return jnp.where(never, -1.0, jnp.zeros((len(own), self.latents, bins)).at[:, self.latent].set(own))

    def names(self, coordinates: tuple[str, ...]) -> tuple[str, ...]:
        """What to call each latent: [k] → [d]."""
        known = dict(zip(self.latent.tolist(), coordinates, strict=True))
        return tuple(known.get(i, f"latent {i}") for i in range(self.latents))

    @property
    def falling(self) -> frozenset[int]:
        """The latents that fall where their coordinates rise."""
        return frozenset(self.latent[self.edges[:, 0] > self.edges[:, -1]].tolist())


def ground(f: Float[np.ndarray, "n d"], thirds: Int[np.ndarray, "n k"]) -> Grounding:
    """The grounding that n labelled frames tell: their latents, and the third that each coordinate lies in.

    Every coordinate gets a latent of its own, so that the rank correlations are largest in all.
    """
    from scipy.optimize import linear_sum_assignment  # takes most of a second to import

    d, k = f.shape[1], thirds.shape[1]
    if d < k:
        raise ValueError(f"{k} coordinates cannot be read from {d} latents")
    check_labels(thirds)
    correlation = unit_ranks(thirds.astype(float)).T @ unit_ranks(f)  # [k, d], Spearman's
    _, latent = linear_sum_assignment(-np.abs(correlation))
    falls = np.take_along_axis(correlation, latent[:, None], axis=1)[:, 0] < 0
    edges = [_edges(f[:, j], thirds[:, i], bool(fall)) for i, (j, fall) in enumerate(zip(latent, falls, strict=True))]
    return Grounding(jnp.asarray(latent, jnp.int32), jnp.asarray(np.stack(edges), jnp.float32), d)


def check_labels(thirds: Int[np.ndarray, "n k"]) -> None:
    """Refuse labels by which some third of some coordinate would remain unknown."""
    for i, labels in enumerate(thirds.T):
        if missing := set(range(_REGIONS)) - set(labels.tolist()):
            raise ValueError(f"no labelled frame shows coordinate {i} in its region {min(missing)}: label more frames")


def _edges(f: Float[np.ndarray, " n"], third: Int[np.ndarray, " n"], falls: bool) -> Float[np.ndarray, "4"]:
    """The latent's values at 0, 1/3, 2/3 and 1 of the coordinate, the inner two in order."""
    rising = 1 - f if falls else f
    inner = np.sort([_cut(rising, third > region) for region in range(_REGIONS - 1)])
    edges = np.array([0, *inner, 1])
    return 1 - edges if falls else edges


def _cut(values: Float[np.ndarray, " n"], above: Bool[np.ndarray, " n"]) -> float:
    """The midpoint between two neighbours that tells `above` from below with the fewest mistakes."""
    known = np.unique(values)
    cuts = (known[1:] + known[:-1]) / 2 if len(known) > 1 else known
    mistakes = ((values[:, None] > cuts) != above[:, None]).sum(axis=0)
    best = cuts[mistakes == mistakes.min()]
    return float(best[len(best) // 2])
