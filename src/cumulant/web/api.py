"""What can be asked of the player: typed request → typed reply. The same for HTTP and for the socket."""

import base64
import io
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from PIL import Image
from pydantic import BaseModel

from cumulant.goals.brief import briefly
from cumulant.goals.errors import LanguageError
from cumulant.goals.feature import Feature, described, words_of_bins
from cumulant.goals.phrases import say
from cumulant.goals.regions import Region
from cumulant.goals.tasks import Task
from cumulant.transfer.gpi import Thought
from cumulant.transfer.reward_models import MODELS
from cumulant.web import schemas
from cumulant.web.episodes import Aim, Leg, Lesson, TooShort
from cumulant.web.episodes import Episode as PlayedEpisode
from cumulant.web.examples import examples_for
from cumulant.web.from_scratch import from_scratch
from cumulant.web.player import CHANGES, FRAMES, Player
from cumulant.web.schemas import Goal, Problem, TeachRequest
from cumulant.worlds.protocol import World

Read = TypeVar("Read")


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
    answer: Callable[[Player, Any], BaseModel]


def world_of(player: Player) -> schemas.World:
    """The world, as a page shows it."""
    library, arena = player.library, player.arena
    look = arena.drawing if arena else None
    drawn = zip(arena.sprites, look.colours, look.outlines, strict=True) if arena and look else ()
    return schemas.World(
        sprites=[schemas.Sprite(name=name, colour=colour, outline=corners) for name, colour, corners in drawn],
        bars=[_bar(feature, library.config.bins) for feature in described(library.world.feature_names)],
        draws=player.draws,
        methods=list(player.methods),
        examples=examples_for(library.world.feature_names),
        features=list(library.feature_names),
        bin_names=[list(names) for names in library.bin_names],
        bins=library.config.bins,
        actions=_action_names(library.world),
        half_extent=arena.half_extent if arena else 0,
        agent_radius=look.agent_radius if look else 0,
        background=look.background if look else "",
        max_steps=library.world.max_steps,
        free_steps=library.config.env_steps,
    )


def parse(player: Player, request: Goal) -> schemas.Parsed:
    """How a phrase is understood."""
    aim = _aim(player, request)
    said = str(aim.plan).split(" then ")  # together they tell the grid, so each alone says no more than it has to
    stages = [
        schemas.Stage(
            canonical=words,
            clauses=_clauses(goal),
            avoid=_clauses(stage.avoid) if stage.avoid else [],
            weights=_rounded(weights[: 1 if request.weights else len(goal.clauses)]),
        )
        for words, stage, goal, weights in zip(said, aim.plan.stages, aim.plan.goals, aim.weights, strict=True)
    ]
    return schemas.Parsed(
        canonical=str(aim.plan),
        brief=briefly(aim.task) if aim.task else str(aim.plan),
        from_scratch=from_scratch(player.library.world, aim.task) if aim.task else None,
        bins=aim.plan.bins,
        stages=stages,
    )


def episode(player: Player, request: schemas.EpisodeRequest) -> schemas.Episode:
    """An episode, whole."""
    return _told(*play(player, request))


def play(player: Player, request: schemas.EpisodeRequest) -> tuple[Aim, PlayedEpisode]:
    """The goal, and the episode itself, untold."""
    start = None if request.start is None else _positions(player, request.start)
    aim = _aim_for(player, request)
    _check_stage(aim, request.stage)
    if len(request.after) > CHANGES:
        raise Refused(Problem(message=f"a goal can be changed {CHANGES} times on the way: begin with a new start"))
    legs = [Leg(_aim(player, each), each.stage, each.steps) for each in request.after]
    for leg in legs:
        _check_stage(leg.aim, leg.stage)
    try:
        return aim, player.episode(aim, request.seed, start, request.method, request.stage, legs)
    except TooShort as error:
        raise Refused(Problem(message=str(error))) from None


def step(player: Player, request: schemas.StepRequest) -> schemas.Episode:
    """One action, as an episode of one step."""
    aim = _aim(player, request)
    _check_stage(aim, request.stage)
    _check_action(player, request.action)
    return _told(aim, player.step(aim, _positions(player, request.positions), request.action, request.stage))


def evaluate(player: Player, request: schemas.EvaluateRequest) -> schemas.Outcomes:
    """Success and steps of 25 episodes: those of this seed and of the ones that follow."""
    success, steps = player.outcomes(_aim_for(player, request), request.seed, request.method)
    return schemas.Outcomes(success=success, steps=steps)


def teach(player: Player, request: TeachRequest) -> schemas.Lessons:
    """Weights from reward alone, of a plain goal; where no reward was found, `nothing` says so."""
    lessons = player.teach(_understood(lambda: player.library.task(request.phrase)), request.seed, request.steps)
    told = [
        schemas.Lesson(
            steps=lesson.steps,
            rewarded=lesson.rewarded,
            weights=_rounded(lesson.weights),
            model=MODELS[lesson.boxes],
            sure=round(lesson.sure, 3),
        )
        for lesson in lessons
    ]
    return schemas.Lessons(lessons=told, nothing=_nothing(lessons[-1]))


def psi(player: Player, request: schemas.PsiRequest) -> schemas.Psi:
    """Ψ of a state and an action: learnt, by the Lemma, as played."""
    _check_action(player, request.action)
    found = player.psi(_state(player, request), request.action)
    size = found.learnt.shape[0] * found.learnt.shape[1]
    learnt, lemma, played = (_with_gaps(np.asarray(each).reshape(size, size)) for each in found)
    return schemas.Psi(learnt=learnt, lemma=lemma, played=played)


def frames(player: Player, request: schemas.EpisodeRequest) -> schemas.Frames:
    """What an episode looks like, in a world that can be drawn."""
    check_draws(player)
    drawn = player.frames(play(player, request)[1], FRAMES)
    return schemas.Frames(
        images=[_data_url(picture) for picture in drawn.pictures], every=drawn.every, first=drawn.first
    )


OFFERS = {
    "parse": Offer(Goal, schemas.Parsed, parse),
    "episode": Offer(schemas.EpisodeRequest, schemas.Episode, episode),
    "step": Offer(schemas.StepRequest, schemas.Episode, step),
    "evaluate": Offer(schemas.EvaluateRequest, schemas.Outcomes, evaluate),
    "teach": Offer(TeachRequest, schemas.Lessons, teach),
    "psi": Offer(schemas.PsiRequest, schemas.Psi, psi),
    "frames": Offer(schemas.EpisodeRequest, schemas.Frames, frames),
}


def _nothing(last: Lesson) -> str:
    """Why the last lesson's weights say nothing; empty if they do say something."""
    if last.weights.any():
        return ""
    if last.rewarded == last.steps:
        return f"All of {last.steps:,} steps were rewarded, so there is nothing to learn: let some places earn nothing."
    if last.rewarded:
        return f"{last.rewarded:,} of {last.steps:,} steps were rewarded, which told nothing: allow more steps."
    return f"No reward was found in {last.steps:,} steps: let more places earn one, or allow more steps."


def _aim(player: Player, goal: Goal) -> Aim:
    """The goal made ready, or refused with what is wrong."""
    w = None if goal.weights is None else _weights(player, goal.weights)
    aim = _understood(lambda: player.aim(goal.phrase, w))
    if w is not None and not w.any():
        raise Refused(Problem(message="these weights are all 0, so there is nothing to act on"))
    return aim


def _understood(read: Callable[[], Read]) -> Read:
    """What words are read as, or refused with what is wrong."""
    try:
        return read()
    except LanguageError as error:
        span = error.span and list(error.span)
        raise Refused(Problem(message=str(error), span=span, suggestion=error.suggestion)) from None


def _check_stage(aim: Aim, stage: int) -> None:
    if stage >= len(aim.plan.stages):
        raise Refused(
            Problem(message=f"there is no stage {stage}: counted from 0, the last is {len(aim.plan.stages) - 1}")
        )


def _check_action(player: Player, action: int) -> None:
    if action >= player.world.num_actions:
        raise Refused(Problem(message=f"action: counted from 0, the last is {player.world.num_actions - 1}"))


def check_draws(player: Player) -> None:
    """Refuse to draw what cannot be drawn."""
    if not player.draws:
        raise Refused(Problem(message="this world cannot be drawn"))


def _aim_for(player: Player, request: schemas.EpisodeRequest | schemas.EvaluateRequest) -> Aim:
    aim = _aim(player, request)
    try:
        if request.method == "oracle":  # the one who may refuse
            player.check_oracle(aim)
    except ValueError as error:
        raise Refused(Problem(message=str(error))) from None
    return aim


def _weights(player: Player, rows: list[list[float]]) -> np.ndarray:
    shape = (len(player.library.feature_names), player.library.config.bins)
    if len(rows) != shape[0] or any(len(row) != shape[1] for row in rows):
        raise Refused(Problem(message=f"weights are {shape[0]} rows of {shape[1]} numbers"))
    return np.asarray([rows], np.float32)


def _positions(player: Player, positions: list[float]) -> np.ndarray:
    if player.arena is None:
        raise Refused(Problem(message="positions are of sprites, and this world has none: its episodes go by seeds"))
    if len(positions) != len(player.world.feature_names):
        raise Refused(Problem(message=f"positions are {len(player.world.feature_names)} numbers"))
    return np.asarray(positions, np.float32)


def _state(player: Player, request: schemas.PsiRequest) -> Any:
    if request.positions is not None:
        return player.placed(_positions(player, request.positions))
    if request.episode is None:
        raise Refused(Problem(message="a state is given by positions, or by an episode and a step of it"))
    _, played = play(player, request.episode)
    if request.step >= len(played.positions):
        raise Refused(Problem(message=f"step: the episode has {len(played.actions)}"))
    return played.state(request.step)


def _bar(feature: Feature, bins: int) -> schemas.Bar:
    name = f"{feature.of} {feature.name}".strip().replace("_", " ")
    regions, named = list(feature.regions), feature.values == len(feature.regions)
    return schemas.Bar(
        name=name,
        low=float(feature.low),
        high=float(feature.high),
        unit=feature.unit,
        regions=regions,
        named=named,
        bins=regions if named else list(words_of_bins(feature.regions, bins)),
    )


def _action_names(world: World) -> list[str]:
    """What a world's actions are called: as it says, or by number."""
    return list(getattr(world, "action_names", ())) or [f"action {i}" for i in range(world.num_actions)]


def _data_url(picture: np.ndarray) -> str:
    data = io.BytesIO()
    Image.fromarray(picture).save(data, "JPEG", quality=85)
    return f"data:image/jpeg;base64,{base64.b64encode(data.getvalue()).decode()}"


def _clauses(task: Task) -> list[list[schemas.Condition]]:
    return [[_condition(task, *found) for found in clause] for clause in task.conditions()]


def _condition(task: Task, name: str, allowed: tuple[int, ...]) -> schemas.Condition:
    i = task.names.index(name)
    said = say(task.features, i, Region(sum(1 << b for b in allowed), task.bins))
    axis = task.features[i].name
    return schemas.Condition(feature=i, sprite=said.thing, axis=axis, allowed=list(allowed), words=said.words)


def _told(aim: Aim, episode: PlayedEpisode) -> schemas.Episode:
    """An episode in the API's words. Positions are exact: a page that sends them back gets the same episode."""
    current = np.minimum(episode.stages, len(aim.plan.stages) - 1)
    return schemas.Episode(
        positions=episode.positions.tolist(),
        bins=episode.bins.tolist(),
        stages=episode.stages.tolist(),
        met=[_bits(aim.plan.goals[stage], held) for stage, held in zip(current, episode.met, strict=True)],
        actions=episode.actions.tolist(),
        thoughts=None if episode.thoughts is None else _thoughts(episode.thoughts),
        success=episode.success,
        violation=_violation(aim, episode),
    )


def _bits(goal: Task, held: np.ndarray) -> list[int]:
    """Which conditions hold of each clause, of all [clauses, k]: bit i is the clause's condition i."""
    return [
        sum(int(row[goal.names.index(name)]) << i for i, (name, _) in enumerate(clause))
        for row, clause in zip(held, goal.conditions(), strict=False)
    ]


def _violation(aim: Aim, episode: PlayedEpisode) -> str:
    """What broke the plan, in words."""
    if not episode.broken:
        return ""
    stage = int(episode.stages[-1])
    entered = episode.broken == "entered"
    what = aim.plan.stages[stage].avoid if entered else aim.plan.kept[stage]
    return f"{episode.broken} {what.coarsest()}" if what else episode.broken


def _thoughts(had: Thought) -> list[schemas.Thought]:
    return [
        schemas.Thought(stage=stage, clause=c, feature=i, bin=j, values=values)
        for stage, c, i, j, values in zip(*(leaf.tolist() for leaf in had[:4]), _rounded(had.values), strict=True)
    ]


def _rounded(values: Any) -> list:
    return np.asarray(values, np.float64).round(4).tolist()


def _with_gaps(values: np.ndarray) -> list[list[float | None]]:
    """JSON knows no NaN."""
    return [[None if np.isnan(value) else round(float(value), 3) for value in row] for row in values]
