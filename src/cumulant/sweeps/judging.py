"""Success of a policy maker on the tasks of an evaluation, as rows."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import jax
from jaxtyping import Array, Bool, Float, Key
from msgspec import Meta

from cumulant.config import check_settings
from cumulant.goals.suites import MAX_TASKS, general_suite, has_sprites, suite
from cumulant.goals.tasks import Task, tables_of
from cumulant.goals.weights import padded
from cumulant.sweeps.run_folders import Row
from cumulant.transfer.evaluation import MAX_EPISODES
from cumulant.transfer.gpi import Gpi
from cumulant.transfer.inference import check_budget, learn_many
from cumulant.worlds.episodes import endings, reward_of
from cumulant.worlds.protocol import World

SEEDS = 2**31  # not 2**32: to a seed something is added where labelled steps are collected
TUNING_SEED = 1000  # of the tasks that settings are chosen by; what is published has others
THIRDS = 3  # regions of a coordinate, in the paper's tasks
_CLAUSES = 2  # of a task of the suite, at most
_LEARNING = 1_000  # added to a seed where labelled steps are collected

Weights = Callable[[Bool[Array, "c k b"]], Float[Array, "c d m"]]


@dataclass(frozen=True)
class Evaluation:
    """The tasks by which a run is judged, and the labelled steps after which; without any, from words alone.

    The default tasks are those to choose settings by. Measure the chosen settings on others.

    >>> Evaluation(episodes=64).task_seed
    1000
    """

    tasks_per_class: Annotated[int, Meta(ge=1, le=MAX_TASKS)] = 3
    task_seed: Annotated[int, Meta(ge=0, lt=SEEDS)] = TUNING_SEED  # of the tasks, and of their starts
    episodes: Annotated[int, Meta(ge=1, le=MAX_EPISODES)] = 256  # a task, a seed and a point of a curve
    budgets: tuple[int, ...] = ()  # labelled steps

    def __post_init__(self) -> None:
        """Refuse what cannot be played."""
        check_settings(self)
        for budget in self.budgets:
            check_budget(budget)

    def tasks(self, world: World, bins: int = THIRDS) -> tuple[list[str], list[Task]]:
        """Return the class of each task, and the tasks."""
        names = world.feature_names
        by_class = (suite if has_sprites(names) else general_suite)(names, self.tasks_per_class, self.task_seed, bins)
        pairs = [(kind, task) for kind, group in by_class.items() for task in group]
        return [kind for kind, _ in pairs], [task for _, task in pairs]

    def starts(self, seed: int, tasks: int) -> Key[Array, "tasks episodes"]:
        """Return the keys of the episodes by which a run with this seed is judged."""
        return jax.random.split(jax.random.fold_in(jax.random.key(self.task_seed), seed), (tasks, self.episodes))

    def learning_keys(self, seed: int, tasks: int) -> Key[Array, " tasks"]:
        """Return the keys of labelled steps, which are the same for all methods."""
        return jax.random.split(jax.random.fold_in(jax.random.key(self.task_seed), _LEARNING + seed), tasks)


def rows_of(
    line: str, labelled: tuple[list[str], list[Task]], seed: int, steps: int, success: Bool[Array, "tasks episodes"]
) -> Iterator[Row]:
    """Yield a row for every task, in order.

    Args:
        line: The line of a figure or table that the rows belong to.
        labelled: The class of each task, and the tasks.
        seed: Of training.
        steps: Environment steps of the task that the method had; 0 from words alone.
        success: Of each task in each episode.

    """
    rates = jax.device_get(success.mean(axis=1))
    for kind, task, rate in zip(*labelled, rates, strict=True):
        yield Row(line, kind, str(task), seed, steps, float(rate), success.shape[1])


def judged(
    line: str, world: World, evaluation: Evaluation, policy: Any, guides: Callable[[Array], Any], seed: int
) -> Iterator[Row]:
    """Yield the rows of a policy maker that is guided by what `guides` makes of the tasks' tables."""
    labelled = evaluation.tasks(world)
    tables = tables_of(labelled[1])
    success, *_ = endings(world, policy, tables, guides(tables), evaluation.starts(seed, len(tables)))
    yield from rows_of(line, labelled, seed, 0, success)


def zero_shot(line: str, world: World, evaluation: Evaluation, gpi: Gpi, weights: Weights, seed: int) -> Iterator[Row]:
    """Yield the rows of GPI from words alone: `weights` says what a task's table means for the features."""
    yield from judged(line, world, evaluation, gpi, jax.vmap(weights), seed)


def few_shot(
    line: str, world: World, evaluation: Evaluation, gpi: Gpi, bins: int, seed: int, paper: bool, regions: int = THIRDS
) -> Iterator[Row]:
    """Yield the rows of GPI from ever more of the same labelled steps.

    Args:
        line: The line of a figure or table that the rows belong to.
        world: Where it is judged.
        evaluation: The tasks, and the numbers of labelled steps.
        gpi: What acts.
        bins: Of each feature.
        seed: Of training.
        paper: Regress w as the paper does, in place of our inference.
        regions: Of a coordinate, in the tasks.

    """
    labelled = evaluation.tasks(world, regions)
    tables = tables_of(labelled[1])
    keys = evaluation.learning_keys(seed, len(tables))
    w = learn_many(world, gpi, bins, reward_of, tables, keys, evaluation.budgets, paper).w
    for i, budget in enumerate(evaluation.budgets):
        # As many clauses as zero-shot, so that one program serves both.
        guides = jax.vmap(lambda w: padded(w[None], _CLAUSES))(w[:, i])
        success, *_ = endings(world, gpi, tables, guides, evaluation.starts(seed, len(tables)))
        yield from rows_of(line, labelled, seed, budget, success)
