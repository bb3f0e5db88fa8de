"""Few-shot: from a reward function alone to weights w. Collect labelled steps, regress (the paper's Eq. 8), act.

The paper's way is random behaviour and least squares. Ours sends the learnt skills to random goals and, once any reward
was seen, half of the time to where a sample of the regression's posterior believes the reward to be; and it keeps only
the features that carry the fit.
"""

from functools import partial
from numbers import Integral
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray, PyTree

from cumulant.bounds import OutOfBounds
from cumulant.features.coordinates import feature_count
from cumulant.goals.bins import bin_index
from cumulant.goals.weights import unit
from cumulant.transfer.gpi import Gpi
from cumulant.transfer.linear_systems import cholesky, solve, solve_lower, solve_upper
from cumulant.worlds.episodes import Reward, over_tasks, play_from, random_policy, reward_of
from cumulant.worlds.protocol import World, never

MAX_BUDGET = 100_000_000  # labelled steps: more than any experiment takes, and what a large machine can hold
_WORLDS = 10  # copies that collect side by side
_SEGMENT = 25  # steps for which a copy pursues one goal
_AT_ONCE = _WORLDS * _SEGMENT  # observations that are looked at together


class Labelled(NamedTuple):
    """Labelled steps."""

    bins: Int[Array, "n k"]  # the bin that each feature lay in
    reward: Float[Array, " n"]


class _Evidence(NamedTuple):
    """What the steps so far say of w, as sums: all that Bayesian linear regression needs.

    Rewards are counted in units of the largest so far, so that none is too small or too large to be squared.
    """

    squares: Float[Array, "d d"]  # Σ φ φᵀ
    products: Float[Array, " d"]  # Σ φ r
    energy: Float[Array, ""]  # Σ r²
    steps: Float[Array, ""]
    largest: Float[Array, ""]  # |r| so far


def collect_labelled(
    world: World, skills: Gpi, bins: int, reward: Reward, key: PRNGKeyArray, budget: int, random: bool = False
) -> Labelled:
    """`budget` labelled steps, no reset but the time limit's; `random` is the paper's behaviour."""
    k = feature_count(skills.features, world)
    length = min(_SEGMENT, world.max_steps)
    per_episode = world.max_steps // length

    def label(state: PyTree) -> Float[Array, ""]:
        return jnp.asarray(reward(state), float)  # rewards may be whole numbers, or true and false

    def pursue(w: Float[Array, "k m"], state: PyTree, key: PRNGKeyArray) -> tuple[PyTree, Labelled]:
        policy = random_policy(world) if random else skills(world, w[None])
        states = play_from(world, policy, never, state, key, length).states
        seen = jax.tree.map(lambda leaf: leaf[:-1], states)
        f = jax.vmap(lambda state: skills.features(world.observe(state)))(seen)
        return jax.tree.map(lambda leaf: leaf[-1], states), Labelled(bin_index(f, bins), jax.vmap(label)(seen))

    def segment(carry: tuple[PyTree, _Evidence], x: tuple[Array, PRNGKeyArray]) -> tuple[PyTree, Labelled]:
        (states, evidence), (index, key) = carry, x
        key_goal, key_play, key_reset = jax.random.split(key, 3)
        fresh = jax.vmap(world.reset)(jax.random.split(key_reset, _WORLDS))
        states = jax.tree.map(lambda new, old: jnp.where(index % per_episode == 0, new, old), fresh, states)
        goals = jax.vmap(partial(_goal, evidence, k, bins))(jnp.arange(_WORLDS), jax.random.split(key_goal, _WORLDS))
        states, labelled = jax.vmap(pursue)(goals, states, jax.random.split(key_play, _WORLDS))
        flat = Labelled(labelled.bins.reshape(-1, k), labelled.reward.reshape(-1))
        return (states, _add(evidence, flat, bins)), flat

    segments = -(-budget // (_WORLDS * length))
    key_start, key_segments = jax.random.split(key)
    first = jax.vmap(world.reset)(jax.random.split(key_start, _WORLDS))
    nothing = _Evidence(jnp.zeros((k * bins, k * bins)), jnp.zeros(k * bins), *jnp.zeros(3))
    xs = (jnp.arange(segments), jax.random.split(key_segments, segments))
    _, labelled = jax.lax.scan(segment, (first, nothing), xs)
    return Labelled(labelled.bins.reshape(-1, k)[:budget], labelled.reward.reshape(-1)[:budget])


def learn(
    world: World,
    skills: Gpi,
    bins: int,
    reward: Reward,
    key: PRNGKeyArray,
    budgets: tuple[int, ...],
    paper: bool = False,
) -> Float[Array, "budgets k m"]:
    """Weights from the first steps of one collection, as many as each budget says; `paper` is the paper's own way.

    A reward that is not one finite number raises ValueError. Within JAX's transformations no value can be looked at,
    and a reward that is not finite gives weights that are not.
    """
    for budget in budgets:
        check_budget(budget)
    _check_reward(world, reward)

    @eqx.filter_jit  # anew for every call: what a reward refers to may have changed since the last
    def learnt(skills: Gpi, key: PRNGKeyArray) -> tuple[Array, Array]:
        steps = collect_labelled(world, skills, bins, reward, key, max(budgets), random=paper)
        return _fits(steps, bins, budgets, paper), (~jnp.isfinite(steps.reward)).sum()

    w, bad = learnt(skills, key)
    if not isinstance(bad, jax.core.Tracer) and bad:
        raise OutOfBounds(f"the reward is not finite: it was NaN or infinite in {bad:,} of {max(budgets):,} states")
    return w


def check_budget(budget: int) -> None:
    """Refuse what is no number of labelled steps, before anything is collected."""
    if not isinstance(budget, Integral) or budget < 1:
        raise OutOfBounds(f"a budget is at least 1 labelled step, but is {budget}")
    if budget > MAX_BUDGET:
        raise OutOfBounds(f"a budget is at most {MAX_BUDGET:,} labelled steps, but is {budget:,}")


def _check_reward(world: World, reward: Reward) -> None:
    """Refuse what is no reward: it takes a state and gives one number."""
    given = jax.eval_shape(lambda key: reward(world.reset(key)), jax.random.key(0))
    number = isinstance(given, jax.ShapeDtypeStruct) and any(
        jnp.issubdtype(given.dtype, kind) for kind in (jnp.floating, jnp.integer, jnp.bool)
    )
    if not number or given.shape != ():
        said = f"{given.dtype}{list(given.shape)}" if isinstance(given, jax.ShapeDtypeStruct) else repr(given)
        raise OutOfBounds(f"a reward is one number for each state, but this one gives {said}")


def _fits(steps: Labelled, bins: int, budgets: tuple[int, ...], paper: bool) -> Float[Array, "budgets k m"]:
    """The weights that the first steps give, as many as each budget says."""
    first = [jax.tree.map(lambda leaf, n=n: leaf[:n], steps) for n in budgets]
    return jnp.stack([least_squares(s, bins)[0] if paper else fit(s, bins) for s in first])


@eqx.filter_jit
def learn_tasks(
    world: World,
    skills: Gpi,
    bins: int,
    tables: Bool[Array, "tasks c k b"],
    keys: Key[Array, " tasks"],
    budgets: tuple[int, ...],
    paper: bool = False,
) -> Float[Array, "tasks budgets d m"]:
    """The same for many tasks, each a reward of 1 where it holds."""

    def one(table: Bool[Array, "c k b"], key: PRNGKeyArray) -> Float[Array, "budgets d m"]:
        steps = collect_labelled(world, skills, bins, reward_of(world, table), key, max(budgets), random=paper)
        return _fits(steps, bins, budgets, paper)

    return over_tasks(world, one, (tables, keys), _AT_ONCE)


def _add(evidence: _Evidence, new: Labelled, bins: int) -> _Evidence:
    phi = _design(new, bins)
    largest = jnp.maximum(evidence.largest, jnp.abs(new.reward).max())
    reward = new.reward / unit(largest)
    shrunk = jnp.where(evidence.largest > 0, unit(evidence.largest) / unit(largest), 1.0)
    return _Evidence(
        evidence.squares + phi.T @ phi,
        shrunk * evidence.products + phi.T @ reward,
        shrunk**2 * evidence.energy + (reward**2).sum(),
        evidence.steps + len(phi),
        largest,
    )


def _design(labelled: Labelled, bins: int) -> Float[Array, "n d"]:
    return jax.nn.one_hot(labelled.bins, bins).reshape(len(labelled.reward), -1)


def _goal(evidence: _Evidence, k: int, bins: int, copy: Int[Array, ""], key: PRNGKeyArray) -> Float[Array, "k m"]:
    """A random goal, a bin for about half of the features; every other copy samples w from the posterior instead."""
    key_bin, key_keep, key_noise = jax.random.split(key, 3)
    keep = jax.random.bernoulli(key_keep, 0.5, (k, 1))
    anywhere = keep * jax.nn.one_hot(jax.random.randint(key_bin, (k,), 0, bins), bins)
    factor = cholesky(evidence.squares + jnp.eye(k * bins))
    mean = solve_upper(factor, solve_lower(factor, evidence.products))
    variance = (evidence.energy - mean @ evidence.products) / jnp.maximum(evidence.steps, 1)
    noise = solve_upper(factor, jax.random.normal(key_noise, (k * bins,)))
    believed = (mean + jnp.sqrt(jnp.maximum(variance, 0)) * noise).reshape(k, bins)
    believed -= believed.min(axis=1, keepdims=True)
    return jnp.where((evidence.energy > 0) & (copy % 2 == 0), believed, anywhere)


def least_squares(labelled: Labelled, bins: int, kept: Bool[Array, " k"] | None = None) -> tuple[Array, Array]:
    """The paper's fit, on the kept features: w [k, m] and the squared error that it leaves []."""
    labelled, scale = _in_units(labelled)
    w, error = _least_squares(labelled, bins, kept)
    return scale * w, scale * (scale * error)  # twice: the square alone could be infinite


def _in_units(labelled: Labelled) -> tuple[Labelled, Float[Array, ""]]:
    """The steps with rewards of ordinary size, none too small or too large to be squared, and the unit they are in."""
    scale = unit(jnp.abs(labelled.reward).max())
    return labelled._replace(reward=labelled.reward / scale), scale


def _least_squares(labelled: Labelled, bins: int, kept: Bool[Array, " k"] | None = None) -> tuple[Array, Array]:
    k = labelled.bins.shape[1]
    mask = jnp.repeat(jnp.ones(k, bool) if kept is None else kept, bins).astype(jnp.float32)
    phi = _design(labelled, bins) * mask
    # The indicators of a feature sum to one, so only a little ridge makes w unique.
    w = solve(phi.T @ phi + jnp.eye(k * bins), phi.T @ labelled.reward)
    return w.reshape(k, bins), ((labelled.reward - phi @ w) ** 2).sum()


def fit(labelled: Labelled, bins: int) -> Float[Array, "k m"]:
    """Weights that do not mistake noise for signal: [n] → [k, m], the lowest of each feature 0.

    Behaviour that seeks the reward makes features go together that have nothing to do with each other: where an object
    was brought, there the agent stands. Least squares then gives weight to both. So two sparse models compete, a sum
    over few features and a conjunction of few, each a w, and the one that explains the reward better is taken.
    """
    labelled, scale = _in_units(labelled)
    additive, additive_error = _sparse_sum(labelled, bins)
    conjunctive, conjunctive_error = _sparse_conjunction(labelled, bins)
    w = jnp.where(conjunctive_error <= additive_error, conjunctive, additive)
    return scale * (w - w.min(axis=1, keepdims=True))


def _sparse_sum(labelled: Labelled, bins: int, least: float = 0.1) -> tuple[Array, Array]:
    """Least squares on the features whose removal would cost at least a part `least` of the costliest removal."""
    k = labelled.bins.shape[1]
    cost = jax.vmap(lambda i: _least_squares(labelled, bins, jnp.arange(k) != i)[1])(jnp.arange(k))
    cost -= _least_squares(labelled, bins)[1]
    return _least_squares(labelled, bins, cost >= least * cost.max())


def _sparse_conjunction(labelled: Labelled, bins: int, tolerance: float = 0.01) -> tuple[Array, Array]:
    """Conditions on each feature's bins, all of which the rewarded steps meet, less those that make no difference."""
    k, reward = labelled.bins.shape[1], labelled.reward
    mass = jnp.einsum("nkm,n->km", jax.nn.one_hot(labelled.bins, bins), jnp.abs(reward))
    allowed = mass > tolerance * mass.sum(axis=1, keepdims=True)
    meets = jnp.take_along_axis(allowed.T, labelled.bins, axis=0)  # [n, k]
    total = ((reward - reward.mean()) ** 2).sum()

    def error(conditions: Bool[Array, " k"]) -> Float[Array, ""]:
        """Squared error of predicting one mean reward where all conditions are met and another elsewhere."""
        met = (meets | ~conditions).all(axis=1)
        count, gain = met.sum(), (met * reward).sum()
        rest = reward.sum() - gain
        return (reward**2).sum() - gain**2 / jnp.maximum(count, 1) - rest**2 / jnp.maximum(len(met) - count, 1)

    def drop(_: PyTree, conditions: Bool[Array, " k"]) -> Bool[Array, " k"]:
        errors = jax.vmap(lambda i: error(conditions & (jnp.arange(k) != i)))(jnp.arange(k))
        errors = jnp.where(conditions, errors, jnp.inf)
        harmless = errors.min() <= error(conditions) + tolerance * total
        return conditions & ~(harmless & (jnp.arange(k) == errors.argmin()))

    conditions = jax.lax.fori_loop(0, k - 1, drop, ~allowed.all(axis=1))
    others = jax.vmap(lambda i: (meets | ~conditions | (jnp.arange(k) == i)).all(axis=1))(jnp.arange(k))  # [k, n]
    here = jax.nn.one_hot(labelled.bins, bins)  # w: the mean reward in each bin where the other conditions are met
    w = jnp.einsum("nkm,kn,n->km", here, others, reward) / jnp.maximum(jnp.einsum("nkm,kn->km", here, others), 1)
    return w * conditions[:, None], error(conditions)
