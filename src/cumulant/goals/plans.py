"""Plans: goals to be reached one after the other, with what to avoid on the way and what to keep from then on.

A task is a plan of one stage. What compiled programs need of goals of both kinds is a `PlanTable`, and `follow` tells,
from features alone, how far one has come.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from cumulant.goals.clauses import MAX_CLAUSES, TooComplex
from cumulant.goals.phrases import canonical, shortened
from cumulant.goals.regions import MAX_BINS
from cumulant.goals.tasks import GoalTable, Task, clash, goal_table, on_one_grid, reached

_STAGES = 8  # plans of up to so many stages share their programs
_CLAUSES = (8, MAX_CLAUSES)  # the numbers of clauses that goals are padded to


class Contradiction(ValueError):
    """A plan that nothing can fulfil. `stage` is the first one, counted from 0, that cannot be reached."""

    def __init__(self, message: str, stage: int):
        """`message` says why, in one line."""
        super().__init__(message)
        self.stage = stage


@dataclass(frozen=True)
class Stage:
    """One stage of a plan: a task to `reach`, one to `avoid` on the way, and one to `keep` from then on.

    What is kept is reached together with the rest. Nothing to avoid, or nothing to keep, is None. Its tasks are brought
    to one grid.

    >>> import cumulant
    >>> left, top = cumulant.parse("square left"), cumulant.parse("circle top")
    >>> stage = cumulant.Stage(left, keep=top)
    >>> print(stage)
    square left and keep circle top
    >>> print(stage.goal)
    square left and circle top
    """

    reach: Task
    avoid: Task | None = None
    keep: Task | None = None

    def __post_init__(self) -> None:
        """Bring it into one form: what never holds need not be avoided, what always holds need not be kept."""
        if self.avoid is not None and not self.avoid.possible:
            object.__setattr__(self, "avoid", None)
        if self.keep is not None and self.keep == _anything(self.keep):
            object.__setattr__(self, "keep", None)
        tasks = {name: task for name in ("reach", "avoid", "keep") if (task := getattr(self, name)) is not None}
        for name, task in zip(tasks, on_one_grid(list(tasks.values())), strict=True):
            object.__setattr__(self, name, task)

    def on(self, bins: int) -> "Stage":
        """The same stage on a finer grid."""
        if bins == self.reach.bins:
            return self
        return Stage(self.reach.on(bins), self.avoid and self.avoid.on(bins), self.keep and self.keep.on(bins))

    @property
    def goal(self) -> Task:
        """What is to be reached, with what is to be kept."""
        return self.reach if self.keep in (None, self.reach) else self.reach & self.keep

    @property
    def shown(self) -> tuple[Task, ...]:
        """The tasks that its canonical phrase spells out."""
        return tuple(task for task in (self.reach, self.avoid, self.keep if self.keep != self.reach else None) if task)

    def __repr__(self) -> str:
        return f"Stage({shortened(str(self))!r})"

    def __str__(self) -> str:
        """The canonical phrase, which parses back to this stage."""
        return _phrase((self,))


@dataclass(frozen=True)
class Plan:
    """Stages to be reached in order. `str` is the canonical phrase, which `parse_plan` reads as the same plan.

    A stage counts as reached where its task holds, together with all that is kept, outside of what it avoids. A plan
    has failed as soon as what is kept is lost, or what the current stage avoids is entered. A stage that begins inside
    what it avoids must leave it; only entering is a failure. A plan that nothing can fulfil raises Contradiction.
    Stages on different grids are brought to one.

    >>> import cumulant
    >>> left, top, right = map(cumulant.parse, ("square left", "agent top", "agent right"))
    >>> plan = cumulant.Plan((cumulant.Stage(left, keep=left), cumulant.Stage(top, avoid=right)))
    >>> print(plan)
    keep square left then agent top without agent right
    >>> print(plan.goals[1])
    agent top and square left and agent not right
    >>> cumulant.Plan.of(left).task == left
    True
    """

    stages: tuple[Stage, ...]

    def __post_init__(self) -> None:
        """Refuse a plan that contradicts itself, or that is too complex to be acted on."""
        object.__setattr__(self, "stages", tuple(self.stages))
        if not self.stages:
            raise ValueError("a plan has at least one stage")
        grid = on_one_grid([stage.reach for stage in self.stages])[0].bins
        object.__setattr__(self, "stages", tuple(stage.on(grid) for stage in self.stages))
        shown = [task for stage in self.stages for task in stage.shown]
        if sum(len(task.clauses) for task in shown) > MAX_CLAUSES:  # so a canonical phrase is no longer than a task's
            raise TooComplex(f"this plan has more than {MAX_CLAUSES} alternatives in all: say it more simply")
        _ = self.goals  # which refuses contradictions

    @classmethod
    def of(cls, goal: "Task | Plan") -> "Plan":
        """A task as a plan of one stage; a plan as it is."""
        return goal if isinstance(goal, Plan) else cls((Stage(goal),))

    @property
    def task(self) -> Task | None:
        """The plain task that this plan is; None if there are several stages, or something to avoid or to keep."""
        first = self.stages[0]
        return first.reach if self.stages == (Stage(first.reach),) else None

    @property
    def bins(self) -> int:
        """Of the grid that its tasks speak of."""
        return self.stages[0].reach.bins

    @cached_property
    def kept(self) -> tuple[Task | None, ...]:
        """What is to hold all the time while each stage is the current one: all that earlier stages keep."""
        kept: list[Task | None] = [None]
        for stage in self.stages[:-1]:
            kept.append(_both(kept[-1], stage.keep))
        return tuple(kept)

    @cached_property
    def goals(self) -> tuple[Task, ...]:
        """Where each stage is reached: its task, with all that is kept, outside of what it avoids."""
        return tuple(
            self._goal(i, stage, kept) for i, (stage, kept) in enumerate(zip(self.stages, self.kept, strict=True))
        )

    def _goal(self, i: int, stage: Stage, kept: Task | None) -> Task:
        if not stage.goal.possible:
            why = clash(stage.reach, stage.keep or stage.reach)
            raise Contradiction(f"stage {i + 1} contradicts itself: {why}", i)
        goal = stage.goal if kept is None else stage.goal & kept
        if not goal.possible:
            raise Contradiction(f"stage {i + 1} breaks what is kept: {clash(stage.goal, kept or goal)}", i)
        if stage.avoid is None:
            return goal
        outside = goal & ~stage.avoid
        if not outside.possible:
            raise Contradiction(
                f"stage {i + 1} has a goal inside what it avoids: {goal} is never outside {stage.avoid}", i
            )
        return outside

    def heedless(self) -> "Plan":
        """The same plan with nothing to avoid: what `without` is worth shows beside it."""
        return Plan(tuple(replace(stage, avoid=None) for stage in self.stages))

    def table(self) -> "PlanTable":
        """Return what compiled programs need of it, of no more stages than it has."""
        own = tables_of([self], as_plans=True)
        return jax.tree.map(lambda leaf: leaf[0, : len(self.stages)] if leaf.ndim > 1 else leaf[0, ...], own)

    def __repr__(self) -> str:
        return f"Plan({shortened(str(self))!r})"

    def __str__(self) -> str:
        """The canonical phrase, which parses back to this plan."""
        return _phrase(self.stages)


class PlanTable(NamedTuple):
    """Tasks and plans in arrays of one shape, stage by stage. Several have a leading axis n.

    A table of tasks alone has one stage, and no clauses of what is to be avoided or kept.
    """

    goal: GoalTable  # [*n, s]: where each stage is reached, `Plan.goals`
    avoid: GoalTable
    kept: GoalTable  # `Plan.kept`
    stages: Int[Array | np.ndarray, "*n"]  # of each plan; beyond them, tables are padded


class Progress(NamedTuple):
    """How far a plan has come. Several have leading axes."""

    stage: Int[Array, "*n"]  # the current one, from 0; the number of stages when all are reached
    inside: Bool[Array, "*n"]  # whether the current stage's `avoid` holds
    entered: Bool[Array, "*n"]  # whether what is to be avoided was entered
    lost: Bool[Array, "*n"]  # whether, instead, what is to be kept was lost

    @property
    def violated(self) -> Bool[Array | np.ndarray, "*n"]:
        """Whether the plan has failed."""
        return self.entered | self.lost


def begin(table: PlanTable, f: Float[Array, " k"], stage: Int[Array | np.ndarray, ""] | int = 0) -> Progress:
    """Return the progress of a plan that begins with a stage: stages that hold already are reached.

    Args:
        table: The plan.
        f: The features where it begins.
        stage: The stage that it begins with.

    """
    return standing(table, f, next_stage(_holds(table.goal, f), jnp.asarray(stage, jnp.int32), table.stages))


def standing(table: PlanTable, f: Float[Array, " k"], stage: Int[Array, ""]) -> Progress:
    """Return the progress of a plan that is in a stage, whether or not that is reached already."""
    never = jnp.zeros((), bool)
    return Progress(stage, _holds_at(table.avoid, f, stage), never, never)


def follow(table: PlanTable, progress: Progress, f: Float[Array, " k"]) -> Progress:
    """Return the progress after one more step.

    Args:
        table: The plan.
        progress: How far it had come.
        f: The features that the step led to.

    >>> import jax.numpy as jnp, cumulant
    >>> table = cumulant.parse_plan("agent left then agent right without agent top").table()
    >>> start, left, top = (jnp.array([x, y, 0.5, 0.5, 0.5, 0.5]) for x, y in [(0.5, 0.5), (0.1, 0.5), (0.1, 0.9)])
    >>> progress = follow(table, begin(table, start), left)
    >>> int(progress.stage), bool(progress.violated), bool(follow(table, progress, top).violated)
    (1, False, True)

    """
    stage, inside, entered, lost = progress
    going_on = ~progress.violated & (stage < table.stages)
    entered |= going_on & _holds_at(table.avoid, f, stage) & ~inside
    if table.kept.allowed.shape[1]:
        lost |= going_on & ~entered & ~_holds_at(table.kept, f, stage)
    stage = jnp.where(entered | lost, stage, next_stage(_holds(table.goal, f), stage, table.stages))
    return Progress(stage, _holds_at(table.avoid, f, stage), entered, lost)


def next_stage(holds: Bool[Array, " s"], stage: Int[Array, ""], stages: Int[Array | np.ndarray, ""]) -> Int[Array, ""]:
    """The first stage from the current one on whose goal does not hold: several may be reached at once."""
    each = jnp.arange(len(holds))
    open_stages = (each >= stage) & (each < stages) & ~holds
    return jnp.where(open_stages.any(), open_stages.argmax(), stages).astype(jnp.int32)


def tables_of(goals: Sequence[Task | Plan], as_plans: bool = False) -> PlanTable:
    """Return what compiled programs need of several goals, each on a grid of its own.

    The shape is one of a few: tasks alone have one stage; plans, and tasks beside them, have eight, or a multiple.
    There are 8 clauses, or as many as there may be. Nothing is compiled.

    Args:
        goals: Tasks and plans over the same coordinates.
        as_plans: Whether to give all goals the one shape that any goal fits, that of plans on the finest grid.

    Returns:
        The goals, with a leading axis.

    """
    if not goals:
        raise ValueError("there are no tasks")
    rows = [_rows(goal) for goal in goals]
    if any(own[0][0].features != rows[0][0][0].features for own in rows):
        raise ValueError("tasks go together only over the same coordinates")
    plain = not as_plans and all(len(own) == 1 and own[0][1:] == (None, None) for own in rows)
    stages = 1 if plain else -(-max(map(len, rows)) // _STAGES) * _STAGES
    most = max(len(task.clauses) for own in rows for row in own for task in row if task)
    clauses = next(size for size in _CLAUSES if size >= most)
    bins = MAX_BINS if as_plans else 1
    filled = [own + own[-1:] * (stages - len(own)) for own in rows]

    def column(i: int, otherwise: Callable[[Task], Task]) -> GoalTable:
        table = goal_table([row[i] or otherwise(row[0]) for own in filled for row in own], clauses, bins)
        return jax.tree.map(lambda leaf: leaf.reshape(len(rows), stages, *leaf.shape[1:]), table)

    goal = column(0, _anything)
    none = goal._replace(allowed=goal.allowed[:, :, :0])
    avoid, kept = (none, none) if plain else (column(1, _nothing), column(2, _anything))
    return PlanTable(goal, avoid, kept, np.array([len(own) for own in rows], np.int32))


def _rows(goal: Task | Plan) -> list[tuple[Task, Task | None, Task | None]]:
    """Of each stage, where it is reached, what it avoids, and what is kept in it."""
    task = goal if isinstance(goal, Task) else goal.task
    if task is not None:
        return [(task, None, None)]
    assert isinstance(goal, Plan)
    return list(zip(goal.goals, (stage.avoid for stage in goal.stages), goal.kept, strict=True))


def _phrase(stages: Sequence[Stage]) -> str:
    """Stages in words, which are read as one phrase: what one says coarsely, another may say finely."""
    shown, reach = [task for stage in stages for task in stage.shown], stages[0].reach
    said = dict(zip(shown, canonical(reach.features, [task.clauses for task in shown], reach.bins), strict=True))

    def phrase(stage: Stage) -> str:
        keep = "" if stage.keep in (None, stage.reach) else f" and keep {said[stage.keep]}"
        first = "keep " if stage.keep == stage.reach else ""
        return f"{first}{said[stage.reach]}{keep}" + (f" without {said[stage.avoid]}" if stage.avoid else "")

    return " then ".join(map(phrase, stages))


def _holds(stages: GoalTable, f: Float[Array, " k"]) -> Bool[Array, " s"]:
    return jax.vmap(reached, (0, None))(stages, f)


def _holds_at(stages: GoalTable, f: Float[Array, " k"], stage: Int[Array, ""]) -> Bool[Array, ""]:
    """Whether the current stage's holds, or the last one's: a table is wide, and what holds is not, to choose from."""
    return _holds(stages, f)[jnp.minimum(stage, len(stages.bins) - 1)]


def _anything(task: Task) -> Task:
    return Task.where(task.coordinates, {}, task.bins)


def _nothing(task: Task) -> Task:
    return replace(task, clauses=())


def _both(first: Task | None, second: Task | None) -> Task | None:
    return first & second if first is not None and second is not None else first if second is None else second
