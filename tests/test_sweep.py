"""Sweeps: names, jobs, whole folders, failures, and what is refused. What is trained is tiny, or a stub."""

import json
import pickle
import sys
import weakref
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import jax.numpy as jnp
import pytest

import cumulant
from cumulant.commands.cli import main
from cumulant.commands.grids import trials_typed
from cumulant.config import PRESETS, FreePlay, OutOfBounds
from cumulant.goals.suites import CLASSES
from cumulant.storage import Locked, locked
from cumulant.sweeps import trials as sweeps
from cumulant.sweeps.experiments import FAILURE, Experiment, Filled, Local, Outcome, _jobs
from cumulant.sweeps.experiments import run as run_all
from cumulant.sweeps.judging import Evaluation
from cumulant.sweeps.on_ray import NoCluster, Ray
from cumulant.sweeps.run_folders import Row, read_run
from cumulant.sweeps.trials import Clock, Trial, sweep
from cumulant.transfer.library import Library
from cumulant.worlds.room import Room
from cumulant.worlds.spriteworld import Spriteworld

ROOT = Path(__file__).parent.parent
WORLD = Spriteworld(max_steps=10)
TINY = FreePlay(width=8, num_envs=4, batch=8, env_steps=400, replay=400)
QUICK = Evaluation(tasks_per_class=1, episodes=2)


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """A sweep of three seeds in one program, and three runs by themselves."""
    out = tmp_path_factory.mktemp("three")
    trials = [Trial(WORLD, TINY, seed, QUICK) for seed in range(3)]
    assert not sweep(trials, out / "sweep", Local(in_step=3)).failed
    for trial in trials:
        cumulant.pretrain(WORLD, TINY, trial.seed, out / "alone" / trial.name)
    return out


def test_seeds_in_step_equal_runs_alone_bit_for_bit(three):
    trials = sorted((three / "sweep").iterdir())
    assert len(trials) == 3
    for folder in trials:
        alone, mine = three / "alone" / folder.name, folder / "library"
        assert (alone / "weights.safetensors").read_bytes() == (mine / "weights.safetensors").read_bytes()
        # A run of `pretrain` seals its config with nothing else in it.
        assert json.loads((alone / "config.json").read_text()) == json.loads((mine / "config.json").read_text())
    assert len({(folder / "library" / "weights.safetensors").read_bytes() for folder in trials}) == 3


def test_finished_folder_holds_config_success_and_library(three):
    folder = sorted((three / "sweep").iterdir())[0]
    run = read_run(folder)
    assert run.settings["what"] == json.loads(json.dumps(TINY.__dict__))
    assert [row.kind for row in run.rows] == list(CLASSES)
    config = json.loads((folder / "config.json").read_text())
    assert config["success"]["zero-shot"].keys() == set(CLASSES)
    assert config["in_step"] == 3
    lines = [json.loads(line) for line in (folder / "library" / "metrics.jsonl").read_text().splitlines()]
    assert lines[-1]["update"] == TINY.updates
    assert sum("success" in line for line in lines) == 5
    library = Library.load(folder / "library")
    assert library.world == WORLD
    assert library.weights("square left").shape == (1, 6, 3)


def test_name_says_the_unusual_and_depends_on_nothing_else():
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


def test_jobs_differ_in_seed_and_evaluation_only():
    same = [Trial(WORLD, TINY, seed, replace(QUICK, episodes=seed + 1)).experiment for seed in range(5)]
    others = [Trial(Room(), TINY, 0).experiment, Trial(WORLD, replace(TINY, bins=5), 0).experiment]
    found = _jobs([same[0], others[0], *same[1:], others[1]], 3)
    assert sorted(map(len, found)) == [1, 1, 2, 3]
    assert all(len({each.program for each in job}) == 1 for job in found)
    assert [job[0] for job in _jobs([same[0], others[0], same[1]], 1)] == [same[0], others[0], same[1]]


class Stub:
    """Free play that takes no time: a seed is ill, or its success is itself."""

    def __init__(self):
        self.failing = set()

    def play(self, trials, folders):
        for trial, folder in zip(trials, folders, strict=True):
            if trial.seed in self.failing:
                raise ValueError(f"seed {trial.seed} \x1bis ill\nand so on")
            (folder / "library").mkdir()
            yield Outcome([Row("zero-shot", "one", "lamp on", trial.seed, 0, trial.seed / 8, 8)], {"train_s": 1.0})


@pytest.fixture
def stub(monkeypatch):
    stub = Stub()
    monkeypatch.setattr(sweeps, "_play", stub.play)
    return stub


def test_failed_job_frees_memory_before_single_tries(monkeypatch, tmp_path):
    class Memory:
        pass

    held = []

    def play(trials, folders):
        if len(trials) > 1:
            memory = Memory()
            held.append(weakref.ref(memory))
            raise MemoryError
        assert held[0]() is None
        yield Outcome([], {})

    monkeypatch.setattr(sweeps, "_play", play)
    came = sweep([Trial(Room(), TINY, seed) for seed in range(2)], tmp_path, Local(in_step=2))
    assert (len(came.finished), came.failed, len(held)) == (2, {}, 1)


def test_failure_has_a_name_and_is_tried_again(stub, tmp_path):
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


def test_run_that_gives_nothing_fails(tmp_path):
    silent = Experiment("silent", {}, None, lambda configs, folders: iter(()))
    assert run_all([silent], tmp_path, Local(), lambda event: None).failed.keys() == {"silent"}


def test_command_reads_file_and_ends_with_1_on_failure(stub, tmp_path, capsys):
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


def test_grid_words_mean_what_python_means():
    trials = trials_typed(["seed=0:3", "learning_rate=1e-3,3e-3", "preset=fast", "world=room"], "")
    assert {(each.seed, each.settings.learning_rate) for each in trials} == {
        (seed, rate) for seed in range(3) for rate in (1e-3, 3e-3)
    }
    assert all(each.settings.num_envs == PRESETS["fast"].num_envs for each in trials)
    assert trials_typed(["seed=0"], "") == [Trial(Spriteworld())]
    judged = trials_typed(["budgets=500+2000,10", "world=room"], "")
    assert [trial.evaluation.budgets for trial in judged] == [(500, 2000), (10,)]


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
        ('[fixed]\npreset = "slow"', "there is no preset 'slow': choose from fast, cpu, paper"),
        ('[fixed]\nworld = "nowhere"', "there is no world 'nowhere'"),
        ('[fixed]\nworld = "os:system"', "code is imported only if the command line names it: give --world os:system"),
        ("[fixed]\nworld = 5", "a world is a name, not 5"),
        ('[fixed]\n"world.size" = 5', "has no parameter 'size'"),
        ("[grid]\nseed = [0]\nwidth = []", "the grid's width must be a list of values"),
        ("[fixed]\nx = 2024-01-01", "a trial has no 'x': there are world, world.FIELD, preset, seed"),
        ("fixed = 5", "[fixed] and [grid] are tables"),
        ("= 5", "is not TOML"),
    ],
)
def test_file_that_is_no_sweep_is_refused(text, said, tmp_path, capsys):
    """In one line, before anything is made."""
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
        (["--grid", "seed=0", "--out", "/dev/null/x"], "cannot write /dev/null/x"),
    ],
)
def test_options_that_cannot_be_are_refused(args, said, tmp_path, monkeypatch, capsys):
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
    for wrong in ({"seed": -1}, {"seed": True}):
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
        sweeps._engine_named("slurm")


def test_other_settings_and_other_sweeps_are_not_overwritten(stub, tmp_path):
    trial = Trial(Room(), TINY)
    sweep([trial], tmp_path)
    (tmp_path / trial.name).rename(tmp_path / replace(trial, seed=1).name)
    with pytest.raises(ValueError, match="holds a run with other settings"):
        sweep([replace(trial, seed=1)], tmp_path)
    with locked(tmp_path), pytest.raises(Locked, match="is being written by another run"):
        sweep([trial], tmp_path)


def test_missing_and_refusing_clusters_are_told(stub, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(NoCluster, match=r"need Ray: pip install 'cumulant\[ray\]'"):
        sweep([Trial(Room())], tmp_path, Ray())
    assert not any(tmp_path.iterdir())

    def refuse(**options):
        raise RuntimeError("another version")

    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda: False, init=refuse))
    with pytest.raises(NoCluster, match="cannot work on the Ray cluster at auto: RuntimeError: another version"):
        sweep([Trial(Room())], tmp_path, Ray())


class Cluster:
    """What a sweep asks of Ray; the task of the trials that are named fails as it is told."""

    def __init__(self, error):
        self.error, self.cancelled, self.cloudpickle = error, [], pickle
        errors = "RayError RayTaskError WorkerCrashedError NodeDiedError OutOfMemoryError".split()
        self.exceptions = SimpleNamespace(**{name: type(name, (Exception,), {}) for name in errors})

    def remote(self, **wanted):
        return lambda task: SimpleNamespace(remote=lambda job, *about: job)

    def wait(self, references, timeout):
        return references[:1], references[1:]

    def get(self, reference):
        raise self.error if isinstance(self.error, BaseException) else getattr(self.exceptions, self.error)("so")

    def cancel(self, reference, force):
        self.cancelled.append(pickle.loads(reference))


def jobs_on(cluster, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", cluster)
    return [[Trial(Room(), TINY, seed).experiment] for seed in range(3)]


def test_tasks_do_not_outlive_a_stopped_sweep(tmp_path, monkeypatch):
    jobs = jobs_on(cluster := Cluster(KeyboardInterrupt()), monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        list(Ray().run(jobs, tmp_path, print))
    assert cluster.cancelled == jobs[1:]


def test_dead_workers_and_lost_clusters_are_told(tmp_path, monkeypatch):
    jobs = jobs_on(Cluster("WorkerCrashedError"), monkeypatch)
    assert [*Ray(retries=1).run(jobs, tmp_path, print)] == [
        Filled(job[0].name, "its worker died 2 times: WorkerCrashedError") for job in jobs
    ]
    unsendable = replace(jobs[0][0], config=lambda: None)
    ((filled,),) = ([*Ray().run([[unsendable]], tmp_path, print)],)
    assert filled.failure.startswith("it cannot be sent to a cluster: ")
    jobs = jobs_on(Cluster("RayError"), monkeypatch)
    with pytest.raises(NoCluster, match="the Ray cluster is lost: RayError: so"):
        list(Ray().run(jobs, tmp_path, print))


def test_clock_keeps_the_last_seconds_reported():
    clock = Clock()
    for event, seconds in (("compiled", 9.0), ("progress", 1.0), ("progress", 3.0)):
        clock({"event": event, "seconds": seconds})
    clock({"event": "kept"})
    assert (clock.compiling, clock.learning) == (9.0, 3.0)
