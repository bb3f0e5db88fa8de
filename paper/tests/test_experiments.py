"""Parts and figures as objects: what they are made of, that old recordings are theirs, and what a run consists of."""

import inspect
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import THIRDS

from colour_encoder import ORDER, ColourEncoder, colour_encoder
from cumulant.config import FreePlay, Represent
from cumulant.features.coordinates import Inputs, entangled_features
from cumulant.features.encoder import measure
from cumulant.freeplay.learning import make_network
from cumulant.freeplay.runs import Diverged
from cumulant.goals.suites import CLASSES
from cumulant.storage import Locked, locked
from cumulant.sweeps.experiments import FAILURE, Local, Outcome
from cumulant.sweeps.experiments import run as run_all
from cumulant.sweeps.judging import TUNING_SEED
from cumulant.sweeps.run_folders import Row, Run, is_finished, read_run
from cumulant.transfer.library import Library
from cumulant.worlds.episodes import Policy
from cumulant.worlds.pixels import PixelSpriteworld
from cumulant.worlds.spriteworld import Spriteworld
from cumulant_paper import from_pixels, methods
from cumulant_paper.baselines.playing import Play
from cumulant_paper.bench import update_flops
from cumulant_paper.commands.reproduce import Reproduce
from cumulant_paper.experiments import FULL, SMOKE, WORLD, Part, Scale
from cumulant_paper.figures import FIGURES, PARTS
from cumulant_paper.from_pixels import VAE_SEARCH, FromPixels, Pipeline
from cumulant_paper.from_scratch import DQN_SEARCH
from cumulant_paper.larger_worlds import LARGER_WORLDS
from cumulant_paper.measures import disentanglement_of
from cumulant_paper.rivals import LARGER_RIVALS, RIVALS, RIVALS_SEARCH, Rival
from cumulant_paper.statistics import standings

RUNS = Path(__file__).parent.parent / "results" / "runs"
FRAMES = PixelSpriteworld(size=32)
TINY = FreePlay(width=8, depth=1, num_envs=4, batch=16, env_steps=4 * 40, replay=400)
LINES = (("fb", 500), ("fb-zero-shot", 0))  # of a rival, with their steps
still = partial(Row, kind="", task="", seed=0, steps=0, success=0.0, episodes=1)


def sizes(settings):
    """All whole numbers among settings, by name; copies of the world go the other way: fewer updates for the steps."""
    found = {}
    for name, value in settings.items():
        if isinstance(value, dict):
            found |= sizes(value)
        elif isinstance(value, int) and name != "num_envs":
            found[name] = value
    return found


def test_every_part_is_of_a_figure():
    assert {part for figure in FIGURES.values() for part in figure.parts} == set(PARTS)
    (choice,) = (field.type for field in fields(Reproduce) if field.name == "what")
    assert set(get_args(get_args(choice)[0])) == set(FIGURES)


# Of the worlds of many objects and of the rivals, those that were run.
LATER = {**LARGER_WORLDS, **RIVALS, **LARGER_RIVALS, **RIVALS_SEARCH}
RUN = [name for name in PARTS if name not in LATER or (RUNS / name).exists()]


@pytest.mark.parametrize("name", RUN)
def test_recorded_run_is_recognised_by_its_part(name):
    assert is_finished(RUNS / name, PARTS[name].experiment(name, FULL).settings)
    with pytest.raises(ValueError, match="other settings"):
        is_finished(RUNS / name, PARTS[name].experiment(name, SMOKE).settings)


@pytest.mark.parametrize("name", [name for name in PARTS if name != "references" and "bounds" not in name])
def test_part_in_miniature_learns_far_less(name):
    before, after = (sizes(asdict(part.settings())) for part in (PARTS[name], PARTS[name].shrunk()))
    assert before.keys() == after.keys()
    assert all(after[size] <= before[size] for size in before)
    assert max(after[size] / before[size] for size in ("updates", "env_steps") if size in before) < 0.1


def test_search_has_tasks_or_seeds_of_its_own():
    for name, part in PARTS.items():
        used = {part.scaled(FULL).task_seed, *part.scaled(FULL).seeds}
        assert (TUNING_SEED in used) == (name in {**DQN_SEARCH, **VAE_SEARCH, **RIVALS_SEARCH})


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("ours", {"ours": (True, False, 3, 3), "ours-zero-shot": (True,)}),
        ("gpi-entangled", {"gpi-entangled": (False, True, 9, 3)}),  # words do not speak of its features
        (
            "gpi-trick-7-bins",
            {
                "gpi-trick-7-bins": (False, True, 7, 3),
                "gpi-trick-7-bins-zero-shot": (False,),
                "gpi-trick-7-bins-aligned": (False, True, 7, 7),
            },
        ),
    ],
)
def test_method_is_judged_in_its_own_way(name, asked, monkeypatch, tmp_path):
    """But for learning and acting, which have tests of their own."""
    lines, network = {}, Library.load(THIRDS).network

    def few_shot(line, world, trials, gpi, bins, seed, paper, regions=3):
        lines[line] = (gpi.committed, paper, bins, regions)
        return [still(line, seed=seed)]

    def zero_shot(line, world, trials, gpi, weights, seed):
        lines[line] = (gpi.committed,)
        return [still(line, seed=seed)]

    def learnt(world, free_play, seeds, features):
        return [Library(world, free_play, network, f) for f in features], {"train_s": 1.0}

    for place, instead in {"few_shot": few_shot, "zero_shot": zero_shot, "pretrain_in_step": learnt}.items():
        monkeypatch.setattr(methods, place, instead)
    monkeypatch.setattr(methods, "disentanglement_of", lambda features, world: 0.5)
    ran = PARTS[name].run(name, replace(FULL, seeds=(4, 7)), tmp_path)
    assert lines == asked
    assert {(row.line, row.seed) for row in ran.rows} == {(line, seed) for line in asked for seed in (4, 7)}
    assert ran.measures == [{"seed": seed, "disentanglement": 0.5} for seed in (4, 7)]


def test_skills_have_lines_for_gpi_and_the_best(monkeypatch, tmp_path):
    """GPI over skills has a test of its own."""
    monkeypatch.setattr(methods, "few_shot", lambda line, *_, paper: [still(line)])
    part = PARTS["diayn"].shrunk()
    ran = part.run("diayn", replace(SMOKE, seeds=(0, 1)), tmp_path)
    best = [row for row in ran.rows if row.line == "diayn-best-skill"]
    assert {row.line for row in ran.rows} == {"diayn", "diayn-best-skill"}
    assert [row.seed for row in best] == [0] * len(CLASSES) + [1] * len(CLASSES)
    assert {row.kind for row in best} == set(CLASSES)
    assert ran.seconds.keys() == {"compile_s", "train_s"}


class Standstill(NamedTuple):
    """What a method has learnt that learns nothing, and does nothing."""

    networks: object
    update: object


class Idle(eqx.Module):
    """It takes words and labelled steps, and the first action."""

    def __call__(self, world, guide):
        return Policy(lambda obs: (), lambda memory, obs, key: (memory, jnp.int32(0)))

    def from_words(self, table):
        return table.sum()

    def from_labels(self, f, reward, taken):
        return (reward * taken).sum()


def test_rival_is_judged_by_what_it_understands(tmp_path):
    method = SimpleNamespace(
        start=lambda world, config, key: Standstill(jnp.zeros(3), jnp.int32(0)),
        train=lambda world, config, learning, until: learning._replace(update=until),
        player=lambda config, learning, key: Idle(),
    )
    part = Rival(method, Play(env_steps=2_560))
    ran = part.run("idle-2-objects", replace(SMOKE, seeds=(0, 1), budgets=(250, 500)), tmp_path)
    assert {(row.line, row.seed, row.steps) for row in ran.rows if row.kind != "coverage"} == {
        *(("idle", seed, steps) for seed in (0, 1) for steps in (250, 500)),
        *(("idle-zero-shot", seed, 0) for seed in (0, 1)),
    }
    goals = [row for row in ran.rows if row.kind == "coverage"]
    assert {row.line for row in goals} == {"idle"}
    assert sum(row.episodes for row in goals if row.seed == 0) == 2 * SMOKE.goals
    assert ran.seconds.keys() == {"compile_s", "train_s", "evaluate_s"}
    assert part.costs() == (2_560, 10, 3)
    # A start in the goal is a success even for one who does nothing.
    easy = np.mean([row.success for row in ran.rows if row.line == "idle-zero-shot" and row.kind == "agent_easy"])
    assert 0 < easy < 1
    found = standings(ran.rows)["idle"]
    assert found.coverage == pytest.approx(np.mean([row.success for row in goals for _ in range(row.episodes)]))
    assert found.classes["agent_easy"].mean == pytest.approx(easy)
    assert set(found.goals) <= set(range(1, 7))


def test_rivals_figure_keeps_worlds_apart(tmp_path):
    """The same line with four objects is another panel's; labelled steps are drawn for the paper's world."""
    runs = []
    for objects, success in ((2, 0.75), (4, 0.25)):
        rows = [Row(line, kind, "t", 0, steps, success, 4) for kind in CLASSES for line, steps in LINES]
        rows += [Row("fb", "coverage", f"{number} of 6 features", 0, 0, success, number) for number in (1, 3)]
        name = "fb" if objects == 2 else "fb-4-objects"
        what = {"scale": {"miniature": True}, "what": {"objects": objects}}
        runs.append(Run(name, what, {"compile_s": 1.0, "train_s": 2.0, "total_s": 4.0}, "abacus", rows, None))
    summary = FIGURES["rivals"].summarise(runs)
    assert summary.report["lines"]["fb"]["conjunction"] == [0.75] * 3
    coverage = {world: lines["fb"]["coverage"] for world, lines in summary.report["words"].items()}
    assert coverage == {"from words, 2 objects": 0.75, "from words, 4 objects": 0.25}
    assert summary.report["costs"]["fb"]["updates"] == PARTS["fb"].shrunk().costs().updates
    summary.draw(tmp_path / "rivals.png")
    assert (tmp_path / "rivals.png").stat().st_size > 20_000
    searched = [runs[0]._replace(rows=[row._replace(line=f"fb-search-{row.line}") for row in runs[0].rows])]
    found = FIGURES["rivals-search"].summarise(searched)
    assert found.report["words"][""]["fb-search-fb"]["goals"] == {"1": [0.75] * 3, "3": [0.75] * 3}
    found.draw(tmp_path / "search.png")
    assert (tmp_path / "search.png").stat().st_size > 5_000


def test_rivals_get_as_much_play_as_ours():
    ours = LARGER_RIVALS["ours-4-objects"].costs()
    for name in ("her-4-objects", "fb-4-objects"):
        assert LARGER_RIVALS[name].costs().env_steps == ours.env_steps


def test_recorded_measures_are_what_features_give():
    (first, *_), true = (read_run(RUNS / name).measures for name in ("ours-entangled", "ours"))
    rotated = entangled_features(len(WORLD.feature_names), first["seed"])
    assert disentanglement_of(rotated, WORLD) == pytest.approx(first["disentanglement"], abs=1e-4)
    assert len({each["disentanglement"] for each in true}) == 1  # the true features do not depend on the seed


def test_pixels_part_keeps_lines_measures_and_libraries(tmp_path, monkeypatch):
    """But for learning and acting, which have tests of their own."""
    encoder, saved = colour_encoder(FRAMES), []
    library = Library(FRAMES, TINY, make_network(TINY, Inputs(len(ORDER)), 8, jax.random.key(0)), encoder)
    for name, instead in {
        "represent": lambda world, settings, seed, report: encoder,
        "measure": partial(inspect.unwrap(measure), frames=200),  # unwrapped, it takes any features
        "pretrain": lambda world, config, seed, features, report: library,
        "few_shot": lambda line, world, trials, *_, paper: [still(line, episodes=trials.episodes)],
        "zero_shot": lambda line, world, trials, *_: [still(f"{line} seen {world.look}", episodes=trials.episodes)],
        "audit": lambda library, key, episodes: SimpleNamespace(moved=np.eye(len(ORDER))),
        "DISGUISES": {"in one colour": lambda world: replace(world, look="alike")},
    }.items():
        monkeypatch.setattr(from_pixels, name, instead)
    monkeypatch.setattr(ColourEncoder, "save", lambda self, folder: saved.append(folder.name), raising=False)
    part = FromPixels(Pipeline(Represent(), TINY, size=FRAMES.size, disguised=True))
    experiment = part.experiment("mine", Scale(seeds=(0,), episodes=64))
    assert not run_all([experiment], tmp_path, Local(), lambda event: None).failed
    run = read_run(tmp_path / "mine")
    lines = {"mine": 64, "mine-zero-shot seen plain": 64, "mine: in one colour seen alike": 16}
    assert {row.line: row.episodes for row in run.rows} == lines
    (measured,) = run.measures
    assert min(measured["rho"].values()) > 0.95 > min(measured["disguises"]["in one colour"].values())
    assert (measured["kept"], measured["independence"]) == (len(ORDER), 1)
    assert run.seconds.keys() == {"compile_s", "represent_s", "train_s", "total_s"}
    assert saved == ["encoder-0"]
    kept = Library.load(tmp_path / "mine" / "library-0", features=encoder)
    assert kept.weights("square left").shape == (1, len(ORDER), TINY.bins)


class Moment(NamedTuple):
    networks: dict
    update: jax.Array


def test_diverged_rival_is_not_judged(tmp_path):
    class Broken:
        def start(self, world, config, key):
            return Moment({"w": jnp.zeros(3)}, jnp.int32(0))

        def train(self, world, config, learning, until):
            return Moment({"w": learning.networks["w"] / 0}, until)

        def player(self, config, learning, key):
            raise AssertionError("it is judged")

    with pytest.raises(Diverged, match="no number"):
        Rival(Broken(), Play()).run("broken", Scale(seeds=(0,)), tmp_path)


@dataclass(frozen=True)
class Told(Part):
    """A part that takes no time."""

    ill: bool = False

    def run(self, name, scale, folder):
        if self.ill:
            raise ValueError("it is ill")
        return Outcome([], {})


def test_parts_are_filled_by_one_and_a_failure_goes(tmp_path):
    def filled(ill):
        return run_all([Told(ill).experiment("mine", FULL)], tmp_path, Local(), lambda event: None)

    with locked(tmp_path), pytest.raises(Locked, match="is being written by another run"):
        filled(ill=False)
    assert filled(ill=True).failed == {"mine": "ValueError: it is ill"}
    assert {path.name for path in (tmp_path / "mine").iterdir()} == {FAILURE}
    assert filled(ill=False).finished == ("mine",)
    assert {path.name for path in (tmp_path / "mine").iterdir()} == {"config.json", "metrics.jsonl"}
    assert filled(ill=False).skipped == ("mine",)


@pytest.mark.parametrize(("network", "trunks", "policies"), [("all_policies", 1, 6 * 3), ("trunk_per_feature", 6, 3)])
def test_bench_counts_matrix_products_of_every_trunk(network, trunks, policies):
    config = FreePlay(network=network, width=8, depth=2, batch=5, relational=False)
    shown, heads = 6 * 8, 8 * policies * 3 * (1 + Spriteworld().num_actions)
    forward = 2 * 5 * trunks * (shown + 8 * 8 + heads)
    assert update_flops(Spriteworld(), config) == 5 * forward - 2 * 5 * trunks * shown
