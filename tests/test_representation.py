"""Features from frames: a small encoder that really learns, and the whole pipeline on top of it."""

import contextlib
import io
import json
import re
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from cumulant.commands.cli import main
from cumulant.commands.represent import RepresentCommand
from cumulant.config import Represent
from cumulant.features import representation
from cumulant.features.autoencoders import Keypoints, in_half_precision, shared
from cumulant.features.encoder import Encoder, measure
from cumulant.features.representation import essential, explore, importance, represent
from cumulant.storage import Unreadable
from cumulant.worlds import renderer
from cumulant.worlds.pixels import PixelSpriteworld

WORLD = PixelSpriteworld(("square",), half_extent=0.12, size=24, max_steps=8)
MINIATURE = (
    "--objects square --size 24 --latents 12 --width 16 --pairs 2048 --updates 600 --batch 8 "
    "--learning-rate 2e-3 --restarts 1 --seed 0"
).split()


_WORLD_OF = RepresentCommand.world  # before a fixture puts WORLD in its place


@pytest.fixture(scope="module", autouse=True)
def _easier_to_see():
    """In frames so small the agent is 2 pixels wide: enlarge it. And fewer frames suffice to judge latents."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(renderer, "AGENT_RADIUS", 0.1)
        patch.setattr(representation, "_JUDGED", 256)
        patch.setattr(RepresentCommand, "world", lambda command: WORLD)
        yield


@pytest.fixture(scope="module")
def learnt_folder(tmp_path_factory):
    """The folder of an encoder that the command has learnt."""
    folder = tmp_path_factory.mktemp("represent") / "encoder"
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        assert main(["represent", "--out", str(folder), *MINIATURE]) == 0
    (folder.parent / "said").write_text(said.getvalue())
    return folder


def test_on_a_cpu_the_command_says_what_to_expect(learnt_folder, capsys):
    """At once that it will, and then from the time of the first update; what is quicker only where it is long."""
    first, *later = (learnt_folder.parent / "said").read_text().splitlines()
    assert first == "no GPU here: after the first of 600 updates it will be told how long they take"
    assert any(
        re.fullmatch(r"600 updates of [\d.e-]+ s: about \d+ (s|minutes)(; quicker: .*)?", line) for line in later
    )
    command = RepresentCommand(Path())
    command._warn({"event": "pace", "seconds": 12.0})
    quicker = "--size 16 (now 64), --updates 500, --restarts 1, or a GPU"
    assert capsys.readouterr().err == f"15,000 updates of 12 s: about 2 days; quicker: {quicker}\n"


def latents(*columns):
    return np.stack(columns, axis=1).astype(np.float32)


@pytest.fixture(scope="module")
def noise():
    return np.random.default_rng(0).uniform(size=(4, 2000))


@given(st.permutations(range(5)))
def test_of_copies_and_the_dead_only_what_counts_is_kept(noise_order):
    a, b = np.random.default_rng(1).uniform(size=(2, 500))
    z = latents(a, b, 1 - a, np.zeros(500), np.full(500, 0.3))[:, noise_order]
    matters = np.array([3.0, 2.0, 1.0, 0.0, 0.01])[noise_order]
    assert {noise_order[j] for j in essential(z, matters)} == {0, 1}


@given(st.permutations(range(5)), st.lists(st.floats(0.2, 10), min_size=5, max_size=5))
def test_a_point_in_the_middle_of_two_goes_whatever_it_matters(order, matters):
    a, b, c, d = np.random.default_rng(2).uniform(size=(4, 2000))
    z = latents(a, b, (a + b) / 2, c, d)[:, order]
    assert {order[j] for j in essential(z, np.array(matters))} == {0, 1, 3, 4}


def test_independent_latents_are_all_kept_and_dead_ones_dropped(noise):
    z = latents(*noise)
    assert essential(z, np.ones(4)) == [0, 1, 2, 3]
    assert essential(z, np.array([0, 0.1, 0, 0])) == [1]  # something is always kept
    assert essential(z, np.array([0, 0, 1.0, 0])) == [2]


def test_pairs_are_one_action_apart():
    before, after = explore(WORLD, jax.random.key(0), 20)
    assert before.shape == after.shape == (20, 24, 24, 3)
    coordinates = explore(WORLD.fully_observed, jax.random.key(0), 200)  # the same play
    moved = np.abs(np.asarray(coordinates.after - coordinates.before))
    assert ((moved > 1e-6).sum(axis=1) <= 2).all()  # the agent along one axis, and with it what it drags
    assert moved.max() <= WORLD.step_size + 1e-6
    assert (moved[:, :2].max(axis=1) > 1e-6).mean() > 0.9


class Uniform(eqx.Module):
    """Draws an image of one brightness, the first latent; the second means nothing."""

    def decode(self, z):
        return jnp.full((8, 8, 3), z[0])


def test_a_latent_matters_as_much_as_another_frames_value_spoils():
    """Though neighbours are alike, as the frames of an episode are."""
    bytes_ = np.random.default_rng(0).integers(0, 256, 64, np.uint8).repeat(8)
    frames, brightness = jnp.asarray(np.broadcast_to(bytes_[:, None, None, None], (512, 8, 8, 3))), bytes_ / 255
    z = np.stack([brightness + 0.05, np.zeros(512)], axis=1).astype(np.float32)
    other = np.mean((np.roll(brightness, 256) + 0.05 - brightness) ** 2) / 0.05**2 - 1
    np.testing.assert_allclose(importance(Uniform(), frames, z), [other, 0], rtol=1e-3)


def test_a_vae_trains_can_be_kept_and_repeats_itself_bit_for_bit(tmp_path):
    world = PixelSpriteworld(("square",), half_extent=0.3, size=16)
    settings = Represent("ada_gvae", 6, 8, beta=0.01, pairs=256, updates=60, batch=8, learning_rate=3e-3, restarts=1)
    said = []
    encoder = represent(world, settings, seed=3, report=said.append)
    losses = [metrics["loss"] for metrics in said if metrics["event"] == "progress"]
    assert losses[-1] < 0.5 * losses[0]
    encoder.save(tmp_path)
    assert eqx.tree_equal(Encoder.load(tmp_path), encoder)
    assert_usable(encoder)
    assert eqx.tree_equal(represent(world, settings, seed=3), encoder)


def test_half_precision_moves_a_point_by_much_less_than_a_pixel():
    world = PixelSpriteworld(size=16)
    exact = Keypoints(16, 8, 8, jax.random.key(1))
    frames = jax.jit(jax.vmap(lambda key: world.observe(world.reset(key))))(jax.random.split(jax.random.key(0), 32))
    try:
        places, near = (jax.jit(jax.vmap(each.encode))(frames) for each in (exact, in_half_precision(exact)))
    except jax.errors.JaxRuntimeError as error:  # XLA leaves the conversion to the processor, and old ones lack it
        assert "truncsfhf2" in str(error) or "materialize symbols" in str(error)
        pytest.skip("this processor knows no half precision")
    assert 0 < np.abs(places - near).max() < 0.1 / 16
    assert places.std(axis=0).min() > 1 / 16


def test_latents_that_differ_little_are_shared_and_the_others_left_alone():
    variance = jnp.array([1.0, 4.0, 1.0])
    first, second = (jnp.zeros(3), jnp.log(variance)), (jnp.array([0.2, 0.0, 4.0]), jnp.zeros(3))
    for (mean, log_variance), own in zip(shared(first, second), (0.0, 4.0), strict=True):  # divergences 0.02, 0.8 and 8
        np.testing.assert_allclose(mean, [0.1, 0.0, own], atol=1e-6)
        np.testing.assert_allclose(jnp.exp(log_variance), [1.0, 2.5, 1.0], rtol=1e-6)


def assert_usable(encoder):
    """Frames that are nothing but noise have features in [0, 1], and features have images."""
    size, k = encoder.world.size, len(encoder.kept)
    frames = jnp.asarray(np.random.default_rng(0).integers(0, 256, (16, size, size, 3), np.uint8))
    f = np.asarray(jax.jit(jax.vmap(encoder))(frames))
    assert f.shape == (16, k)
    assert f.min() >= 0
    assert f.max() <= 1
    image = np.asarray(eqx.filter_jit(encoder.imagine)(jnp.full(k, 0.5)))
    assert image.shape == (size, size, 3)
    assert np.isfinite(image).all()


def test_the_command_writes_the_encoder_its_measures_and_its_pictures(learnt_folder):
    names = {"config.json", "weights.safetensors", "metrics.jsonl", "measures.json"}
    pictures = {"reconstructions.png", "traversals.png", "correlations.png"}
    assert {path.name for path in learnt_folder.iterdir()} == names | pictures
    for name in pictures:
        with Image.open(learnt_folder / name) as picture:
            assert np.asarray(picture).std() > 10
    encoder, measures = Encoder.load(learnt_folder), json.loads((learnt_folder / "measures.json").read_text())
    assert measures["kept"] == len(encoder.kept)
    assert list(measures["rho"]) == list(encoder.world.feature_names)
    curve = [json.loads(line) for line in (learnt_folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["update"] for line in curve] == list(range(30, 601, 30))
    assert curve[-1]["loss"] < 0.2 * curve[0]["loss"]


def test_every_factor_has_a_latent_of_its_own_and_no_other_is_kept(learnt_folder):
    encoder = Encoder.load(learnt_folder)
    measures = measure(encoder, jax.random.key(5), 500)
    assert measures.kept == 4
    assert min(measures.rho.values()) > 0.95, measures.rho
    assert sorted(measures.latent) == [0, 1, 2, 3]
    assert set(encoder.names) == set(WORLD.feature_names)
    told = dict(zip(WORLD.feature_names, measures.latent.tolist(), strict=True))
    assert all(encoder.names[latent] == factor for factor, latent in told.items())
    assert_usable(encoder)


@pytest.fixture(scope="module")
def library(learnt_folder, tmp_path_factory):
    """The folder of a library that has played from frames, for a little while."""
    folder = tmp_path_factory.mktemp("represent") / "library"
    given = ["--features", f"learnt:{learnt_folder}", "--env-steps", "1280", "--width", "16"]
    assert main(["pretrain", "--out", str(folder), *given]) == 0
    return folder


def test_the_commands_go_from_frames_to_a_phrase(library, tmp_path, capsys):
    trace = tmp_path / "trace.json"
    told = ["--episodes", "8", "--trace", str(trace), "--json"]
    assert main(["solve", "square left", "--library", str(library), *told]) == 0
    assert len(json.loads(trace.read_text())["observations"][0]) == 4  # coordinates, not frames
    solved = json.loads(capsys.readouterr().out)
    assert solved["canonical"] == "square left"
    assert 0 <= solved["success"] <= 1
    given = ["--tasks-per-class", "1", "--episodes", "4", "--few-shot", "200", "--suite", "coverage", "--json"]
    assert main(["evaluate", "--library", str(library), *given]) == 0
    report = json.loads(capsys.readouterr().out)
    assert set(report) == {"zero_shot", "few_shot", "oracle", "random"}
    assert all(0 <= by["coverage"]["success"] <= 1 for by in report.values())


def test_the_command_prints_one_object_and_overwrites_only_what_it_may(learnt_folder, tmp_path, monkeypatch, capsys):
    learnt, out = Encoder.load(learnt_folder), tmp_path / "encoder"
    monkeypatch.setattr(representation, "_best", lambda *args: learnt.autoencoder)
    assert main(["represent", "--out", str(out), *MINIATURE, "--labelled", "0", "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    report = json.loads(captured.out)
    assert {"rho", "mig", "kept", "compile_s", "train_s", "disentanglement"} <= set(report)
    first = Encoder.load(out)
    assert first.grounding is None
    assert first.names == ("latent 0", "latent 1", "latent 2", "latent 3")
    assert main(["represent", "--out", str(out), *MINIATURE]) == 2
    assert "already holds an encoder: overwrite it with --force" in capsys.readouterr().err
    assert main(["represent", "--out", str(out), *MINIATURE, "--force", "--json"]) == 0
    assert eqx.tree_equal(Encoder.load(out), learnt)
    capsys.readouterr()
    (tmp_path / "config.json").write_text('{"format": 1}')
    assert main(["represent", "--out", str(tmp_path), *MINIATURE, "--force"]) == 2
    assert "something other than an encoder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--latents", "7"], "a keypoint has two latents"),
        (["--size", "7"], "8 to 1024 pixels a side"),
        (["--size", "33"], "even"),
        (["--look", "odd"], "unknown look 'odd'"),
        (["--objects", "blob"], "unknown object 'blob'"),
        (["--updates", "0"], "updates: 0 does not fit; give a whole number from 1"),
        (["--learning-rate", "nan"], "learning_rate: nan does not fit; give a number above 0, up to 1"),
        (["--beta", "-1"], "beta: -1.0 does not fit; give a number from 0"),
        (["--seed", "-1"], "a seed lies between"),
        (["--labelled", "-1"], "--labelled must be at least 0"),
        (["--labelled", "2"], "label more frames"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line_before_anything_is_written(args, message, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(RepresentCommand, "world", _WORLD_OF)
    assert main(["represent", "--out", str(tmp_path / "new"), *args]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert len(captured.err.strip().splitlines()) == 1
    assert not list(tmp_path.glob("new/*"))


def test_a_run_that_fails_leaves_the_folder_as_it_was(learnt_folder, monkeypatch, capsys):
    def fails(*args, **kwargs):
        raise ValueError("the loss is nan at update 3: lower the learning rate")

    before = {path.name: path.read_bytes() for path in learnt_folder.iterdir()}
    monkeypatch.setattr(representation, "_best", fails)
    assert main(["represent", "--out", str(learnt_folder), *MINIATURE, "--force"]) == 2
    assert "lower the learning rate" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in learnt_folder.iterdir()} == before


@pytest.mark.parametrize(
    "change",
    [
        {"format": 99},
        {"represent": {"learner": "magic"}},
        {"represent": {"unknown": 1}},
        {"world": {"objects": ["blob"]}},
        {"kept": 0},
        {"kept": 17},
        {"kept": "many"},
        {"kept": 1},  # which the weights are not
        {"grounded": None},
        {"sha256": "0"},
    ],
)
def test_a_damaged_folder_is_refused_in_one_line(change, learnt_folder, tmp_path):
    info = json.loads((learnt_folder / "config.json").read_text()) | change
    stored = {name: value for name, value in info.items() if value is not None}
    (tmp_path / "config.json").write_text(json.dumps(stored))
    (tmp_path / "weights.safetensors").write_bytes((learnt_folder / "weights.safetensors").read_bytes())
    with pytest.raises(Unreadable) as caught:
        Encoder.load(tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_half_a_file_is_refused(learnt_folder, tmp_path):
    (tmp_path / "config.json").write_bytes((learnt_folder / "config.json").read_bytes())
    with pytest.raises(Unreadable, match="weights"):
        Encoder.load(tmp_path)
    (tmp_path / "weights.safetensors").write_bytes((learnt_folder / "weights.safetensors").read_bytes()[:-7])
    with pytest.raises(Unreadable, match="damaged"):
        Encoder.load(tmp_path)
