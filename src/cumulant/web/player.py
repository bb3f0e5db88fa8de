"""Goal or plan, start and seed → an episode with everything there is to show of it, played by the core.

All that is played has the shape of a plan, so that few programs serve all phrases.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import cached_property, partial
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PyTree, Shaped, UInt8

from cumulant.features.coordinates import Features, feature_count
from cumulant.goals import plans
from cumulant.goals.bins import bin_index
from cumulant.goals.clauses import MAX_CLAUSES
from cumulant.goals.errors import LanguageError
from cumulant.goals.feature import described
from cumulant.goals.plans import Plan, PlanTable, Progress, tables_of
from cumulant.goals.regions import MAX_BINS
from cumulant.goals.tasks import GoalTable, Task, goal_table, met
from cumulant.goals.vocabulary import Unspeakable, vocabulary_of
from cumulant.transfer.audit import PsiAt, psi_at
from cumulant.transfer.gpi import Gpi, PlanGuide, Thought
from cumulant.transfer.inference import learn_many
from cumulant.transfer.library import Library
from cumulant.web.episodes import MAX_STAGES, Aim, Episode, Frames, Leg, Lesson, TooShort
from cumulant.worlds.episodes import PolicyMaker, Rollout, endings, episode_keys, random_policy, reward_of, rollouts
from cumulant.worlds.films import Film, gif
from cumulant.worlds.markings import marked, ticked
from cumulant.worlds.protocol import Arena, World, apart, at_once, render
from cumulant.worlds.shipped import oracle_of

Method = Literal["committed", "plain", "oracle", "random"]
METHODS: tuple[Method, ...] = ("committed", "plain", "oracle", "random")
BATCH = 25  # episodes of `outcomes`
FRAMES = 120  # of an episode, at most: of a long one, every second state, or every third, and so on
LESSONS = {2_000: (250, 500, 1_000, 2_000), 10_000: (1_000, 2_500, 5_000, 10_000)}  # steps → when to show what they say
CHANGES = 8  # of the goal on the way, at most
_FRAME = 320  # pixels of a film
_LOOK = 32  # states that are looked into at once
_FOREVER = 2**31 - 1  # steps


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
                jax.block_until_ready(_picture(self.world, _first(self.world, episode_keys(0, 1))))
        except Exception:  # whatever its renderer lacks, a screen or a mode: bars need none of it
            return False
        return True

    def warm_ups(self) -> Iterator[Callable[[], Any]]:
        """What to call once so that nobody waits for a compiler later; the first is all that a first episode needs."""
        few = self.aim(self._elsewhere())
        yield lambda: self.episode(few, 0, None, "committed")
        if self.arena:
            yield lambda: self.step(few, self.start(0), 0)
        yield lambda: self.psi(self.episode(few, 0, None, "committed").state(0), 0)
        yield partial(self.episode, _careful(few), 0, None, "committed")
        for method in self.methods[1:]:
            yield partial(self.episode, few, 0, None, method)
        for method in self.methods:
            yield partial(self.outcomes, few, 0, method)
        yield partial(self.outcomes, _careful(few), 0, "committed")
        yield lambda: self.teach(self._elsewhere(), 0)
        if self.draws:
            yield lambda: self.film("", few.plan, self.episode(few, 0, None, "committed"))
        many = few._replace(table=_widened(few.table), guide=_widened(few.guide))
        for aim, method in ((many, "plain"), (many, "committed"), (_careful(many), "committed")):
            yield partial(self.episode, aim, 0, None, method)
            yield partial(self.outcomes, aim, 0, method)

    def _elsewhere(self) -> Task:
        """A goal that does not hold yet where the episode of seed 0 begins: so that something is played for it."""
        names = self.library.world.feature_names
        wanted = 2 if self.start(0)[0] < 0.5 else 0
        return Task.where(names, {described(names)[0].full_name: [wanted]})

    def aim(self, phrase: str | Task | Plan, w: Float[np.ndarray, "1 d m"] | None = None) -> Aim:
        """What a phrase asks for; learnt weights may take the place of a plain goal's own."""
        plan = self.library.plan(phrase)
        if len(plan.stages) > MAX_STAGES:
            raise LanguageError(f"the page plays plans of up to {MAX_STAGES} stages, and this has {len(plan.stages)}")
        if w is not None and plan.task is None:
            raise LanguageError("weights take the place of a plain goal's, and this phrase is a plan")
        table = tables_of([plan], as_plans=True)
        guide = jax.device_get(self.library.guides_of(table))
        if plan.task is not None:  # after which nothing follows, whatever its player believes
            guide = guide._replace(goal=jax.tree.map(np.zeros_like, guide.goal))
        if w is not None:
            own = np.full_like(guide.w, -1)
            own[:, :, :1] = w
            guide = guide._replace(w=own)
        return Aim(plan, table, guide)

    def start(self, seed: int) -> Float[np.ndarray, " k"]:
        """Where the episode of a seed begins."""
        with self._alone:
            return np.asarray(_place(self.world, _first(self.world, episode_keys(seed, 1))))

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
        keys = episode_keys(seed, 1)

        def on(aim: Aim, method: Method, state: PyTree, stage: int, stop: int) -> Rollout:
            played = rollouts(
                *self._asked(aim, method), keys, state, np.array(stage, np.int32), np.array(stop, np.int32)
            )
            return jax.tree.map(lambda leaf: leaf[0], jax.device_get(played))

        with self._alone:
            state = _first(self.world, keys) if start is None else self.placed(start)
            for leg in after:
                before = on(leg.aim, "committed", state, leg.stage, leg.steps)
                if before.steps < leg.steps:
                    raise TooShort(f"the episode of {str(leg.aim.plan)!r} is over after {before.steps} steps")
                state = jax.tree.map(lambda leaf: leaf[-1], before.states)
            played = on(aim, method, state, stage, _FOREVER)
        steps, thoughts = int(played.steps), None
        if method in ("committed", "plain"):
            known = jax.tree.map(lambda leaf: leaf[0, ...], aim.guide._replace(avoid=aim.guide.avoid[:, :, :0]))
            think = partial(_thoughts, self.world, self.library.gpi(), known)
            thoughts = _in_blocks(think, (played.states, played.memories), steps)
        return self._looked_into(aim, played.states, played.stages, played.actions[:steps], played.progress, thoughts)

    def _looked_into(
        self,
        aim: Aim,
        states: PyTree,
        stages: Int[Array | np.ndarray, " n"],
        actions: Int[Array | np.ndarray, " t"],
        ending: Progress,
        thoughts: Thought | None = None,
    ) -> Episode:
        number, goal = len(actions) + 1, jax.tree.map(lambda leaf: leaf[0, ...], aim.table.goal)
        current = np.minimum(stages, len(aim.plan.stages) - 1)
        look = partial(_looks, self.world, self.library.features, self.library.config.bins, goal)
        positions, bins, held = _in_blocks(look, (states, current), number)
        return Episode(
            positions,
            bins,
            held,
            np.asarray(stages)[:number],
            np.asarray(actions),
            thoughts,
            int(ending.stage) >= len(aim.plan.stages),
            "entered" if ending.entered else "lost" if ending.lost else "",
            jax.tree.map(lambda leaf: leaf[:number], states),
        )

    def step(self, aim: Aim, position: Float[np.ndarray, " k"], action: int, stage: int = 0) -> Episode:
        """One action of somebody else's in a stage of a plan: an episode of one step."""
        stepped = _stepped(self.world, aim.table, self.placed(position), jnp.int32(action), jnp.int32(stage))
        states, ending = jax.device_get(stepped)
        stages = np.array([stage, ending.stage], np.int32)
        return self._looked_into(aim, states, stages, np.array([action], np.int32), ending)

    def placed(self, position: Float[np.ndarray, " k"]) -> PyTree:
        """The state of a world of sprites at a position."""
        assert self.arena is not None  # as the API makes sure
        return _placed(self.arena, jnp.asarray(position))

    def outcomes(self, aim: Aim, seed: int, method: Method) -> tuple[list[bool], list[int]]:
        """Success and steps of the episodes of BATCH seeds from `seed` on."""
        with self._alone:
            success, steps, _ = jax.device_get(endings(*self._asked(aim, method), episode_keys(seed, BATCH)))
        return success.tolist(), steps.tolist()

    def teach(self, task: Task, seed: int, steps: int = min(LESSONS)) -> list[Lesson]:
        """Weights from reward alone: 1 where the goal holds. What the words say is not told.

        The weights are 0 where no step was rewarded, or every one.
        """
        bins, budgets = self.library.config.bins, LESSONS[steps]
        key = jax.random.fold_in(jax.random.key(seed), 0)  # as `cumulant solve --reward` learns
        table = goal_table([task], MAX_CLAUSES, MAX_BINS)
        with self._alone:
            taught = learn_many(self.world, self.library.gpi(), bins, reward_of, table, key[None], budgets)
            belief = jax.tree.map(lambda leaf: leaf[0], jax.device_get(taught))
        return [
            Lesson(steps, int(earned), w, int(boxes), float(sure))
            for steps, earned, w, boxes, sure in zip(budgets, belief.earned, *belief[:3], strict=True)
        ]

    def psi(self, state: PyTree, action: int) -> PsiAt:
        """Ψ as learnt, as the Lemma has it, and as it comes out when every policy is played from a state."""
        gpi, gamma = self.library.gpi(), self.library.config.gamma
        return jax.device_get(psi_at(self.world, gpi, state, jnp.int32(action), gamma))

    def frames(self, episode: Episode, most: int) -> Frames:
        """What an episode looked like: of a long one, every second state, or every third, and so on."""
        last = len(episode.positions) - 1
        every = -(-(last + 1) // most)
        shown = range(last % every, last + 1, every)  # the last one is among them
        drawn = [np.asarray(_picture(self.world, episode.state(t))) for t in shown]
        return Frames(np.stack(drawn), every, shown.start)

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

    def check_oracle(self, aim: Aim) -> None:
        """Refuse a goal that is too fine for the oracle, or a world that has none, by a ValueError."""
        if self._oracle is None:
            raise ValueError("this world has no oracle")
        world, oracle = self._oracle
        jax.eval_shape(lambda: (oracle(world, jax.tree.map(lambda leaf: leaf[0, ...], aim.table)), 0)[1])

    def _asked(self, aim: Aim, method: Method) -> tuple[World, PolicyMaker, PlanTable, PyTree]:
        """Who plays in which world, for what, and by what: the oracle and chance take no heed of what is avoided."""
        if method == "committed":
            return self.world, self.library.gpi(), aim.table, aim.guide
        if method == "plain":
            guide = aim.guide._replace(avoid=aim.guide.avoid[:, :, :0])
            return self.world, self.library.gpi(committed=False), aim.table, guide
        table: PlanTable = _widened(aim.table)  # so that one program serves all goals
        if method == "random" or self._oracle is None:
            return self.world, random_policy, table, ()
        nothing = table.avoid._replace(allowed=table.avoid.allowed[:, :, :0])
        return *self._oracle, table, table._replace(avoid=nothing, kept=nothing)


def _careful(aim: Aim) -> Aim:
    """The same goal, acted on by the program that heeds what to avoid."""
    return aim._replace(guide=aim.guide._replace(avoid=np.full_like(aim.guide.w, -1)))


def _widened(several: PyTree[Shaped[np.ndarray, "1 ..."]]) -> Any:
    """Tables or a guide with as many clauses as there may be, which never hold."""

    def wide(leaf: Shaped[np.ndarray, "1 ..."]) -> Shaped[np.ndarray, "1 ..."]:
        if leaf.ndim < 5 or not leaf.shape[2]:  # has no clauses
            return leaf
        more = [(0, 0), (0, 0), (0, MAX_CLAUSES - leaf.shape[2]), (0, 0), (0, 0)]
        return np.pad(leaf, more, constant_values=leaf.dtype.type(0 if leaf.dtype == bool else -1))

    return jax.tree.map(wide, several)


def _in_blocks(function: Callable[..., PyTree], xs: PyTree, number: int) -> PyTree:
    """The function of the first of some rows, so many at a time that one program serves all episodes."""

    def block(first: int) -> PyTree:
        which = np.minimum(np.arange(first, first + _LOOK), max(number - 1, 0))
        return function(*jax.tree.map(lambda leaf: leaf[which], xs))

    found = jax.device_get([block(first) for first in range(0, max(number, 1), _LOOK)])
    return jax.tree.map(lambda *leaves: np.concatenate(leaves)[:number], *found)


@eqx.filter_jit
def _first(world: World, keys: Key[Array, "1"]) -> PyTree:
    """The state in which the episode of a key begins, as `play` has it."""
    return world.reset(jax.random.split(keys[0])[0])


@eqx.filter_jit
def _place(world: World, state: PyTree) -> Float[Array, " k"]:
    return world.features(state)


@eqx.filter_jit
def _placed(world: Arena, place: Float[Array, " k"]) -> PyTree:
    return world.state_of(place)


@eqx.filter_jit
def _picture(world: World, state: PyTree) -> UInt8[Array, "size size 3"]:
    return render(world, state, _FRAME)


@eqx.filter_jit
def _looks(
    world: World, features: Features, bins: int, goals: GoalTable, states: PyTree, stages: Int[Array, " n"]
) -> tuple[Float[Array, "n k"], Int[Array, "n d"], Bool[Array, "n c k"]]:
    """What some states are like: the world's features, the bins of the library's, and which conditions hold."""

    def look(state: PyTree, stage: Int[Array, ""]) -> tuple[Array, Array, Array]:
        f, place = features(world.observe(state))[: feature_count(features, world)], world.features(state)
        goal = jax.tree.map(lambda leaf: jnp.asarray(leaf)[stage], goals)
        return place, bin_index(f, bins), met(goal, place)

    return jax.vmap(look)(states, stages)


@eqx.filter_jit
def _thoughts(world: World, gpi: Gpi, guide: PlanGuide, states: PyTree, memories: PyTree) -> Thought:
    """What a library's player had in mind when it acted in some states."""
    return jax.vmap(lambda state, memory: gpi.thought(world, guide, world.observe(state), memory))(states, memories)


@eqx.filter_jit
def _stepped(
    world: World, tables: PlanTable, state: PyTree, action: Int[Array, ""], stage: Int[Array, ""]
) -> tuple[PyTree, Progress]:
    """A state and the one that an action leads to, and how a goal that was in a stage then stands."""
    table, following = jax.tree.map(lambda leaf: jnp.asarray(leaf)[0], tables), world.step(state, action)
    before = plans.standing(table, world.features(state), stage)
    both = jax.tree.map(lambda *leaves: jnp.stack(leaves), state, following)
    return both, plans.follow(table, before, world.features(following))
