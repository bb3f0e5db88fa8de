"""The paper's experiments: what each figure is made of, part by part. A part fills a run folder."""

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Key

import cumulant
from cumulant.experiments.baselines import diayn, dqn
from cumulant.experiments.from_pixels import LEARNERS, VAE_SEARCH, VARIANTS, FromPixels, from_pixels
from cumulant.experiments.run_folders import Row, is_finished, write_run
from cumulant.experiments.trials import Trials, few_shot, rows_of, zero_shot
from cumulant.features.coordinates import entangled_features, true_features
from cumulant.freeplay.in_step import InStep
from cumulant.freeplay.settings import PRESETS, FreePlay
from cumulant.goals.tasks import tables_of
from cumulant.transfer.gpi import Gpi
from cumulant.transfer.pretraining import pretrain_in_step
from cumulant.worlds.episodes import attempt, outcomes, random_policy
from cumulant.worlds.oracle import oracle_policy
from cumulant.worlds.protocol import World
from cumulant.worlds.spriteworld import Spriteworld

TUNING_SEED = 1000  # of what settings were searched on: tasks, or a learner of features; figures have other seeds


@dataclass(frozen=True)
class Scale(Trials):
    """How large the experiments are. The defaults are those of the recorded results."""

    seeds: tuple[int, ...] = (0, 1, 2)  # of training
    dqn_steps: tuple[int, ...] = tuple(
        1_000 * n for n in (1, 2, 5, 10, 20, 50, 100, 150, 200, 300, 400, 500, 600, 700, 800, 900, 1_000)
    )
    miniature: bool = False  # small networks and little training, to see that everything runs

    def shrunk(self, what: Any) -> Any:
        """A method's settings at this scale."""
        if not self.miniature or what is None:
            return what
        if isinstance(what, Method):
            return replace(what, free_play=self.shrunk(what.free_play))
        if isinstance(what, FromPixels):
            tiny = replace(what.represent, width=8, latents=12, pairs=512, updates=100, batch=8, restarts=1)
            return replace(what, represent=tiny, free_play=self.shrunk(what.free_play), size=24)
        small: dict[str, Any] = {"width": 32, "batch": 32, "replay": 7_000, "num_envs": 32, "env_steps": 32 * 200}
        return replace(what, **small, **({"skills": 6} if isinstance(what, diayn.Diayn) else {}))

    def of(self, name: str) -> "Scale":
        """The scale of a part: a search has shorter runs, on tasks drawn with another seed."""
        if name in VAE_SEARCH:
            return replace(self, seeds=(TUNING_SEED,))
        if name in LEARNERS:
            return replace(self, budgets=self.budgets[-1:])  # from frames, labelled steps and episodes take long
        if name not in DQN_SEARCH:
            return self
        steps = tuple(step for step in self.dqn_steps if step <= 200_000)
        return replace(self, task_seed=TUNING_SEED, tasks_per_class=1, seeds=self.seeds[:2], dqn_steps=steps)


FULL = Scale()
SMOKE = Scale(seeds=(0,), tasks_per_class=1, episodes=16, budgets=(500,), dqn_steps=(500, 1_000), miniature=True)


@dataclass(frozen=True)
class Method:
    """Free play, then GPI from a regressed w."""

    free_play: FreePlay
    entangled: bool = False  # each seed with a rotation of its own
    best: bool = False  # committed GPI and our few-shot; otherwise the paper's plain GPI and regression
    aligned: bool = False  # evaluate on regions that follow the bins, too


_PAPER = PRESETS["paper"]
METHODS = {
    "gpi-trick": Method(_PAPER),
    "gpi-full": Method(replace(_PAPER, full_matrix=True)),
    "gpi-entangled": Method(replace(_PAPER, full_matrix=True), entangled=True),
    "gpi-entangled-trick": Method(_PAPER, entangled=True),
    "gpi-trick-5-bins": Method(replace(_PAPER, bins=5)),
    "gpi-trick-7-bins": Method(replace(_PAPER, bins=7), aligned=True),
    "ours": Method(PRESETS["fast"], best=True),
    "ours-entangled": Method(replace(PRESETS["fast"], full_matrix=True), entangled=True, best=True),
}
DQN = dqn.Dqn()
_BASE = replace(DQN, num_envs=8, stratified=False)  # where the search began
DQN_SEARCH = {
    "dqn-search-base": _BASE,
    "dqn-search-lr-3e-4": replace(_BASE, learning_rate=3e-4),
    "dqn-search-raw-input": replace(_BASE, relational=False),
    "dqn-search-4-worlds": replace(_BASE, num_envs=4),
    "dqn-search-stratified": replace(_BASE, stratified=True),
    "dqn-search-explore-longer": replace(_BASE, epsilon_steps=200_000),
    "dqn-search-gamma-0.99": replace(_BASE, gamma=0.99),
    "dqn-search-4-worlds-stratified": DQN,
}
PARTS: dict[str, Any] = {
    "references": None,
    **METHODS,
    "dqn": DQN,
    "diayn": diayn.Diayn(),
    **DQN_SEARCH,
    **LEARNERS,
    **VAE_SEARCH,
    **VARIANTS,
}
FIGURES = {
    "fig4": (
        "references",
        "gpi-trick",
        "gpi-full",
        "gpi-entangled",
        "gpi-entangled-trick",
        "ours",
        "dqn",
        "diayn",
    ),
    "fig5": ("references", "gpi-trick-5-bins", "gpi-trick-7-bins", "gpi-trick"),
    "sample-complexity": ("references", "gpi-trick", "ours", "dqn"),
    "dqn-search": tuple(DQN_SEARCH),
    "pixels": ("references", "ours", *LEARNERS, "ours-entangled", *VAE_SEARCH, *VARIANTS),
}


def settings_of(name: str, scale: Scale) -> dict[str, Any]:
    """All that a part's rows depend on."""
    what = scale.shrunk(PARTS[name])
    return {"world": asdict(Spriteworld()), "scale": asdict(scale.of(name)), "what": what and asdict(what)}


def is_recorded(name: str, scale: Scale, out: Path) -> bool:
    """Whether a folder holds a part at this scale; ValueError if it holds the part at another."""
    return is_finished(out / "runs" / name, settings_of(name, scale))


def run_part(name: str, scale: Scale, out: Path, say: Callable[[str], None]) -> Path:
    """Run a part of a figure, unless its folder already holds it. Returns the folder."""
    folder, world, what = out / "runs" / name, Spriteworld(), scale.shrunk(PARTS[name])
    if is_recorded(name, scale, out):
        return folder
    measures: dict[type, Any] = {
        Method: _gpi,
        dqn.Dqn: _dqn,
        diayn.Diayn: _diayn,
        type(None): _references,
        FromPixels: lambda name, _, scale, what: from_pixels(name, scale, scale.seeds, what, folder),
    }
    say(f"{name} ...")
    begun = time.perf_counter()
    rows, seconds = measures[type(what)](name, world, scale.of(name), what)
    seconds |= {"total_s": time.perf_counter() - begun}
    about = {"device": jax.devices()[0].device_kind, "version": cumulant.__version__, "jax": jax.__version__}
    write_run(folder, {"part": name, "settings": settings_of(name, scale), "seconds": seconds} | about, rows)
    say(f"{name}: {seconds['total_s']:.0f} s")
    return folder


def _gpi(name: str, world: World, scale: Scale, method: Method) -> tuple[list[Row], dict[str, float]]:
    """A method's curves: zero-shot, and from the first labelled steps on."""
    k = len(world.feature_names)
    features = [entangled_features(k, seed) if method.entangled else true_features for seed in scale.seeds]
    libraries, seconds = pretrain_in_step(world, method.free_play, scale.seeds, features)
    rows: list[Row] = []
    for seed, library in zip(scale.seeds, libraries, strict=True):
        gpi, bins = library.gpi(method.best), method.free_play.bins
        rows += few_shot(name, world, scale, gpi, bins, seed, paper=not method.best)
        if not method.entangled:  # words speak of the true features
            rows += zero_shot(f"{name}-zero-shot", world, scale, gpi, library.weights_of, seed)
        if method.aligned:
            rows += few_shot(f"{name}-aligned", world, scale, gpi, bins, seed, paper=not method.best, regions=bins)
    return rows, seconds


def _dqn(name: str, world: World, scale: Scale, config: dqn.Dqn) -> tuple[list[Row], dict[str, float]]:
    """Every task and seed from scratch, all at once; success at the steps that the scale names."""
    labelled = scale.tasks(world)
    tables = tables_of(labelled[1])
    pairs = [(seed, i) for seed in scale.seeds for i in range(len(tables))]
    keys = [jax.random.fold_in(jax.random.key(seed), i) for seed, i in pairs]

    def train(table: Array, learning: dqn.Learning, until: Array) -> tuple[dqn.Learning, None]:
        return dqn.train(world, config, table, learning, until), None

    runs = InStep(train, [tables[i] for _, i in pairs], [dqn.start(world, config, key) for key in keys])
    starts = jnp.concatenate([scale.starts(seed, len(tables)) for seed in scale.seeds])
    rows: list[Row] = []
    for steps in scale.dqn_steps:
        runs.advance(max(1, steps // config.num_envs))
        makers = dqn.EpsilonGreedy(runs.runs.network, config.epsilon)
        success = _played(world, makers, jnp.tile(tables, (len(scale.seeds), 1, 1, 1)), starts)
        for seed, part in zip(scale.seeds, jnp.split(success, len(scale.seeds)), strict=True):
            rows += rows_of(name, labelled, seed, steps, part)
    return rows, {"compile_s": runs.compile_seconds, "train_s": runs.train_seconds}


@eqx.filter_jit
def _played(
    world: World, makers: Any, tables: Bool[Array, "runs c k b"], keys: Key[Array, "runs episodes"]
) -> Bool[Array, "runs episodes"]:
    """Success of every run's own policy on its own task."""

    def success(maker: Any, table: Bool[Array, "c k b"], key: Array) -> Bool[Array, ""]:
        return attempt(world, maker, table, None, key).success

    return eqx.filter_vmap(lambda maker, table, keys: jax.vmap(partial(success, maker, table))(keys))(
        makers, tables, keys
    )


def _diayn(name: str, world: World, scale: Scale, config: diayn.Diayn) -> tuple[list[Row], dict[str, float]]:
    """GPI over the skills' successor features, and the one skill that does best on a task in hindsight."""

    def train(_: None, learning: diayn.Learning, until: Array) -> tuple[diayn.Learning, None]:
        return diayn.train(world, config, learning, until), None

    begun = [diayn.start(world, config, jax.random.key(seed)) for seed in scale.seeds]
    runs = InStep(train, [None] * len(begun), begun)
    runs.advance(config.updates)
    rows: list[Row] = []
    for i, seed in enumerate(scale.seeds):
        networks = runs.run(i).networks
        gpi = Gpi(networks.psi, true_features, committed=False)
        rows += few_shot(name, world, scale, gpi, config.bins, seed, paper=True)
        rows += _best_skill(f"{name}-best-skill", world, scale, config, networks, seed)
    return rows, {"compile_s": runs.compile_seconds, "train_s": runs.train_seconds}


def _best_skill(
    line: str, world: World, scale: Scale, config: diayn.Diayn, networks: diayn.Networks, seed: int
) -> Iterator[Row]:
    labelled = scale.tasks(world)
    tables, starts = tables_of(labelled[1]), scale.starts(seed, len(labelled[1]))
    skill = diayn.Skill(networks.q, config)
    each = [outcomes(world, skill, tables, jnp.full(len(tables), z), starts)[0] for z in range(config.skills)]
    success = jnp.stack(each)  # [skills, tasks, episodes]
    best = success.mean(axis=2).argmax(axis=0)
    yield from rows_of(line, labelled, seed, 0, success[best, jnp.arange(len(tables))])


def _references(name: str, world: World, scale: Scale, nothing: None) -> tuple[list[Row], dict[str, float]]:
    """What is possible, and what chance gives."""
    rows: list[Row] = []
    labelled = scale.tasks(world)
    tables = tables_of(labelled[1])
    for line, policy in {"oracle": oracle_policy, "random": random_policy}.items():
        for seed in scale.seeds:
            success, _ = outcomes(world, policy, tables, tables, scale.starts(seed, len(tables)))
            rows += rows_of(line, labelled, seed, 0, success)
    return rows, {}
