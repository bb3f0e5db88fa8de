"""Goal, start and seed → an episode with everything there is to show of it."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from cumulant.goals.tasks import MAX_BINS, MAX_CLAUSES, Task
from cumulant.goals.weights import padded
from cumulant.transfer.audit import PsiAt, psi_at
from cumulant.transfer.gpi import Thought
from cumulant.transfer.library import Library
from cumulant.web import compiled, grids
from cumulant.web.grids import on_any_grid
from cumulant.worlds.episodes import PolicyMaker, episode_keys, random_policy
from cumulant.worlds.films import Film, gif
from cumulant.worlds.protocol import Arena, World
from cumulant.worlds.shipped import oracle_of

Method = Literal["committed", "plain", "oracle", "random"]
METHODS: tuple[Method, ...] = ("committed", "plain", "oracle", "random")
BATCH = 25  # episodes of `outcomes`
BUDGETS = (250, 500, 1000, 2000, 4000)  # labelled steps after which w is regressed; each divides the last
_CLAUSES = (8, MAX_CLAUSES)  # the sizes that goals are padded to, so that two programs serve all goals


class Aim(NamedTuple):
    """A goal made ready: what to act on, and what counts as reaching it."""

    task: Task
    weights: Float[np.ndarray, "c d m"]
    table: Bool[np.ndarray, "own k b"]  # of the goal's own clauses


class Episode(NamedTuple):
    """One episode until its goal or the time limit: t steps, t + 1 states. Thoughts are None where nobody thinks."""

    positions: Float[np.ndarray, "states k"]
    bins: Int[np.ndarray, "states d"]  # where φ is 1
    met: Bool[np.ndarray, "states c k"]  # which conditions of the goal hold
    actions: Int[np.ndarray, " t"]
    thoughts: Thought | None  # leading axis t
    success: bool


class Lesson(NamedTuple):
    """What a number of labelled steps has taught."""

    steps: int
    rewarded: int
    weights: Float[np.ndarray, "d m"]


class NotForThePage(ValueError):
    """A library that the page has no use for: its world cannot be drawn, or words mean nothing to it."""


class Player:
    """A library's world, ready to play. Its methods are pure, and may be called from several threads."""

    def __init__(self, library: Library):
        """Nothing is compiled yet: see `warm_ups`."""
        if not isinstance(library.world, Arena):
            raise NotForThePage(f"the page draws worlds of sprites, and a {type(library.world).__name__} is none")
        if library.why_no_words:
            raise NotForThePage(f"the page is for goals in words: {library.why_no_words}")
        self.library, self.world = library, library.world
        self._oracle = oracle_of(library.world)

    def warm_ups(self) -> Iterator[Callable[[], Any]]:
        """What to call once so that nobody waits for a compiler later; the first is all that a first episode needs."""
        few = self.aim(f"{self.world.objects[0]} left")
        many = few._replace(weights=np.asarray(padded(jnp.asarray(few.weights), MAX_CLAUSES)))
        here = self.start(0)
        yield lambda: (self.episode(few, 0, None, "committed"), self.step(few, here, 0))
        yield lambda: self.psi(here, 0)
        for method in METHODS[1:]:
            yield partial(self.episode, few, 0, None, method)
        for method in METHODS:
            yield partial(self.outcomes, few, 0, method)
        yield lambda: self.teach(self.aim(f"{self.world.objects[0]} x 1/6"), 0)
        yield lambda: self.film("", self.episode(few, 0, None, "committed"))
        for method in METHODS[:2]:
            yield partial(self.episode, many, 0, None, method)
            yield partial(self.outcomes, many, 0, method)
        for aim in self._oracles_aims():
            yield partial(self.episode, aim, 0, None, "oracle")
            yield partial(self.outcomes, aim, 0, "oracle")

    def _oracles_aims(self) -> list[Aim]:
        """A goal for each of the few grids that the oracle has a program for."""
        aims: dict[int, Aim] = {}
        for bins in range(2, MAX_BINS + 1):
            aim = self.aim(f"{self.world.objects[0]} x 1/{bins}")
            try:
                aims.setdefault(self.actor("oracle", aim).guide.shape[-1], aim)
            except ValueError:  # too fine for it, or there is none
                break
        return list(aims.values())

    def aim(self, phrase: str, w: Float[np.ndarray, "c d m"] | None = None) -> Aim:
        """The goal that a phrase means; learnt weights may take the place of the phrase's own."""
        task = self.library.task(phrase)
        size = next(size for size in _CLAUSES if size >= len(task.clauses))
        if w is None:
            own = compiled.weights_of(on_any_grid(task), self.library.config.bins, self.library.grounding)
        else:
            own = padded(jnp.asarray(w), size)
        return Aim(task, np.asarray(own)[:size], task.table())

    def start(self, seed: int) -> Float[np.ndarray, " k"]:
        """Where the episode of a seed begins."""
        return np.asarray(compiled.begin(self.world, np.asarray(seed, np.uint32))[0])

    def episode(self, aim: Aim, seed: int, start: Float[np.ndarray, " k"] | None, method: Method) -> Episode:
        """The episode of a seed, or with the seed's chance from another start."""
        first, key = compiled.begin(self.world, np.asarray(seed, np.uint32))
        first = first if start is None else jnp.asarray(start)
        features, actor = self.library.features, self.actor(method, aim)
        played = compiled.play_one(self.world, features, actor, first, key, self.library.config.bins)
        positions, bins, actions, thoughts = jax.device_get(played)
        holds = grids.met(aim.table, positions)
        success, steps = _ending(_reached(holds))
        actions, thoughts = jax.tree.map(lambda leaf: leaf[:steps], (actions, thoughts))
        return Episode(positions[: steps + 1], bins[: steps + 1], holds[: steps + 1], actions, thoughts, success)

    def step(self, aim: Aim, position: Float[np.ndarray, " k"], action: int) -> Episode:
        """One action of somebody else's: an episode of one step."""
        now, bins = jnp.asarray(position), self.library.config.bins
        taken = compiled.step_once(self.world, self.library.features, now, jnp.int32(action), bins)
        following, where = jax.device_get(taken)
        positions = np.stack([position, following])
        holds = grids.met(aim.table, positions)
        return Episode(positions, where, holds, np.array([action]), None, bool(_reached(holds)[1]))

    def outcomes(self, aim: Aim, seed: int, method: Method) -> tuple[list[bool], list[int]]:
        """Success and steps of the episodes of BATCH seeds from `seed` on."""
        positions = compiled.places_of_many(self.actor(method, aim), episode_keys(seed, BATCH))
        reached = _reached(grids.met(aim.table, np.asarray(positions).reshape(-1, positions.shape[-1])))
        endings = [_ending(row) for row in reached.reshape(BATCH, -1)]
        return [success for success, _ in endings], [steps for _, steps in endings]

    def teach(self, aim: Aim, seed: int) -> list[Lesson]:
        """Weights from reward alone: 1 where the goal holds. What the words say is not told."""
        bins = self.library.config.bins
        key = jax.random.fold_in(jax.random.key(seed), 0)  # as `cumulant solve --reward` learns
        labelled = compiled.collect(self.world, self.library.gpi(), on_any_grid(aim.task), key, bins, BUDGETS[-1])
        lessons = []
        for steps in BUDGETS:
            times = BUDGETS[-1] // steps  # steps seen again and again tell no more, and one program fits them all
            repeated = jax.tree.map(lambda leaf, n=steps, t=times: jnp.concatenate([leaf[:n]] * t), labelled)
            found = int(labelled.reward[:steps].sum())
            lessons.append(Lesson(steps, found, np.asarray(compiled.fit(repeated, bins))))
        return lessons

    def psi(self, position: Float[np.ndarray, " k"], action: int) -> PsiAt:
        """Ψ as learnt, as the Lemma has it, and as it comes out when every policy is played from here."""
        gamma = self.library.config.gamma
        state = self.world.state_of(jnp.asarray(position))
        return jax.device_get(psi_at(self.world, self.library.gpi(), state, jnp.int32(action), gamma))

    def film(self, caption: str, episode: Episode) -> bytes:
        """An episode as a GIF."""
        length = self.world.max_steps + 1
        padded = np.pad(episode.positions, ((0, length - len(episode.positions)), (0, 0)), mode="edge")
        frames = np.asarray(compiled.frames_of(self.world, jnp.asarray(padded)))[: len(episode.positions)]
        return gif([Film(caption, frames, episode.success)])

    def actor(self, method: Method, aim: Aim) -> compiled.Actor:
        """Who plays. The oracle reads the coordinates, whatever the library's features are made from.

        ValueError where there is no oracle, or the goal is too fine for it.
        """
        if method == "oracle":
            if self._oracle is None:
                raise ValueError("this world has no oracle")
            return compiled.Actor(*self._oracle, _finest(*self._oracle, aim.task.table(MAX_CLAUSES)))
        if method == "random":
            return compiled.Actor(self.world, random_policy, jnp.zeros((1, 1, 1), bool))
        return compiled.Actor(self.world, self.library.gpi(method == "committed"), jnp.asarray(aim.weights))


def _finest(world: World, oracle: PolicyMaker, table: Bool[np.ndarray, "c k b"]) -> Bool[Array, "c k n"]:
    """The goal on the finest grid that the oracle can aim at, of those with twice as many bins, and twice, and so on.

    It acts as before, and its programs, which are one for each number of bins, are half as many. ValueError if even the
    goal's own grid is too fine.
    """
    finest = jax.device_put(table)  # which, unlike `jnp.asarray`, compiles nothing for a new shape
    oracle(world, finest)
    while 2 * table.shape[-1] <= MAX_BINS:
        table = grids.halved(table)
        finer = jax.device_put(table)
        try:
            oracle(world, finer)
        except ValueError:
            break
        finest = finer
    return finest


def _reached(holds: Bool[np.ndarray, "states c k"]) -> Bool[np.ndarray, " states"]:
    return np.any(np.all(holds, axis=2), axis=1)


def _ending(reached: Bool[np.ndarray, " states"]) -> tuple[bool, int]:
    """Whether an episode was a success, and its steps."""
    return (True, int(reached.argmax())) if reached.any() else (False, len(reached) - 1)
