"""GPI, over what free play has learnt or over DIAYN's skills; and what bounds it: the oracle and random play."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from cumulant.config import PRESETS, FreePlay
from cumulant.features.coordinates import Features, entangled_features, true_features
from cumulant.goals.tasks import tables_of
from cumulant.sweeps.experiments import Outcome
from cumulant.sweeps.judging import few_shot, judged, rows_of, zero_shot
from cumulant.sweeps.run_folders import Measured, Row
from cumulant.transfer.gpi import Gpi
from cumulant.transfer.library import Library
from cumulant.transfer.pretraining import pretrain_in_step
from cumulant.worlds.episodes import PolicyMaker, endings, random_policy
from cumulant.worlds.oracle import oracle_policy
from cumulant_paper.baselines import diayn
from cumulant_paper.experiments import (
    RECORDED_PLAY,
    WORLD,
    Costs,
    Part,
    Scale,
    check_finite,
    costs_of_play,
    in_miniature,
    in_step,
)
from cumulant_paper.measures import disentanglement_of

BOUNDS: dict[str, PolicyMaker] = {"oracle": oracle_policy, "random": random_policy}


@dataclass(frozen=True)
class References(Part):
    """What is possible, and what chance gives."""

    def settings(self) -> None:
        """Return None: nothing is learnt."""

    def run(self, name: str, scale: Scale, folder: Path) -> Outcome:
        """Judge a line for each of the two."""
        rows: list[Row] = []
        for line, policy in BOUNDS.items():
            for seed in scale.seeds:
                rows += judged(line, WORLD, scale, policy, lambda tables: tables, seed)
        return Outcome(rows, {})


@dataclass(frozen=True)
class PlayThenGpi(Part):
    """Free play on the true features or a rotation of them, then GPI from words or from a regressed w."""

    free_play: FreePlay
    entangled: bool = False  # each seed with a rotation of its own
    best: bool = False  # committed GPI and our few-shot; otherwise the paper's plain GPI and regression
    aligned: bool = False  # evaluate on regions that follow the bins, too

    def costs(self) -> Costs:
        """Return free play's."""
        return costs_of_play(WORLD, self.free_play)

    def run(self, name: str, scale: Scale, folder: Path) -> Outcome:
        """Play freely with all seeds as one program, then judge each."""
        libraries, seconds = pretrain_in_step(WORLD, self.free_play, scale.seeds, self._features(scale.seeds))
        rows: list[Row] = []
        for seed, library in zip(scale.seeds, libraries, strict=True):
            rows += self._curves(name, scale, library, seed)
        return Outcome(rows, seconds, self.measures(scale.seeds))

    def measures(self, seeds: Sequence[int]) -> list[Measured]:
        """Return how disentangled each seed's features are; the true ones are the same whatever the seed."""
        different = self._features(seeds if self.entangled else seeds[:1])
        scores = [disentanglement_of(features, WORLD) for features in different]
        each = scores if self.entangled else scores * len(seeds)
        return [{"seed": seed, "disentanglement": score} for seed, score in zip(seeds, each, strict=True)]

    def _features(self, seeds: Sequence[int]) -> list[Features]:
        k = len(WORLD.feature_names)
        return [entangled_features(k, seed) if self.entangled else true_features for seed in seeds]

    def _curves(self, name: str, scale: Scale, library: Library, seed: int) -> list[Row]:
        """Judge from labelled steps and, where words speak of the features, zero-shot."""
        gpi, bins, paper = library.gpi(self.best), self.free_play.bins, not self.best
        rows = [*few_shot(name, WORLD, scale, gpi, bins, seed, paper)]
        if not self.entangled:  # words speak of the true features
            rows += zero_shot(f"{name}-zero-shot", WORLD, scale, gpi, library.weights_of, seed)
        if self.aligned:
            rows += few_shot(f"{name}-aligned", WORLD, scale, gpi, bins, seed, paper, regions=bins)
        return rows


@dataclass(frozen=True)
class SkillsThenGpi(Part):
    """GPI over the successor features of DIAYN's skills, and the one skill that does best on a task in hindsight."""

    learner: diayn.Diayn

    def settings(self) -> diayn.Diayn:
        """Return DIAYN's."""
        return self.learner

    def shrunk(self) -> "SkillsThenGpi":
        """Return fewer skills, hardly learnt."""
        return SkillsThenGpi(replace(in_miniature(self.learner), skills=6))

    def costs(self) -> Costs:
        """Return those of all networks."""
        learning = eqx.filter_eval_shape(diayn.start, WORLD, self.learner, jax.random.key(0))
        return Costs.of(self.learner, learning.networks)

    def run(self, name: str, scale: Scale, folder: Path) -> Outcome:
        """Learn all seeds' skills as one program, then judge both lines of each."""
        begun = [diayn.start(WORLD, self.learner, jax.random.key(seed)) for seed in scale.seeds]
        runs = in_step(partial(_learn_skills, self.learner), [None] * len(begun), begun)
        runs.advance(self.learner.updates)
        check_finite(runs.runs.networks)
        rows: list[Row] = []
        for i, seed in enumerate(scale.seeds):
            networks = runs.run(i).networks
            gpi = Gpi(networks.psi, true_features, committed=False)
            rows += few_shot(name, WORLD, scale, gpi, self.learner.bins, seed, paper=True)
            rows += self._best_skill(f"{name}-best-skill", scale, networks, seed)
        return Outcome(rows, {"compile_s": runs.compile_seconds, "train_s": runs.train_seconds})

    def _best_skill(self, line: str, scale: Scale, networks: diayn.Networks, seed: int) -> Iterator[Row]:
        labelled = scale.tasks(WORLD)
        tables, starts = tables_of(labelled[1]), scale.starts(seed, len(labelled[1]))
        skill, skills = diayn.Skill(networks.q, self.learner), range(self.learner.skills)
        each = [endings(WORLD, skill, tables, jnp.full(len(tables), z), starts)[0] for z in skills]
        success = jnp.stack(each)  # [skills, tasks, episodes]
        best = success.mean(axis=2).argmax(axis=0)
        yield from rows_of(line, labelled, seed, 0, success[best, jnp.arange(len(tables))])


def _learn_skills(config: diayn.Diayn, _: None, learning: diayn.Learning, until: Array) -> diayn.Learning:
    return diayn.train(WORLD, config, learning, until)


_PAPER, _OURS = PRESETS["paper"], PRESETS["fast"]
METHODS: dict[str, Part] = {
    "references": References(),
    "gpi-trick": PlayThenGpi(_PAPER),
    "gpi-full": PlayThenGpi(replace(_PAPER, full_matrix=True)),
    "gpi-entangled": PlayThenGpi(replace(_PAPER, full_matrix=True), entangled=True),
    "gpi-entangled-trick": PlayThenGpi(_PAPER, entangled=True),
    "gpi-trick-5-bins": PlayThenGpi(replace(_PAPER, bins=5)),
    "gpi-trick-7-bins": PlayThenGpi(replace(_PAPER, bins=7), aligned=True),
    "ours": PlayThenGpi(_OURS, best=True),
    "ours-entangled": PlayThenGpi(replace(RECORDED_PLAY, full_matrix=True), entangled=True, best=True),
    "diayn": SkillsThenGpi(diayn.Diayn()),
}
