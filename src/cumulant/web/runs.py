"""Episodes played stretch by stretch: what is compiled acts, and here it is seen how far the plan has come."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from cumulant.features.coordinates import Features
from cumulant.transfer.gpi import Thought
from cumulant.web import compiled
from cumulant.web.compiled import Actor, Moment, Stretch
from cumulant.web.courses import Broken, Holding, Regions, Tables, certain, next_stage
from cumulant.worlds.protocol import Arena


class Course(NamedTuple):
    """What counts as having reached each stage; and in what terms a player sees it, if it looks at all."""

    regions: Regions
    felt: Tables  # () for players who stay with the first stage
    resolution: float  # of what they see


class Run:
    """One episode on its way: t steps so far, t + 1 states."""

    def __init__(self, course: Course, limit: int, stage: int, place: np.ndarray, seen: np.ndarray):
        """It begins with a stage, at a place that is seen as `seen`."""
        self.course, self.limit, self.steps = course, limit, 0
        self.place, self.anew = place, True
        self.standing = course.regions.begin(course.regions.holding(place), stage)
        self.believed = next_stage(certain(course.felt, seen, course.resolution), stage) if course.felt else 0
        self.places, self.features, self.stages = [place[None]], [seen[None]], [self.standing.stage]
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
        return self.success or bool(self.broken) or self.steps >= self.limit

    @property
    def stage(self) -> int:
        """The stage that its player has in mind: the last one, where it believes to have reached them all."""
        return min(self.believed, len(self.course.regions.goal) - 1)

    def take(self, played: Stretch, holding: Holding, sure: Bool[np.ndarray, "states s"] | None) -> None:
        """Go on, until a stage is believed to be reached or the stretch ends."""
        places, features, actions = (np.asarray(leaf) for leaf in played[:3])
        taken, mind, self.anew = 0, self.stage, False
        while not (self.over or self.anew or taken == len(actions)):
            taken, self.steps = taken + 1, self.steps + 1
            self.standing = self.course.regions.follow(self.standing, holding.at(taken))
            self.stages.append(self.standing.stage)
            if sure is not None and (believed := next_stage(sure[taken], self.believed)) > self.believed:
                self.believed, self.anew = believed, True
        self.place = places[taken]
        self.places.append(places[1 : taken + 1])
        self.features.append(features[1 : taken + 1])
        self.actions.append(actions[:taken])
        if played.thoughts is not None:
            self.thoughts.append((mind, jax.tree.map(lambda leaf: leaf[:taken], played.thoughts)))


def play(
    world: Arena,
    features: Features,
    actor: Callable[[Int[np.ndarray, " n"]], Actor],
    course: Course,
    places: Float[np.ndarray, "n k"],
    keys: Key[Array, " n"],
    stage: int = 0,
    thinking: bool = False,
) -> list[Run]:
    """Episodes side by side until all are over. `actor` is who acts, given the stages that it has in mind."""
    limit = world.max_steps * len(course.regions.goal)
    seen, memories = compiled.look(world, features, actor(np.zeros(len(places), int)), places)
    runs = [Run(course, limit, stage, *here) for here in zip(places, np.asarray(seen), strict=True)]
    while not all(run.over for run in runs):
        now = Moment(
            np.stack([run.place for run in runs]),
            memories,
            np.array([run.anew for run in runs]),
            keys,
            np.array([run.steps for run in runs], np.int32),
        )
        minds = np.array([run.stage for run in runs])
        stretch, memories = compiled.play_on(world, features, actor(minds), now, thinking)
        played = jax.device_get(stretch)
        holding = course.regions.holding(played.places)
        sure = certain(course.felt, played.features, course.resolution) if course.felt else None
        for i, run in enumerate(runs):
            own = jax.tree.map(lambda leaf, i=i: leaf[i], played)
            run.take(own, holding.at(i), None if sure is None else sure[i])
    return runs
