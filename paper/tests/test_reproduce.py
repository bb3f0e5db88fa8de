import json
import shutil
from dataclasses import replace
from pathlib import Path

import jax
import pytest

from cumulant.commands.cli import main
from cumulant.features import disentanglement
from cumulant.goals.language import parse
from cumulant.goals.suites import CLASSES
from cumulant.goals.tasks import tables_of
from cumulant.sweeps.run_folders import read_run
from cumulant.transfer.library import Library
from cumulant.worlds.episodes import random_policy
from cumulant.worlds.films import watch
from cumulant.worlds.oracle import oracle_policy
from cumulant.worlds.pixels import PixelSpriteworld
from cumulant.worlds.shipped import oracle_of
from cumulant.worlds.spriteworld import Spriteworld
from cumulant_paper import methods
from cumulant_paper.figures import FIGURES, PARTS
from legibility import assert_legible

RECORDED = Path(__file__).parent.parent / "results"
SMALL_PARTS = ("references", "gpi-trick", "dqn")  # what else there is has tests of its own


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """Figure 4 in miniature, without the parts that are made of the same as others."""
    folder = tmp_path_factory.mktemp("reproduce")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(methods, "disentanglement_of", lambda features, world: 0.9)
        assert main(["reproduce", "fig4", "--smoke", "--out", str(folder), "--only", *SMALL_PARTS]) == 0
    return folder


@pytest.fixture
def recorded(tmp_path):
    """Copies what a redraw of a figure reads of the recorded runs."""

    def copy(figure):
        for name in FIGURES[figure].parts:
            (tmp_path / "runs" / name).mkdir(parents=True)
            for file in (RECORDED / "runs" / name).glob("*.json*"):
                shutil.copy(file, (tmp_path / "runs" / name))
        return tmp_path

    return copy


@pytest.fixture
def nothing_runs(monkeypatch):
    """Whatever trains, plays or measures fails."""
    for kind in {type(part) for part in PARTS.values()}:
        monkeypatch.setattr(kind, "run", lambda *_: pytest.fail("something was run"))
    for module, name in ((methods, "disentanglement_of"), (disentanglement, "dci")):
        monkeypatch.setattr(module, name, lambda *_: pytest.fail("something was measured"))


def assert_alike(found, expected, where=""):
    """The same JSON, numbers to nine digits: another processor's logarithm differs in the sixteenth."""
    assert type(found) is type(expected), where
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), where
        for key in expected:
            assert_alike(found[key], expected[key], f"{where}/{key}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), where
        for i, pair in enumerate(zip(found, expected, strict=True)):
            assert_alike(*pair, f"{where}/{i}")
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-9, abs=0), where
    else:
        assert found == expected, where


def test_figure_4_in_miniature_has_every_line(out):
    report = json.loads((out / "fig4.json").read_text())
    assert (out / "fig4.png").stat().st_size > 20_000
    assert set(report["lines"]) == {"oracle", "random", "gpi-trick", "gpi-trick-zero-shot", "dqn"}
    for ends in report["lines"].values():
        assert all(0 <= low <= mean <= high <= 1 for mean, low, high in (ends[kind] for kind in CLASSES))
    assert report["lines"]["oracle"]["agent_hard"][0] == 1
    config = json.loads((out / "runs" / "dqn" / "config.json").read_text())
    assert {"settings", "seconds", "device", "version"} <= config.keys()
    assert config["settings"]["scale"]["seeds"] == [0]
    assert read_run(out / "runs" / "gpi-trick").measures == [{"seed": 0, "disentanglement": 0.9}]


def test_what_is_there_is_drawn_without_a_run(out, nothing_runs, capsys):
    (out / "fig4.png").unlink()
    assert main(["reproduce", "fig4", "--smoke", "--out", str(out), "--only", "dqn", "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["lines"].keys() >= {"gpi-trick", "dqn"}
    assert not printed.err
    assert (out / "fig4.png").exists()


def test_other_figures_share_its_runs(out, nothing_runs, capsys):
    assert main(["reproduce", "fig5", "--smoke", "--out", str(out), "--json", "--redraw"]) == 0
    assert {"oracle", "random", "gpi-trick"} <= json.loads(capsys.readouterr().out)["lines"].keys()


def test_failed_part_is_named_with_status_1(monkeypatch, tmp_path, capsys):
    def ill(*_):
        raise ValueError("it is ill")

    monkeypatch.setattr(methods.References, "run", ill)
    with pytest.raises(SystemExit) as stop:
        main(["reproduce", "fig4", "--smoke", "--out", str(tmp_path), "--only", "references"])
    assert stop.value.code == 1
    assert "failed: references: ValueError: it is ill" in capsys.readouterr().err
    assert not (tmp_path / "fig4.json").exists()


def test_what_cannot_be_drawn_is_refused(out, capsys):
    def refused(*args):
        assert main(["reproduce", *args]) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        return said

    assert "other settings" in refused("fig4", "--out", str(out))
    assert "has no part 'nothing'" in refused("fig5", "--only", "nothing", "--out", str(out))
    new = str(out / "new")
    assert "needs all three" in refused("sample-complexity", "--smoke", "--only", "dqn", "--out", new)
    assert "nothing to redraw" in refused("fig5", "--redraw", "--out", new)
    assert "nothing to redraw" in refused("theorem", "--redraw", "--out", new)
    (out / "runs" / "dqn" / "metrics.jsonl").write_text("half a li")
    # And before anything is run: a part of this figure is missing.
    assert "metrics.jsonl is damaged" in refused("sample-complexity", "--smoke", "--out", str(out))


# Of these figures, some parts alone were run; before any was, there is nothing to compare.
IN_PART = ("objects", "rivals", "rivals-search")
DRAWN = [
    name for name, f in FIGURES.items() if f.parts and (name not in IN_PART or (RECORDED / f"{name}.json").exists())
]


@pytest.mark.parametrize("name", DRAWN)
def test_recorded_results_are_what_their_rows_give(name, nothing_runs, tmp_path):
    there = [part for part in FIGURES[name].parts if name not in IN_PART or (RECORDED / "runs" / part).exists()]
    runs = [read_run(RECORDED / "runs" / part) for part in there]
    summary = FIGURES[name].summarise(runs)
    assert not summary.missing
    assert_alike(json.loads(json.dumps(summary.report)), json.loads((RECORDED / f"{name}.json").read_text()))
    assert_legible(lambda: summary.draw(tmp_path / "drawn.png"))


def test_sample_complexity_is_redrawn_and_told(recorded, nothing_runs, capsys):
    out = recorded("sample-complexity")
    assert main(["reproduce", "sample-complexity", "--redraw", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "ours: 10,240,000 steps of free play, paid for after" in said
    assert "never" in said  # DQN does not reach every class
    assert (out / "sample-complexity.png").stat().st_size > 20_000


def test_pixels_are_redrawn_from_what_was_measured(recorded, nothing_runs, capsys):
    out = recorded("pixels")
    redraw = ["reproduce", "pixels", "--redraw", "--out", str(out)]
    assert main(redraw) == 0
    assert capsys.readouterr().err == ""
    found, before = (json.loads((folder / "pixels.json").read_text()) for folder in (out, RECORDED))
    assert found == before
    assert (out / "pixels.png").stat().st_size > 20_000
    (out / "runs/keypoints/measures.json").write_text("half a li")
    assert main(redraw) == 2
    assert "measures.json is damaged" in capsys.readouterr().err


def test_recorded_library_solves_phrases_from_frames():
    library = Library.load(RECORDED / "runs/keypoints/library-0")
    world = replace(library.world, max_steps=60)  # frames are slow
    library = replace(library, world=world, features=replace(library.features, world=world))
    phrases = (
        "square top left",
        "square bottom right and circle top left",
        "(square left or circle right) and agent top",
    )
    results = library.evaluate({phrase: [library.task(phrase)] for phrase in phrases}, jax.random.key(0), 6)
    assert min(result.success for result in results.values()) > 0.8, results


def test_films_of_frames_have_their_own_look():
    task = parse("square left")
    tables = tables_of([task])
    plain, alike = (
        watch(PixelSpriteworld(size=16, look=look, max_steps=3), random_policy, "somewhere", task, tables, seed=0)
        for look in ("plain", "alike")
    )
    assert plain.frames.shape[1:] == (320, 320, 3)
    assert (plain.frames[0] != alike.frames[0]).any()
    assert oracle_of(PixelSpriteworld()) == (Spriteworld(), oracle_policy)
