"""Runs over several devices, of one process and of two: four virtual ones of the CPU."""

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from cumulant.commands.cli import main
from cumulant.commands.hosts import launched
from cumulant.commands.inputs import BadInput
from on_four_devices import SETTINGS

HERE = Path(__file__).parent


def started(*args, **environment):
    """A Python of its own, with virtual devices."""
    paths = os.pathsep.join([str(HERE), str(HERE.parent / "src")])
    environment = os.environ | {"PYTHONPATH": paths} | environment
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, *args], env=environment, text=True, **pipes)


def two_processes(*commands):
    """Two that meet on this machine, with two devices each: the exit status, stdout and stderr of both."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    common = {"JAX_COORDINATOR_ADDRESS": address, "JAX_NUM_PROCESSES": "2", "JAX_NUM_CPU_DEVICES": "2"}
    both = [
        started("-m", "cumulant", *command, **common, JAX_PROCESS_ID=str(i), JAX_ENABLE_X64="1")
        for i, command in enumerate(commands)
    ]
    try:
        said = [process.communicate(timeout=300) for process in both]
    finally:
        for process in both:
            process.kill()
    return [(process.returncode, *words) for process, words in zip(both, said, strict=True)]


def pretrain(out, *more):
    settings = [word for name, value in SETTINGS.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    return [
        "pretrain",
        "--preset",
        "fast",
        "--world",
        "conftest:Sliders",
        "--out",
        str(out),
        "--json",
        *settings,
        *more,
    ]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The weights that one device learns in double precision."""
    return tmp_path_factory.mktemp("alone")


@pytest.fixture(scope="module")
def found(alone):
    process = started(str(HERE / "on_four_devices.py"), str(alone), JAX_NUM_CPU_DEVICES="4")
    said, complaint = process.communicate(timeout=300)
    assert process.returncode == 0, complaint
    return json.loads(said)


@pytest.mark.parametrize("way", ["in turn", "side by side"])
def test_any_number_of_runs_is_shared_among_devices(found, way):
    """One, three, five and eight among four, each with what is its own. `test_sweep` has real ones, bit for bit."""
    assert found["devices"] == 4
    assert found[way] == [True] * 4


def test_runs_that_gpus_share_learn_what_they_learn_in_turn(found):
    assert found["trained side by side"] < 1e-5


def test_a_run_that_four_devices_share_is_one_devices_run(found):
    """Over 200 updates: the same copies of the world, the same draws, the same batches. Only sums are rounded apart."""
    assert found["shared"] < 1e-5


def test_a_run_that_four_devices_began_goes_on_with_two(found):
    assert found["resumed on two"] < 1e-5


def test_what_cannot_be_shared_is_refused_by_name(found):
    assert found["refused"] == [
        "devices must be at most 4, as many as there are, but is 5",
        "devices must be at least 1, but is 0",
        "num_envs must be a multiple of the 4 devices, but is 10",
        "devices must be 1 for a world on the host, which one process steps, but is 2",
    ]


def test_more_devices_than_there_are_end_in_one_line(tmp_path, capsys):
    assert main(["pretrain", "--devices", "64", "--out", str(tmp_path / "run")]) == 2
    assert capsys.readouterr().err == "cumulant: devices must be at most 1, as many as there are, but is 64\n"
    assert not (tmp_path / "run").exists()


def test_two_processes_go_on_with_a_run_and_the_first_alone_writes_and_speaks(found, alone, tmp_path):
    """It becomes what one device learns; neither needs the other's disk."""
    shutil.copytree(alone / "begun", tmp_path / "first")
    commands = [pretrain(tmp_path / name, "--resume") for name in ("first", "other")]
    first, other = two_processes(*commands)
    assert first[0] == other[0] == 0, first[2] + other[2]
    assert json.loads(first[1])["updates"] == 200
    assert other[1] == other[2] == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first"]
    learnt = safetensors.numpy.load_file(tmp_path / "first" / "weights.safetensors")
    expected = np.load(alone / "alone.npz")
    assert len(expected) == 8  # layers and heads; a library has the audit beside them
    for array in expected.values():
        like = [np.abs(other - array).max() for other in learnt.values() if other.shape == array.shape]
        assert min(like) < 1e-5


def test_two_processes_that_were_started_with_different_seeds_refuse_in_one_line(tmp_path):
    first, other = two_processes(pretrain(tmp_path / "run"), pretrain(tmp_path / "run", "--seed", "1"))
    assert first[0] == other[0] == 2
    assert "cumulant: the processes were started with different worlds, settings or seeds" in first[2]
    assert first[1] == other[1] == other[2] == ""


def test_what_one_process_refuses_the_first_tells(tmp_path):
    """Else it would wait for one that has ended."""
    first, other = two_processes(pretrain(tmp_path / "run"), pretrain(tmp_path / "run", "--checkpoint-seconds", "-1"))
    assert first[0] == other[0] == 2
    assert "cumulant: process 1: --checkpoint-seconds must be" in first[2]
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


BY_HAND = {"JAX_COORDINATOR_ADDRESS": "10.0.0.1:1234", "JAX_NUM_PROCESSES": "2", "JAX_PROCESS_ID": "1"}
PARTS = {"coordinator_address": "10.0.0.1:1234", "num_processes": 2, "process_id": 1}
OPEN_MPI = {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1"}


@pytest.mark.parametrize(
    ("environment", "launch"),
    [
        ({}, None),
        (BY_HAND, PARTS),
        ({"SLURM_STEP_NUM_TASKS": "2"}, {}),
        ({"SLURM_STEP_NUM_TASKS": "1", "SLURM_NTASKS": "8"}, None),
        ({"SLURM_NTASKS": "8"}, None),
        (OPEN_MPI | {"OMPI_MCA_orte_hnp_uri": "1.0;tcp://10.0.0.1:1"}, {}),
        (OPEN_MPI | {"JAX_COORDINATOR_ADDRESS": "10.0.0.1:1234"}, PARTS),
        ({"JAX_COORDINATOR_ADDRESS": "10.0.0.1:1234"}, None),
    ],
)
def test_processes_meet_where_the_environment_says_that_there_are_several(environment, launch):
    assert launched(environment) == launch


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"JAX_PROCESS_ID": ""}, "together"),
        ({"JAX_PROCESS_ID": "2"}, "must lie between 0 and 1, but is 2"),
        ({"JAX_NUM_PROCESSES": "two"}, "JAX_NUM_PROCESSES must be a whole number, but is 'two'"),
        ({"JAX_COORDINATOR_ADDRESS": "here"}, "must be HOST:PORT, but is 'here'"),
    ],
)
def test_variables_that_make_no_sense_are_refused(change, words):
    with pytest.raises(BadInput, match=words):
        launched(BY_HAND | change)


def test_an_open_mpi_that_does_not_say_where_to_meet_is_told(monkeypatch):
    with pytest.raises(BadInput, match="set JAX_COORDINATOR_ADDRESS to HOST:PORT"):
        launched(OPEN_MPI)
