"""Odd command lines: `tools/attack_commands.py` tries all of them, at several moments and in processes of their own."""

import os
import signal
import subprocess
import sys

import pytest

import attack_commands as attack
from cumulant.commands.cli import main
from cumulant.commands.progress import Reporter
from cumulant.config import OutOfBounds, check_memory


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("place")
    attack.furnish(place)
    return place


def test_odd_arguments_end_in_one_line_and_touch_nothing(place, monkeypatch, capfd):
    """Every fifteenth of them; none compiles anything."""
    monkeypatch.chdir(place)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    cases = [case for case in attack.cases() if not case.without]
    assert len(cases) > 900
    before = attack.snapshot(place)
    for case in cases[::15]:
        try:
            status = main(case.args)
        except SystemExit as stop:  # of --help
            status = stop.code or 0
        ending = attack.Ending(status, *capfd.readouterr(), 0.0)
        assert attack.violations(case, ending, before, attack.snapshot(place)) == [], case.args


def test_no_arguments_at_all_are_refused_too(capsys):
    assert main([]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("after", [0.1, 0.5])
def test_whoever_stops_a_command_while_it_loads_sees_nothing(tmp_path, after):
    assert attack.signal_violations(("serve", "--port", "0"), signal.SIGINT, after, tmp_path) == []


def test_streams_that_are_full_closed_or_know_few_letters_end_in_no_traceback(tmp_path):
    assert [found for found in attack.streams(tmp_path) if found[1]] == []


def test_what_needs_more_memory_than_there_is_is_refused(monkeypatch, capsys, tmp_path):
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


def test_a_folder_that_may_not_be_written_to_is_refused_before_anything_is_computed(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(os, "access", lambda place, mode: not str(place).startswith(str(tmp_path)))  # root may all
    for option in ("--gif", "--trace"):
        assert main(["solve", "square left", option, str(tmp_path / "new" / "a.gif")]) == 2
        assert f"you may not write to {tmp_path}" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_features_that_are_no_numbers_are_refused_before_anything_is_learnt(place, monkeypatch, capsys):
    monkeypatch.chdir(place)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert main(["pretrain", "--out", "new", "--features", "own:not_a_number"]) == 2
    assert "returns NaN, an infinity, or what is no number" in capsys.readouterr().err
    assert not (place / "new").exists()


def test_a_board_that_cannot_be_written_is_told_once_and_the_run_goes_on(tmp_path, monkeypatch, capsys):
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


def test_a_board_without_its_extra_or_in_an_unusable_place_is_refused_in_one_line(tmp_path, monkeypatch, capsys):
    (tmp_path / "tensorboard").write_text("in the way")
    command = ["pretrain", "--out", str(tmp_path), "--tensorboard"]
    assert main(command) == 2
    assert capsys.readouterr().err == f"cumulant: cannot write {tmp_path / 'tensorboard'}: File exists\n"
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    for name in [name for name in sys.modules if name.startswith("tensorboardX.")]:
        monkeypatch.delitem(sys.modules, name)
    assert main(command) == 2
    assert capsys.readouterr().err == "cumulant: TensorBoard events need pip install 'cumulant[tensorboard]'\n"


SWALLOWED = """
import os, signal, sys
from cumulant import __main__ as command

class Garbage:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(10_000): pass  # where the signal arrives, and nothing can be raised

def run():
    Garbage()
    return 0

command._run = run
sys.exit(command.main())
"""


def test_ctrl_c_ends_a_command_quietly_even_while_garbage_is_collected():
    ended = subprocess.run([sys.executable, "-c", SWALLOWED], check=False, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


COMPILING = """
import os, signal, sys, threading, time
import jax, jax.numpy as jnp
from cumulant import __main__ as command

def long(x):
    for i in range(300):  # for a second or more
        x = jnp.sort(jnp.sin(x) + i)
    return x

def run():
    lowered = jax.jit(long).lower(jnp.ones(1000))
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    lowered.compile()
    time.sleep(60)

command._run = run
sys.exit(command.main())
"""


def test_ctrl_c_ends_a_command_quietly_even_while_jax_compiles():
    ended = subprocess.run([sys.executable, "-c", COMPILING], check=False, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")
