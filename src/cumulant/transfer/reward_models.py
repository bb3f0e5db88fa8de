"""What labelled steps say of a reward: the paper's regression (Eq. 8), and a posterior over goals that are boxes.

A box is a conjunction: a set of bins for each feature, all of which have to hold. Where the reward is no box, a sum
over few features explains it better, and is taken.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from cumulant.goals.weights import unit
from cumulant.transfer.linear_systems import solve

_EVERY_SET = 4  # bins of a feature up to which a box may allow any set of them; beyond, only neighbours
_UNBOUND = 1 / 2  # prior probability that a feature does not matter
_SLIGHTLY = 0.01  # of a step: how surely a weight is 0, so that a feature's weights are unique
_NOISE = 1e-3  # variance that no model has to explain, in units of the largest reward
_BOXES = 2  # that a reward may be the sum of; to those that exclude each other one cannot go at once
_CHAINS, _SWEEPS = 16, 6  # samples of the posterior, and how often all features are drawn anew for each
_CERTAIN = 0.9  # posterior probability from which a bin counts as allowed
_ALIKE = 0.9  # of the best bin's reward: a bin of a box with as much is as good
_CARRIES = 0.1  # of the costliest feature's removal: what a removal must cost for a feature to stay in a sum
_ENOUGH = 16_384  # steps, spread evenly, that tell all there is to tell of a box
_OUTSTANDING = 4  # middle halves of all rewards that one must lie above the median to stand out: 5 σ of noise

MODELS = ("sum over features", "conjunction", "sum of two conjunctions")  # in words, by the number of boxes


class Labelled(NamedTuple):
    """Labelled steps, and whether each was taken: what was not counts for nothing, and has no reward."""

    bins: Int[Array, "n k"]  # the bin that each feature lay in
    reward: Float[Array, " n"]
    taken: Bool[Array, " n"]


class Belief(NamedTuple):
    """What labelled steps say of a reward. Several have leading axes."""

    w: Float[Array, "*n k m"]  # what GPI acts on
    boxes: Int[Array, "*n"]  # how many conjunctions it is read as a sum of; 0 for a sum over single features
    sure: Float[Array, "*n"]  # posterior probability of this reading
    explained: Float[Array, "*n"]  # share of the reward's variance that it accounts for
    earned: Float[Array, "*n"]  # the sum of all rewards


def first(labelled: Labelled, n: Int[Array, ""]) -> Labelled:
    """The first n of the steps; the arrays keep their size, so that one program serves every n."""
    taken = labelled.taken & (jnp.arange(len(labelled.reward)) < n)
    return Labelled(labelled.bins, jnp.where(taken, labelled.reward, 0), taken)


def least_squares(labelled: Labelled, bins: int) -> Belief:
    """The paper's fit. There is no other reading to compare it with."""
    earned, (labelled, scale) = labelled.reward.sum(), _in_units(labelled)
    w, error = _regressed(labelled, bins, jnp.ones(labelled.bins.shape[1], bool), jnp.eye(bins))
    return Belief(scale * w, jnp.int32(0), jnp.ones(()), _explained(error, labelled), earned)


def fit(labelled: Labelled, bins: int, key: PRNGKeyArray) -> Belief:
    """Sparse models compete: a sum over few features, a box, and two boxes. The lowest weight of each feature is 0.

    Behaviour that seeks the reward makes features go together that have nothing to do with each other: where an object
    was brought, there the agent stands. Least squares gives weight to both.
    """
    earned, (labelled, scale) = labelled.reward.sum(), _in_units(labelled)
    n, k = labelled.taken.sum(), labelled.bins.shape[1]
    w, sum_error, kept = _sparse_sum(labelled, bins)

    def another(rest: Labelled, key: PRNGKeyArray) -> tuple[Labelled, tuple[Array, ...]]:
        """The box that explains most of what is left, and what then is left."""
        box, sure = _likeliest_box(rest, bins, key)
        bound = ~box.all(axis=1)
        left = rest._replace(reward=rest.reward - _expected(box, rest))
        return left, (box, _worth(box, rest) * bound[:, None], bound.sum(), _variation(left), sure)

    _, (boxes, worth, bound, errors, sures) = jax.lax.scan(another, labelled, jax.random.split(key, _BOXES))
    # Schwarz's criterion: a sum has a weight for each bin of its features, a box a choice for each feature.
    size = jnp.concatenate([kept.sum(keepdims=True) * (bins - 1), jnp.cumsum(bound + 1) + k * jnp.arange(_BOXES)])
    evidence = _evidence(jnp.concatenate([sum_error[None], errors]), n) - size * jnp.log(n) / 2
    evidence = jnp.where(jnp.concatenate([jnp.ones(1, bool), bound > 0]), evidence, -jnp.inf)
    model, varies = evidence.argmax(), _variation(labelled) > 0
    chosen = jnp.stack([w, worth[0], jnp.where(boxes.all(axis=0).any(axis=1).all(), worth.sum(axis=0), worth[0])])[
        model
    ]
    sure = jnp.concatenate([jnp.ones(1), jnp.cumprod(sures)])[model] * jax.nn.softmax(evidence)[model]
    return Belief(
        w=scale * (chosen - chosen.min(axis=1, keepdims=True)),
        boxes=jnp.where(varies, model, 0),
        sure=varies * sure,
        explained=_explained(jnp.concatenate([sum_error[None], errors])[model], labelled),
        earned=earned,
    )


def outstanding(labelled: Labelled) -> Bool[Array, " n"]:
    """Steps whose reward stands out from what is usual, and from its noise."""
    low, middle, high = jnp.nanquantile(
        jnp.where(labelled.taken, labelled.reward, jnp.nan), jnp.array([0.25, 0.5, 0.75])
    )
    scale = unit(jnp.abs(labelled.reward).max())
    return labelled.taken & (labelled.reward > middle + _OUTSTANDING * (high - low) + _NOISE * scale)


def cells_of(labelled: Labelled, chosen: Bool[Array, " n"], bins: int, number: int, key: PRNGKeyArray) -> Array:
    """Boxes [number, k, m] of a single cell each, those of steps drawn from the chosen ones."""
    steps = jax.random.categorical(key, jnp.where(chosen, 0.0, -jnp.inf), shape=(number,))
    return jax.nn.one_hot(labelled.bins[steps], bins, dtype=bool)


def redrawn(boxes: Bool[Array, "s k m"], i: Int[Array, ""], labelled: Labelled, key: PRNGKeyArray) -> Array:
    """Boxes with what each allows feature i drawn anew, given what it allows the others: a step of Gibbs sampling.

    The reward is taken to have one mean inside the box and a lower one outside, and noise of unknown size.
    """
    m = boxes.shape[2]
    sets = jnp.asarray(_sets(m))  # [h, m]
    prior = jnp.where(sets.all(axis=1), jnp.log(_UNBOUND), jnp.log((1 - _UNBOUND) / max(len(sets) - 1, 1)))
    labelled, _ = _in_units(labelled)
    n, total, squares = labelled.taken.sum(), labelled.reward.sum(), (labelled.reward**2).sum()

    def draw(box: Bool[Array, "k m"], key: PRNGKeyArray) -> Bool[Array, "k m"]:
        count, gain = _by_bin(_met(box.at[i].set(True), labelled).all(axis=1), labelled.bins[:, i], labelled, m)
        inside, gained = sets @ count, sets @ gain
        outside, rest = n - inside, total - gained
        mean, mean_outside = gained / jnp.maximum(inside, 1), rest / jnp.maximum(outside, 1)
        error = squares - gained * mean - rest * mean_outside
        possible = (inside > 0) & ((mean > mean_outside) | (outside == 0))
        chosen = jax.random.categorical(key, jnp.where(possible, _evidence(error, n) + prior, -jnp.inf))
        return box.at[i].set(jnp.where(possible.any(), sets[chosen], box[i]))

    return jax.vmap(draw)(boxes, jax.random.split(key, len(boxes)))


def _in_units(labelled: Labelled) -> tuple[Labelled, Float[Array, ""]]:
    """The steps with rewards of ordinary size, none too small or too large to be squared, and the unit they are in."""
    scale = unit(jnp.abs(labelled.reward).max())
    return labelled._replace(reward=labelled.reward / scale), scale


def _regressed(
    labelled: Labelled, bins: int, kept: Bool[Array, " k"], prior: Float[Array, "m m"]
) -> tuple[Array, Array]:
    """Least squares on the features that are kept: w [k, m], and the squared error that it leaves [].

    The indicators of a feature sum to one, so only the prior, a precision of each feature's weights, makes w unique.
    """
    used = labelled.taken[:, None, None] & kept[:, None]
    phi = (jax.nn.one_hot(labelled.bins, bins) * used).reshape(len(used), -1)
    w = solve(phi.T @ phi + jnp.kron(jnp.eye(len(kept)), prior), phi.T @ labelled.reward)
    return w.reshape(-1, bins), ((labelled.reward - phi @ w) ** 2).sum()


def _like_its_neighbours(bins: int) -> Float[np.ndarray, "m m"]:
    """The prior that a bin is worth what its neighbours are, as surely as one step tells.

    With a plain ridge a bin that was never seen is worth 0, and so the best of all where rewards are negative.
    """
    difference = np.diff(np.eye(bins), axis=0)
    return difference.T @ difference + _SLIGHTLY * np.eye(bins)


def _variation(labelled: Labelled) -> Float[Array, ""]:
    """The squared error of expecting the mean reward everywhere."""
    mean = labelled.reward.sum() / jnp.maximum(labelled.taken.sum(), 1)
    return (labelled.taken * (labelled.reward - mean) ** 2).sum()


def _explained(error: Float[Array, ""], labelled: Labelled) -> Float[Array, ""]:
    total = _variation(labelled)
    return jnp.where(total > 0, jnp.clip(1 - error / total, 0, 1), 0.0)


def _evidence(error: Float[Array, "..."], n: Int[Array, ""]) -> Float[Array, "..."]:
    """Log likelihood of n steps of which a model leaves a squared error, their noise unknown."""
    return -n / 2 * jnp.log(jnp.maximum(error, 0) / jnp.maximum(n, 1) + _NOISE)


def _sparse_sum(labelled: Labelled, bins: int) -> tuple[Array, Array, Array]:
    """Least squares on the features whose removal would cost something: w, its error, and which they are."""
    everything = jnp.ones(labelled.bins.shape[1], bool)
    each, prior = ~jnp.eye(len(everything), dtype=bool), jnp.asarray(_like_its_neighbours(bins))
    cost = jax.lax.map(
        lambda kept: _regressed(labelled, bins, kept, prior)[1], jnp.concatenate([everything[None], each])
    )
    cost = cost[1:] - cost[0]
    kept = cost >= _CARRIES * cost.max()
    return *_regressed(labelled, bins, kept, prior), kept


def _sets(bins: int) -> Bool[np.ndarray, "h m"]:
    """What a box may allow a feature: any set of its bins, or of many bins neighbours or all but neighbours."""
    if bins <= _EVERY_SET:
        return (np.arange(1, 2**bins)[:, None] >> np.arange(bins)) % 2 == 1
    lowest, highest = np.triu_indices(bins)
    inside = (np.arange(bins) >= lowest[:, None]) & (np.arange(bins) <= highest[:, None])
    return np.concatenate([inside, ~inside[(lowest > 0) & (highest < bins - 1)]])


def _met(box: Bool[Array, "k m"], labelled: Labelled) -> Bool[Array, "n k"]:
    """Which features lay in the bins that a box allows."""
    return jnp.take_along_axis(box.T, labelled.bins, axis=0)


def _by_bin(which: Bool[Array, " n"], bins: Int[Array, " n"], labelled: Labelled, m: int) -> tuple[Array, Array]:
    """In each of m bins, how many of the steps there are [m] and what reward they have in all [m]."""
    here = (which & labelled.taken)[:, None] & (bins[:, None] == jnp.arange(m))
    return here.sum(axis=0), labelled.reward @ here


def _expected(box: Bool[Array, "k m"], labelled: Labelled) -> Float[Array, " n"]:
    """The mean reward of the steps inside a box for those, and that of the others for the others."""
    inside = _met(box, labelled).all(axis=1)

    def mean(part: Bool[Array, " n"]) -> Float[Array, ""]:
        return (labelled.reward * part).sum() / jnp.maximum(part.sum(), 1)

    return labelled.taken * jnp.where(inside, mean(inside & labelled.taken), mean(~inside & labelled.taken))


def _worth(box: Bool[Array, "k m"], labelled: Labelled) -> Float[Array, "k m"]:
    """What each bin that a box allows is worth: the box's reward, or less where a good part of it has none after all.

    So it is where a reward has several goals, and a box takes in a little of another one.
    """
    k, m = box.shape
    inside = _met(box, labelled).all(axis=1)
    rest = labelled.taken & ~inside
    outside = (labelled.reward * rest).sum() / jnp.maximum(rest.sum(), 1)

    def mean(i: Int[Array, ""]) -> Float[Array, " m"]:
        count, gain = _by_bin(_met(box.at[i].set(True), labelled).all(axis=1), labelled.bins[:, i], labelled, m)
        return gain / jnp.maximum(count, 1) - outside

    gains = jnp.maximum(jnp.where(box, jax.vmap(mean)(jnp.arange(k)), 0), 0)
    best = gains.max(axis=1, keepdims=True)
    return jnp.where(box, jnp.where(gains >= _ALIKE * best, best, gains), 0)


def _likeliest_box(labelled: Labelled, bins: int, key: PRNGKeyArray) -> tuple[Array, Array]:
    """The box of the bins that the posterior is certain of, and its posterior probability.

    Chains begin at steps with a high reward. The best of what they come to begins them all anew, so that what is
    averaged is one goal, even where the reward has several.
    """
    some = _spread(labelled)
    k, n = some.bins.shape[1], some.taken.sum()
    mean = some.reward.sum() / jnp.maximum(n, 1)
    highest = jnp.where(some.taken, some.reward, -jnp.inf).max()
    key_start, key_find, key_average = jax.random.split(key, 3)
    starts = cells_of(some, some.taken & (some.reward >= (highest + mean) / 2), bins, _CHAINS, key_start)

    def sampled(boxes: Bool[Array, "s k m"], key: PRNGKeyArray) -> Bool[Array, "sweeps s k m"]:
        def again(boxes: Array, x: tuple[Array, PRNGKeyArray]) -> tuple[Array, Array]:
            boxes = redrawn(boxes, x[0], some, x[1])
            return boxes, boxes

        features = jnp.tile(jnp.arange(k), _SWEEPS)
        return jax.lax.scan(again, boxes, (features, jax.random.split(key, len(features))))[1][k - 1 :: k]

    found = sampled(starts, key_find)[-1]
    errors = jax.vmap(lambda box: ((some.reward - _expected(box, some)) ** 2).sum())(found)
    bound = (~found.all(axis=2)).sum(axis=1)
    best = found[jnp.argmax(_evidence(errors, n) - bound)]
    samples = sampled(jnp.broadcast_to(best, found.shape), key_average)[1:].reshape(-1, *best.shape)
    allowed = samples.mean(axis=0) >= _CERTAIN
    return allowed, (samples == allowed).all(axis=(1, 2)).mean()


def _spread(labelled: Labelled) -> Labelled:
    """As many of the steps as are needed, spread evenly over those that were taken."""
    size = min(_ENOUGH, len(labelled.reward))
    n = labelled.taken.sum()  # the first: steps are taken in order
    chosen = jnp.where(n <= size, jnp.arange(size), (jnp.arange(size) * (n / size)).astype(jnp.int32))
    return jax.tree.map(lambda leaf: leaf[chosen], labelled)
