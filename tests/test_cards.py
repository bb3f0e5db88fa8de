"""A library's card, and the record that it is written from."""

import dataclasses
import json
import shutil

import jax
import msgspec
import numpy as np
import pytest
from conftest import THIRDS, Sliders

from cumulant.commands.cli import main
from cumulant.config import FreePlay
from cumulant.features.coordinates import Inputs
from cumulant.features.disentanglement import independence
from cumulant.freeplay.learning import make_network
from cumulant.storage import Unreadable, checksum, write_sealed
from cumulant.transfer import records
from cumulant.transfer.cards import facts
from cumulant.transfer.evaluation import Success
from cumulant.transfer.library import Library
from cumulant.transfer.pretraining import pretrain
from cumulant.transfer.records import Audited, Evaluation, Made, Record
from cumulant.worlds.spriteworld import Spriteworld

WORLD, TINY = Sliders(), FreePlay(width=8, num_envs=4, batch=8, env_steps=4 * 40, replay=160)


def sprites(seed=0):
    config = FreePlay(width=8, depth=1)
    return Library(Spriteworld(), config, make_network(config, Inputs(6), 8, jax.random.key(seed)))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "library"
    return pretrain(WORLD, TINY, 7, folder), folder


def test_pretrain_records_how_it_was_made(trained):
    library, folder = trained
    made = library.record.training
    assert (made.seed, made.since, made.hardware) == (7, 0, records.hardware())
    assert made.train_s > 0
    assert made.held_out.episodes == 256
    low, high = made.held_out.ci95
    assert low <= made.held_out.success <= high
    again = Library.load(folder, world=WORLD)
    assert again.record == library.record
    card = again.card()
    assert card in (folder / "README.md").read_text()
    for line in (
        "| seed | 7 |",
        "| bins (m) | 3 |",
        "| discount (γ) | 0.95 |",
        f"| hardware | {made.hardware} |",
        "free play | 160 steps, in 4 copies of the world",
        "40, each of 8 transitions",
        'Library.load("DIR", world=Sliders(...))',
        "--library DIR --world package.module:Sliders",
    ):
        assert line in card
    config = json.loads((folder / "config.json").read_text())  # whose bits tell nothing of time or machine
    assert not {"seconds", "hardware", "seed", "training"} & set(config)
    assert checksum(library.network) == config["sha256"] == library.record.weights


def test_card_says_since_when_seconds_count(tmp_path):
    stops = iter([False, True])
    pretrain(WORLD, TINY, 7, tmp_path, should_stop=lambda: next(stops, True))
    library = pretrain(WORLD, TINY, 7, tmp_path, resume=True)
    assert library.record.training.since == 2
    assert "since update 2, from which it was resumed" in library.card()


def test_card_says_what_is_known_and_not():
    shipped, thirds = Library.load(), Library.load(THIRDS)
    assert shipped.record.training.hardware == "one NVIDIA H200"
    assert {each.suite for each in shipped.record.evaluations} == {"paper", "coverage"}
    assert shipped.record.audited
    for line in (
        "| seed | not known |",
        "| hardware | not known |",
        "`cumulant evaluate --library DIR --card` measures it",
        "Success was not measured, so nothing is known of classes of goals.",
    ):
        assert line in thirds.card()


def measured():
    """Return a library whose record holds everything there is to know."""
    library, success = sprites(), Success(0.75, (0.5, 0.9), 12.5, 1, 20, steps_or_limit=30.0)
    made = Made(0, "2 CPU cores", 10.5, 60.25, 0, "0.2.0", success)
    results = {
        "zero_shot": {"agent_easy": success},
        "random": {"agent_easy": msgspec.structs.replace(success, mean_steps=None, steps_or_limit=None)},
    }
    evaluation = Evaluation("paper", 3, "committed", 0, 1, 20, 0, results)
    moved = tuple(tuple(0.5 if i == j else 0.125 for j in range(6)) for i in range(6))
    record = Record(checksum(library.network), made, (evaluation,), Audited(10, 0, 0.03, moved))
    return dataclasses.replace(library, record=record)


def test_record_holds_for_its_own_weights_alone(tmp_path):
    known = measured()
    known.save(tmp_path / "known")
    assert Library.load(tmp_path / "known").record == known.record
    other = dataclasses.replace(known, network=sprites(seed=1).network)
    other.save(tmp_path / "other")
    assert Library.load(tmp_path / "other").record == Record(checksum(other.network))
    for name in ("config.json", "weights.safetensors"):  # as if a run was killed after it had written its record
        shutil.copy(tmp_path / "other" / name, tmp_path / "known" / name)
    assert Library.load(tmp_path / "known").record == Record(checksum(other.network))


def test_card_tells_results_as_they_were_measured():
    library = measured()
    card, told = library.card(), facts(library)
    assert "| agent_easy | 0.750 [0.500, 0.900], 30.0 steps | 0.750 [0.500, 0.900] |" in card
    assert "- agent_easy, zero-shot (the paper's classes: 1 tasks a class" in card
    assert "- Policies of agent_x also move agent_y by 0.12, square_x by 0.12" in card
    assert "0.75, measured from 10 starts" in card
    assert told["independence"] == independence(np.array(library.record.audited.moved)) == 0.75
    assert json.loads(json.dumps(told))["training"]["held_out"]["ci95"] == [0.5, 0.9]


def test_save_leaves_the_readme_of_others(tmp_path, capsys):
    readme, mine = tmp_path / "README.md", tmp_path / "mine"
    readme.write_text("my notes")
    sprites().save(tmp_path)
    assert readme.read_text() == "my notes"
    assert main(["evaluate", "--library", str(tmp_path), "--card"]) == 2
    assert capsys.readouterr().err == f"cumulant: cannot write {readme}: it is no card of a library\n"
    readme.unlink()
    mine.write_text("<!-- The card of a library of Cumulant")
    readme.symlink_to(mine)
    sprites().save(tmp_path)
    assert mine.read_text() == "<!-- The card of a library of Cumulant"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "not a record that this version reads"),
        ({"evaluations": {}}, "expected `array`, got `object`"),
        ({"training": {"seed": 0, "hardware": "\x1b[2J"}}, "matching regex"),
        ({"training": {"seed": -1}}, r">= 0 - at `\$.training.seed`"),
        ({"training": {"seed": 0, "train_s": True}}, "train_s"),
        ({"audited": {"starts": 1, "seed": 0, "learnt_error": 0.5, "moved": [[0.1]]}}, "another number of features"),
    ],
)
def test_load_refuses_a_record_that_is_none(change, message, tmp_path):
    library = sprites()
    library.save(tmp_path)
    stored = {"format": 1, "weights": library.record.weights} | change
    write_sealed(tmp_path / "measures.json", stored)
    with pytest.raises(Unreadable, match=message) as refused:
        Library.load(tmp_path)
    assert str(refused.value).isprintable()
    (tmp_path / "measures.json").write_text(json.dumps(stored))
    with pytest.raises(Unreadable, match="no checksum of its own"):
        Library.load(tmp_path)


def test_commands_complete_the_card(tmp_path, capsys):
    shutil.copytree(THIRDS, tmp_path / "thirds")
    given = ["--library", str(tmp_path / "thirds"), "--json"]

    def told(command, *options):
        assert main([command, *given, *options]) == 0
        return json.loads(capsys.readouterr().out)

    evaluated = told("evaluate", "--episodes", "2", "--tasks-per-class", "1", "--card")
    audited = told("inspect", "--out", str(tmp_path / "out"), "--starts", "2", "--card")
    card = told("inspect", "--starts", "0")["card"]
    assert card == audited["card"]
    assert card["independence"] == pytest.approx(audited["independence"], abs=1e-3)
    (evaluation,) = card["evaluations"]
    assert (evaluation["episodes"], evaluation["tasks_per_class"], evaluation["suite"]) == (2, 1, "paper")
    for name, success in evaluated["zero_shot"].items():
        assert evaluation["results"]["zero_shot"][name] | success == evaluation["results"]["zero_shot"][name]
    assert main(["inspect", *given[:2], "--starts", "0"]) == 0
    shown = capsys.readouterr().out
    assert shown.strip() in (tmp_path / "thirds" / "README.md").read_text()
    assert "2 episodes a task" in shown


@pytest.mark.parametrize("command", [["evaluate", "--card"], ["inspect", "--card"]])
def test_commands_refuse_a_card_without_a_folder(command, capsys):
    assert main(command) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
