"""The skill library: a finished stage 2, with all that is needed to act. A folder on disk, or the one that ships."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from cumulant import storage
from cumulant.config import FreePlay
from cumulant.features.coordinates import (
    Features,
    Learnt,
    Rotation,
    feature_count,
    inputs_of,
    true_features,
    world_of,
)
from cumulant.features.grounding import Grounding
from cumulant.freeplay.networks import Network, make_network
from cumulant.goals.feature import described, names_of, words_of_bins
from cumulant.goals.language import parse, parse_plan
from cumulant.goals.phrases import shortened
from cumulant.goals.plans import Plan, PlanTable, tables_of
from cumulant.goals.promises import remark
from cumulant.goals.rewards import RewardTable
from cumulant.goals.tasks import GoalTable, Task, padded_bins
from cumulant.goals.weights import weights
from cumulant.transfer import inference, library_folders, records
from cumulant.transfer.evaluation import Success, check_episodes, evaluate
from cumulant.transfer.gpi import Gpi, PlanGuide
from cumulant.transfer.records import Record
from cumulant.transfer.reward_models import Belief
from cumulant.worlds.episodes import Policy, Reward, reward_of
from cumulant.worlds.films import Film, watch
from cumulant.worlds.protocol import World, colours_of
from cumulant.worlds.seen import Seen

_FINER = 8  # times as many bins, to tell where a plan's stage is reached by features whose regions are no whole bins
_ROUGH = 0.1  # of a bin: how far off the edges may be that words have in learnt features


@dataclass(frozen=True)
class Library:
    """Skills for every bin of every feature of a world, and their successor features.

    >>> import jax, cumulant
    >>> library = cumulant.Library.load()  # the one that ships
    >>> library
    Library(Spriteworld: agent, square, circle; 6 features x 9 bins, 54 skills; free play 40,960,000 steps)
    >>> print(library.task("get the square to the top left"))
    square top left
    >>> library.weights("square left or circle right").shape  # clauses, features, bins
    (2, 6, 9)
    >>> library.evaluate({"mine": [library.task("agent left")]}, jax.random.key(0), episodes=8)["mine"].success
    1.0
    """

    world: World
    config: FreePlay
    network: Network
    features: Features = true_features  # f: observation → [0, 1]^d
    moved: Float[Array, "d d"] | None = None  # how far each feature's skills move every other, if measured
    tremble: tuple[float, ...] = ()  # of the world's own features, as shares of their ranges, where they do
    record: Record = records.UNKNOWN  # how it was made, and what was measured of it

    def __post_init__(self) -> None:
        """Refuse features that were learnt elsewhere."""
        library_folders.check_features(self.features, self.world)

    def __repr__(self) -> str:
        things = list(dict.fromkeys(each.of or each.name for each in described(self.world.feature_names)))
        shown = shortened(", ".join(things))
        d, m = feature_count(self.features, self.world), self.config.bins
        kinds = {"learnt ": Learnt, "entangled ": Rotation}
        kind = next((name for name, kind in kinds.items() if isinstance(self.features, kind)), "")
        skills = f"{d} {kind}feature{'s' * (d != 1)} x {m} bins, {d * m} skills"
        steps = f"free play {self.config.env_steps:,} steps"
        return f"Library({type(self.world).__name__}: {shown}; {skills}; {steps})"

    @property
    def seen(self) -> World:
        """The world as the agent sees it: its own features in [0, 1], first in the observation; or as it is."""
        as_seen = world_of(self.features, self.world)
        return replace(as_seen, tremble=self.tremble) if isinstance(as_seen, Seen) else as_seen

    @property
    def feature_names(self) -> tuple[str, ...]:
        """What the d features are called: as the world calls them, or as far as words have a meaning for them."""
        coordinates, number = names_of(self.world.feature_names), feature_count(self.features, self.world)
        if self.grounding:
            return self.grounding.names(coordinates)
        kind = "latent" if isinstance(self.features, Learnt) else "feature"
        return coordinates if self.knows_words else tuple(f"{kind} {i}" for i in range(number))

    @property
    def bin_names(self) -> tuple[tuple[str, ...], ...]:
        """What the bins of each feature are called, [d][m]: "left", "warm", or "2/9" where there is no word."""
        m, falling = self.config.bins, self.grounding.falling if self.grounding else ()
        regions = {each.full_name: each.regions for each in described(self.world.feature_names)}

        def names(i: int, feature: str) -> tuple[str, ...]:
            rising = words_of_bins(regions.get(feature, ()), m)
            return rising[::-1] if i in falling else rising

        return tuple(names(i, feature) for i, feature in enumerate(self.feature_names))

    @property
    def grounding(self) -> Grounding | None:
        """What words mean for learnt features, if that is known."""
        return self.features.grounding if isinstance(self.features, Learnt) else None

    def gpi(self, committed: bool = True) -> Gpi:
        """What makes a policy from weights, for `evaluate`."""
        return Gpi(self.network, self.features, committed, self.moved)

    @property
    def knows_words(self) -> bool:
        """Whether words and tasks, which speak of the true features, speak of this library's."""
        return not self.why_no_words

    @property
    def why_no_words(self) -> str:
        """Why words and tasks mean nothing to it, in one line; empty if they do."""
        if isinstance(self.features, Rotation):
            return "this library's features are entangled, and goals speak of the true ones"
        if self.grounding:
            return ""
        if isinstance(self.features, Learnt):
            return "this library's features are learnt, and no labels say what goals mean for them"
        names, number = names_of(self.world.feature_names), feature_count(self.features, self.world)
        if number != len(names):
            return f"this library has {number} features, and goals speak of the {len(names)} true ones"
        return ""

    def weights(self, goal: str | Task) -> Float[Array, "c d m"]:
        """A phrase's or a task's clauses as weights over the cumulants."""
        task = self.task(goal)
        return jnp.asarray(self.guide(task).w)[0, : len(task.clauses)]

    def weights_of(self, table: Bool[Array, "c k b"]) -> Float[Array, "c d m"]:
        """The clauses of `Task.table` as weights over the cumulants."""
        self._check_words()
        return _weights(table, self.config.bins, self.grounding)

    def guides_of(self, tables: PlanTable) -> PlanGuide:
        """Return what guides GPI to goals, for `evaluate`.

        Args:
            tables: The goals, as `goals.plans.tables_of` gives them, with a leading axis.

        Returns:
            The guides, with the same leading axis. A batch in which nothing is avoided has no weights for that.

        """
        self._check_words()
        w, felt = _all_weights(tables.goal, self.config.bins, self.grounding), tables.goal
        avoid: Any = np.zeros((*w.shape[:2], 0, *w.shape[3:]), np.float32)
        if np.any(tables.avoid.allowed):
            avoid = _all_weights(tables.avoid, self.config.bins, self.grounding)
        if self.grounding and w.shape[1] > 1:
            avoid, felt = _rounded(np.asarray(avoid), np.asarray(avoid)), self._felt(tables.goal, w)
        return PlanGuide(w, avoid, felt, tables.stages)

    def _felt(self, goals: GoalTable, w: Float[Array, "n s c d m"]) -> GoalTable:
        """Where stages' goals hold in terms of learnt features, so that a stage counts as reached where GPI stops."""
        found = []
        for i, own in enumerate(w):
            goal = jax.tree.map(lambda leaf, i=i: leaf[i : i + 1], goals)
            fine = math.lcm(self.config.bins, int(goal.bins[0, 0])) * _FINER
            exact = np.asarray(_all_weights(goal, fine, self.grounding))[0]
            whole = np.repeat(np.asarray(own), fine // self.config.bins, axis=-1)
            exact = _rounded(whole, exact)
            most = exact.max(axis=-1, keepdims=True)  # 0 for a coordinate that may be anything, -1 for no clause
            found.append(GoalTable((exact >= most / 2) & (most >= 0), np.full(len(exact), fine, np.int32)))
        size = padded_bins(max(each.allowed.shape[-1] for each in found))
        allowed = [np.pad(each.allowed, [(0, 0)] * 3 + [(0, size - each.allowed.shape[-1])]) for each in found]
        return GoalTable(np.stack(allowed), np.stack([each.bins for each in found]))

    def _check_words(self) -> None:
        if not self.knows_words:
            raise ValueError(f"{self.why_no_words}: give a reward")

    def plan(self, goal: str | Task | Plan) -> Plan:
        """The plan that a phrase means in this library's world; of a plain goal, a plan of one stage."""
        return (
            parse_plan(goal, self.world.feature_names, colours_of(self.world))
            if isinstance(goal, str)
            else Plan.of(goal)
        )

    def goal(self, goal: str | Task | Plan) -> Task | Plan:
        """What a phrase asks for in this library's world: a task, or a plan where there is more to it."""
        if isinstance(goal, Task):
            return goal
        plan = self.plan(goal)
        return plan if plan.task is None else plan.task

    def remark(self, goal: str | Task | Plan) -> str:
        """What there is to say of a goal that is finer than the library's bins; nothing, where it can promise it."""
        if self.grounding:
            return ""  # regions of coordinates are no bins of learnt features
        said = (remark(stage.reach, self.config.bins) for stage in self.plan(goal).stages)
        return next((words for words in said if words), "")

    def task(self, goal: str | Task) -> Task:
        """The task that a phrase means in this library's world."""
        return goal if isinstance(goal, Task) else parse(goal, self.world.feature_names, colours_of(self.world))

    def policy(self, goal: str | Task | Plan | PlanGuide | Float[Array, "c d m"], committed: bool = True) -> Policy:
        """The policy for a phrase, a task, a plan, or weights: zero-shot. Compiled, for loops in plain Python too.

        It acts on observations of `seen`; in Spriteworld these are the world's own.

        Only committed GPI takes heed of what a plan avoids.
        """
        guide = self.guide(goal) if isinstance(goal, str | Task | Plan) else goal
        policy = self.gpi(committed)(self.seen, guide)
        return policy._replace(begin=jax.jit(policy.begin), act=jax.jit(policy.act), about=_called(goal))

    def guide(self, goal: str | Task | Plan) -> PlanGuide:
        """What GPI goes by in a task or a plan, stage by stage."""
        return jax.tree.map(lambda leaf: leaf[0, ...], self.guides_of(tables_of([self.goal(goal)])))

    def learn_reward(
        self, reward: Reward, key: PRNGKeyArray, budget: int, paper: bool = False
    ) -> Float[Array, "1 d m"]:
        """Weights from `budget` labelled steps of a reward function of the state; `paper` is the paper's own way.

        The reward may be of any scale. Raises ValueError if it is not one finite number in every state that was seen.
        """
        return self.understand_reward(reward, key, budget, paper).w

    def understand_reward(self, reward: Reward, key: PRNGKeyArray, budget: int, paper: bool = False) -> Belief:
        """The same with what was made of it: leaves have a leading axis 1.

        >>> import cumulant, jax
        >>> library = cumulant.Library.load()
        >>> belief = library.understand_reward(lambda state: state.agent[0] > 2 / 3, jax.random.key(0), budget=500)
        >>> int(belief.boxes[0]), belief.w.shape  # one conjunction
        (1, (1, 6, 9))
        """
        return inference.learn(self.seen, self.gpi(), self.config.bins, reward, key, (budget,), paper)

    def learn_rewards(
        self, rewards: Sequence[Task | RewardTable], key: PRNGKeyArray, budget: int, paper: bool = False
    ) -> Float[Array, "rewards 1 d m"]:
        """The same for many rewards, each by itself. A task's is 1 where it holds; what its words say is not told."""
        inference.check_budget(budget)
        tasks = [reward for reward in rewards if isinstance(reward, Task)]
        if tasks:
            tables: PyTree = jax.tree.map(lambda leaf: leaf[:, 0], tables_of(tasks).goal)
        else:
            tables = jax.tree.map(lambda *leaves: jnp.stack(leaves), *rewards)
        keys = jax.random.split(key, len(rewards))
        learnt = inference.learn_many(
            self.seen, self.gpi(), self.config.bins, reward_of, tables, keys, (budget,), paper
        )
        return learnt.w

    def evaluate(
        self, tasks: Mapping[str, Sequence[Task | Plan]], key: PRNGKeyArray, episodes: int, committed: bool = True
    ) -> dict[str, Success]:
        """Zero-shot success by class of tasks or plans."""
        check_episodes(episodes)
        everything = [task for group in tasks.values() for task in group]
        guides = self.guides_of(tables_of(everything))
        return evaluate(self.seen, self.gpi(committed), tasks, key, episodes, guides)

    def watch(self, goal: str | Task | Plan | PlanGuide | Float[Array, "c d m"], seed: int = 0) -> Film:
        """Play an episode worth watching, for a phrase, a task, a plan, or weights, and return its film.

        The first of the episodes of seed, seed + 1, ... that takes a while, or else the longest. Of weights nobody
        knows what is to be reached: their film ends when nothing moves any more. ValueError for a world that cannot be
        drawn.

        >>> import cumulant
        >>> cumulant.Library.load().watch("circle top", seed=7)  # doctest: +ELLIPSIS
        Film of 'circle top': reached in ... steps, seed ...
        """
        known = self.goal(goal) if isinstance(goal, str | Task | Plan) else None
        guide = self.guide(goal) if isinstance(goal, str | Task | Plan) else goal
        return watch(self.seen, self.gpi(), _called(goal), known, jax.tree.map(lambda leaf: leaf[None], guide), seed)

    def save(self, folder: str | Path) -> None:
        """Write the library as a folder, with its encoder if it has one: such a folder needs no other.

        README.md is its card, of all that is known of it. One that is no card is left as it is.
        """
        weights = storage.checksum(self.network)
        record = self.record if self.record.weights == weights else Record(weights)  # what it says of others is not so
        measured, card = library_folders.Measured(self.moved, self.tremble), replace(self, record=record).card()
        library_folders.write(
            Path(folder), self.world, self.config, self.features, self.network, measured, record, card
        )

    def card(self) -> str:
        """Its card, in Markdown: what it is, how it was made, what was measured of it, and how to load it.

        >>> import cumulant
        >>> print(cumulant.Library.load().card().splitlines()[0])
        # Skills for Spriteworld
        """
        from cumulant.transfer.cards import card  # which knows libraries

        return card(self)

    @classmethod
    def load(
        cls, folder: str | Path | None = None, world: World | None = None, features: Features | None = None
    ) -> "Library":
        """Read a library, by default the one that ships. No code of the folder's choosing runs.

        A world or features of your own, which a folder cannot bring, must be given, and be the same.
        """
        path = Path(str(resources.files("cumulant") / "shipped")) if folder is None else Path(folder)
        stored = library_folders.read(path, world, features)
        inputs = inputs_of(stored.features, stored.world)
        blank = eqx.filter_eval_shape(
            lambda: make_network(stored.config, inputs, stored.world.num_actions, jax.random.key(0))
        )
        record = records.read(path, stored.weights, inputs.features)
        network = storage.read(path, blank)
        return cls(stored.world, stored.config, network, stored.features, stored.moved, stored.tremble, record)


def _called(goal: str | Task | Plan | PlanGuide | Float[Array, "c d m"]) -> str:
    """A goal in words."""
    return str(goal) if isinstance(goal, str | Task | Plan) else "weights"


def _rounded(shares: Float[np.ndarray, "*n"], otherwise: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
    """Whole shares of bins that lie all but inside a region, or all but outside: words are learnt from a few frames."""
    return np.where(abs(shares - shares.round()) <= _ROUGH, shares.round(), otherwise)


def _weights(table: Bool[Array, "c k b"] | GoalTable, bins: int, grounding: Grounding | None) -> Float[Array, "c d m"]:
    return (grounding.weights if grounding else weights)(table, bins)


@eqx.filter_jit
def _all_weights(tables: GoalTable, bins: int, grounding: Grounding | None) -> Float[Array, "n s c d m"]:
    """The clauses of every stage of every goal; one after the other, since the tables are wide."""
    flat = jax.tree.map(lambda leaf: jnp.asarray(leaf).reshape(-1, *leaf.shape[2:]), tables)
    found = jax.lax.map(lambda table: _weights(table, bins, grounding), flat)
    return found.reshape(*tables.allowed.shape[:2], *found.shape[1:])
