"""What is installed with the library alone: all that it needs, and nothing of the paper's experiments."""

from importlib import metadata
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from cumulant.commands.cli import main

ROOT = Path(__file__).parents[1]
OF_THE_PAPER = ("baseline", "figure", "rival", "bench", "attack", "theory", "test")


def wheel_of(folder: Path) -> set[str]:
    """Return the paths in a distribution's wheel."""
    return {file.distribution_path for file in WheelBuilder(str(folder)).recurse_included_files()}


def test_wheel_holds_the_library_alone():
    files = wheel_of(ROOT)
    assert {path.split("/")[0] for path in files} == {"cumulant"}
    assert [path for path in files for word in OF_THE_PAPER if word in path] == []
    needed = {"py.typed", "shipped/weights.safetensors", "web/page/index.html", "web/dqn_steps.json"}
    assert {f"cumulant/{name}" for name in needed} <= files


def test_wheel_of_the_paper_holds_no_results():
    files = wheel_of(ROOT / "paper")
    assert {path.split("/")[0] for path in files} == {"cumulant_paper"}
    assert "cumulant_paper/baselines/dqn.py" in files


@pytest.mark.parametrize("command", ["bench env", "reproduce fig4"])
def test_paper_commands_say_what_to_install(command, monkeypatch, capsys):
    monkeypatch.setattr(metadata, "entry_points", lambda group: ())
    assert main(command.split()) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith(f"cumulant: {command.split()[0]} ")
    assert "pip install" in said
