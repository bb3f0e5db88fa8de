"""Odd command lines: `tools/attack_commands.py` tries all of them, at several moments and in processes of their own."""

import signal
import sys

import pytest

import attack_commands as attack
from cumulant.commands.cli import main


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


@pytest.mark.parametrize("after", [0.1, 0.5])
def test_whoever_stops_a_command_while_it_loads_sees_nothing(tmp_path, after):
    assert attack.signal_violations(("serve", "--port", "0"), signal.SIGINT, after, tmp_path) == []


def test_streams_that_are_full_closed_or_know_few_letters_end_in_no_traceback(tmp_path):
    assert [found for found in attack.streams(tmp_path) if found[1]] == []


def test_features_that_are_no_numbers_are_refused_before_anything_is_learnt(place, monkeypatch, capsys):
    monkeypatch.chdir(place)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert main(["pretrain", "--out", "new", "--features", "own:not_a_number"]) == 2
    assert "returns NaN, an infinity, or what is no number" in capsys.readouterr().err
    assert not (place / "new").exists()
