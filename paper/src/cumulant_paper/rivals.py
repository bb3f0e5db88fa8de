"""The methods that a reader would ask about, each trained once without rewards and then judged on every task.

A rival is a module of `baselines` with `start`, `train` and `player`. What its player understands, words or labelled
steps, it is judged by. One training may act in several ways: each is a line of its own.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
from jaxtyping import Array, PRNGKeyArray

from cumulant.config import PRESETS, FreePlay, for_features
from cumulant.features.coordinates import true_features
from cumulant.sweeps.experiments import Outcome
from cumulant.sweeps.judging import TUNING_SEED, judged, zero_shot
from cumulant.sweeps.run_folders import Row
from cumulant.transfer.pretraining import pretrain_in_step
from cumulant.worlds.spriteworld import Spriteworld
from cumulant_paper.baselines import dusdi, fb, her, metra, usfa, visr
from cumulant_paper.baselines.playing import Play
from cumulant_paper.experiments import (
    Costs,
    Part,
    Scale,
    check_finite,
    costs_of_play,
    in_miniature,
    in_step,
)
from cumulant_paper.judging import TakesLabels, TakesWords, from_labels, from_words, guides_from_words, over_goals
from cumulant_paper.methods import BOUNDS
from cumulant_paper.statistics import ZERO_SHOT

_SEARCHED = {"budgets": (2_000, 50_000), "episodes": 64, "goals": 500, "tasks_per_class": 2}  # of a search's scale


@runtime_checkable
class Method(Protocol):
    """A module of `baselines` whose one training serves all tasks."""

    def start(self, world: Spriteworld, config: Any, key: PRNGKeyArray) -> Any:
        """The first moment of a run."""

    def train(self, world: Spriteworld, config: Any, learning: Any, until: Array) -> Any:
        """A run after so many updates."""

    def player(self, config: Any, learning: Any, key: PRNGKeyArray) -> Any:
        """What it has learnt: a policy maker that takes words, labelled steps or both."""


@dataclass(frozen=True)
class Settings:
    """What a rival's rows depend on."""

    config: Play
    objects: int
    ways: Mapping[str, Play]


@dataclass(frozen=True)
class Rival(Part):
    """One method's training, then success in all classes and on the (m + 1)^k goals."""

    method: Method
    config: Play
    ways: tuple[tuple[str, Play], ...] = ()  # to act, too, on what was learnt: how the line's name ends, and settings
    objects: int = 2
    search: bool = False  # for its settings: fewer episodes, on tasks drawn with another seed

    def settings(self) -> Settings:
        """Return the method's, and how many objects there are; whether they are searched for shows in the scale."""
        return Settings(self.config, self.objects, dict(self.ways))

    def shrunk(self) -> "Rival":
        """Return a small network that hardly learns."""
        ways = tuple((way, in_miniature(config)) for way, config in self.ways)
        return replace(self, config=in_miniature(self.config), ways=ways)

    def scaled(self, scale: Scale) -> Scale:
        """Return a smaller one for a search, on other tasks."""
        if not self.search:
            return scale
        smaller: dict[str, Any] = {} if scale.miniature else _SEARCHED
        return replace(scale, task_seed=TUNING_SEED, seeds=scale.seeds[:2], **smaller)

    def costs(self) -> Costs:
        """Return what it learns, and from how much play."""
        learning = eqx.filter_eval_shape(self.method.start, self.world, self.config, jax.random.key(0))
        return Costs.of(self.config, learning.networks)

    def run(self, name: str, scale: Scale, folder: Path) -> Outcome:
        """Train all seeds as one program, then judge each."""

        def learn(_: None, learning: Any, until: Array) -> Any:
            return self.method.train(self.world, self.config, learning, until)

        started = [self.method.start(self.world, self.config, jax.random.key(seed)) for seed in scale.seeds]
        runs = in_step(learn, [None] * len(started), started)
        runs.advance(self.config.updates)
        check_finite(runs.runs.networks)
        begun, rows, line = time.perf_counter(), list[Row](), name.removesuffix(f"-{self.objects}-objects")
        lines = {line: self.config} | {f"{line}-{way}": config for way, config in self.ways}
        for i, seed in enumerate(scale.seeds):
            for line, config in lines.items():
                player = self.method.player(config, runs.run(i), jax.random.fold_in(jax.random.key(seed), 1))
                rows += _judged(line, self.world, scale, player, seed)
        judging = time.perf_counter() - begun
        return Outcome(rows, {"compile_s": runs.compile_seconds, "train_s": runs.train_seconds, "evaluate_s": judging})


def _judged(line: str, world: Spriteworld, scale: Scale, player: Any, seed: int) -> Iterator[Row]:
    """Judge a player by what it understands."""
    if isinstance(player, TakesLabels):
        yield from from_labels(line, world, scale, player, seed)
    if isinstance(player, TakesWords):
        yield from from_words(f"{line}{ZERO_SHOT}", world, scale, player, seed)
        yield from over_goals(line, world, scale, player, guides_from_words(player), seed)


@dataclass(frozen=True)
class OverGoals(Part):
    """Our free play, then GPI from words in all classes and on the (m + 1)^k goals."""

    free_play: FreePlay
    objects: int = 2
    best: bool = True  # committed GPI; otherwise the paper's plain one

    def costs(self) -> Costs:
        """Return free play's."""
        return costs_of_play(self.world, self.free_play)

    def run(self, name: str, scale: Scale, folder: Path) -> Outcome:
        """Play freely with all seeds as one program, then judge each."""
        features = [true_features] * len(scale.seeds)
        libraries, seconds = pretrain_in_step(self.world, self.free_play, scale.seeds, features)
        begun, rows = time.perf_counter(), list[Row]()
        for seed, library in zip(scale.seeds, libraries, strict=True):
            gpi, line = library.gpi(self.best), "ours" if self.best else "gpi-trick"
            rows += zero_shot(f"{line}{ZERO_SHOT}", self.world, scale, gpi, library.weights_of, seed)
            rows += over_goals(line, self.world, scale, gpi, jax.vmap(library.weights_of), seed)
        return Outcome(rows, seconds | {"evaluate_s": time.perf_counter() - begun})


@dataclass(frozen=True)
class Bounds(Part):
    """The oracle and random play in all classes and on the (m + 1)^k goals: nothing is learnt."""

    objects: int = 2

    def run(self, name: str, scale: Scale, folder: Path) -> Outcome:
        """Judge two lines for each of the two."""
        rows: list[Row] = []
        for line, policy in BOUNDS.items():
            for seed in scale.seeds:
                rows += judged(f"{line}{ZERO_SHOT}", self.world, scale, policy, lambda tables: tables, seed)
                rows += over_goals(line, self.world, scale, policy, lambda tables: tables, seed)
        return Outcome(rows, {})


HER, FB, USFA = her.Her(), fb.Fb(), usfa.Usfa()
DUSDI, VISR, METRA = dusdi.Dusdi(), visr.Visr(), metra.Metra()
# What the searches found, or could not tell apart (FB's weights); what they began with stays their base.
_RESTLESS: dict[str, Any] = {"epsilon": 0.05}
_HER = replace(HER, width=1024, goals=8, fewer=1.0, **_RESTLESS)
_FB = replace(FB, orthonormality=100.0, **_RESTLESS)
_USFA = replace(USFA, drawn=8, learning_rate=3e-3, **_RESTLESS)
RIVALS: dict[str, Part] = {
    "bounds": Bounds(),
    "ours-goals": OverGoals(PRESETS["fast"]),
    "gpi-trick-goals": OverGoals(PRESETS["paper"], best=False),
    "her": Rival(her, _HER),
    "fb": Rival(fb, _FB),
    "usfa": Rival(usfa, _USFA, (("gpi", replace(_USFA, policies=64)),)),
    "dusdi": Rival(dusdi, replace(DUSDI, **_RESTLESS)),
    "visr": Rival(visr, replace(VISR, **_RESTLESS)),
    "metra": Rival(metra, replace(METRA, **_RESTLESS)),
}
_MORE = for_features(PRESETS["fast"], 10)  # our preset with 4 objects: rivals get as much play, of twice the copies
_LONGER: dict[str, Any] = {"env_steps": _MORE.env_steps, "num_envs": 2 * HER.num_envs}
LARGER_RIVALS: dict[str, Part] = {
    "bounds-4-objects": Bounds(4),
    "ours-4-objects": OverGoals(_MORE, objects=4),
    "her-4-objects": Rival(her, replace(_HER, **_LONGER), objects=4),
    "fb-4-objects": Rival(fb, replace(_FB, **_LONGER), objects=4),
}
_BRIEFLY = 4  # a quarter of the play tells settings apart, but not METRA's: until then it moves nothing but the agent
# Of each method the settings that were tried, and other ways to act on the first.
_SEARCHES: dict[str, tuple[Method, dict[str, Play], dict[str, Play]]] = {
    "her": (
        her,
        {
            "base": HER,
            "no-gaps": replace(HER, gaps=False),
            "hindsight-0.1": replace(HER, hindsight=0.1),
            "hindsight-0.8": replace(HER, hindsight=0.8),
            "more-features": replace(HER, fewer=1.0),
            "8-goals": replace(HER, goals=8),
            "width-1024": replace(HER, width=1024),
            "large": replace(HER, width=1024, goals=8, fewer=1.0),
            "lr-3e-4": replace(HER, learning_rate=3e-4),
        },
        {"epsilon-0.05": replace(HER, epsilon=0.05)},
    ),
    "fb": (
        fb,
        {
            "base": FB,
            "orthonormality-100": replace(FB, orthonormality=100.0),
            "orthonormality-1000": replace(FB, orthonormality=1000.0),
            "clauses": replace(FB, orthonormality=100.0, from_clauses=0.7),
            "clauses-d-200": replace(FB, orthonormality=100.0, from_clauses=0.7, dimensions=200),
            "d-25": replace(FB, dimensions=25),
            "d-200": replace(FB, dimensions=200),
            "lr-1e-4": replace(FB, learning_rate=1e-4),
            "width-1024": replace(FB, width=1024),
        },
        {"epsilon-0.05": replace(FB, epsilon=0.05)},
    ),
    "usfa": (
        usfa,
        {
            "base": USFA,
            "8-drawn": replace(USFA, drawn=8),
            "lr-3e-3": replace(USFA, learning_rate=3e-3),
            "clauses-alone": replace(USFA, clauses=1.0),
            "8-drawn-lr-3e-3": replace(USFA, drawn=8, learning_rate=3e-3),
            "all-three": replace(USFA, drawn=8, learning_rate=3e-3, clauses=1.0),
        },
        {
            "gpi-16": replace(USFA, policies=16),
            "gpi-64": replace(USFA, policies=64),
            "epsilon-0.05": replace(USFA, epsilon=0.05),
        },
    ),
    "dusdi": (
        dusdi,
        {
            "base": DUSDI,
            "3-skills": replace(DUSDI, skills=3),
            "cooler": replace(DUSDI, temperature=0.03),
            "9-bins": replace(DUSDI, bins=9),
        },
        {"256-policies": replace(DUSDI, policies=256), "epsilon-0.05": replace(DUSDI, epsilon=0.05)},
    ),
    "visr": (
        visr,
        {
            "base": VISR,
            "d-10": replace(VISR, dimensions=10),
            "d-20": replace(VISR, dimensions=20),
            "longer-replay": replace(VISR, replay=1_000_000),
        },
        {"no-gpi": replace(VISR, policies=0), "epsilon-0.05": replace(VISR, epsilon=0.05)},
    ),
    "metra": (
        metra,
        {
            "base": METRA,
            "d-2": replace(METRA, dimensions=2),
            "d-16": replace(METRA, dimensions=16),
            "lr-3e-4": replace(METRA, learning_rate=3e-4),
            "longer-replay": replace(METRA, replay=1_000_000),
        },
        {"epsilon-0.05": replace(METRA, epsilon=0.05)},
    ),
}
RIVALS_SEARCH: dict[str, Part] = {
    f"{method}-search-{name}": Rival(
        module,
        settings if module is metra else replace(settings, env_steps=settings.env_steps // _BRIEFLY),
        tuple(ways.items()) if name == "base" else (),
        search=True,
    )
    for method, (module, searched, ways) in _SEARCHES.items()
    for name, settings in searched.items()
}
