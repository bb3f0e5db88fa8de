"""Few-shot: from a reward function alone to weights w.

Collect labelled steps (`exploration`), and find what they say (`reward_models`).
"""

from collections.abc import Callable
from numbers import Integral
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key, PRNGKeyArray, PyTree, Shaped

from cumulant.config import OutOfBounds
from cumulant.transfer.exploration import AT_ONCE, collect, collect_at_random
from cumulant.transfer.gpi import Gpi
from cumulant.transfer.reward_models import Belief, Labelled, first, fit, least_squares
from cumulant.worlds.episodes import Reward, over_tasks
from cumulant.worlds.failures import plainly
from cumulant.worlds.protocol import World

MAX_BUDGET = 100_000_000  # labelled steps: more than any experiment takes, and what a large machine can hold


def learn(
    world: World,
    skills: Gpi,
    bins: int,
    reward: Reward,
    key: PRNGKeyArray,
    budgets: tuple[int, ...],
    paper: bool = False,
) -> Belief:
    """What the first steps of one collection say, as many as each budget says; `paper` is the paper's own way.

    A reward that is not one finite number raises ValueError. Within JAX's transformations no value can be looked at,
    and a reward that is not finite gives weights that are not.
    """
    for budget in budgets:
        check_budget(budget)
    _check_reward(world, reward)

    @eqx.filter_jit  # anew for every call: what a reward refers to may have changed since the last
    def learnt(skills: Gpi, key: PRNGKeyArray) -> tuple[Belief, Array]:
        steps = _collect(world, skills, bins, reward, key, max(budgets), paper)
        return beliefs(steps, bins, key, budgets, paper), (~jnp.isfinite(steps.reward)).sum()

    with plainly():
        belief, bad = jax.block_until_ready(learnt(skills, key))
    if not isinstance(bad, jax.core.Tracer) and bad:
        raise OutOfBounds(f"the reward is not finite: it was NaN or infinite in {bad:,} of {max(budgets):,} states")
    return belief


@eqx.filter_jit
def learn_many(
    world: World,
    skills: Gpi,
    bins: int,
    reward_of: Callable[[World, Any], Reward],
    rewards: PyTree[Shaped[Array, "rewards ..."]],
    keys: Key[Array, " rewards"],
    budgets: tuple[int, ...],
    paper: bool = False,
) -> Belief:
    """The same for many rewards, each made from its part of `rewards`: leaves have leading axes [rewards, budgets]."""

    def one(described: Any, key: PRNGKeyArray) -> Belief:
        steps = _collect(world, skills, bins, reward_of(world, described), key, max(budgets), paper)
        return beliefs(steps, bins, key, budgets, paper)

    return over_tasks(world, one, (rewards, keys), AT_ONCE)


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


def _collect(
    world: World, skills: Gpi, bins: int, reward: Reward, key: PRNGKeyArray, budget: int, paper: bool
) -> Labelled:
    return (collect_at_random if paper else collect)(world, skills, bins, reward, key, budget)


def beliefs(steps: Labelled, bins: int, key: PRNGKeyArray, budgets: tuple[int, ...], paper: bool = False) -> Belief:
    """What the first steps say, as many as each budget says."""
    key_fit = jax.random.fold_in(key, 0)

    def belief(n: Int[Array, ""]) -> Belief:
        return least_squares(first(steps, n), bins) if paper else fit(first(steps, n), bins, key_fit)

    return jax.lax.map(belief, jnp.array(budgets))
