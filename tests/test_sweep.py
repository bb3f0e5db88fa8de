"""Sweeps: names, groups, whole folders, failures, and what is refused. What is trained is tiny, or a stub."""

import json
import os
import pickle
import subprocess
import sys
import weakref
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import jax.numpy as jnp
import pytest

import cumulant
from cumulant.commands.cli import main
from cumulant.commands.grids import trials_typed
from cumulant.config import PRESETS, FreePlay, OutOfBounds
from cumulant.experiments import sweeps, swept
from cumulant.experiments.archives import Archive, pack, unpack
from cumulant.experiments.engines import FAILURE, Filled, Local
from cumulant.experiments.on_ray import NoCluster, Ray, _Errands
from cumulant.experiments.parts import FULL, Part, Ran, run_folder, run_part, run_parts
from cumulant.experiments.run_folders import Row, read_run
from cumulant.experiments.sweeps import Evaluation, Trial, groups, sweep
from cumulant.goals.suites import CLASSES
from cumulant.storage import Locked, Unreadable, locked
from cumulant.transfer.library import Library
from cumulant.worlds.room import Room
from cumulant.worlds.spriteworld import Spriteworld

ROOT = Path(__file__).parent.parent
WORLD = Spriteworld(max_steps=10)
TINY = FreePlay(width=8, num_envs=4, batch=8, env_steps=400, replay=400)
QUICK = Evaluation(tasks_per_class=1, episodes=2)


@pytest.fixture(scope="module")
def eight(tmp_path_factory):
    """A sweep of eight seeds in step, and eight runs by themselves."""
    out = tmp_path_factory.mktemp("eight")
    trials = [Trial(WORLD, TINY, seed, QUICK) for seed in range(8)]
    assert not sweep(trials, out / "sweep", Local(in_step=8)).failed
    for trial in trials:
        cumulant.pretrain(WORLD, TINY, trial.seed, out / "alone" / trial.name)
    return out


def test_eight_seeds_in_step_equal_single_runs_exactly(eight):
    trials = sorted((eight / "sweep").iterdir())
    assert len(trials) == 8
    for folder in trials:
        for name in ("weights.safetensors", "config.json"):
            alone = eight / "alone" / folder.name / name
            if name == "config.json":  # which a run of `pretrain` seals with nothing else in it
                assert json.loads(alone.read_text()) == json.loads((folder / "library" / name).read_text())
            else:
                assert alone.read_bytes() == (folder / "library" / name).read_bytes(), folder.name
    assert len({(folder / "library" / "weights.safetensors").read_bytes() for folder in trials}) == 8


def test_a_finished_folder_holds_config_success_learning_and_a_library_that_acts(eight):
    folder = sorted((eight / "sweep").iterdir())[0]
    run = read_run(folder)
    assert run.settings["what"] == json.loads(json.dumps(TINY.__dict__))
    assert [row.kind for row in run.rows] == list(CLASSES)
    config = json.loads((folder / "config.json").read_text())
    assert config["success"]["zero-shot"].keys() == set(CLASSES)
    assert config["in_step"] == 8
    lines = [json.loads(line) for line in (folder / "library" / "metrics.jsonl").read_text().splitlines()]
    assert lines[-1]["update"] == TINY.updates
    assert sum("success" in line for line in lines) == 5
    library = Library.load(folder / "library")
    assert library.world == WORLD
    assert library.weights("square left").shape == (1, 6, 3)


def test_a_name_says_what_is_unusual_and_depends_on_nothing_else():
    trial = Trial(WORLD, TINY, 3, QUICK)
    assert trial.name.startswith("spriteworld-max_steps-10-seed-3-width-8-")
    same = Trial(Spriteworld(max_steps=10), replace(PRESETS["paper"], **vars(TINY)), 3, QUICK)
    assert same.name == trial.name
    others = [replace(trial, seed=4), replace(trial, world=Spriteworld()), replace(trial, settings=FreePlay())]
    others += [replace(trial, evaluation=Evaluation()), replace(trial, settings=replace(TINY, gamma=0.9))]
    assert len({trial.name, *(other.name for other in others)}) == 6
    plain = Trial(Room(), FreePlay())
    assert plain.name == "room-seed-0-" + plain.name[-8:]
    wild = replace(Spriteworld(("square",)), max_steps=7)
    assert all(c.isalnum() or c in "._-" for c in Trial(wild, FreePlay(learning_rate=1e-5)).name)


def test_trials_are_grouped_where_only_seed_and_evaluation_differ():
    same = [Trial(WORLD, TINY, seed, QUICK) for seed in range(5)]
    others = [Trial(Room(), TINY, 0, QUICK), Trial(WORLD, replace(TINY, bins=5), 0, QUICK)]
    found = groups([same[0], others[0], *same[1:], others[1]], 3)
    assert sorted(len(group.trials) for group in found) == [1, 1, 2, 3]
    assert all(len({(trial.world, trial.settings) for trial in group.trials}) == 1 for group in found)
    assert [group.trials[0] for group in groups([same[0], others[0], same[1]], 1)] == [same[0], others[0], same[1]]


def test_a_group_that_fails_gives_its_memory_back_before_its_trials_are_tried(monkeypatch, tmp_path):
    class Memory:
        pass

    held = []

    def fill(trials, folders):
        if len(trials) > 1:
            memory = Memory()
            held.append(weakref.ref(memory))
            raise MemoryError
        assert held[0]() is None
        yield Ran([], {})

    monkeypatch.setitem(swept.METHODS, "play", swept.METHODS["play"]._replace(fill=fill))
    came = sweep([Trial(Room(), TINY, seed) for seed in range(2)], tmp_path, Local(in_step=2))
    assert (len(came.finished), came.failed, len(held)) == (2, {}, 1)


def test_a_group_that_fails_is_tried_one_by_one_so_that_the_failure_has_a_name(stub, tmp_path):
    stub.failing.add(2)
    trials = [Trial(Room(), TINY, seed) for seed in range(4)]
    events = []
    came = sweep(trials, tmp_path, Local(in_step=4), events.append)
    assert set(came.finished) == {trial.name for trial in trials if trial.seed != 2}
    assert came.failed == {trials[2].name: "ValueError: seed 2 ?is ill"}
    assert [event["event"] for event in events].count("failed") == 1
    assert {path.name for path in (tmp_path / trials[2].name).iterdir()} == {FAILURE}
    stub.failing.clear()
    again = sweep(trials, tmp_path, Local(in_step=4))
    assert again.finished == (trials[2].name,)
    assert set(again.skipped) == set(came.finished)
    assert not (tmp_path / trials[2].name / FAILURE).exists()
    assert {path.name for path in tmp_path.iterdir()} == {trial.name for trial in trials}  # nothing is left beside


def test_the_command_reads_a_file_tells_json_lines_and_ends_with_1_if_a_trial_failed(stub, tmp_path, capsys):
    stub.failing.add(1)
    file = tmp_path / "sweep.toml"
    file.write_text(
        '[fixed]\nworld = "room"\n"world.max_steps" = 20\nwidth = 8\nepisodes = 4\n\n[grid]\nseed = [0, 1]\n'
    )
    out = tmp_path / "out"
    with pytest.raises(SystemExit) as stop:
        main(["sweep", str(file), "--out", str(out), "--json"])
    assert stop.value.code == 1
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [event["event"] for event in events] == ["started", "finished", "started", "failed", "ended"]
    assert list(events[-1]["failed"].values()) == ["ValueError: seed 1 ?is ill"]
    run = read_run(out / events[-1]["finished"][0])
    assert run.settings["world"] == {"kind": "Room", "max_steps": 20}
    assert run.settings["evaluation"]["episodes"] == 4
    assert run.settings["evaluation"]["task_seed"] == 1000
    stub.failing.clear()
    assert main(["sweep", str(file), "--out", str(out)]) == 0
    printed = capsys.readouterr()
    assert "1 trials finished, 1 before, 0 failed" in printed.out
    assert "skipped" in printed.err


def test_words_in_place_of_a_file(stub, tmp_path, capsys):
    words = ["seed=0:3", "learning_rate=1e-3,3e-3", "preset=fast", "world=room"]
    assert main(["sweep", "--grid", *words, "--out", str(tmp_path), "--json"]) == 0
    names = json.loads(capsys.readouterr().out.splitlines()[-1])["finished"]
    told = [read_run(tmp_path / name).settings for name in names]
    assert {(each["seed"], each["what"]["learning_rate"]) for each in told} == {
        (seed, rate) for seed in range(3) for rate in (1e-3, 3e-3)
    }
    assert all(each["what"]["num_envs"] == PRESETS["fast"].num_envs for each in told)


def test_words_and_python_mean_the_same_where_nothing_is_said():
    assert trials_typed(["seed=0"], "") == [Trial(Spriteworld())]


def test_words_give_several_budgets_or_one():
    trials = trials_typed(["budgets=500+2000,10", "world=room"], "")
    assert [trial.evaluation.budgets for trial in trials] == [(500, 2000), (10,)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[fixed]\nsead = 1", "a trial has no 'sead': did you mean seed?"),
        ("[other]\n", "has no place for 'other': a sweep has the tables [fixed] and [grid]"),
        ("[grid]\nseed = 1", "the grid's seed must be a list of values, but is 1"),
        ("[fixed]\nseed = 1\n[grid]\nseed = [1]", "seed is fixed, and in the grid"),
        ("[grid]\nseed = [1, 1]", "a trial is there twice"),
        ("[fixed]\nseed = -1", "a seed lies between 0 and"),
        ("[fixed]\nseed = 4_294_966_296", "a seed lies between 0 and 2147483647"),
        ("[fixed]\nwidth = 0", "width: 0 does not fit; give a whole number from 1 to 16,384"),
        ("[fixed]\ngamma = nan", "gamma: nan does not fit"),
        ("[fixed]\nepisodes = 0", "episodes: 0 does not fit; give a whole number from 1"),
        ("[fixed]\nbudgets = [0]", "budget"),
        ("[fixed]\nreplay = 1_000_000_000_000", "replay: 1000000000000 does not fit"),
        ("[fixed]\nnum_envs = 1_000_000_000\nenv_steps = 1_000_000_000", "needs more memory than this machine has"),
        ('[fixed]\nmethod = "sarsa"', "there is no method 'sarsa': choose from play"),
        ('[fixed]\npreset = "slow"', "play has no preset 'slow': choose from fast, cpu, paper"),
        ('[fixed]\nworld = "nowhere"', "there is no world 'nowhere'"),
        ('[fixed]\nworld = "os:system"', "code is imported only if the command line names it: give --world os:system"),
        ("[fixed]\nworld = 5", "a world is a name, not 5"),
        ('[fixed]\n"world.size" = 5', "has no parameter 'size'"),
        ("[grid]\nseed = [0]\nwidth = []", "the grid's width must be a list of values"),
        ("[fixed]\nx = 2024-01-01", "a trial has no 'x': there are world, world.FIELD, method, preset, seed"),
        ("fixed = 5", "[fixed] and [grid] are tables"),
        ("= 5", "is not TOML"),
    ],
)
def test_a_file_that_is_no_sweep_is_refused_in_one_line_before_anything_is_made(text, said, tmp_path, capsys):
    file = tmp_path / "sweep.toml"
    file.write_text(text)
    assert main(["sweep", str(file), "--out", str(tmp_path / "out")]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert said in printed.err
    assert printed.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "give a file, or --grid"),
        (["a.toml", "--grid", "seed=0"], "give a file, or --grid"),
        (["no-such.toml"], "there is no no-such.toml"),
        (["--grid", "seed"], "--grid takes key=v1,v2"),
        (["--grid", "seed=0", "seed=1"], "--grid has seed twice"),
        (["--grid", "seed=0:999999999"], "is no range"),
        (["--grid", "seed=0:" + 5000 * "9"], "is no range"),
        (["--grid", "budgets=0+5"], "a budget is at least 1 labelled step"),
        (["--grid", "seed=0:9999", "width=8,9"], "a sweep has at most 10,000 trials"),
        (["--grid", "seed=0", "--in-step", "0"], "--in-step must be at least 1"),
        (["--grid", "seed=0", "--gpus", "1"], "give --engine ray too"),
        (["--grid", "seed=0", "--engine", "ray", "--gpus", "1.5"], "a part of one or a whole number"),
        (["--grid", "seed=0", "--engine", "ray", "--address", "here"], "a cluster's address is HOST:PORT or auto"),
        (["--grid", "seed=0", "--engine", "ray", "--address", "127.0.0.1:1"], "no Ray cluster answers at 127.0.0.1:1"),
        (["--grid", "seed=0", "--out", "/dev/null/x"], "cannot write to /dev/null/x"),
    ],
)
def test_options_that_cannot_be_are_refused_in_one_line(args, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["sweep", *args]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert said in printed.err
    assert printed.err.count("\n") == 1


class Dial:
    """A world that does not say what it is made with."""

    max_steps, num_actions, feature_names = 10, 2, ("dial",)

    def __init__(self, notch):
        self.notch = notch

    def reset(self, key):
        return jnp.zeros(1)

    def step(self, state, action):
        return jnp.minimum(state + action * self.notch, 1)

    def observe(self, state):
        return state

    def features(self, state):
        return state


def test_python_is_refused_the_same(tmp_path):
    for wrong in ({"seed": -1}, {"method": "sarsa"}, {"settings": QUICK}):
        with pytest.raises(OutOfBounds):
            Trial(WORLD, **wrong)
    with pytest.raises(OutOfBounds, match="cannot tell what a Dial is made with: make it a frozen dataclass"):
        Trial(Dial(0.5))
    for engine in (Local, Ray):
        with pytest.raises(OutOfBounds, match="in_step: -1 does not fit; give a whole number from 1 to 10,000"):
            engine(in_step=-1)
    with pytest.raises(OutOfBounds, match="1 to 10,000 trials"):
        sweep([], tmp_path)
    with pytest.raises(OutOfBounds, match="there is no engine 'slurm'"):
        sweeps.engine_named("slurm")


def test_a_folder_of_other_settings_is_not_overwritten_and_two_sweeps_do_not_mix(stub, tmp_path):
    trial = Trial(Room(), TINY)
    sweep([trial], tmp_path)
    (tmp_path / trial.name).rename(tmp_path / replace(trial, seed=1).name)
    with pytest.raises(ValueError, match="holds a run with other settings"):
        sweep([replace(trial, seed=1)], tmp_path)
    with locked(tmp_path), pytest.raises(Locked, match="is being written by another run"):
        sweep([trial], tmp_path)


def test_what_came_over_the_net_is_checked_before_anything_is_written(tmp_path):
    made = tmp_path / "made"
    (made / "library").mkdir(parents=True)
    (made / "library" / "weights").write_bytes(b"1234")
    archive = pack(made)
    unpack(archive, tmp_path / "again")
    assert (tmp_path / "again" / "library" / "weights").read_bytes() == b"1234"
    with pytest.raises(Unreadable, match="its checksum is another"):
        unpack(archive._replace(data=archive.data + b" "), tmp_path / "other")
    for name in ("../outside", "/outside", "a/b/c/d/e"):
        with pytest.raises(Unreadable, match="is no plain folder"):
            unpack(_archive_of(name), tmp_path / "other")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("name", ["a/b/c/d/e", "link"])
def test_what_would_be_refused_where_it_arrives_is_refused_where_it_is_packed(name, tmp_path):
    made = tmp_path / "made"
    (made / name).parent.mkdir(parents=True)
    if name == "link":
        (made / name).symlink_to("/etc/hostname")
    else:
        (made / name).write_text("")
    with pytest.raises(ValueError, match=f"its folder holds '{name}', and only plain files"):
        pack(made)


def _archive_of(name):
    import hashlib
    import io
    import tarfile

    block = io.BytesIO()
    with tarfile.open(fileobj=block, mode="w") as tar:
        tar.addfile(tarfile.TarInfo(name))
    return Archive(block.getvalue(), hashlib.sha256(block.getvalue()).hexdigest())


def test_without_ray_it_is_said_how_to_get_it(stub, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(NoCluster, match=r"need Ray: pip install 'cumulant\[ray\]'"):
        sweep([Trial(Room())], tmp_path, Ray())
    assert not any(tmp_path.iterdir())


def test_a_cluster_that_is_there_but_cannot_be_worked_on_is_told_as_what_it_is(monkeypatch):
    def refuse(**options):
        raise RuntimeError("another version")

    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda: False, init=refuse))
    with pytest.raises(NoCluster, match="cannot work on the Ray cluster at auto: RuntimeError: another version"):
        sweep([Trial(Room())], "nowhere", Ray())


class Cluster:
    """What a sweep asks of Ray; each task has its answer at once."""

    def __init__(self, answer):
        self.answer, self.cancelled = answer, []
        lost = ("WorkerCrashedError", "NodeDiedError", "ObjectLostError", "OutOfMemoryError")
        errors = ("RayError", "RayTaskError", *lost)
        self.exceptions = SimpleNamespace(**{name: type(name, (Exception,), {}) for name in errors})
        self.cloudpickle = pickle

    def remote(self, **wanted):
        return lambda task: SimpleNamespace(remote=lambda work, *about: work)

    def wait(self, references, timeout):
        return references[:1], references[1:]

    def get(self, reference):
        return self.answer(reference)

    def cancel(self, reference, force):
        self.cancelled.append(reference)


def _on(cluster, works, folder):
    events, place = [], folder / "place"
    place.mkdir(parents=True)
    _Errands(Ray(), cluster, place, folder, events.append).run(works)
    return events


@pytest.mark.parametrize("answered", [("../kept",), (), ("another",)])
def test_a_worker_answers_for_the_trials_it_was_given(answered, tmp_path):
    (tmp_path / "kept").mkdir()
    (work,) = groups([Trial(Room(), TINY)], 1)
    archive = pack(tmp_path / "kept")
    cluster = Cluster(lambda reference: [(Filled(name), archive) for name in answered])
    events = _on(cluster, [work], tmp_path / "out")
    assert events[-1] == {"event": "failed", "trial": work.names[0], "reason": "its worker answered for other trials"}
    assert {path.name for path in tmp_path.iterdir()} == {"kept", "out"}
    assert (tmp_path / "out" / work.names[0] / FAILURE).exists()


def test_tasks_do_not_outlive_a_sweep_that_is_stopped(tmp_path):
    def stop(reference):
        raise KeyboardInterrupt

    works = groups([Trial(Room(), TINY, seed) for seed in range(3)], 1)
    cluster = Cluster(stop)
    with pytest.raises(KeyboardInterrupt):
        _on(cluster, works, tmp_path)
    assert [pickle.loads(reference) for reference in cluster.cancelled] == works[1:]


def test_a_sweep_killed_three_times_at_random_moments_ends_as_if_nothing_had_happened():
    environment = os.environ | {"PYTHONPATH": str(Path(cumulant.__file__).parent.parent)}
    command = [sys.executable, str(ROOT / "tools" / "attack_sweeps.py"), "--kills", "3", "--trials", "2"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["killed"] == 3


@dataclass(frozen=True)
class Told(Part):
    """A part that takes no time."""

    ill: bool = False

    def settings(self):
        return None

    def shrunk(self):
        return self

    def run(self, name, scale, folder):
        if self.ill:
            raise ValueError("it is ill")
        return Ran([], {})


def test_nobody_fills_a_part_that_an_engine_is_filling_and_a_failure_goes_when_it_is_filled(tmp_path):
    def silent(words):
        pass

    folder = run_folder("mine", tmp_path)
    with locked(folder), pytest.raises(Locked, match="mine is being written by another run"):
        run_parts({"mine": Told()}, FULL, tmp_path, Local(), silent)
    assert run_parts({"mine": Told(ill=True)}, FULL, tmp_path, Local(), silent) == {"mine": "ValueError: it is ill"}
    assert {path.name for path in folder.iterdir()} == {FAILURE}
    run_part("mine", Told(), FULL, tmp_path, silent)
    assert {path.name for path in folder.iterdir()} == {"config.json", "metrics.jsonl"}
    assert run_parts({"mine": Told(ill=True)}, FULL, tmp_path, Local(), silent) == {}  # it is recorded already


class Stub:
    """Free play that takes no time: a seed is ill, or its success is itself."""

    def __init__(self):
        self.failing = set()

    def fill(self, trials, folders):
        for trial, folder in zip(trials, folders, strict=True):
            if trial.seed in self.failing:
                raise ValueError(f"seed {trial.seed} \x1bis ill\nand so on")
            (folder / "library").mkdir()
            yield Ran([Row("zero-shot", "one", "lamp on", trial.seed, 0, trial.seed / 8, 8)], {"train_s": 1.0})


@pytest.fixture
def stub(monkeypatch):
    stub = Stub()
    monkeypatch.setitem(swept.METHODS, "play", swept.METHODS["play"]._replace(fill=stub.fill))
    assert sweeps.METHODS is swept.METHODS
    return stub
