"""A library's card, and the record that it is written from."""

import dataclasses
import json
import shutil

import jax
import numpy as np
import pytest

from conftest import THIRDS, Sliders
from cumulant.commands.cli import main
from cumulant.config import FreePlay
from cumulant.features.coordinates import Inputs
from cumulant.features.disentanglement import independence
from cumulant.freeplay.learning import make_network
from cumulant.storage import Unreadable, checksum
from cumulant.transfer import records
from cumulant.transfer.cards import facts
from cumulant.transfer.library import Library
from cumulant.transfer.pretraining import pretrain
from cumulant.transfer.records import Record
from cumulant.worlds.spriteworld import Spriteworld
from hostile_folders import good_record

WORLD, TINY = Sliders(), FreePlay(width=8, num_envs=4, batch=8, env_steps=4 * 40, replay=160)


def sprites(seed=0, **known):
    config = FreePlay(width=8, depth=1)
    network = make_network(config, Inputs(6), 8, jax.random.key(seed))
    return Library(Spriteworld(), config, network, **known)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "library"
    return pretrain(WORLD, TINY, 7, folder), folder


def test_a_run_records_how_its_library_was_made(trained):
    library, folder = trained
    made = library.record.training
    assert (made.seed, made.since, made.hardware) == (7, 0, records.hardware())
    assert made.train_s > 0
    assert made.held_out.episodes == 256
    low, high = made.held_out.ci95
    assert low <= made.held_out.success <= high
    again = Library.load(folder, world=WORLD)
    assert again.record == library.record
    assert again.card() in (folder / "README.md").read_text()
    card = again.card()
    for line in ("| seed | 7 |", "| bins (m) | 3 |", "| discount (γ) | 0.95 |", f"| hardware | {made.hardware} |"):
        assert line in card
    assert "free play | 160 steps, in 4 copies of the world" in card
    assert "40, each of 8 transitions" in card
    assert 'Library.load("DIR", world=Sliders(...))' in card
    assert "--library DIR --world package.module:Sliders" in card


def test_a_run_that_was_resumed_says_from_where_its_seconds_count(tmp_path):
    stops = iter([False, True])
    pretrain(WORLD, TINY, 7, tmp_path, should_stop=lambda: next(stops, True))
    library = pretrain(WORLD, TINY, 7, tmp_path, resume=True)
    assert library.record.training.since == 2
    assert "since update 2, from which it was resumed" in library.card()


def test_seconds_and_hardware_are_where_no_bit_counts(trained):
    library, folder = trained
    config = json.loads((folder / "config.json").read_text())
    assert not {"seconds", "hardware", "seed", "training"} & set(config)
    assert checksum(library.network) == config["sha256"] == library.record.weights


def test_what_is_not_known_is_said_so():
    card = Library.load(THIRDS).card()
    assert "| seed | not known |" in card
    assert "| hardware | not known |" in card
    assert "`cumulant evaluate --library DIR --card` measures it" in card
    assert "Success was not measured, so nothing is known of classes of goals." in card


def test_a_record_speaks_of_its_own_weights_alone(tmp_path):
    library = sprites()
    known = dataclasses.replace(library, record=good_record(checksum(library.network), 6))
    known.save(tmp_path / "known")
    assert Library.load(tmp_path / "known").record == known.record
    other = dataclasses.replace(known, network=sprites(seed=1).network)
    other.save(tmp_path / "other")
    assert Library.load(tmp_path / "other").record == Record(checksum(other.network))
    for name in ("config.json", "weights.safetensors"):  # as if a run was killed after it had written its record
        shutil.copy(tmp_path / "other" / name, tmp_path / "known" / name)
    assert Library.load(tmp_path / "known").record == Record(checksum(other.network))


def test_the_card_tells_success_and_failures_as_they_were_measured(tmp_path):
    library = sprites()
    library = dataclasses.replace(library, record=good_record(checksum(library.network), 6))
    card = library.card()
    assert "| agent_easy | 0.750 [0.500, 0.900], 30.0 steps | 0.750 [0.500, 0.900] |" in card
    assert "- agent_easy, zero-shot (the paper's classes: 1 tasks a class" in card
    assert "- Policies of agent_x also move agent_y by 0.12, square_x by 0.12" in card
    assert "0.75, measured from 10 starts" in card
    told = facts(library)
    assert told["independence"] == independence(np.array(library.record.audited.moved)) == 0.75
    assert json.loads(json.dumps(told))["training"]["held_out"]["ci95"] == [0.5, 0.9]


def test_a_readme_of_somebody_elses_stays(tmp_path, capsys):
    (tmp_path / "README.md").write_text("my notes")
    sprites().save(tmp_path)
    assert (tmp_path / "README.md").read_text() == "my notes"
    assert main(["evaluate", "--library", str(tmp_path), "--card"]) == 2
    assert capsys.readouterr().err == f"cumulant: cannot write {tmp_path / 'README.md'}: it is no card of a library\n"
    (tmp_path / "README.md").unlink()
    (tmp_path / "mine").write_text("<!-- The card of a library of Cumulant")
    (tmp_path / "README.md").symlink_to(tmp_path / "mine")
    sprites().save(tmp_path)
    assert (tmp_path / "mine").read_text() == "<!-- The card of a library of Cumulant"


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
def test_a_record_that_is_none_is_refused(change, message, tmp_path):
    from cumulant.storage import write_sealed

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
    assert main(["evaluate", *given, "--episodes", "2", "--tasks-per-class", "1", "--card"]) == 0
    measured = json.loads(capsys.readouterr().out)
    assert main(["inspect", *given, "--out", str(tmp_path / "out"), "--starts", "2", "--card"]) == 0
    audited = json.loads(capsys.readouterr().out)
    assert main(["inspect", *given, "--starts", "0"]) == 0
    card = json.loads(capsys.readouterr().out)["card"]
    assert card == audited["card"]
    assert card["independence"] == pytest.approx(audited["independence"], abs=1e-3)
    (evaluation,) = card["evaluations"]
    assert (evaluation["episodes"], evaluation["tasks_per_class"], evaluation["suite"]) == (2, 1, "paper")
    for name, success in measured["zero_shot"].items():
        assert evaluation["results"]["zero_shot"][name] | success == evaluation["results"]["zero_shot"][name]
    assert main(["inspect", "--library", str(tmp_path / "thirds"), "--starts", "0"]) == 0
    shown = capsys.readouterr().out
    assert shown.strip() in (tmp_path / "thirds" / "README.md").read_text()
    assert "2 episodes a task" in shown


@pytest.mark.parametrize("command", [["evaluate", "--card"], ["inspect", "--card"], ["inspect", "--starts", "-1"]])
def test_a_card_is_written_into_a_folder_that_was_named(command, capsys):
    assert main(command) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_the_library_that_ships_has_a_card():
    library = Library.load()
    assert library.record.training.hardware == "one NVIDIA H200"
    assert {each.suite for each in library.record.evaluations} == {"paper", "coverage"}
    assert library.record.audited
