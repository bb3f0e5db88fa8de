import contextlib
import dataclasses
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from importlib import metadata
from typing import NamedTuple
from unittest import mock

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

import cumulant
from cumulant.commands.cli import main, read_command
from cumulant.config import PRESETS, FreePlay, for_features
from cumulant.features.coordinates import true_features
from cumulant.freeplay import runs as module
from cumulant.freeplay.in_step import InStep
from cumulant.freeplay.learning import start, train
from cumulant.freeplay.runs import Diverged
from cumulant.storage import Unreadable
from cumulant.transfer.library import Library
from cumulant.transfer.pretraining import pretrain
from cumulant.worlds.shapes import SHAPES
from cumulant.worlds.spriteworld import Spriteworld

TINY = FreePlay(width=16, num_envs=8, batch=32, env_steps=8 * 400, replay=2000)
WORLD = Spriteworld(max_steps=20)


def stop_after(chunks):
    left = iter([False] * (chunks - 1) + [True] * 100)
    return lambda: next(left)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run of seed 5 that nothing disturbed: its folder, and its network."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    return folder, pretrain(WORLD, TINY, 5, folder).network


def metrics_in(folder):
    return (folder / "metrics.jsonl").read_text()


def test_a_stopped_run_goes_on_as_if_nothing_had_happened(whole, tmp_path):
    """So the same seed gives the same weights and metrics; another seed gives others."""
    folder, network = whole
    assert [json.loads(line)["update"] for line in metrics_in(folder).splitlines()] == list(range(10, 401, 10))
    parts = tmp_path / "parts"
    assert pretrain(WORLD, TINY, 5, parts, should_stop=stop_after(7)) is None
    with (parts / "metrics.jsonl").open("a") as file:
        file.write('{"update": 71, "lo')  # killed while writing
    assert eqx.tree_equal(network, pretrain(WORLD, TINY, 5, parts, resume=True).network)
    assert metrics_in(folder) == metrics_in(parts)
    assert not (parts / "checkpoints").exists()
    assert pretrain(WORLD, TINY, 6, tmp_path / "other", should_stop=stop_after(1)) is None
    assert metrics_in(tmp_path / "other") not in metrics_in(folder)


def test_what_is_compiled_beside_training_changes_nothing(whole, monkeypatch):
    monkeypatch.setattr(module, "_compiles_beside", lambda world: True)
    assert eqx.tree_equal(whole[1], pretrain(WORLD, TINY, 5).network)


def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(whole, tmp_path):
    pretrain(WORLD, TINY, 5, tmp_path, should_stop=stop_after(4), checkpoint_every=0.0)
    newest, before = sorted((tmp_path / "checkpoints").iterdir(), reverse=True)
    data = (newest / "weights.safetensors").read_bytes()
    (newest / "weights.safetensors").write_bytes(data[: len(data) // 2])
    said = []
    resumed = pretrain(WORLD, TINY, 5, tmp_path, resume=True, report=said.append)
    assert [str(newest) in m["message"] for m in said if m["event"] == "damaged"] == [True]
    assert eqx.tree_equal(whole[1], resumed.network)
    assert before.name < newest.name


def test_if_no_checkpoint_can_be_read_nothing_is_done(tmp_path):
    pretrain(WORLD, TINY, 5, tmp_path, should_stop=stop_after(2))
    for path in (tmp_path / "checkpoints").iterdir():
        (path / "weights.safetensors").write_bytes(b"")
    with pytest.raises(Unreadable, match="none of the checkpoints"):
        pretrain(WORLD, TINY, 5, tmp_path, resume=True)
    with pytest.raises(ValueError, match="other settings"):
        pretrain(WORLD, TINY, 6, tmp_path, resume=True)


def test_a_loss_that_is_no_number_stops_the_run_and_keeps_the_last_checkpoint(whole, tmp_path, monkeypatch):
    compiled = module.compiled

    def breaking(*args):
        advance, seconds = compiled(*args)

        def broken(arrays, until):
            arrays, loss = advance(arrays, until)
            return arrays, loss if int(arrays.update) < 50 else loss * float("nan")

        return broken, seconds

    monkeypatch.setattr(module, "compiled", breaking)
    with pytest.raises(Diverged, match=r"loss is nan at update 50; the last good checkpoint is .*000000040"):
        pretrain(WORLD, TINY, 5, tmp_path, checkpoint_every=0.0)
    monkeypatch.undo()
    resumed = pretrain(WORLD, TINY, 5, tmp_path, resume=True)
    assert eqx.tree_equal(resumed.network, whole[1])


def test_a_folder_that_holds_a_run_is_refused_in_python_too(tmp_path):
    (tmp_path / "metrics.jsonl").write_text("")
    with pytest.raises(ValueError, match="already holds a run"):
        pretrain(WORLD, TINY, 5, tmp_path)


KILLS = int(os.environ.get("CUMULANT_KILLS", "1"))  # each costs a start of the program
ARGUMENTS = ["pretrain", "--env-steps", "12800", "--width", "16"]
COMMAND = [sys.executable, "-m", "cumulant", *ARGUMENTS]


@pytest.fixture(scope="module")
def commanded(tmp_path_factory):
    """The folder of a run of the command that nothing disturbed, and its report."""
    folder, said = tmp_path_factory.mktemp("commanded") / "run", io.StringIO()
    with contextlib.redirect_stdout(said):
        assert main([*ARGUMENTS, "--out", str(folder), "--json"]) == 0
    return folder, json.loads(said.getvalue())


def test_killed_at_random_moments_the_weights_are_those_of_an_undisturbed_run(commanded, tmp_path):
    out, moments = tmp_path / "killed", random.Random(0)
    for kill in range(KILLS):
        args = [*COMMAND, "--out", out, "--checkpoint-seconds", "0"]
        process = subprocess.Popen([*args, "--resume"] if kill else args, stderr=subprocess.DEVNULL)
        before, waited = sorted(out.glob("checkpoints/*")), 0.0
        while sorted(out.glob("checkpoints/*")) == before and process.poll() is None and waited < 120:
            time.sleep(0.02)
            waited += 0.02
        time.sleep(moments.uniform(0, 0.3))
        process.send_signal(signal.SIGKILL)
        process.wait()
        if (out / "config.json").exists():
            break
    if not (out / "config.json").exists():
        assert main([*ARGUMENTS, "--out", str(out), "--resume"]) == 0
    assert kill == KILLS - 1  # it was long enough to be killed so often
    assert (out / "weights.safetensors").read_bytes() == (commanded[0] / "weights.safetensors").read_bytes()


def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path):
    process = subprocess.Popen(
        [*COMMAND, "--env-steps", "1500000", "--out", tmp_path],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    while not (tmp_path / "metrics.jsonl").exists() and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "--resume" in said.splitlines()[-1]
    assert list((tmp_path / "checkpoints").iterdir())


def test_a_folder_that_holds_a_run_is_not_overwritten(commanded, tmp_path, capsys):
    folder, report = commanded
    assert {"compile_s", "train_s", "peak_host_bytes", "success", "updates", "out"} <= set(report)
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    args = [*ARGUMENTS, "--out", str(tmp_path)]
    before = (tmp_path / "weights.safetensors").read_bytes()
    assert main([*args, "--seed", "1"]) == 2
    assert "already holds a run" in capsys.readouterr().err
    assert main([*args, "--resume"]) == 2
    assert "nothing to resume" in capsys.readouterr().err
    assert (tmp_path / "weights.safetensors").read_bytes() == before
    assert main([*args, "--seed", "1", "--force", "--tensorboard"]) == 0
    assert (tmp_path / "weights.safetensors").read_bytes() != before
    assert list((tmp_path / "tensorboard").glob("events*"))
    assert dataclasses.asdict(Library.load(tmp_path).config)["width"] == 16


@pytest.mark.parametrize("name", PRESETS)
def test_given_settings_win_over_presets_and_scaling(name):
    world, preset = Spriteworld(tuple(SHAPES)), PRESETS[name]
    grown = for_features(preset, len(world.feature_names))
    assert (grown.batch > preset.batch) == (grown.env_steps > preset.env_steps) == (name != "paper")
    assert typed(f"--preset {name}").settings_for(world) == grown
    assert typed(f"--preset {name}").settings_for(Spriteworld()) == preset
    own = typed(f"--preset {name} --batch {preset.batch} --width 32 --no-relational").settings_for(world)
    assert own == dataclasses.replace(grown, batch=preset.batch, width=32, relational=False)


def typed(options):
    return read_command(["pretrain", *options.split()])


def test_pretrain_works_from_a_source_folder(tmp_path, monkeypatch):
    """Where nothing is installed of it, and so no metadata tells its version."""
    found = metadata.Distribution.from_name

    def others(name):
        if name == "cumulant":
            raise metadata.PackageNotFoundError(name)
        return found(name)

    monkeypatch.setattr(metadata.Distribution, "from_name", others)
    pretrain(WORLD, TINY, 5, tmp_path)
    assert Library.load(tmp_path).record.training.version == cumulant.__version__


class Sum(NamedTuple):
    total: Array
    update: Array


@pytest.mark.parametrize("backend", ["cpu", "gpu"])
def test_runs_in_step_keep_what_is_their_own(backend, monkeypatch):
    """Whether they go in turn, as on a CPU, or side by side, as on a GPU."""
    monkeypatch.setattr(jax, "default_backend", lambda: backend)

    def adding(own, run, until):
        total = run.total + own * (until - run.update)
        return Sum(total, until), 2 * total

    runs = InStep(adding, list(jnp.arange(1.0, 4)), [Sum(jnp.zeros(()), jnp.int32(0))] * 3)
    runs.advance(3)
    assert runs.advance(10).tolist() == [20, 40, 60]
    assert runs.runs.total.tolist() == [float(runs.run(i).total) for i in range(3)] == [10, 20, 30]


def test_runs_side_by_side_learn_what_they_learn_in_turn():
    def learnt():
        begun = [start(WORLD, TINY, true_features, jax.random.key(seed)) for seed in (0, 1)]
        runs = InStep(lambda _, run, until: train(WORLD, TINY, true_features, run, until), [None] * 2, begun)
        runs.advance(5)
        return jax.tree.leaves(eqx.filter(runs.runs.network, eqx.is_array))

    in_turn = learnt()
    with mock.patch("jax.default_backend", return_value="gpu"):
        for one, other in zip(in_turn, learnt(), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-5)
