"""Success of policy makers on the tasks of an experiment, as rows."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key, PRNGKeyArray, PyTree

from cumulant.goals.suites import coverage, general_suite, has_sprites, suite
from cumulant.goals.tasks import Task, tables_of
from cumulant.goals.weights import padded
from cumulant.sweeps.run_folders import Row
from cumulant.sweeps.statistics import COVERAGE
from cumulant.transfer.exploration import AT_ONCE, at_random
from cumulant.transfer.gpi import Gpi
from cumulant.transfer.inference import learn_many
from cumulant.worlds.episodes import Policy, PolicyMaker, endings, over_tasks, reward_of
from cumulant.worlds.protocol import World

_THIRDS = 3  # regions of a coordinate, in the paper's tasks
_CLAUSES = 2  # of a task of the suite, at most
# Added to a seed where labelled steps are collected, and where the (m + 1)^k goals are played.
_LEARNING, _GOALS = 1_000, 2_000

_GOAL_EPISODES = 2  # of each of the (m + 1)^k goals
_TASKS_AT_ONCE = 64  # whose guides are made together: a player may look at hundreds of states for each

Weights = Callable[[Bool[Array, "c k b"]], Float[Array, "c d m"]]


@runtime_checkable
class TakesWords(Protocol):
    """A policy maker that makes its guide to a task from the task's table."""

    def __call__(self, world: World, guide: Any) -> Policy:
        """The policy."""

    def from_words(self, table: Bool[Array, "c k b"]) -> PyTree:
        """The guide."""


@runtime_checkable
class TakesLabels(Protocol):
    """A policy maker that makes its guide to a task from labelled steps: what was seen, and its reward."""

    def __call__(self, world: World, guide: Any) -> Policy:
        """The policy."""

    def from_labels(self, f: Float[Array, "n k"], reward: Float[Array, " n"], taken: Bool[Array, " n"]) -> PyTree:
        """The guide. What was not taken counts for nothing."""


@dataclass(frozen=True)
class Trials:
    """Which tasks are played, how often, and after how many labelled steps."""

    tasks_per_class: int = 3
    task_seed: int = 0  # of the tasks, and of the starts they are evaluated from
    episodes: int = 256  # a task, a seed and a point of a curve
    budgets: tuple[int, ...] = (500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000)  # labelled steps
    goals: int = 2_000  # drawn from all (m + 1)^k, where it is measured how many of them are reached

    def tasks(self, world: World, bins: int = _THIRDS) -> tuple[list[str], list[Task]]:
        """All tasks in one list, and the class of each."""
        names = world.feature_names
        by_class = (suite if has_sprites(names) else general_suite)(names, self.tasks_per_class, self.task_seed, bins)
        pairs = [(kind, task) for kind, group in by_class.items() for task in group]
        return [kind for kind, _ in pairs], [task for _, task in pairs]

    def starts(self, seed: int, tasks: int) -> Key[Array, "tasks episodes"]:
        """The keys of the episodes by which what was trained with a seed is judged."""
        return jax.random.split(jax.random.fold_in(jax.random.key(self.task_seed), seed), (tasks, self.episodes))


def rows_of(
    line: str, labelled: tuple[list[str], list[Task]], seed: int, steps: int, success: Bool[Array, "tasks episodes"]
) -> Iterator[Row]:
    """A row for every task, in order."""
    rates = jax.device_get(success.mean(axis=1))
    for kind, task, rate in zip(*labelled, rates, strict=True):
        yield Row(line, kind, str(task), seed, steps, float(rate), success.shape[1])


def zero_shot(line: str, world: World, trials: Trials, gpi: Gpi, weights: Weights, seed: int) -> Iterator[Row]:
    """Success from words alone: `weights` says what a task's table means for the features."""
    labelled = trials.tasks(world)
    tables = tables_of(labelled[1])
    success, *_ = endings(world, gpi, tables, jax.vmap(weights)(tables), trials.starts(seed, len(tables)))
    yield from rows_of(line, labelled, seed, 0, success)


def few_shot(
    line: str, world: World, trials: Trials, gpi: Gpi, bins: int, seed: int, paper: bool, regions: int = _THIRDS
) -> Iterator[Row]:
    """Success from ever more of the same labelled steps."""
    labelled = trials.tasks(world, regions)
    tables = tables_of(labelled[1])
    keys = _learning_keys(trials, seed, len(tables))
    w = learn_many(world, gpi, bins, reward_of, tables, keys, trials.budgets, paper).w
    for i, budget in enumerate(trials.budgets):
        guides = jax.vmap(lambda w: padded(w[None], _CLAUSES))(
            w[:, i]
        )  # as many clauses as zero-shot: one program for both
        success, *_ = endings(world, gpi, tables, guides, trials.starts(seed, len(tables)))
        yield from rows_of(line, labelled, seed, budget, success)


def from_words(line: str, world: World, trials: Trials, player: TakesWords, seed: int) -> Iterator[Row]:
    """Success of a player that understands tasks."""
    labelled = trials.tasks(world)
    tables = tables_of(labelled[1])
    success, *_ = endings(world, player, tables, _guides(player, tables), trials.starts(seed, len(tables)))
    yield from rows_of(line, labelled, seed, 0, success)


def from_labels(line: str, world: World, trials: Trials, player: TakesLabels, seed: int) -> Iterator[Row]:
    """Success of a player that understands rewards, from ever more of the same steps of random behaviour."""
    labelled = trials.tasks(world)
    tables = tables_of(labelled[1])
    guides = _learnt(world, player, tables, _learning_keys(trials, seed, len(tables)), trials.budgets)
    for i, budget in enumerate(trials.budgets):
        guide = jax.tree.map(lambda leaf, i=i: leaf[:, i], guides)
        success, *_ = endings(world, player, tables, guide, trials.starts(seed, len(tables)))
        yield from rows_of(line, labelled, seed, budget, success)


def over_goals(
    line: str, world: World, trials: Trials, player: PolicyMaker, guides: Callable[[Array], PyTree] | None, seed: int
) -> Iterator[Row]:
    """Success on the (m + 1)^k goals, a row for each number of features that a goal asks for.

    `guides` makes those of all goals from their tables; without it, the tables guide.
    """
    goals = coverage(world.feature_names, trials.goals, trials.task_seed, _THIRDS)
    tables = tables_of(goals)
    key = jax.random.fold_in(jax.random.key(trials.task_seed), _GOALS + seed)
    keys = jax.random.split(key, (len(goals), _GOAL_EPISODES))
    success, *_ = jax.device_get(endings(world, player, tables, guides(tables) if guides else tables, keys))
    asked = np.array([len(goal.conditions()[0]) for goal in goals])
    for number in sorted({*asked.tolist()}):
        mine = success[asked == number]
        yield Row(
            line, COVERAGE, f"{number} of {len(world.feature_names)} features", seed, 0, float(mine.mean()), mine.size
        )


def guides_from_words(player: TakesWords) -> Callable[[Array], PyTree]:
    """What makes a player's guides from tasks' tables."""
    return partial(_guides, player)


@eqx.filter_jit
def _guides(player: TakesWords, tables: Bool[Array, "tasks c k b"]) -> PyTree:
    return jax.lax.map(player.from_words, tables, batch_size=_TASKS_AT_ONCE)


def _learning_keys(trials: Trials, seed: int, tasks: int) -> Key[Array, " tasks"]:
    """The keys of labelled steps, the same for all methods."""
    return jax.random.split(jax.random.fold_in(jax.random.key(trials.task_seed), _LEARNING + seed), tasks)


@eqx.filter_jit
def _learnt(
    world: World,
    player: TakesLabels,
    tables: Bool[Array, "tasks c k b"],
    keys: Key[Array, " tasks"],
    budgets: tuple[int, ...],
) -> PyTree:
    """Guides, with leading axes tasks and budgets."""

    def steps(table: Array, key: PRNGKeyArray) -> tuple[Array, Array]:
        reward = reward_of(world, table)
        return at_random(world, lambda state: (world.observe(state), reward(state)), key, max(budgets))

    def guides(labelled: tuple[Array, Array]) -> PyTree:
        f, reward = labelled
        taken = [jnp.arange(len(reward)) < budget for budget in budgets]
        return jax.vmap(lambda taken: player.from_labels(f, reward, taken))(jnp.stack(taken))

    return jax.lax.map(guides, over_tasks(world, steps, (tables, keys), AT_ONCE))
