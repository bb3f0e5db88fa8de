"""Success rates of a policy over tasks and seeds."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Key, PRNGKeyArray, PyTree, Shaped
from scipy.stats import binomtest

from cumulant.policy import Play, Policy, play
from cumulant.tasks import Task, reached
from cumulant.world import World

# Makes the policy for a task from a guide to it: the task's table for the oracle, weights for GPI. May be a Module.
PolicyMaker = Callable[[Any, Any], Policy]

# Frames seen at once: each takes up to a few hundred kilobytes on its way through an encoder.
_FRAMES = {"cpu": 1024}
_MANY_FRAMES = 16_384


class Success(NamedTuple):
    """How often a policy reached the goal, and how soon."""

    success: float
    ci95: tuple[float, float]
    mean_steps: float | None  # over the successful episodes
    tasks: int
    episodes: int  # in all


def attempt(world: World, make_policy: PolicyMaker, table: Bool[Array, "c k m"], guide: Any, key: PRNGKeyArray) -> Play:
    """One episode of the task that the table describes, by the policy made from the guide."""
    return play(world, make_policy(world, guide), lambda state: reached(table, world.features(state)), key)


@eqx.filter_jit
def outcomes(
    world: World,
    make_policy: PolicyMaker,
    tables: Bool[Array, "tasks c k m"],
    guides: PyTree[Shaped[Array, "tasks ..."]],
    keys: Key[Array, "tasks episodes"],
) -> tuple[Bool[Array, "tasks episodes"], Int[Array, "tasks episodes"]]:
    """Success and steps of an episode for every task and key, all at once."""

    def outcome(table: Bool[Array, "c k m"], guide: Any, key: PRNGKeyArray) -> tuple[Array, Array]:
        episode = attempt(world, make_policy, table, guide, key)
        return episode.success, episode.steps

    each = jax.vmap(outcome, (None, None, 0))
    return over_tasks(world, each, (tables, guides, keys), keys.shape[1])


def over_tasks(world: World, function: Callable, xs: tuple, copies: int) -> Any:
    """All tasks at once; or, where the world shows frames and each task plays so many copies of it, a few at a time."""
    sight = jax.eval_shape(lambda key: world.observe(world.reset(key)), jax.random.key(0))
    if sight.ndim == 1:
        return jax.vmap(function)(*xs)
    at_once = _FRAMES.get(jax.default_backend(), _MANY_FRAMES)
    return jax.lax.map(lambda x: function(*x), xs, batch_size=max(1, at_once // copies))


def tables_of(tasks: Sequence[Task]) -> Bool[Array, "tasks c k m"]:
    """The tasks' tables, stacked; the shorter ones padded with clauses that never hold."""
    clauses = max(len(task.clauses) for task in tasks)
    return jnp.stack([jnp.asarray(task.table(clauses)) for task in tasks])


def evaluate(
    world: World,
    make_policy: PolicyMaker,
    tasks: Mapping[str, Sequence[Task]],
    key: PRNGKeyArray,
    episodes: int,
    guides: Any = None,
) -> dict[str, Success]:
    """Success over `episodes` episodes of each task, pooled by class; all classes are played in one compiled call.

    `guides` has a leading axis over all tasks in order; without any, each task's own table guides its policy.
    """
    everything = [task for group in tasks.values() for task in group]
    tables = tables_of(everything)
    keys = jax.random.split(key, (len(everything), episodes))
    played = outcomes(world, make_policy, tables, tables if guides is None else guides, keys)
    success, steps = jax.device_get(played)
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


def pool(results: Sequence[Success]) -> Success:
    """The results of several libraries on the same tasks, over all their episodes."""
    episodes = sum(result.episodes for result in results)
    solved = [round(result.success * result.episodes) for result in results]
    steps = sum((result.mean_steps or 0) * n for result, n in zip(results, solved, strict=True))
    interval = binomtest(sum(solved), episodes).proportion_ci(0.95)
    return Success(
        success=sum(solved) / episodes,
        ci95=(float(interval.low), float(interval.high)),
        mean_steps=steps / sum(solved) if any(solved) else None,
        tasks=results[0].tasks,
        episodes=episodes,
    )
