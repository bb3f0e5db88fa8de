"""How well learnt latents tell the true factors apart, by the field's own measures; and how independently they move.

Axes: n samples, d latents, k factors. A factor that never varies cannot be told, and is left out of means.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.special import entr


class Dci(NamedTuple):
    """Eastwood & Williams (2018): all scores in [0, 1], 1 is best."""

    disentanglement: float  # each latent speaks of one factor
    completeness: float  # each factor is spoken of by one latent
    informativeness: float  # how well the latents tell the factors: R² on unseen samples, each factor's at least 0
    importance: Float[np.ndarray, "d k"]  # of a latent for a factor; columns sum to 1, or to 0 if nothing tells it


def rank_correlations(latents: Float[np.ndarray, "n d"], factors: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "d k"]:
    """Spearman's |ρ| of every latent with every factor: [d, k]; 0 where either is constant."""
    return np.minimum(np.abs(unit_ranks(latents).T @ unit_ranks(factors)), 1.0)


def unit_ranks(values: Float[np.ndarray, "n c"]) -> Float[np.ndarray, "n c"]:
    """Ranks of each column, centred and scaled to length 1; a constant column becomes 0."""
    from scipy.stats import rankdata  # takes a second to import

    centred = rankdata(values, axis=0) - (len(values) + 1) / 2
    length = np.linalg.norm(centred, axis=0)
    return centred / np.where(length == 0, 1.0, length)


def assignment(
    latents: Float[np.ndarray, "n d"], factors: Float[np.ndarray, "n k"]
) -> tuple[Int[np.ndarray, " k"], Float[np.ndarray, " k"]]:
    """A latent of its own for each factor, so that the sum of |ρ| is greatest: indices [k] and |ρ| [k].

    Where latents are too few, a factor may get none: -1 and 0.
    """
    from scipy.optimize import linear_sum_assignment  # takes most of a second to import

    correlations = rank_correlations(latents, factors)
    chosen, told = linear_sum_assignment(correlations, maximize=True)
    index, strength = np.full(factors.shape[1], -1), np.zeros(factors.shape[1])
    index[told], strength[told] = chosen, correlations[chosen, told]
    return index, strength


def dci(latents: Float[np.ndarray, "n d"], factors: Float[np.ndarray, "n k"], seed: int = 0) -> Dci:
    """Predict each factor from all latents by boosted trees, fit on a random half of the samples; see `Dci`."""
    from sklearn.ensemble import GradientBoostingRegressor  # takes a second to import

    order = np.random.default_rng(seed).permutation(len(latents))
    seen, unseen = np.array_split(order, 2)
    trees = [GradientBoostingRegressor(random_state=seed).fit(latents[seen], factor) for factor in factors[seen].T]
    importance = np.stack([tree.feature_importances_ for tree in trees], axis=1)
    told = [
        max(0.0, tree.score(latents[unseen], factor))
        for tree, factor in zip(trees, factors[unseen].T, strict=True)
        if np.ptp(factor) > 0
    ]
    return Dci(_concentration(importance), _concentration(importance.T), float(np.mean(told or [0.0])), importance)


def _concentration(importance: Float[np.ndarray, "a b"]) -> float:
    """1 - entropy of each row over its b entries, in units of log b; rows weighted by their share of the total."""
    total, options = importance.sum(axis=1), importance.shape[1]
    if not total.any():
        return 0.0
    share = importance / np.where(total == 0, 1.0, total)[:, None]
    spread = entr(share).sum(axis=1) / np.log(max(options, 2))  # a single entry has no entropy in any unit
    return float(np.average(1 - spread, weights=total))


def mig(latents: Float[np.ndarray, "n d"], factors: Float[np.ndarray, "n k"], bins: int = 20) -> float:
    """Mutual information gap (Chen et al. 2018): by how much the best latent tells a factor better than the next.

    Latents and factors fall into bins of equal width; the gap is in units of the factor's entropy; mean over factors.
    """
    codes, truths = _binned(latents, bins).T, _binned(factors, bins).T
    information = np.array([[_mutual_information(code, truth, bins) for truth in truths] for code in codes])
    entropy = np.array([_mutual_information(truth, truth, bins) for truth in truths])
    best = np.sort(np.vstack([information, np.zeros(len(truths))]), axis=0)  # next to a single latent there is nothing
    varied = entropy > 0
    return float(np.mean((best[-1] - best[-2])[varied] / entropy[varied])) if varied.any() else 0.0


def _binned(values: Float[np.ndarray, "n c"], bins: int) -> Int[np.ndarray, "n c"]:
    """Each column's bin indices, from its least value to its greatest; the last bin is closed."""
    least, width = values.min(axis=0), np.ptp(values, axis=0)
    return np.minimum((values - least) / np.where(width == 0, 1.0, width) * bins, bins - 1).astype(int)


def _mutual_information(first: Int[np.ndarray, " n"], second: Int[np.ndarray, " n"], bins: int) -> float:
    """In nats, from the joint histogram of two columns of bin indices."""
    joint = np.bincount(first * bins + second, minlength=bins * bins).reshape(bins, bins) / len(first)
    nats = entr(joint.sum(axis=0)).sum() + entr(joint.sum(axis=1)).sum() - entr(joint).sum()
    return max(0.0, float(nats))


def independence(moved: Float[np.ndarray, "k k"]) -> float:
    """Independent controllability, in [0, 1], from `Audit.moved`: [i, l], how far policies of feature i move feature l.

    1 - how far a feature moves while another's policies act, as a share (at most 1) of how far its own move it; mean
    over pairs. A feature that its own policies cannot move counts as wholly in the others' hands.
    """
    own, others = np.diag(moved), ~np.eye(len(moved), dtype=bool)
    share = np.where(own > 0, np.minimum(moved, own) / np.where(own > 0, own, 1.0), 1.0)
    return float(1 - share[others].mean()) if others.any() else 1.0
