import dataclasses
import json
import shutil

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors
from conftest import THIRDS, Sliders

from cumulant.commands.cli import main
from cumulant.config import FreePlay
from cumulant.features.coordinates import Inputs, entangled_features, true_features
from cumulant.features.encoder import Encoder
from cumulant.freeplay.learning import make_network
from cumulant.goals.suites import coverage, suite
from cumulant.storage import Unreadable, seal_of
from cumulant.transfer.audit import audit
from cumulant.transfer.evaluation import pool
from cumulant.transfer.library import Library
from cumulant.worlds.spriteworld import Spriteworld


@pytest.fixture(scope="module")
def shipped():
    return Library.load()


@pytest.fixture(scope="module")
def thirds():
    return Library.load(THIRDS)


@pytest.fixture
def small(tmp_path):
    config = FreePlay(width=8)
    library = Library(Spriteworld(), config, make_network(config, Inputs(6), 8, jax.random.key(3)))
    library.save(tmp_path / "library")
    return library, tmp_path / "library"


def test_the_library_that_ships_solves_goals_it_never_saw(shipped):
    tasks = suite(shipped.world.feature_names, 3, seed=77)
    for name, result in shipped.evaluate(tasks, jax.random.key(78), episodes=40).items():
        assert result.success >= 0.97, name


def test_plain_gpi_solves_most(shipped):
    tasks = suite(shipped.world.feature_names, 3, seed=79)
    for name, result in shipped.evaluate(tasks, jax.random.key(80), episodes=20, committed=False).items():
        assert result.success >= (0.8 if name == "conjunction" else 0.9), name


def test_a_library_survives_the_disk(small):
    library, folder = small
    loaded = Library.load(folder)
    assert eqx.tree_equal(loaded.network, library.network)
    assert (loaded.world, loaded.config, loaded.features) == (library.world, library.config, true_features)


def test_what_skills_disturb_is_kept(small, tmp_path):
    library = dataclasses.replace(small[0], moved=jnp.eye(6) * 0.25)
    library.save(tmp_path)
    np.testing.assert_array_equal(Library.load(tmp_path).moved, library.moved)
    assert Library.load(small[1]).moved is None


@pytest.mark.parametrize(
    "moved", [5, [], [[0.1]], [[2.0] * 6] * 6, [[-0.1] * 6] * 6, [["x"] * 6] * 6, [[1e400] * 6] * 6]
)
def test_what_is_no_disturbance_is_refused(moved, small, tmp_path):
    shutil.copytree(small[1], tmp_path / "odd")
    rewrite_config(tmp_path / "odd", moved=moved)
    with pytest.raises(Unreadable, match=r"moved|Infinity"):
        Library.load(tmp_path / "odd")


def rewrite_config(folder, **change):
    """As somebody would who knows how a config is sealed."""
    info = {name: value for name, value in json.loads((folder / "config.json").read_text()).items() if name != "seal"}
    info |= change
    (folder / "config.json").write_text(json.dumps(info | {"seal": seal_of(info)}))


def test_arrays_are_stored_by_their_names_in_the_tree(small):
    with safetensors.safe_open(small[1] / "weights.safetensors", "numpy") as stored:
        names = {"trunks.layers.0.weight", "trunks.layers.1.bias", "trunks.head.value.weight"}
        assert names <= set(stored.keys())


@pytest.mark.parametrize("read", [Library.load, Encoder.load])
def test_folders_of_version_0_1_are_refused_in_one_line(read, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"format": 1, "sha256": "0" * 64}))
    with pytest.raises(Unreadable, match=r"of version 0\.1: it has no .*; make it anew, or read it with version 0\.2$"):
        read(tmp_path)


def test_a_folder_does_not_say_what_code_to_run(small, tmp_path, monkeypatch, capsys):
    """Features of somebody's own are used only if whoever loads the library gives them."""
    library, folder = small
    (tmp_path / "evil.py").write_text("raise SystemExit('it ran')")
    monkeypatch.chdir(tmp_path)
    for name in ("evil:f", "learnt:.", "learnt:../..", f"learnt:{folder}", "entangled:x", ""):
        rewrite_config(folder, features=name)
        with pytest.raises(Unreadable, match="which a folder cannot bring"):
            Library.load(folder)
        assert main(["solve", "square left", "--library", str(folder)]) == 2
        assert "which a folder cannot bring" in capsys.readouterr().err
    own = Library.load(folder, features=same_features)
    assert own.features is same_features
    own.save(tmp_path / "own")
    assert json.loads((tmp_path / "own" / "config.json").read_text())["features"] == "test_library:same_features"
    command = ["solve", "square left", "--library", str(tmp_path / "own"), "--episodes", "2", "--json"]
    assert main(command) == 2
    assert main([*command, "--features", "test_library:same_features"]) == 0
    with pytest.raises(Unreadable, match="brings its own features"):
        Library.load(features=same_features)


def same_features(obs):
    return obs


def test_damage_is_noticed(small):
    _, folder = small
    weights = folder / "weights.safetensors"
    data = weights.read_bytes()
    for damaged in (data[:-10], data[:-1] + bytes([data[-1] ^ 1]), b""):
        weights.write_bytes(damaged)
        with pytest.raises(Unreadable, match=r"weights\.safetensors is damaged"):
            Library.load(folder)
    weights.unlink()
    with pytest.raises(Unreadable, match=r"holds no weights\.safetensors"):
        Library.load(folder)


def test_a_config_that_is_not_one_is_refused(small):
    _, folder = small
    good = (folder / "config.json").read_text()
    free_play = json.loads(good)["free_play"]
    for change, message in [
        ({"format": 99}, "not a skill library"),
        ({"world": 5}, r"expected `object`, got `int` - at `\$.world`"),
        ({"\x1b[2J": 5}, "unknown field"),
        ({"free_play": free_play | {"bins": 0}}, "bins: 0 does not fit"),
        ({"free_play": free_play | {"width": 2.5}}, "width"),  # of a wrong type, as type checkers say it too
        ({"free_play": free_play | {"depth": 100_000}}, "depth: 100000 does not fit; give a whole number from 1 to 64"),
        ({"free_play": free_play | {"\x1b[2J": 1}}, "unexpected keyword argument"),
        ({"free_play": free_play | {"width": 16}}, "other arrays"),
    ]:
        (folder / "config.json").write_text(good)
        rewrite_config(folder, **change)
        with pytest.raises(Unreadable, match=message):
            Library.load(folder)
    for text, message in [("{", "cannot be read"), ("[]", "JSON object"), ("[" * 10**5, "nested too deeply")]:
        (folder / "config.json").write_text(text)
        with pytest.raises(Unreadable, match=message):
            Library.load(folder)
    with pytest.raises(Unreadable, match="there is no folder"):
        Library.load(folder / "nowhere")


def test_a_library_of_another_world_is_refused(small, tmp_path):
    _, folder = small
    with pytest.raises(Unreadable, match="another world"):
        Library.load(folder, world=Spriteworld(("square", "star")))
    config = FreePlay(width=8)
    own = Library(Sliders(), config, make_network(config, Inputs(2), 5, jax.random.key(0)))
    own.save(tmp_path / "own")
    with pytest.raises(Unreadable, match="give that world"):
        Library.load(tmp_path / "own")
    assert eqx.tree_equal(Library.load(tmp_path / "own", world=Sliders()).network, own.network)
    shutil.rmtree(tmp_path / "own")


def test_the_audit_shows_that_dragging_an_object_moves_the_agent(thirds):
    result = audit(thirds, jax.random.key(0), starts=50)
    moved, names = result.moved, thirds.world.feature_names
    agent, square = names.index("agent_x"), names.index("square_x")
    assert moved[square, agent] > 0.1  # to drag the square, the agent must come
    assert moved[agent, square] < 0.05  # but the agent walks alone
    own = result.learnt_error[square, :, square]
    assert np.nanmean(own) < 0.1
    assert np.isnan(result.learnt_error[square, :, agent]).all()
    assert result.lemma_error[agent, :, square].mean() < 0.05 < result.lemma_error[square, :, agent].mean()


def test_coverage_draws_from_all_goals():
    goals = coverage(("a_x", "a_y"), 500, seed=1, bins=2)
    assert len({goal.clauses for goal in goals}) == 9  # (2 + 1)^2
    assert all(goal.possible for goal in goals)


def test_pooled_results_count_all_episodes(thirds):
    tasks = {"one": suite(thirds.world.feature_names, 1)["agent_easy"]}
    first, second = (thirds.evaluate(tasks, jax.random.key(s), 20)["one"] for s in (0, 1))
    both = pool([first, second])
    assert both.episodes == 40
    assert both.success == pytest.approx((first.success + second.success) / 2)


def test_words_are_refused_where_features_are_entangled():
    library = Library.load()
    entangled = Library(library.world, library.config, library.network, entangled_features(6, 0))
    with pytest.raises(ValueError, match="entangled"):
        entangled.policy("square left")
    with pytest.raises(ValueError, match="entangled"):
        entangled.evaluate({"any": [library.task("square left")]}, jax.random.key(0), 2)
