"""What helps the eye in a film of sprites: thirds, where each sprite is to be, and where its centre is."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, UInt8
from PIL import ImageColor

from cumulant.goals.clauses import Clause
from cumulant.goals.plans import Plan
from cumulant.goals.tasks import Task
from cumulant.worlds.protocol import Arena

_TINT = 0.22  # of a sprite's colour, where it is to be
_DOT, _RING = 1 / 110, 1 / 65  # radii of a centre's mark, in frames
_WHITE, _DARK = (255, 255, 255), (32, 36, 46)


def marked(
    world: Arena,
    frames: UInt8[np.ndarray, "t size size 3"],
    places: Float[np.ndarray, "states k"],
    goal: Task | Plan | None,
    shown: slice = slice(None),
) -> UInt8[np.ndarray, "t size size 3"]:
    """Frames with faint lines between thirds, zones of the stage that is pursued, and a dot on every centre.

    `places` are those of the whole episode, of which the frames show some: a stage may be reached in between.
    """
    plan = None if goal is None else Plan.of(goal)
    stages = stages_of(plan, places) if plan else [0] * len(places)
    zones = [zones_of(stage) for stage in plan.goals] if plan else [[]]
    colours = [np.array(ImageColor.getrgb(colour)) for colour in world.drawing.colours]
    bare = np.array(ImageColor.getrgb(world.drawing.background))
    return np.stack(
        [
            _dotted(_shaded(_with_thirds(frame), (frame == bare).all(axis=2), zones[stage], colours), place)
            for frame, place, stage in zip(frames, places[shown], stages[shown], strict=True)
        ]
    )


def stages_of(plan: Plan, places: Float[np.ndarray, "t k"]) -> list[int]:
    """The stage that is pursued at each moment, from 0; at the end it stays at the last."""
    stage, found = 0, []
    for place in places:
        while stage < len(plan.goals) - 1 and _holds(plan.goals[stage], place):
            stage += 1
        found.append(stage)
    return found


def zones_of(task: Task) -> list[Bool[np.ndarray, "m m"] | None]:
    """Where each sprite is to be, by bins of x and y; None for one that may be anywhere.

    >>> import cumulant
    >>> [zone if zone is None else int(zone.sum()) for zone in zones_of(cumulant.parse("square left"))]
    [None, 3, None]
    """
    pairs = task.table().reshape(len(task.clauses), -1, 2, task.bins)
    wanted = pairs[:, :, 0, :, None] & pairs[:, :, 1, None, :]  # [clauses, sprites, x, y]
    bound = ~wanted.all(axis=(2, 3), keepdims=True)
    return [zone if zone.any() else None for zone in (wanted & bound).any(axis=0)]


def ticked(goal: Task | Plan, places: Float[np.ndarray, "t k"]) -> list[list[tuple[str, bool]]]:
    """What there is to do, in words, and whether it is done at each moment: a plan's stages, or a goal's conditions.

    Of alternatives, those that the episode fulfils, or comes nearest to.

    >>> import cumulant, numpy as np
    >>> ticked(cumulant.parse("square left and circle top"), np.array([[0.5, 0.5, 0.1, 0.5, 0.9, 0.5]]))
    [[('square left', True), ('circle top', False)]]
    """
    plan = Plan.of(goal)
    if len(plan.stages) > 1:
        words, last = [str(stage.reach) for stage in plan.stages], len(plan.stages) - 1
        stages = stages_of(plan, places)
        ended = [stage == last and _holds(plan.goals[-1], place) for stage, place in zip(stages, places, strict=True)]
        return [
            [(said, i < stage or end) for i, said in enumerate(words)] for stage, end in zip(stages, ended, strict=True)
        ]
    ways = [_conditions(plan.goals[0], clause) for clause in plan.goals[0].clauses]
    nearest = max(ways, key=lambda way: sum(_holds(condition, places[-1]) for condition in way) / max(1, len(way)))
    return [[(str(condition), _holds(condition, place)) for condition in nearest] for place in places]


def _conditions(task: Task, clause: Clause) -> list[Task]:
    """What a clause asks of each thing."""
    everything, features = (1 << task.bins) - 1, task.features
    things = dict.fromkeys(each.of for each, mask in zip(features, clause, strict=True) if mask != everything)
    return [
        Task(
            task.coordinates,
            (tuple(m if each.of == thing else everything for each, m in zip(features, clause, strict=True)),),
            task.bins,
        ).coarsest()
        for thing in things
    ]


def _holds(task: Task, place: Float[np.ndarray, " k"]) -> bool:
    """As `cumulant.reached` has it, with nothing to compile."""
    index = np.clip((place * task.bins).astype(int), 0, task.bins - 1)
    return bool(task.table()[:, np.arange(len(place)), index].all(axis=1).any())


def _shaded(
    frame: np.ndarray, bare: np.ndarray, zones: Sequence[np.ndarray | None], colours: Sequence[np.ndarray]
) -> np.ndarray:
    """Zones in their sprites' colours, where no sprite is; where zones meet, their colours mix."""
    for zone, colour in zip(zones, colours, strict=False):
        if zone is not None:
            along = ((np.arange(len(frame)) + 0.5) / len(frame) * len(zone)).astype(int)
            inside = bare & zone[along][:, along].T[::-1]  # rows go down, and y up
            frame[inside] = (1 - _TINT) * frame[inside] + _TINT * colour
    return frame


def _dotted(frame: np.ndarray, place: Float[np.ndarray, " k"]) -> np.ndarray:
    """A dot on the centre of every sprite, which alone says where the sprite is."""
    size = len(frame)
    down, across = np.mgrid[:size, :size] + 0.5
    for x, y in place.reshape(-1, 2):
        off = np.hypot(across - x * size, down - (1 - y) * size)
        frame[off < _RING * size] = _DARK
        frame[off < _DOT * size] = _WHITE
    return frame


def _with_thirds(frame: UInt8[np.ndarray, "size size 3"]) -> UInt8[np.ndarray, "size size 3"]:
    """A frame with faint lines where the regions of tasks meet."""
    lined = np.array(frame)
    for cut in (len(frame) // 3, 2 * len(frame) // 3):
        for line in (lined[cut], lined[:, cut]):
            line[:] = line + (255 - line) // 8
    return lined
