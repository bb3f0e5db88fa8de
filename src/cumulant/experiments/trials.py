"""Success of policy makers on the tasks of an experiment, as rows."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import jax
from jaxtyping import Array, Bool, Float, Key

from cumulant.experiments.run_folders import Row
from cumulant.goals.suites import general_suite, has_sprites, suite
from cumulant.goals.tasks import Task, tables_of
from cumulant.goals.weights import padded
from cumulant.transfer.gpi import Gpi
from cumulant.transfer.inference import learn_many
from cumulant.worlds.episodes import endings, reward_of
from cumulant.worlds.protocol import World

_THIRDS = 3  # regions of a coordinate, in the paper's tasks
_CLAUSES = 2  # of a task of the suite, at most
_LEARNING = 1_000  # added to a seed where labelled steps are collected, so that they are not those of evaluation

Weights = Callable[[Bool[Array, "c k b"]], Float[Array, "c d m"]]


@dataclass(frozen=True)
class Trials:
    """Which tasks are played, how often, and after how many labelled steps."""

    tasks_per_class: int = 3
    task_seed: int = 0  # of the tasks, and of the starts they are evaluated from
    episodes: int = 256  # a task, a seed and a point of a curve
    budgets: tuple[int, ...] = (500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000)  # labelled steps

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
    key_learn = jax.random.fold_in(jax.random.key(trials.task_seed), _LEARNING + seed)
    keys = jax.random.split(key_learn, len(tables))
    w = learn_many(world, gpi, bins, reward_of, tables, keys, trials.budgets, paper).w
    for i, budget in enumerate(trials.budgets):
        guides = jax.vmap(lambda w: padded(w[None], _CLAUSES))(
            w[:, i]
        )  # as many clauses as zero-shot: one program for both
        success, *_ = endings(world, gpi, tables, guides, trials.starts(seed, len(tables)))
        yield from rows_of(line, labelled, seed, budget, success)
