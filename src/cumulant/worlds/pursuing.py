"""A world whose states know how far a course has come: where a goal must be a predicate on states, as in Gymnasium."""

from dataclasses import dataclass
from typing import NamedTuple

from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree, Shaped, UInt8

from cumulant.goals.plans import Progress
from cumulant.worlds.episodes import GoalTracker
from cumulant.worlds.protocol import Around, World, done_in, render


class Pursued(NamedTuple):
    """A state, and how far a course has come in it."""

    state: PyTree
    progress: Progress


@dataclass(frozen=True, eq=False)
class Pursuing(Around):
    """A world whose states know how far a course has come: where a goal must be a predicate on states."""

    world: World
    course: GoalTracker

    @property
    def max_steps(self) -> int:
        """The world's time limit for each stage."""
        return self.world.max_steps * self.course.most

    def reset(self, key: PRNGKeyArray) -> Pursued:
        """A random first state, and the progress with which the course begins there."""
        state = self.world.reset(key)
        return Pursued(state, self.course.begin(state, 0))

    def step(self, now: Pursued, action: Int[Array, ""]) -> Pursued:
        """The state that follows, and the progress made."""
        state = self.world.step(now.state, action)
        return Pursued(state, self.course.follow(now.progress, state))

    def observe(self, now: Pursued) -> Shaped[Array, "..."]:
        """What an agent sees: nothing of the progress."""
        return self.world.observe(now.state)

    def features(self, now: Pursued) -> Float[Array, " k"]:
        """The true features of the state."""
        return self.world.features(now.state)

    def done(self, now: Pursued) -> Bool[Array, ""]:
        """Whether the world cannot go on."""
        return done_in(self.world, now.state)

    def render(self, now: Pursued, size: int) -> UInt8[Array, "size size 3"]:
        """The state as an RGB frame."""
        return render(self.world, now.state, size)

    def success(self, now: Pursued) -> Bool[Array, ""]:
        """Whether the course has come to its end: the goal."""
        return self.course.success(now.progress)
