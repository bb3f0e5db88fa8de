"""Success rates of a policy over tasks and seeds."""

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Annotated

import jax
import numpy as np
from jaxtyping import Array, Bool, Int, PRNGKeyArray, PyTree, Shaped
from msgspec import Meta, Struct
from scipy.special import betaincinv  # scipy.stats would take a second to import

from cumulant.config import OutOfBounds, Share
from cumulant.goals.plans import Plan, tables_of
from cumulant.goals.tasks import Task
from cumulant.worlds.episodes import PolicyMaker, endings, random_policy
from cumulant.worlds.failures import plainly
from cumulant.worlds.protocol import World
from cumulant.worlds.seen import seen
from cumulant.worlds.shipped import oracle_of

_TAIL = 0.025  # left out at each end of an interval
MAX_EPISODES = 10_000_000  # of a task, or from one start after the other: all are played side by side

_Steps = Annotated[float, Meta(ge=0, le=1e12)]


class Success(Struct, frozen=True, forbid_unknown_fields=True):
    """How often a policy reached the goal, and how soon.

    >>> import numpy as np
    >>> found = summarise(np.array([[True, True, False, True]]), np.array([[3, 5, 20, 4]]), 100)
    >>> found
    Success(0.750 [0.194, 0.994] over 4 episodes, 4.0 steps)
    >>> found.success, found.mean_steps, found.steps_or_limit
    (0.75, 4.0, 28.0)
    """

    success: Share
    ci95: tuple[Share, Share]
    mean_steps: _Steps | None  # over the successful episodes: of a player that mostly fails, its luckiest
    tasks: Annotated[int, Meta(ge=1, le=10**12)]
    episodes: Annotated[int, Meta(ge=1, le=10**12)]  # in all
    violated: Share | None = None  # of plans: how often what is to be avoided was entered, or what is to be kept lost
    steps_or_limit: _Steps | None = None  # over all, a failure counting as the whole time limit: this ranks players

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        if not self.ci95[0] <= self.success <= self.ci95[1]:
            raise OutOfBounds(f"a success rate of {self.success} lies outside of its interval {self.ci95}")
        if self.tasks > self.episodes:
            raise OutOfBounds(f"{self.tasks} tasks take more than {self.episodes} episodes")

    def __repr__(self) -> str:
        low, high = self.ci95
        told = f"{self.success:.3f} [{low:.3f}, {high:.3f}] over {self.episodes:,} episodes"
        told += f" of {self.tasks} tasks" if self.tasks > 1 else ""
        told += "" if self.mean_steps is None else f", {self.mean_steps:.1f} steps"
        return f"Success({told})" if self.violated is None else f"Success({told}, violated {self.violated:.3f})"


def evaluate(
    world: World,
    make_policy: PolicyMaker,
    tasks: Mapping[str, Sequence[Task | Plan]],
    key: PRNGKeyArray,
    episodes: int,
    guides: PyTree[Shaped[Array | np.ndarray, "tasks ..."]] | None = None,
) -> dict[str, Success]:
    """Success over `episodes` episodes of each task or plan, pooled by class; all are played in one compiled call.

    `guides` has a leading axis over all tasks in order; without any, each task's own table guides its policy.

    >>> import jax, cumulant
    >>> world = cumulant.Spriteworld()
    >>> tasks = {"easy": [cumulant.parse("agent left")]}
    >>> cumulant.evaluate(world, cumulant.oracle_policy, tasks, jax.random.key(0), episodes=8)["easy"].success
    1.0
    """
    check_episodes(episodes)
    everything = [task for group in tasks.values() for task in group]
    tables = tables_of(everything)
    if guides is None:  # who cannot aim so finely says so, before anything is played
        finest = int(np.argmax(tables.goal.bins[:, 0]))
        guide = jax.tree.map(lambda leaf: leaf[finest, ...], tables)
        jax.eval_shape(lambda: (make_policy(world, guide), 0)[1])
    keys = jax.random.split(key, (len(everything), episodes))
    with plainly():
        played = endings(world, make_policy, tables, tables if guides is None else guides, keys)
        success, steps, violated = jax.device_get(played)
    ends = np.cumsum([len(group) for group in tasks.values()])[:-1]
    limits = np.array([world.max_steps * (len(task.stages) if isinstance(task, Plan) else 1) for task in everything])
    planned = tables.kept.allowed.shape[2] > 0  # not tasks alone
    parts = [success, steps, limits] + ([violated] if planned else [])
    groups = zip(*(np.split(part, ends) for part in parts), strict=True)
    return {name: summarise(*group) for name, group in zip(tasks, groups, strict=True)}


def check_episodes(episodes: int) -> None:
    """Refuse what is no number of episodes, before anything is played."""
    if not isinstance(episodes, Integral) or not 1 <= episodes <= MAX_EPISODES:
        raise OutOfBounds(f"the episodes of a task are 1 to {MAX_EPISODES:,}, but got {episodes}")


def evaluate_references(
    world: World, tasks: Mapping[str, Sequence[Task | Plan]], key: PRNGKeyArray, episodes: int
) -> dict[str, dict[str, Success]]:
    """What to compare with, on the same tasks and starts: the oracle, where one can aim so finely, and random play."""
    bins = max(task.bins for group in tasks.values() for task in group)
    players = {"oracle": oracle_of(world, bins), "random": (seen(world), random_policy)}
    return {name: evaluate(player[0], player[1], tasks, key, episodes) for name, player in players.items() if player}


def summarise(
    success: Bool[np.ndarray, "tasks episodes"],
    steps: Int[np.ndarray, "tasks episodes"],
    limits: int | Int[np.ndarray, " tasks"],
    violated: Bool[np.ndarray, "tasks episodes"] | None = None,
) -> Success:
    """The success rate with its exact (Clopper-Pearson) 95 % interval; `limits` are the steps that a task allows."""
    whole = np.broadcast_to(np.reshape(limits, (-1, 1)), steps.shape)
    return Success(
        success=float(success.mean()),
        ci95=interval(int(success.sum()), success.size),
        mean_steps=float(steps[success].mean()) if success.any() else None,
        tasks=len(success),
        episodes=success.size,
        violated=None if violated is None else float(violated.mean()),
        steps_or_limit=float(np.where(success, steps, whole).mean()),
    )


def interval(solved: int, episodes: int) -> tuple[float, float]:
    """Clopper and Pearson's 95 % interval of a success rate.

    >>> interval(0, 10)[0], round(interval(0, 10)[1], 3)
    (0.0, 0.308)
    """
    low = betaincinv(solved, episodes - solved + 1, _TAIL) if solved else 0.0
    high = betaincinv(solved + 1, episodes - solved, 1 - _TAIL) if solved < episodes else 1.0
    return float(low), float(high)


def pool(results: Sequence[Success]) -> Success:
    """The results of several libraries on the same tasks, over all their episodes."""
    episodes = sum(result.episodes for result in results)
    solved = [round(result.success * result.episodes) for result in results]
    steps = sum((result.mean_steps or 0) * n for result, n in zip(results, solved, strict=True))
    taken = [result.steps_or_limit * result.episodes for result in results if result.steps_or_limit is not None]
    violations = [result.violated * result.episodes for result in results if result.violated is not None]
    return Success(
        success=sum(solved) / episodes,
        ci95=interval(sum(solved), episodes),
        mean_steps=steps / sum(solved) if any(solved) else None,
        tasks=results[0].tasks,
        episodes=episodes,
        violated=sum(violations) / episodes if violations else None,
        steps_or_limit=sum(taken) / episodes if len(taken) == len(results) else None,
    )
