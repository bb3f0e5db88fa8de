"""Success rates of a policy over tasks and seeds."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Bool, Int, PRNGKeyArray
from scipy.stats import binomtest

from cumulant.policy import Policy, play
from cumulant.tasks import Task, reached
from cumulant.world import World

PolicyMaker = Callable[[World, Bool[Array, "c k m"]], Policy]  # a policy for the task that the table describes


class Success(NamedTuple):
    """How often a policy reached the goal, and how soon."""

    success: float
    ci95: tuple[float, float]
    mean_steps: float | None  # over the successful episodes
    tasks: int
    episodes: int  # in all


@partial(jax.jit, static_argnames=("world", "make_policy"))
def outcomes(
    world: World, make_policy: PolicyMaker, tables: Bool[Array, "tasks c k m"], keys: PRNGKeyArray
) -> tuple[Bool[Array, "tasks episodes"], Int[Array, "tasks episodes"]]:
    """Success and steps of an episode for every task and key, all at once."""

    def episode(table: Bool[Array, "c k m"], key: PRNGKeyArray) -> tuple[Array, Array]:
        result = play(world, make_policy(world, table), lambda state: reached(table, world.features(state)), key)
        return result.success, result.steps

    return jax.vmap(jax.vmap(episode, (None, 0)), (0, 0))(tables, keys)


def evaluate(
    world: World, make_policy: PolicyMaker, tasks: dict[str, tuple[Task, ...]], key: PRNGKeyArray, episodes: int
) -> dict[str, Success]:
    """Success over `episodes` episodes of each task, pooled by class; all classes are played in one compiled call."""
    everything = [task for group in tasks.values() for task in group]
    clauses = max(len(task.clauses) for task in everything)
    tables = np.stack([task.table(clauses) for task in everything])
    keys = jax.random.split(key, (len(everything), episodes))
    success, steps = jax.device_get(outcomes(world, make_policy, tables, keys))
    ends = np.cumsum([len(group) for group in tasks.values()])[:-1]
    groups = zip(np.split(success, ends), np.split(steps, ends), strict=True)
    return {name: summarise(*group) for name, group in zip(tasks, groups, strict=True)}


def summarise(success: Bool[np.ndarray, "tasks episodes"], steps: Int[np.ndarray, "tasks episodes"]) -> Success:
    """The success rate with its exact (Clopper-Pearson) 95 % interval."""
    interval = binomtest(int(success.sum()), success.size).proportion_ci(0.95)
    return Success(
        success=float(success.mean()),
        ci95=(float(interval.low), float(interval.high)),
        mean_steps=float(steps[success].mean()) if success.any() else None,
        tasks=len(success),
        episodes=success.size,
    )
