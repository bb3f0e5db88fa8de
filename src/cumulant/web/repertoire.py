"""What can be asked of the theatre: typed request → typed reply. The same for HTTP and for the socket."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from pydantic import BaseModel

from cumulant.gpi import Thought
from cumulant.language import LanguageError
from cumulant.renderer import AGENT_RADIUS, default_look
from cumulant.shapes import outline
from cumulant.spriteworld import ACTIONS
from cumulant.tasks import describe
from cumulant.web import schemas, theatre
from cumulant.web.schemas import Goal, Problem, TeachRequest
from cumulant.web.theatre import Aim, Theatre


class Refused(Exception):
    """A request that makes no sense; carries the problem to tell."""

    def __init__(self, problem: Problem):
        """`problem` is what the client sees."""
        super().__init__(problem.message)
        self.problem = problem


class Offer(NamedTuple):
    """One thing to ask for."""

    request: type[BaseModel]
    reply: type[BaseModel]
    answer: Callable[[Theatre, Any], BaseModel]
    cost: int  # relative to the cheapest, for rate limits


def world_of(stage: Theatre) -> schemas.World:
    """The world, as a page draws it."""
    world, look = stage.world, default_look(stage.world)
    colours = [_hex(look.agent), *(_hex(colour) for colour in look.objects)]
    outlines = [[], *([list(corner) for corner in outline(name)] for name in world.objects)]
    drawn = zip(world.sprites, colours, outlines, strict=True)
    return schemas.World(
        sprites=[schemas.Sprite(name=name, colour=colour, outline=corners) for name, colour, corners in drawn],
        features=list(stage.library.feature_names),
        bin_names=[list(names) for names in stage.library.bin_names],
        bins=stage.library.config.bins,
        actions=list(ACTIONS),
        half_extent=world.half_extent,
        agent_radius=AGENT_RADIUS,
        background=_hex(look.background),
        max_steps=world.max_steps,
    )


def parse(stage: Theatre, request: Goal) -> schemas.Parsed:
    """How a phrase is understood."""
    aim = _aim(stage, request)
    return schemas.Parsed(
        canonical=str(aim.task),
        bins=aim.task.bins,
        clauses=[[_condition(*found, aim.task.bins) for found in clause] for clause in aim.task.conditions()],
        weights=_rounded(aim.weights[: 1 if request.weights else len(aim.task.clauses)]),
    )


def episode(stage: Theatre, request: schemas.EpisodeRequest) -> schemas.Episode:
    """An episode, whole."""
    return _told(_aim(stage, request), play(stage, request))


def play(stage: Theatre, request: schemas.EpisodeRequest) -> theatre.Episode:
    """The episode itself, untold."""
    start = None if request.start is None else _positions(stage, request.start)
    return stage.episode(_aim_for(stage, request), request.seed, start, request.method)


def step(stage: Theatre, request: schemas.StepRequest) -> schemas.Episode:
    """One action, as an episode of one step."""
    aim = _aim(stage, request)
    return _told(aim, stage.step(aim, _positions(stage, request.positions), request.action))


def evaluate(stage: Theatre, request: schemas.EvaluateRequest) -> schemas.Outcomes:
    """Success and steps of 25 episodes: those of this seed and of the ones that follow."""
    success, steps = stage.outcomes(_aim_for(stage, request), request.seed, request.method)
    return schemas.Outcomes(success=success, steps=steps)


def teach(stage: Theatre, request: TeachRequest) -> schemas.Lessons:
    """Weights from reward alone."""
    lessons = stage.teach(_aim(stage, Goal(phrase=request.phrase)), request.seed)
    told = [schemas.Lesson(steps=n, rewarded=found, weights=_rounded(w)) for n, found, w in lessons]
    return schemas.Lessons(lessons=told)


def psi(stage: Theatre, request: schemas.PsiRequest) -> schemas.Psi:
    """Ψ of a state and an action: learnt, by the Lemma, as played."""
    found = stage.psi(_positions(stage, request.positions), request.action)
    size = found.learnt.shape[0] * found.learnt.shape[1]
    learnt, lemma, played = (_with_gaps(each.reshape(size, size)) for each in found)
    return schemas.Psi(learnt=learnt, lemma=lemma, played=played)


OFFERS = {
    "parse": Offer(Goal, schemas.Parsed, parse, 1),
    "episode": Offer(schemas.EpisodeRequest, schemas.Episode, episode, 2),
    "step": Offer(schemas.StepRequest, schemas.Episode, step, 1),
    "evaluate": Offer(schemas.EvaluateRequest, schemas.Outcomes, evaluate, 5),
    "teach": Offer(TeachRequest, schemas.Lessons, teach, 20),
    "psi": Offer(schemas.PsiRequest, schemas.Psi, psi, 3),
}


def _aim(stage: Theatre, goal: Goal) -> Aim:
    """The goal made ready, or refused with what is wrong."""
    w = None if goal.weights is None else _weights(stage, goal.weights)
    try:
        return stage.aim(goal.phrase, w)
    except LanguageError as error:
        span = error.span and list(error.span)
        raise Refused(Problem(message=str(error), span=span, suggestion=error.suggestion)) from None


def _aim_for(stage: Theatre, request: schemas.EpisodeRequest | schemas.EvaluateRequest) -> Aim:
    aim = _aim(stage, request)
    if request.method == "oracle" and aim.task.bins * stage.world.step_size > 1:
        raise Refused(Problem(message=f"the oracle's steps are too long to aim at {aim.task.bins} bins"))
    return aim


def _weights(stage: Theatre, rows: list[list[float]]) -> np.ndarray:
    shape = (len(stage.library.feature_names), stage.library.config.bins)
    if len(rows) != shape[0] or any(len(row) != shape[1] for row in rows):
        raise Refused(Problem(message=f"weights are {shape[0]} rows of {shape[1]} numbers"))
    return np.asarray([rows], np.float32)


def _positions(stage: Theatre, positions: list[float]) -> np.ndarray:
    if len(positions) != len(stage.world.feature_names):
        raise Refused(Problem(message=f"positions are {len(stage.world.feature_names)} numbers"))
    return np.asarray(positions, np.float32)


def _condition(name: str, allowed: tuple[int, ...], bins: int) -> schemas.Condition:
    sprite, _, axis = name.rpartition("_")
    return schemas.Condition(sprite=sprite, axis=axis, allowed=list(allowed), words=describe(axis, allowed, bins))


def _told(aim: Aim, episode: theatre.Episode) -> schemas.Episode:
    """An episode in the API's words. Positions are exact: a page that sends them back gets the same episode."""
    conditions = [[aim.task.coordinates.index(name) for name, _ in clause] for clause in aim.task.conditions()]
    bits = [episode.met[:, c, which] @ (1 << np.arange(len(which))) for c, which in enumerate(conditions)]
    return schemas.Episode(
        positions=episode.positions.tolist(),
        bins=episode.bins.tolist(),
        met=np.stack(bits, axis=1).tolist(),
        actions=episode.actions.tolist(),
        thoughts=None if episode.thoughts is None else _thoughts(episode.thoughts),
        success=episode.success,
    )


def _thoughts(had: Thought) -> list[schemas.Thought]:
    each = zip(had.clause.tolist(), had.feature.tolist(), had.bin.tolist(), _rounded(had.values), strict=True)
    return [schemas.Thought(clause=c, feature=i, bin=j, values=values) for c, i, j, values in each]


def _rounded(values: Any) -> list:
    return np.asarray(values, np.float64).round(4).tolist()


def _with_gaps(values: np.ndarray) -> list[list[float | None]]:
    """JSON knows no NaN."""
    return [[None if np.isnan(value) else round(float(value), 3) for value in row] for row in values]


def _hex(colour: Any) -> str:
    return "#" + "".join(f"{round(255 * float(part)):02x}" for part in colour)
