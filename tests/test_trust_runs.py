"""Runs that are killed, filled up or written twice: `test_fuzz.py` kills more of them."""

import contextlib
import errno
import fcntl
import json
import os
import shutil
import subprocess
import sys

import jax.numpy as jnp
import pytest
from conftest import THIRDS, Sliders

from cumulant import storage
from cumulant.commands.cli import main
from cumulant.commands.progress import Reporter
from cumulant.config import FreePlay
from cumulant.freeplay import checkpoints
from cumulant.freeplay.checkpoints import finished
from cumulant.storage import Locked, Unreadable, Unwritable, locked
from cumulant.sweeps import experiments
from cumulant.sweeps.experiments import Experiment, Local, Outcome
from cumulant.sweeps.run_folders import Row
from cumulant.transfer.library import Library
from cumulant.transfer.pretraining import pretrain
from fuzz_commands import run_here
from fuzz_folders import PRETRAIN, Run, Watched, files_of, fill, mixed, results

WORLD, TINY = Sliders(), FreePlay(width=8, num_envs=4, batch=8, env_steps=4 * 3, replay=16)  # three parts


def test_a_disk_that_is_full_once_seldom_ends_a_run(tmp_path):
    run, endings = Run(PRETRAIN, ("--resume", ""), tmp_path / "out"), []
    for write in range(0, run.taking, 3):
        fill(run.out, {})
        with Watched(run.out, write):
            endings.append(run_here(*run.line))
    assert 0 < sum(ending.returncode for ending in endings) < len(endings)  # all but the lock and the library can wait
    assert all(ending.stderr.count("cannot write ") == 1 for ending in endings)


def fill_with_library(configs, folders):
    for _, folder in zip(configs, folders, strict=True):
        Library.load(THIRDS).save(folder / "library-0")
        rows = [Row("mine", "kind", "task", seed, 0, seed / 7, 16) for seed in range(3)]
        yield Outcome(rows, {}, [{"seed": 0, "disentanglement": 1.0}])


def test_experiment_killed_at_any_file_step_is_filled_again(tmp_path):
    mine = Experiment("mine", {}, None, fill_with_library)
    with Watched(out := tmp_path / "out") as watched:
        experiments.run([mine], out, Local(), list)
    expected = results(files_of(out))
    assert len(watched.deaths()) > 20
    for files in watched.deaths():
        assert not mixed(files)
    for files in watched.deaths()[::4]:
        fill(out, files)
        experiments.run([mine], out, Local(), list)
        assert results(files_of(out)) == expected


def unsaved(update):
    return {"event": "unsaved", "message": f"cannot write it at {update}: No space left on device"}


def test_what_cannot_be_saved_is_told_once(capsys):
    reporter = Reporter(10, quiet=True)
    reporter(unsaved(1))
    reporter(unsaved(2))
    assert capsys.readouterr().err == "cumulant: cannot write it at 1: No space left on device\n"


def kept(out):
    return [int(path.name) for path in finished(out)]


def test_checkpoints_are_forgotten_only_when_a_newer_one_was_read_back(tmp_path, monkeypatch):
    for update in (1, 2, 3):
        checkpoints.save(tmp_path, update, jnp.arange(3), {})
    assert kept(tmp_path) == [2, 3]
    monkeypatch.setattr(storage, "is_whole", lambda path: False)
    for update in (4, 5):
        with pytest.raises(Unwritable, match="reads back as something else"):
            checkpoints.save(tmp_path, update, jnp.arange(3), {})
    monkeypatch.undo()
    assert kept(tmp_path) == [2, 3]
    (tmp_path / "checkpoints" / "000000003" / "weights.safetensors").write_bytes(b"damaged")
    (tmp_path / "checkpoints" / "000000004").mkdir()  # as a run killed while writing used to leave it
    told = []
    assert (checkpoints.latest(tmp_path, jnp.zeros(3, int), {}, told.append) == jnp.arange(3)).all()
    assert [event["event"] for event in told] == ["damaged"]
    checkpoints.save(tmp_path, 3, jnp.arange(3), {})
    assert kept(tmp_path) == [2, 3]
    assert not (tmp_path / "checkpoints" / "000000004").exists()


def test_a_checkpoint_that_says_nothing_of_its_run_is_passed_over_and_one_of_another_run_is_not(tmp_path):
    for update in (1, 2):
        checkpoints.save(tmp_path, update, jnp.full(3, update), {"format": 2, "seed": 0})
    (tmp_path / "checkpoints" / "000000002" / "config.json").write_text('{"a": []}')
    told = []
    found = checkpoints.latest(tmp_path, jnp.zeros(3, int), {"format": 2, "seed": 0}, told.append)
    assert (found == 1).all()
    assert ["it has no checksum of its own" in event["message"] for event in told] == [True]
    with pytest.raises(ValueError, match="other settings"):
        checkpoints.latest(tmp_path, jnp.zeros(3, int), {"format": 2, "seed": 1}, told.append)


def test_a_run_killed_during_its_first_checkpoint_starts_anew_and_one_whose_checkpoints_rot_does_not(tmp_path):
    (tmp_path / "checkpoints" / "000000001").mkdir(parents=True)
    like = jnp.zeros(3, int)
    assert checkpoints.latest(tmp_path, like, {}, print) is like
    (tmp_path / "checkpoints" / "000000001" / "config.json").write_text("{")
    with pytest.raises(Unreadable, match="none of the checkpoints"):
        checkpoints.latest(tmp_path, like, {}, lambda event: None)


def test_a_second_writer_is_refused_and_a_lock_that_was_left_behind_is_none(tmp_path, capsys):
    (tmp_path / ".lock").touch()  # of a process that was killed
    asked = ["pretrain", "--env-steps", "64", "--width", "8", "--out", str(tmp_path)]
    with locked(tmp_path):
        with pytest.raises(Locked, match="is being written by another run"), locked(tmp_path):
            pass
        with pytest.raises(ValueError, match="is being written by another run"):
            pretrain(WORLD, TINY, 0, tmp_path)
        for command in (asked, ["represent", "--out", str(tmp_path)]):
            assert main(command) == 2
            assert capsys.readouterr().err == f"cumulant: {tmp_path} is being written by another run\n"
        code = f"import sys; from cumulant.commands.cli import main; sys.exit(main({asked!r}))"
        other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert (other.returncode, other.stderr) == (2, f"cumulant: {tmp_path} is being written by another run\n")
    assert not os.listdir(tmp_path)


def test_a_lock_that_ends_leaves_the_one_of_whoever_has_a_folder_that_was_replaced(tmp_path):
    folder = tmp_path / "run"
    with contextlib.ExitStack() as later:
        with locked(folder):
            shutil.rmtree(folder)
            later.enter_context(locked(folder))
        with pytest.raises(Locked), locked(folder):
            pass


def test_a_run_that_holds_the_lock_can_be_killed_and_the_lock_is_free(tmp_path):
    code = "import sys, pathlib; from cumulant.storage import locked\n"
    code += "with locked(pathlib.Path(sys.argv[1])): print('locked', flush=True); sys.stdin.read()"
    holds = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(holds, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "locked\n"
        with pytest.raises(Locked), locked(tmp_path):
            pass
        process.kill()
    assert (tmp_path / ".lock").exists()
    with locked(tmp_path):
        pass


def test_what_killed_writes_left_is_swept_by_who_has_the_lock_and_nothing_else_is(tmp_path, tmp_path_factory):
    inside, elsewhere = tmp_path / "encoder", tmp_path_factory.mktemp("elsewhere")
    ours = [folder / f".{name}.ab_de012" for folder in (tmp_path, inside) for name in ("config.json", "metrics.jsonl")]
    others = [tmp_path / name for name in ("config.json", ".config.json", ".config.json.bak", ".mine.json.abcdefgh")]
    others += [
        tmp_path / ".config.json.abcd.txt",
        *(each / ".config.json.abcdefgh" for each in (tmp_path / "other", elsewhere)),
    ]
    for path in (*ours, *others):
        path.parent.mkdir(exist_ok=True)
        path.touch()
    (tmp_path / ".config.json.linked00").symlink_to(tmp_path / "config.json")
    (tmp_path / ".config.json.a_folder").mkdir()
    with locked(tmp_path), pytest.raises(Locked), locked(tmp_path, "encoder"):
        pass
    assert [path.exists() for path in ours] == [False, False, True, True]
    (tmp_path / "away").symlink_to(elsewhere)
    with locked(tmp_path, "encoder", "away"):
        assert not any(path.exists() for path in ours)
    assert all(path.exists() for path in others)
    assert {".config.json.linked00", ".config.json.a_folder"} <= set(os.listdir(tmp_path))


def test_locked_tells_where_there_are_no_locks_and_sweeps_nothing(tmp_path, monkeypatch, capsys):
    def refused(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refused)
    (tmp_path / ".config.json.abcdefgh").touch()
    with locked(tmp_path):
        assert (tmp_path / ".config.json.abcdefgh").exists()
    told = f"warning: {tmp_path}: its file system has no locks; let no other run write there\n"
    assert capsys.readouterr().err == told
    assert os.listdir(tmp_path) == [".config.json.abcdefgh"]


def test_there_is_nothing_to_resume_where_nothing_was_begun(tmp_path, capsys):
    out = tmp_path / "none"
    assert main(["pretrain", "--out", str(out), "--resume"]) == 2
    assert capsys.readouterr().err == f"cumulant: {out} holds no run: there is nothing to resume\n"
    assert not out.exists()
    assert main(["pretrain", "--out", str(out), "--resume", "--force"]) == 2
    assert "choose one of them" in capsys.readouterr().err


def test_metrics_up_to_a_checkpoint_are_read_and_half_a_line_is_not(tmp_path):
    lines = [json.dumps({"update": update}) for update in (1, 2, 3)]
    checkpoints.write_metrics(tmp_path, lines)
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"upda')
    assert checkpoints.read_metrics(tmp_path, 2) == lines[:2]
    assert checkpoints.read_metrics(tmp_path, 9) == lines
    assert checkpoints.read_metrics(tmp_path / "none", 9) == []


@pytest.mark.parametrize(
    "line", ["[" * 99_999, '{"update": ' + "9" * 400 + "}", '{"update": NaN}', "{}", "[1]", "\udcff"]
)
def test_damaged_lines_of_metrics_are_left_out(line, tmp_path):
    good = json.dumps({"update": 1})
    (tmp_path / "metrics.jsonl").write_bytes(f"{line}\n{good}\n".encode(errors="surrogateescape"))
    assert checkpoints.read_metrics(tmp_path, 9) == [good]


def test_metrics_that_are_no_plain_file_are_refused(tmp_path):
    os.mkfifo(tmp_path / "metrics.jsonl")
    with pytest.raises(Unreadable, match="it is not a plain file"):
        checkpoints.read_metrics(tmp_path, 9)
