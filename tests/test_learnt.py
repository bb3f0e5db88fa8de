"""From frames to goals, with features that an encoder makes: more of them than coordinates, in another order, flipped."""

import dataclasses
import json
import shutil
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cumulant import representation
from cumulant.cli import main
from cumulant.features import number_of
from cumulant.freeplay import pretrain
from cumulant.gpi import Gpi
from cumulant.library import Library
from cumulant.pixels import PixelSpriteworld
from cumulant.regression import collect_labelled
from cumulant.store import Unreadable
from cumulant.successor import FreePlay, make_network, start, train
from cumulant.tasks import Task
from sight import ORDER, Sight, sight

WORLD = PixelSpriteworld(size=16, max_steps=30)
TINY = FreePlay(width=8, num_envs=4, batch=16, env_steps=4 * 40, replay=400)


@pytest.fixture(autouse=True)
def _sight(monkeypatch):
    monkeypatch.setattr(representation, "Encoder", Sight)


@pytest.fixture(scope="module")
def encoder():
    return sight(WORLD)


@pytest.fixture
def folder(encoder, tmp_path):
    encoder.save(tmp_path / "sight")
    return tmp_path / "sight"


@pytest.fixture(scope="module")
def library(encoder, tmp_path_factory):
    """A library in its folder, whose encoder's first folder is gone."""
    folder = tmp_path_factory.mktemp("learnt")
    encoder.save(folder / "sight")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(representation, "Encoder", Sight)
        made = pretrain(WORLD, TINY, 1, folder / "run", f"learnt:{folder / 'sight'}")
    shutil.rmtree(folder / "sight")
    return made, (folder / "run").rename(folder / "moved")


class Scrambled(NamedTuple):
    """Positions that only their own world can read."""

    bits: Any


@dataclasses.dataclass(frozen=True)
class Locked:
    """The same world, for whom the state means nothing."""

    inner: PixelSpriteworld = WORLD
    feature_names: tuple[str, ...] = ()

    @property
    def num_actions(self):
        return self.inner.num_actions

    @property
    def max_steps(self):
        return self.inner.max_steps

    def lock(self, state):
        return Scrambled(jax.tree.map(lambda leaf: jax.lax.bitcast_convert_type(leaf, jnp.uint32) ^ 0x5A5A5A5A, state))

    def unlock(self, state):
        return jax.tree.map(lambda bits: jax.lax.bitcast_convert_type(bits ^ 0x5A5A5A5A, jnp.float32), state.bits)

    def reset(self, key):
        return self.lock(self.inner.reset(key))

    def step(self, state, action):
        return self.lock(self.inner.step(self.unlock(state), action))

    def observe(self, state):
        return self.inner.observe(self.unlock(state))

    def features(self, state):
        raise AssertionError("the true state was read")


def test_free_play_reads_frames_alone(encoder):
    networks = []
    for world in (WORLD, Locked()):
        training = start(world, TINY, encoder, jax.random.key(0))
        advance = eqx.filter_jit(lambda training, world=world: train(world, TINY, encoder, training, jnp.int32(30)))
        networks.append(advance(training)[0].network)
    assert eqx.tree_equal(*networks)
    assert not eqx.tree_equal(networks[0], start(WORLD, TINY, encoder, jax.random.key(0)).network)


def test_labelled_steps_read_frames_and_the_given_rewards_alone(encoder):
    skills = Gpi(make_network(TINY, 7, 8, jax.random.key(0)), encoder)
    locked = Locked()
    labelled = [
        jax.jit(lambda key, w=world, r=reward: collect_labelled(w, skills, 3, r, key, 600))(jax.random.key(1))
        for world, reward in (
            (WORLD, lambda state: state.agent[0]),
            (locked, lambda state: locked.unlock(state).agent[0]),
        )
    ]
    assert labelled[0].bins.shape == (600, 7)
    np.testing.assert_array_equal(labelled[0].bins, labelled[1].bins)
    np.testing.assert_array_equal(labelled[0].reward, labelled[1].reward)


def test_there_are_as_many_features_as_the_encoder_has(encoder, library):
    made, _ = library
    assert number_of(encoder, WORLD) == 7
    assert made.network(jnp.zeros(7)).shape == (7, 3, 3, 8)
    assert len(made.feature_names) == 7


def test_a_moved_library_needs_no_other_folder(library):
    made, moved = library
    loaded = Library.load(moved)
    assert eqx.tree_equal(loaded.network, made.network)
    assert eqx.tree_equal(loaded.features, sight(WORLD))
    assert json.loads((moved / "config.json").read_text())["features"] == "learnt:encoder"
    assert loaded.world == WORLD


def test_a_run_goes_on_when_the_encoder_it_began_with_is_gone(library, folder, tmp_path):
    out, left = tmp_path / "parts", iter([False] * 5 + [True])
    assert pretrain(WORLD, TINY, 1, out, f"learnt:{folder}", should_stop=lambda: next(left)) is None
    sight(WORLD, ORDER[::-1]).save(tmp_path / "other")
    with pytest.raises(ValueError, match="another encoder"):
        pretrain(WORLD, TINY, 1, out, f"learnt:{tmp_path / 'other'}", resume=True)
    shutil.rmtree(folder)
    assert eqx.tree_equal(pretrain(WORLD, TINY, 1, out, f"learnt:{folder}", resume=True).network, library[0].network)


def test_learnt_features_belong_to_their_world(folder, tmp_path, library):
    with pytest.raises(ValueError, match="another world"):
        pretrain(PixelSpriteworld(("star",), size=16), TINY, 0, tmp_path / "out", f"learnt:{folder}")
    assert not (tmp_path / "out").exists()
    shutil.copytree(library[1], tmp_path / "copy")
    (tmp_path / "copy" / "encoder" / "config.json").unlink()
    with pytest.raises(Unreadable, match="encoder holds no config"):
        Library.load(tmp_path / "copy")


def test_latents_are_called_what_they_are_grounded_to(library):
    made, _ = library
    names = (*WORLD.feature_names, "latent 2")
    assert made.feature_names == tuple(names[i] for i in ORDER)
    assert made.bin_names[0] == ("top", "middle", "bottom")  # a flipped y
    assert made.bin_names[1] == ("left", "centre", "right")
    assert made.bin_names[2] == ("1/3", "2/3", "3/3")
    np.testing.assert_array_equal(np.asarray(made.weights("square top")[0]).argmax(axis=1)[ORDER.index(3)], 0)


def test_without_labels_words_mean_nothing(tmp_path):
    sight(WORLD, grounded=False).save(tmp_path)
    config = FreePlay(width=8)
    deaf = Library(WORLD, config, make_network(config, 7, 8, jax.random.key(0)), f"learnt:{tmp_path}")
    assert not deaf.understands_goals
    assert deaf.feature_names == tuple(f"latent {i}" for i in range(7))
    with pytest.raises(ValueError, match="no labels say what goals mean"):
        deaf.weights("square left")


class Rewired(eqx.Module):
    """A network of the true features, for features in another order, some flipped, and some that are no coordinates."""

    network: Any
    place: Any  # of each coordinate among the latents
    flip: Any

    def __call__(self, f):
        psi = self.network(jnp.where(self.flip, 1 - f, f)[self.place])  # [k, m, m, a]
        flipped = jnp.where(self.flip[self.place][:, None, None, None], psi[:, ::-1, ::-1], psi)
        return jnp.zeros((len(f), *psi.shape[1:])).at[self.place].set(flipped)


def test_phrases_are_solved_from_frames(tmp_path):
    world, shipped = PixelSpriteworld(size=32), Library.load()
    encoder = sight(world)
    encoder.save(tmp_path)
    place = jnp.array([ORDER.index(i) for i in range(6)])
    library = Library(world, shipped.config, Rewired(shipped.network, place, encoder.flip), f"learnt:{tmp_path}")
    tasks = {phrase: [library.task(phrase)] for phrase in ("agent right", "square top left", "circle bottom")}
    results = library.evaluate(tasks, jax.random.key(0), 16)
    assert min(result.success for result in results.values()) > 0.7, results
    assert isinstance(library.task("square left"), Task)
