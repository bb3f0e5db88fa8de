"""Command lines that are refused, and commands that are stopped; `test_fuzz.py` tries many more."""

import os
import subprocess
import sys

import pytest

from cumulant.bounds import OutOfBounds, check_memory
from cumulant.commands.cli import main
from cumulant.commands.progress import Reporter


def test_main_refuses_an_empty_line(capsys):
    assert main([]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_commands_refuse_what_memory_cannot_hold(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(os, "sysconf", lambda name: 2**10)  # a machine of one megabyte
    with pytest.raises(OutOfBounds, match="a house of cards needs more memory than this machine has"):
        check_memory("a house of cards", 2**20 + 1)
    out = tmp_path / "out"
    for command in (
        *(f"{name} --out {out}" for name in ("pretrain", "represent", "inspect")),
        "bench render --no-peer",
    ):
        assert main(command.split()) == 2
        assert "needs more memory than this machine has" in capsys.readouterr().err
    assert not out.exists()


def test_solve_refuses_folders_it_may_not_write(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(os, "access", lambda place, mode: not str(place).startswith(str(tmp_path)))  # root may all
    for option in ("--gif", "--trace"):
        assert main(["solve", "square left", option, str(tmp_path / "new" / "a.gif")]) == 2
        assert f"you may not write to {tmp_path}" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_pretrain_refuses_features_that_are_no_numbers(tmp_path, monkeypatch, capsys):
    (tmp_path / "own_nan.py").write_text("import jax.numpy as jnp\ndef features(obs): return jnp.nan * obs\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    assert main(["pretrain", "--out", "new", "--features", "own_nan:features"]) == 2
    assert "returns NaN, an infinity, or what is no number" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_reporter_goes_on_without_a_board(tmp_path, monkeypatch, capsys):
    reporter = Reporter(3, True, tmp_path / "board")
    with reporter:
        report = {"event": "progress", "seconds": 1.0, "loss": 0.5}
        reporter(report | {"update": 1})

        def full(writer, event):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("tensorboardX.event_file_writer.EventsWriter.write_event", full)
        reporter(report | {"update": 2})
        reporter(report | {"update": 3})
    folder = tmp_path / "board"
    said = f"cumulant: cannot write {folder}: No space left on device; going on without TensorBoard\n"
    assert capsys.readouterr().err == said
    assert next(folder.iterdir()).stat().st_size > 0


def test_pretrain_refuses_an_unusable_board(tmp_path, monkeypatch, capsys):
    (tmp_path / "tensorboard").write_text("in the way")
    command = ["pretrain", "--out", str(tmp_path), "--tensorboard"]
    assert main(command) == 2
    assert capsys.readouterr().err == f"cumulant: cannot write {tmp_path / 'tensorboard'}: File exists\n"
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    for name in [name for name in sys.modules if name.startswith("tensorboardX.")]:
        monkeypatch.delitem(sys.modules, name)
    assert main(command) == 2
    assert capsys.readouterr().err == "cumulant: TensorBoard events need pip install 'cumulant[tensorboard]'\n"


STOPPED = """
import os, signal, sys, threading, time
import jax, jax.numpy as jnp
from cumulant import __main__ as command

class Garbage:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(10_000): pass  # where the signal arrives, and nothing can be raised

def long(x):
    for i in range(300):  # for a second or more
        x = jnp.sort(jnp.sin(x) + i)
    return x

def collect():
    Garbage()
    return 0

def compile():
    lowered = jax.jit(long).lower(jnp.ones(1000))
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    lowered.compile()
    time.sleep(60)

command._run = globals()[sys.argv.pop()]
sys.exit(command.main())
"""


@pytest.mark.parametrize("busy", ["collect", "compile"])  # garbage, or a program
def test_ctrl_c_ends_a_busy_command_quietly(busy):
    line = [sys.executable, "-c", STOPPED, busy]
    ended = subprocess.run(line, check=False, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")
