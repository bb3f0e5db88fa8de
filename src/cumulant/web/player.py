"""Goal or plan, start and seed → an episode with everything there is to show of it."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import cached_property, partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int, PyTree, Shaped, UInt

from cumulant.features.coordinates import resolution_of
from cumulant.goals.clauses import MAX_CLAUSES
from cumulant.goals.errors import LanguageError
from cumulant.goals.feature import described
from cumulant.goals.plans import Plan, Stage
from cumulant.goals.regions import MAX_BINS
from cumulant.goals.tasks import Task
from cumulant.goals.vocabulary import Unspeakable, vocabulary_of
from cumulant.goals.weights import padded
from cumulant.transfer.audit import PsiAt
from cumulant.transfer.library import Library
from cumulant.transfer.values import doubt
from cumulant.web import compiled, grids, runs
from cumulant.web.compiled import MAX_STAGES
from cumulant.web.courses import Standing, Tables, as_felt, regions_of
from cumulant.web.episodes import Aim, Episode, Frames, Leg, Lesson, TooShort
from cumulant.web.grids import on_any_grid
from cumulant.web.runs import Course, Played
from cumulant.worlds.episodes import PolicyMaker, random_policy
from cumulant.worlds.films import Film, gif
from cumulant.worlds.markings import marked, ticked
from cumulant.worlds.protocol import Arena, World, apart, at_once
from cumulant.worlds.shipped import oracle_of

Method = Literal["committed", "plain", "oracle", "random"]
METHODS: tuple[Method, ...] = ("committed", "plain", "oracle", "random")
BATCH = 25  # episodes of `outcomes`
FRAMES = 120  # of an episode, at most: of a long one, every second state, or every third, and so on
LESSONS = {2_000: (250, 500, 1_000, 2_000), 10_000: (1_000, 2_500, 5_000, 10_000)}  # steps → when to show what they say
CHANGES = 8  # of the goal on the way, at most
_CLAUSES = (8, MAX_CLAUSES)  # the sizes that goals are padded to, so that two programs serve all goals and plans

Guides = tuple[Shaped[np.ndarray, "s ..."], ...]  # what a player goes by, stage by stage


class NotForThePage(ValueError):
    """A library that the page has no use for: words mean nothing to it."""


class Player:
    """A library's world, ready to play. Its methods are pure, and may be called from several threads."""

    def __init__(self, library: Library):
        """Nothing is compiled yet: see `warm_ups`."""
        if library.why_no_words:
            raise NotForThePage(f"the page is for goals in words: {library.why_no_words}")
        try:
            vocabulary_of(described(library.world.feature_names))
        except Unspeakable as error:
            raise NotForThePage(f"the page is for goals in words: {error}") from None
        self.library, self.world = library, apart(library.seen)
        self.arena = library.world if isinstance(library.world, Arena) else None
        self._oracle = oracle_of(library.world)
        # Environments on the host serve one batch of episodes at a time; all else may be computed side by side.
        self._alone = nullcontext() if at_once(self.world) is None else threading.Lock()

    @property
    def methods(self) -> tuple[Method, ...]:
        """Who can play here: there may be no oracle."""
        return tuple(method for method in METHODS if self._oracle or method != "oracle")

    @cached_property
    def draws(self) -> bool:
        """Whether states can be drawn. An environment on the host tells only when it is asked to."""
        if not hasattr(self.library.world, "render"):
            return False
        if at_once(self.world) is None:
            return True
        try:
            with self._alone:
                jax.block_until_ready(compiled.picture(self.world, compiled.begin(self.world, _seeds(0, 1))[0]))
        except Exception:  # whatever its renderer lacks, a screen or a mode: bars need none of it
            return False
        return True

    def warm_ups(self) -> Iterator[Callable[[], Any]]:
        """What to call once so that nobody waits for a compiler later; the first is all that a first episode needs."""
        few = self.aim(self._elsewhere(3))
        more = ((0, 0), (0, MAX_CLAUSES - few.weights.shape[1]), (0, 0), (0, 0))
        many = few._replace(weights=np.pad(few.weights, more, constant_values=-1))
        yield lambda: self.episode(few, 0, None, "committed")
        if self.arena:
            here = self.start(0)
            yield lambda: (self.episode(few, 0, here, "committed"), self.step(few, here, 0))
        yield lambda: self.psi(self.episode(few, 0, None, "committed").state(0), 0)
        yield partial(self.episode, self._careful(few), 0, None, "committed")
        for method in self.methods[1:]:
            yield partial(self.episode, few, 0, None, method)
        for method in self.methods:
            yield partial(self.outcomes, few, 0, method)
        yield partial(self.outcomes, self._careful(few), 0, "committed")
        yield lambda: self.teach(self._elsewhere(6), 0)
        if at_once(self.world) is not None:  # where plans are played by programs of their own
            plan = Plan((Stage(self._elsewhere(3)), Stage(~self._elsewhere(3))))
            yield partial(self.episode, self.aim(plan), 0, None, "committed")
        if self.draws:
            yield lambda: self.film("", few.plan, self.episode(few, 0, None, "committed"))
        for method in METHODS[:2]:
            yield partial(self.episode, many, 0, None, method)
            yield partial(self.outcomes, many, 0, method)
        yield partial(self.episode, self._careful(many), 0, None, "committed")
        yield partial(self.outcomes, self._careful(many), 0, "committed")
        for aim in self._oracles_aims():
            yield partial(self.episode, aim, 0, None, "oracle")
            yield partial(self.outcomes, aim, 0, "oracle")

    def _elsewhere(self, bins: int) -> Task:
        """A goal that does not hold yet where the episode of seed 0 begins: so that something is played for it."""
        names = self.library.world.feature_names
        wanted = bins - 1 if self.start(0)[0] < 0.5 else 0
        return Task.where(names, {described(names)[0].full_name: [wanted]}, bins)

    def _careful(self, aim: Aim) -> Aim:
        """The same goal, acted on by the program that heeds what to avoid."""
        return aim._replace(avoid=np.full_like(aim.weights, -1))

    def _oracles_aims(self) -> list[Aim]:
        """A goal for each of the few grids that the oracle has a program for."""
        aims: dict[int, Aim] = {}
        for bins in range(2, MAX_BINS + 1):
            aim = self.aim(self._elsewhere(bins))
            try:
                aims.setdefault(self.guides("oracle", aim)[0].shape[-1], aim)
            except ValueError:  # too fine for it, or there is none
                break
        return list(aims.values())

    def aim(self, phrase: str | Task | Plan, w: Float[np.ndarray, "c d m"] | None = None) -> Aim:
        """What a phrase asks for; learnt weights may take the place of a plain goal's own."""
        plan = self.library.plan(phrase)
        if len(plan.stages) > MAX_STAGES:
            raise LanguageError(f"the page plays plans of up to {MAX_STAGES} stages, and this has {len(plan.stages)}")
        if w is not None and plan.task is None:
            raise LanguageError("weights take the place of a plain goal's, and this phrase is a plan")
        avoided = [stage.avoid for stage in plan.stages]
        most = max(len(task.clauses) for task in (*plan.goals, *avoided) if task)
        size = next(size for size in _CLAUSES if size >= most)
        goals = [self._weights(goal, size) for goal in plan.goals]
        if w is not None:
            goals = [np.asarray(padded(jnp.asarray(w), size))]
        avoid = [self._weights(task, size if any(avoided) else 0) for task in avoided]
        return Aim(plan, np.stack(goals), np.stack(avoid), regions_of(plan))

    def _weights(self, task: Task | None, size: int) -> Float[np.ndarray, "c d m"]:
        """A task's clauses as weights, padded; of none, clauses that never hold."""
        config, grounding = self.library.config, self.library.grounding
        if task is None:
            return np.full((size, len(self.library.feature_names), config.bins), -1, np.float32)
        return np.asarray(compiled.weights_of(on_any_grid(task), config.bins, grounding))[:size]

    def start(self, seed: int) -> Float[np.ndarray, " k"]:
        """Where the episode of a seed begins."""
        with self._alone:
            state, _ = compiled.begin(self.world, _seeds(seed, 1))
            return np.asarray(compiled.place(self.world, state))

    def episode(
        self,
        aim: Aim,
        seed: int,
        start: Float[np.ndarray, " k"] | None,
        method: Method,
        stage: int = 0,
        after: Sequence[Leg] = (),
    ) -> Episode:
        """The episode of a seed, or with the seed's chance from another start, a later stage, or after other goals.

        TooShort if one of those was over before.
        """
        played = self._played(aim, method, _seeds(seed, 1), start, stage, after, thinking=True)
        (run,) = played.runs
        thinks = method in ("committed", "plain")
        return Episode(
            np.concatenate(run.places),
            grids.bin_index(np.concatenate(run.features), self.library.config.bins),
            run.stages,
            np.concatenate([np.zeros(0, np.int32), *run.actions]),
            run.thoughts if thinks else None,
            run.success,
            run.broken,
            played.state,
        )

    def step(self, aim: Aim, position: Float[np.ndarray, " k"], action: int, stage: int = 0) -> Episode:
        """One action of somebody else's in a stage of a plan: an episode of one step."""
        here = self.placed(position)
        seen = jax.device_get(compiled.step_once(self.world, self.library.features, here, jnp.int32(action)))
        positions = np.stack([position, seen.places[1]])
        holding = aim.regions.holding(positions)
        before = Standing(stage, bool(holding.avoid[0, stage]))
        after = aim.regions.follow(before, holding.at(1))
        success = after.stage >= len(aim.plan.stages)
        stages = [before.stage, after.stage]
        return Episode(
            positions,
            grids.bin_index(seen.features, self.library.config.bins),
            stages,
            np.array([action]),
            None,
            success,
            after.broken,
            lambda t: self.placed(positions[t]),
        )

    def placed(self, position: Float[np.ndarray, " k"]) -> PyTree:
        """The state of a world of sprites at a position: [1, ...]."""
        assert self.arena is not None  # as the API makes sure
        return compiled.placed(self.arena, position[None])

    def outcomes(self, aim: Aim, seed: int, method: Method) -> tuple[list[bool], list[int]]:
        """Success and steps of the episodes of BATCH seeds from `seed` on."""
        waves = -(-BATCH // (at_once(self.world) or BATCH))
        size = -(-BATCH // waves)
        played = [self._played(aim, method, _seeds((seed + i * size) % 2**32, size)) for i in range(waves)]
        runs = [run for wave in played for run in wave.runs][:BATCH]
        return [run.success for run in runs], [run.steps for run in runs]

    def _played(
        self,
        aim: Aim,
        method: Method,
        seeds: UInt[np.ndarray, " n"],
        start: Float[np.ndarray, " k"] | None = None,
        stage: int = 0,
        after: Sequence[Leg] = (),
        thinking: bool = False,
    ) -> Played:
        def on(aim: Aim, method: Method, states: PyTree, stage: int, **how: Any) -> Played:
            course = Course(aim.regions, *self._view(method, aim))
            actor = partial(self.actor, method, self.guides(method, aim))
            return runs.play(self.world, self.library.features, actor, course, states, keys, stage, **how)

        with self._alone:
            states, keys = compiled.begin(self.world, seeds)
            states = states if start is None else self.placed(start)
            for leg in after:
                before = on(leg.aim, "committed", states, leg.stage, most=leg.steps)
                if before.runs[0].steps < leg.steps:
                    raise TooShort(f"the episode of {str(leg.aim.plan)!r} is over after {before.runs[0].steps} steps")
                states = before.state(leg.steps)
            return on(aim, method, states, stage, thinking=thinking)

    def _view(self, method: Method, aim: Aim) -> tuple[Tables, float]:
        """In what terms a player sees that a stage is reached, and how far off it may be."""
        if aim.task is not None or method == "random":  # one stage, or none in mind
            return (), 0.0
        if method == "oracle":
            return aim.regions.goal, 0.0
        bins, grounding = self.library.config.bins, self.library.grounding
        resolution = float(np.max(resolution_of(self.library.features, self.world)))
        return tuple(as_felt(goal, bins, grounding) for goal in aim.plan.goals), float(doubt(resolution, bins))

    def teach(self, task: Task, seed: int, steps: int = min(LESSONS)) -> list[Lesson]:
        """Weights from reward alone: 1 where the goal holds. What the words say is not told.

        The weights are 0 where no step was rewarded, or every one.
        """
        bins, budgets = self.library.config.bins, LESSONS[steps]
        key = jax.random.fold_in(jax.random.key(seed), 0)  # as `cumulant solve --reward` learns
        with self._alone:
            taught = compiled.teach(self.world, self.library.gpi(), on_any_grid(task), key, bins, budgets)
            labelled, beliefs = jax.device_get(taught)
        return [
            Lesson(steps, int(labelled.reward[:steps].sum()), w, int(boxes), float(sure))
            for steps, w, boxes, sure in zip(budgets, *beliefs[:3], strict=True)
        ]

    def psi(self, state: PyTree, action: int) -> PsiAt:
        """Ψ as learnt, as the Lemma has it, and as it comes out when every policy is played from a state [1, ...]."""
        gpi, gamma = self.library.gpi(), self.library.config.gamma
        return jax.device_get(compiled.psi(self.world, gpi, state, jnp.int32(action), gamma))

    def frames(self, episode: Episode, most: int) -> Frames:
        """What an episode looked like: of a long one, every second state, or every third, and so on."""
        last = len(episode.positions) - 1
        every = -(-(last + 1) // most)
        shown = range(last % every, last + 1, every)  # the last one is among them
        states = (self.placed(episode.positions[t]) if self.arena else episode.state(t) for t in shown)
        return Frames(
            np.stack([np.asarray(compiled.picture(self.world, state)) for state in states]), every, shown.start
        )

    def film(self, caption: str, plan: Plan, episode: Episode) -> bytes:
        """An episode as a GIF, of as many frames as an episode of a plain goal may have states."""
        frames = self.frames(episode, self.world.max_steps + 1)
        pictures, shown = frames.pictures, slice(frames.first, None, frames.every)
        done: list[list[tuple[str, bool]]] = []
        if self.arena:
            places = np.asarray(episode.positions)
            pictures = marked(self.arena, pictures, places, plan, shown)
            done = ticked(plan, places)[shown]
        return gif([Film(caption, pictures, episode.success, frames.every, frames.first, done=done)])

    def guides(self, method: Method, aim: Aim) -> Guides:
        """What a player goes by, stage by stage. ValueError where there is no oracle, or a goal is too fine for it."""
        if method == "oracle":
            if self._oracle is None:
                raise ValueError("this world has no oracle")
            return (np.stack([_finest(*self._oracle, goal.table(MAX_CLAUSES)) for goal in aim.plan.goals]),)
        if method == "random":
            return (np.zeros((len(aim.plan.stages), 1, 1, 1), bool),)
        return (aim.weights, aim.avoid) if method == "committed" else (aim.weights,)  # plain GPI takes no heed

    def actor(self, method: Method, guides: Guides, stages: Int[np.ndarray, " n"]) -> compiled.Actor:
        """Who plays n episodes, each in a stage. The oracle reads the coordinates, whatever the library's features."""
        own = tuple(guide[stages] for guide in guides)
        if method == "oracle" and self._oracle is not None:
            return compiled.Actor(*self._oracle, own)
        if method == "random":
            return compiled.Actor(self.world, random_policy, own)
        return compiled.Actor(self.world, self.library.gpi(method == "committed"), own)


def _finest(world: World, oracle: PolicyMaker, table: Bool[np.ndarray, "c k b"]) -> Bool[np.ndarray, "c k n"]:
    """The goal on the finest grid that the oracle can aim at, of those with twice as many bins, and twice, and so on.

    It acts as before, and its programs, which are one for each number of bins, are half as many. ValueError if even the
    goal's own grid is too fine.
    """
    oracle(world, jax.device_put(table))  # which, unlike `jnp.asarray`, compiles nothing for a new shape
    while 2 * table.shape[-1] <= MAX_BINS:
        finer = grids.halved(table)
        try:
            oracle(world, jax.device_put(finer))
        except ValueError:
            break
        table = finer
    return table


def _seeds(first: int, number: int) -> UInt[np.ndarray, " n"]:
    """So many seeds from the first on; after the largest comes 0."""
    return np.uint32(first) + np.arange(number, dtype=np.uint32)
