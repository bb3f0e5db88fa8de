"""Episodes played stretch by stretch: what is compiled acts, and here it is seen how far the plan has come."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Bool, Int, Key, PyTree

from cumulant.features.coordinates import Features
from cumulant.transfer.gpi import Thought
from cumulant.web import compiled
from cumulant.web.compiled import Actor, Moment, Sight, Stretch
from cumulant.web.courses import Broken, Holding, Regions, Tables, certain, next_stage
from cumulant.worlds.protocol import World


class Course(NamedTuple):
    """What counts as having reached each stage; and in what terms a player sees it, if it looks at all."""

    regions: Regions
    felt: Tables  # () for players who stay with the first stage
    resolution: float  # of what they see


class Part(NamedTuple):
    """A stretch of an episode, to look up its states."""

    states: PyTree  # of all episodes that were played side by side: [n, t + 1, ...]
    first: int  # the step at which it begins, for the first episode


class Run:
    """One episode on its way: t steps so far, t + 1 states."""

    def __init__(self, course: Course, limit: int, stage: int, seen: Sight):
        """It begins with a stage, in a state that is seen so."""
        self.course, self.limit, self.steps = course, limit, 0
        self.anew, self.done = True, bool(seen.done)
        place, f = np.asarray(seen.places), np.asarray(seen.features)
        self.standing = course.regions.begin(course.regions.holding(place), stage)
        self.believed = next_stage(certain(course.felt, f, course.resolution), stage) if course.felt else 0
        self.places, self.features, self.stages = [place[None]], [f[None]], [self.standing.stage]
        self.actions: list[np.ndarray] = []
        self.thoughts: list[tuple[int, Thought]] = []  # each with the stage that it was of

    @property
    def success(self) -> bool:
        """Whether all stages are reached."""
        return self.standing.stage >= len(self.course.regions.goal)

    @property
    def broken(self) -> Broken:
        """How the plan failed."""
        return self.standing.broken

    @property
    def over(self) -> bool:
        """Whether time stands still."""
        return self.success or bool(self.broken) or self.done or self.steps >= self.limit

    @property
    def stage(self) -> int:
        """The stage that its player has in mind: the last one, where it believes to have reached them all."""
        return min(self.believed, len(self.course.regions.goal) - 1)

    def take(self, played: Stretch, holding: Holding, sure: Bool[np.ndarray, "states s"] | None) -> int:
        """Go on, until a stage is believed to be reached or the stretch ends; returns the steps taken."""
        taken, mind, self.anew = 0, self.stage, False
        while not (self.over or self.anew or taken == len(played.actions)):
            taken, self.steps = taken + 1, self.steps + 1
            self.done = bool(played.seen.done[taken])
            self.standing = self.course.regions.follow(self.standing, holding.at(taken))
            self.stages.append(self.standing.stage)
            if sure is not None and (believed := next_stage(sure[taken], self.believed)) > self.believed:
                self.believed, self.anew = believed, True
        self.places.append(np.asarray(played.seen.places)[1 : taken + 1])
        self.features.append(np.asarray(played.seen.features)[1 : taken + 1])
        self.actions.append(np.asarray(played.actions)[:taken])
        if played.thoughts is not None:
            self.thoughts.append((mind, jax.tree.map(lambda leaf: leaf[:taken], played.thoughts)))
        return taken


class Played(NamedTuple):
    """Episodes that were played side by side, and their states."""

    runs: list[Run]
    parts: list[Part]

    def state(self, t: int) -> PyTree:
        """The state after t steps, where a single episode was played: [1, ...]."""
        part = next(part for part in reversed(self.parts) if part.first <= t)
        return compiled.at(part.states, np.array([t - part.first]))


def play(
    world: World,
    features: Features,
    actor: Callable[[Int[np.ndarray, " n"]], Actor],
    course: Course,
    states: PyTree,
    keys: Key[Array, " n"],
    stage: int = 0,
    thinking: bool = False,
    most: int | None = None,
) -> Played:
    """Episodes side by side until all are over. `actor` is who acts, given the stages that it has in mind.

    After `most` steps they are left as they are, so that something else can go on from there.
    """
    limit, n = world.max_steps * len(course.regions.goal), len(keys)
    limit = limit if most is None else min(limit, most)
    length = compiled.stretch_length(world, to_the_step=bool(course.felt) or most is not None)
    sight, memories = compiled.look(world, features, actor(np.zeros(n, int)), states)
    runs = [Run(course, limit, stage, _row(jax.device_get(sight), i)) for i in range(n)]
    parts = [Part(jax.tree.map(lambda leaf: leaf[:, None], states), 0)]
    while not all(run.over for run in runs):
        now = Moment(
            states,
            memories,
            np.array([run.anew for run in runs]),
            np.array([run.over for run in runs]),
            keys,
            np.array([run.steps for run in runs], np.int32),
        )
        minds = np.array([run.stage for run in runs])
        stretch, along, memories = compiled.play_on(world, features, actor(minds), now, length, thinking)
        parts.append(Part(along, runs[0].steps))
        played = jax.device_get(stretch)
        holding = course.regions.holding(played.seen.places)
        sure = certain(course.felt, played.seen.features, course.resolution) if course.felt else None
        taken = [
            run.take(_row(played, i), holding.at(i), None if sure is None else sure[i]) for i, run in enumerate(runs)
        ]
        states = compiled.at(along, np.array(taken))
    return Played(runs, parts)


def _row(several: PyTree, i: int) -> PyTree:
    return jax.tree.map(lambda leaf: leaf[i], several)
