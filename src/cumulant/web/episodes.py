"""What a player is asked and what it shows: an aim, an episode, what a lesson taught, pictures."""

from typing import Literal, NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float, Int, PyTree, UInt8

from cumulant.goals.plans import Plan, PlanTable
from cumulant.goals.tasks import Task
from cumulant.transfer.gpi import PlanGuide, Thought

MAX_STAGES = 8  # of a plan on the page: an episode is as many times as long as that of a plain goal

Broken = Literal["", "entered", "lost"]  # how a plan failed: what is avoided was entered, or what is kept was lost


class Aim(NamedTuple):
    """A goal or a plan made ready: what counts as reaching it, and what GPI acts on. Both have a leading axis 1."""

    plan: Plan
    table: PlanTable
    guide: PlanGuide

    @property
    def task(self) -> Task | None:
        """The plain goal that it is, if it is one."""
        return self.plan.task

    @property
    def weights(self) -> Float[np.ndarray, "s c d m"]:
        """The weights of each stage's clauses; clauses that never hold fill them up."""
        return np.asarray(self.guide.w)[0, : len(self.plan.stages)]


class Leg(NamedTuple):
    """What was played before the goal was changed, and for how long."""

    aim: Aim
    stage: int
    steps: int


class TooShort(ValueError):
    """An episode that is over before the goal is said to have been changed."""


class Episode(NamedTuple):
    """One episode until its goal, its failure or the time limit: t steps, t + 1 states."""

    positions: Float[np.ndarray, "states k"]  # the world's features, as shares of their ranges
    bins: Int[np.ndarray, "states d"]  # where φ is 1
    met: Bool[np.ndarray, "states c k"]  # which conditions of the current stage hold, of the last where all are reached
    stages: Int[np.ndarray, " states"]  # the current one; the number of stages where all are reached
    actions: Int[np.ndarray, " t"]
    thoughts: Thought | None  # leading axis t; None where nobody thinks
    success: bool
    broken: Broken  # how a plan failed
    states: PyTree  # leading axis t + 1

    def state(self, t: int) -> PyTree:
        """The state after t steps."""
        return jax.tree.map(lambda leaf: leaf[t], self.states)


class Lesson(NamedTuple):
    """What a number of labelled steps has taught."""

    steps: int
    rewarded: int
    weights: Float[np.ndarray, "d m"]
    boxes: int  # as how many conjunctions the reward is read
    sure: float  # the probability of that


class Frames(NamedTuple):
    """Pictures of an episode."""

    pictures: UInt8[np.ndarray, "frames size size 3"]
    every: int  # steps from one to the next
    first: int  # the step of the first
