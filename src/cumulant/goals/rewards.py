"""Rewards that are more than "1 where a task holds": noisy, negative, sums of several terms, dense; drawn by a seed.

Each comes with the task that holds where the reward is best, by which those who act on it are judged.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from cumulant.goals.suites import Coordinates, check_number, count, sample
from cumulant.goals.tasks import Task, reached

REWARDS = ("noisy", "cost", "sum", "penalty", "dense")
_NOISE = 0.1  # standard deviation
_TERMS = 3  # of a reward, at most


class RewardTable(NamedTuple):
    """A reward of features: what regions are worth, less a distance, and noise. Many have a leading axis n."""

    regions: Bool[Array, "*n t k b"]
    amounts: Float[Array, "*n t"]  # what each region is worth
    centre: Float[Array, "*n k"]
    pull: Float[Array, "*n k"]  # how much each feature's distance from the centre counts
    noise: Float[Array, "*n"]  # its standard deviation


class RewardedTask(NamedTuple):
    """A reward, and the task that holds where it is best."""

    goal: Task
    reward: RewardTable


def value(reward: RewardTable, f: Float[Array, " k"]) -> Float[Array, ""]:
    """The reward of features: [k] → []. Noise is the features' own: the same state always has the same."""
    inside = jax.vmap(lambda region: reached(region[None], f))(reward.regions)
    distance = (reward.pull * jnp.abs(f - reward.centre)).sum()
    return (inside * reward.amounts).sum() - distance + reward.noise * jax.random.normal(_key_of(f))


def _key_of(f: Float[Array, " k"]) -> PRNGKeyArray:
    bits = jax.lax.bitcast_convert_type(f.astype(jnp.float32), jnp.uint32)
    return jax.lax.fori_loop(0, len(f), lambda i, key: jax.random.fold_in(key, bits[i]), jax.random.key(0))


def rewards(coordinates: Coordinates, number: int, seed: int = 0, bins: int = 3) -> dict[str, list[RewardedTask]]:
    """`number` rewards of each class, over the regions that the paper's tasks have.

    `noisy`: 1 where a task holds, and noise of σ = 0.1. `cost`: -1 until it holds. `sum`: two or three regions, of
    different sprites, each worth something. `penalty`: an object's region is worth 1, one of the agent's -1. `dense`:
    minus the distance of an object from the centre of its region.

    >>> import cumulant
    >>> drawn = rewards(cumulant.Spriteworld().feature_names, 1)
    >>> print(drawn["penalty"][0].goal)
    circle bottom right and agent not top
    """
    check_number(number)
    return {
        name: [_drawn(name, coordinates, np.random.default_rng([seed, 100 + index, i]), bins) for i in range(number)]
        for index, name in enumerate(REWARDS)
    }


def _drawn(name: str, coordinates: Coordinates, rng: np.random.Generator, bins: int) -> RewardedTask:
    """A reward of a class."""
    objects = len(coordinates) // 2 - 1
    hard = [kind for kind in ("agent_hard", "object_hard", "conjunction") if count(kind, objects, bins)]
    one = {"noisy": hard, "cost": hard, "sum": ["object_easy"], "penalty": ["object_hard"], "dense": ["object_hard"]}
    task = sample(str(rng.choice(one[name])), coordinates, rng, bins)
    if name == "dense":
        return RewardedTask(task, _table([], coordinates, bins, towards=task))
    terms = [(task, 1.0)]
    if name == "sum":
        others = [sample("agent_easy", coordinates, rng, bins), sample("object_easy", coordinates, rng, bins)]
        terms += [(other, round(rng.uniform(0.5, 1.5), 2)) for other in others[: rng.integers(1, 3)]]
    elif name == "penalty":
        terms.append((sample("agent_easy", coordinates, rng, bins), -1.0))
    elif name == "cost":
        terms.append((Task.where(coordinates, {}, bins), -1.0))
    goal = task
    for term, amount in terms[1:]:
        goal = goal if name == "cost" else goal & (term if amount > 0 else ~term)
    if not goal.possible:  # two regions of one coordinate
        return _drawn(name, coordinates, rng, bins)
    return RewardedTask(goal, _table(terms, coordinates, bins, noise=_NOISE if name == "noisy" else 0.0))


def _table(
    terms: list[tuple[Task, float]],
    coordinates: Coordinates,
    bins: int,
    noise: float = 0.0,
    towards: Task | None = None,
) -> RewardTable:
    """A reward as arrays: regions with their worth, and the task whose centre it draws towards."""
    regions = np.zeros((_TERMS, len(coordinates), bins), bool)
    amounts, centre, pull = np.zeros(_TERMS), np.zeros(len(coordinates)), np.zeros(len(coordinates))
    for i, (task, amount) in enumerate(terms):
        regions[i], amounts[i] = task.table()[0], amount
    for name, allowed in towards.conditions()[0] if towards else ():
        i = coordinates.index(name)
        centre[i], pull[i] = (np.mean(allowed) + 0.5) / bins, 1.0
    return RewardTable(
        jnp.asarray(regions), *(jnp.asarray(part, jnp.float32) for part in (amounts, centre, pull, noise))
    )
