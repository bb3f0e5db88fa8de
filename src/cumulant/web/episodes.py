"""What a player is asked and what it shows: an aim, an episode, what a lesson taught, pictures."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, PyTree, UInt8

from cumulant.goals.plans import Plan
from cumulant.goals.tasks import Task
from cumulant.transfer.gpi import Thought
from cumulant.web.courses import Broken, Regions


class Aim(NamedTuple):
    """A goal or a plan made ready: what to act on, stage by stage, and what counts as reaching it."""

    plan: Plan
    weights: Float[np.ndarray, "s c d m"]
    avoid: Float[np.ndarray, "s f d m"]  # f = c, or 0 where no stage avoids anything
    regions: Regions

    @property
    def task(self) -> Task | None:
        """The plain goal that it is, if it is one."""
        return self.plan.task


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
    stages: list[int]  # of the states: the current one; the number of stages where all are reached
    actions: Int[np.ndarray, " t"]
    thoughts: list[tuple[int, Thought]] | None  # one after the other, with the stage in mind; None where nobody thinks
    success: bool
    broken: Broken  # how a plan failed
    state: Callable[[int], PyTree]  # after so many steps: [1, ...]


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
