"""Success of baselines, which take words or labelled steps, and success on the (m + 1)^k goals."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key, PRNGKeyArray, PyTree

from cumulant.goals.suites import coverage
from cumulant.goals.tasks import tables_of
from cumulant.sweeps.judging import THIRDS, judged, rows_of
from cumulant.sweeps.run_folders import Row
from cumulant.transfer.exploration import AT_ONCE, at_random
from cumulant.worlds.episodes import Policy, PolicyMaker, endings, over_tasks, reward_of
from cumulant.worlds.protocol import World
from cumulant_paper.experiments import Scale
from cumulant_paper.statistics import COVERAGE

_GOALS = 2_000  # added to a seed where the (m + 1)^k goals are played
_GOAL_EPISODES = 2  # of each of them
_TASKS_AT_ONCE = 64  # whose guides are made together: a player may look at hundreds of states for each


@runtime_checkable
class TakesWords(Protocol):
    """A policy maker that makes its guide to a task from the task's table."""

    def __call__(self, world: World, guide: Any) -> Policy:
        """Return the policy."""

    def from_words(self, table: Bool[Array, "c k b"]) -> PyTree:
        """Return the guide."""


@runtime_checkable
class TakesLabels(Protocol):
    """A policy maker that makes its guide to a task from labelled steps: what was seen, and its reward."""

    def __call__(self, world: World, guide: Any) -> Policy:
        """Return the policy."""

    def from_labels(self, f: Float[Array, "n k"], reward: Float[Array, " n"], taken: Bool[Array, " n"]) -> PyTree:
        """Return the guide. What was not taken counts for nothing."""


def from_words(line: str, world: World, scale: Scale, player: TakesWords, seed: int) -> Iterator[Row]:
    """Yield the rows of a player that understands tasks."""
    yield from judged(line, world, scale, player, guides_from_words(player), seed)


def from_labels(line: str, world: World, scale: Scale, player: TakesLabels, seed: int) -> Iterator[Row]:
    """Yield the rows of a player that understands rewards, from ever more of the same steps of random behaviour."""
    labelled = scale.tasks(world)
    tables = tables_of(labelled[1])
    guides = _learnt(world, player, tables, scale.learning_keys(seed, len(tables)), scale.budgets)
    for i, budget in enumerate(scale.budgets):
        guide = jax.tree.map(lambda leaf, i=i: leaf[:, i], guides)
        success, *_ = endings(world, player, tables, guide, scale.starts(seed, len(tables)))
        yield from rows_of(line, labelled, seed, budget, success)


def over_goals(
    line: str, world: World, scale: Scale, player: PolicyMaker, guides: Callable[[Array], PyTree], seed: int
) -> Iterator[Row]:
    """Yield success on the (m + 1)^k goals, a row for each number of features that a goal asks for.

    `guides` makes those of all goals from their tables.
    """
    goals = coverage(world.feature_names, scale.goals, scale.task_seed, THIRDS)
    tables = tables_of(goals)
    key = jax.random.fold_in(jax.random.key(scale.task_seed), _GOALS + seed)
    keys = jax.random.split(key, (len(goals), _GOAL_EPISODES))
    success, *_ = jax.device_get(endings(world, player, tables, guides(tables), keys))
    asked = np.array([len(goal.conditions()[0]) for goal in goals])
    for number in sorted({*asked.tolist()}):
        mine, words = success[asked == number], f"{number} of {len(world.feature_names)} features"
        yield Row(line, COVERAGE, words, seed, 0, float(mine.mean()), mine.size)


def guides_from_words(player: TakesWords) -> Callable[[Array], PyTree]:
    """Return what makes a player's guides from tasks' tables."""
    return partial(_guides, player)


@eqx.filter_jit
def _guides(player: TakesWords, tables: Bool[Array, "tasks c k b"]) -> PyTree:
    return jax.lax.map(player.from_words, tables, batch_size=_TASKS_AT_ONCE)


@eqx.filter_jit
def _learnt(
    world: World,
    player: TakesLabels,
    tables: Bool[Array, "tasks c k b"],
    keys: Key[Array, " tasks"],
    budgets: tuple[int, ...],
) -> PyTree:
    """Return guides, with leading axes tasks and budgets."""

    def steps(table: Array, key: PRNGKeyArray) -> tuple[Array, Array]:
        reward = reward_of(world, table)
        return at_random(world, lambda state: (world.observe(state), reward(state)), key, max(budgets))

    def guides(labelled: tuple[Array, Array]) -> PyTree:
        f, reward = labelled
        taken = [jnp.arange(len(reward)) < budget for budget in budgets]
        return jax.vmap(lambda taken: player.from_labels(f, reward, taken))(jnp.stack(taken))

    return jax.lax.map(guides, over_tasks(world, steps, (tables, keys), AT_ONCE))
