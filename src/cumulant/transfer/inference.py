"""Few-shot: from a reward function alone to weights w.

Collect labelled steps (`exploration`), and find what they say (`reward_models`).
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from numbers import Integral
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, jaxpr_as_fun
from jaxtyping import Array, Int, Key, PRNGKeyArray, PyTree, Shaped

from cumulant.bounds import OutOfBounds
from cumulant.transfer.exploration import AT_ONCE, collect, collect_at_random
from cumulant.transfer.gpi import Gpi
from cumulant.transfer.reward_models import Belief, Labelled, first, fit, least_squares
from cumulant.worlds.episodes import Reward, over_tasks
from cumulant.worlds.failures import plainly
from cumulant.worlds.protocol import World

_DERIVATIVES = ("custom_jvp", "custom_vjp")  # have functions of their own, which a reward's value does not depend on
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
    with plainly():
        traced = _traced(world, reward)  # anew for every call: what a reward refers to may have changed since the last
        belief, bad = jax.block_until_ready(_learnt(world, skills, bins, *traced, key, budgets, paper))
    if not isinstance(bad, jax.core.Tracer) and bad:
        raise OutOfBounds(f"the reward is not finite: it was NaN or infinite in {bad:,} of {max(budgets):,} states")
    return belief


@dataclass(frozen=True)
class _Program:
    """What a reward function computes, but for the arrays that it refers to; equal to all that compute the same."""

    text: str
    hidden: tuple[Hashable, ...]  # what the text does not show
    jaxpr: Jaxpr = field(compare=False)

    def __call__(self, consts: Sequence[Array], state: PyTree) -> Shaped[Array, ""]:
        """Return the reward of a state."""
        return jaxpr_as_fun(ClosedJaxpr(self.jaxpr, list(consts)))(*jax.tree.leaves(state))[0]


def _traced(world: World, reward: Reward) -> tuple[_Program, list[Array]]:
    """Return what a reward computes and from which arrays: one program serves all rewards that differ in these alone.

    A second lambda with the same body, or the same one after a value that it refers to has changed, is traced again,
    which takes milliseconds; it is compiled again only if it computes something else.
    """
    closed = jax.make_jaxpr(reward)(jax.eval_shape(world.reset, jax.random.key(0)))
    program = _Program(str(closed.jaxpr), tuple(_hidden(closed.jaxpr)), closed.jaxpr)
    return program, [jnp.asarray(const) for const in closed.consts]


def _hidden(jaxpr: Jaxpr) -> Iterator[Hashable]:
    """What the text of a jaxpr leaves out: the values of arrays within, and which functions the host is to call."""
    for equation in jaxpr.eqns:
        values = [variable.val for variable in equation.invars if isinstance(variable, Literal)]
        for value in (*values, *jax.tree.leaves(equation.params)):
            if isinstance(value, ClosedJaxpr):
                yield from map(_as_bytes, value.consts)
            if isinstance(value, Jaxpr | ClosedJaxpr):
                yield from _hidden(value.jaxpr if isinstance(value, ClosedJaxpr) else value)
            elif isinstance(value, jax.Array | np.ndarray):
                yield _as_bytes(value)
            elif callable(value) and not equation.primitive.name.startswith(_DERIVATIVES):
                yield value


def _as_bytes(value: Array | np.ndarray) -> Hashable:
    plain = jax.random.key_data(value) if jnp.issubdtype(value.dtype, jax.dtypes.prng_key) else value
    return str(value.dtype), value.shape, np.asarray(plain).tobytes()


@eqx.filter_jit
def _learnt(
    world: World,
    skills: Gpi,
    bins: int,
    reward: _Program,
    consts: list[Array],
    key: PRNGKeyArray,
    budgets: tuple[int, ...],
    paper: bool,
) -> tuple[Belief, Int[Array, ""]]:
    steps = _collect(world, skills, bins, partial(reward, consts), key, max(budgets), paper)
    return beliefs(steps, bins, key, budgets, paper), (~jnp.isfinite(steps.reward)).sum()


@eqx.filter_jit
def learn_many(
    world: World,
    skills: Gpi,
    bins: int,
    reward_of: Callable[[World, Any], Reward],
    rewards: PyTree[Shaped[Array | np.ndarray, "rewards ..."]],
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
