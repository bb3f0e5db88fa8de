import json
import shutil
from pathlib import Path

import pytest

from cumulant.commands.cli import main
from cumulant.experiments.parts import FIGURES
from cumulant.goals.suites import CLASSES

RECORDED = Path(__file__).parent.parent / "results"


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """Figure 4 in miniature, without the parts that are made of the same as others."""
    folder = tmp_path_factory.mktemp("reproduce")
    parts = [part for part in FIGURES["fig4"] if part not in ("gpi-full", "gpi-entangled", "gpi-entangled-trick")]
    assert main(["reproduce", "fig4", "--smoke", "--out", str(folder), "--only", *parts]) == 0
    return folder


def test_figure_4_in_miniature_has_every_line_and_keeps_its_data(out):
    report = json.loads((out / "fig4.json").read_text())
    assert (out / "fig4.png").stat().st_size > 20_000
    assert set(report["lines"]) >= {*("oracle", "random", "ours", "gpi-trick", "dqn", "diayn", "diayn-best-skill")}
    for ends in report["lines"].values():
        assert all(0 <= low <= mean <= high <= 1 for mean, low, high in (ends[kind] for kind in CLASSES))
    assert report["lines"]["oracle"]["agent_hard"][0] == 1
    config = json.loads((out / "runs" / "dqn" / "config.json").read_text())
    assert {"settings", "seconds", "device", "version"} <= config.keys()
    assert config["settings"]["scale"]["seeds"] == [0]


def test_figures_are_redrawn_from_their_folders_without_a_run(out, monkeypatch, capsys):
    (out / "fig4.png").unlink()
    monkeypatch.setattr("cumulant.experiments.parts.time.perf_counter", lambda: pytest.fail("something was run"))
    assert main(["reproduce", "fig4", "--smoke", "--out", str(out), "--only", "dqn", "--json"]) == 0  # it is there
    printed = capsys.readouterr()
    assert json.loads(printed.out)["lines"].keys() >= {"ours", "dqn"}
    assert not printed.err
    assert (out / "fig4.png").exists()


def test_the_other_figures_share_its_runs(out, capsys):
    assert main(["reproduce", "sample-complexity", "--smoke", "--out", str(out)]) == 0
    assert "tasks" in capsys.readouterr().out
    assert (out / "sample-complexity.png").exists()
    assert main(["reproduce", "fig5", "--smoke", "--out", str(out), "--json", "--redraw"]) == 0
    assert {"oracle", "random", "gpi-trick"} <= json.loads(capsys.readouterr().out)["lines"].keys()


def test_a_folder_of_other_settings_and_unknown_parts_are_refused(out, capsys):
    assert main(["reproduce", "fig4", "--out", str(out)]) == 2
    assert "other settings" in capsys.readouterr().err
    assert main(["reproduce", "fig5", "--only", "nothing", "--out", str(out)]) == 2
    assert "has no part 'nothing'" in capsys.readouterr().err
    assert main(["reproduce", "sample-complexity", "--smoke", "--only", "dqn", "--out", str(out / "new")]) == 2
    assert "needs all three" in capsys.readouterr().err
    assert main(["reproduce", "fig5", "--redraw", "--out", str(out / "new")]) == 2
    assert "nothing to redraw" in capsys.readouterr().err
    (out / "runs" / "dqn" / "metrics.jsonl").write_text("half a li")
    assert main(["reproduce", "sample-complexity", "--smoke", "--out", str(out)]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_the_recorded_results_are_what_their_rows_give(tmp_path, capsys):
    for name in ("fig4", "fig5", "sample-complexity", "dqn-search", "pixels"):
        before = json.loads((RECORDED / f"{name}.json").read_text())
        shutil.copytree(RECORDED / "runs", tmp_path / name / "runs")
        assert main(["reproduce", name, "--redraw", "--out", str(tmp_path / name)]) == 0
        assert json.loads((tmp_path / name / f"{name}.json").read_text()) == before
    (tmp_path / "pixels/runs/keypoints/measures.json").write_text("half a li")
    assert main(["reproduce", "pixels", "--redraw", "--out", str(tmp_path / "pixels")]) == 2
    assert "measures.json cannot be read" in capsys.readouterr().err


def test_the_recorded_library_solves_phrases_from_frames(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("cumulant.worlds.films._STARTS", 2)  # frames are slow
    given = ["--out", str(tmp_path), "--episodes", "6", "--json"]
    assert main(["demo", "--library", str(RECORDED / "runs/keypoints/library-0"), *given]) == 0
    phrases = json.loads(capsys.readouterr().out)["zero_shot"]
    assert len(phrases) == 3
    assert min(phrase["success"] for phrase in phrases.values()) > 0.8, phrases
    assert {path.name for path in tmp_path.iterdir()} == {"demo.gif", "demo.png"}


def test_every_part_of_every_figure_is_known():
    from cumulant.experiments.parts import PARTS

    assert {part for parts in FIGURES.values() for part in parts} == set(PARTS)
