"""What comes from disk is not trusted: some of the hostile folders and the damage of tools/attack_folders.py."""

import importlib.util
from pathlib import Path

import pytest

TOOL = Path(__file__).parent.parent / "tools" / "attack_folders.py"


@pytest.fixture(scope="module")
def attack():
    spec = importlib.util.spec_from_file_location("attack_folders", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_hostile_folders_are_refused_in_one_line_and_run_nothing(attack, tmp_path, monkeypatch):
    monkeypatch.setattr(attack, "BYTES", float("inf"))  # this process has much else in its memory
    monkeypatch.setattr(attack, "SECONDS", float("inf"))
    monkeypatch.chdir(tmp_path)
    assert attack.attack_hostile(tmp_path, most=120)


def test_damage_is_refused_or_does_not_matter(attack, tmp_path):
    assert attack.attack_flips(tmp_path, flips=60, seed=1)
