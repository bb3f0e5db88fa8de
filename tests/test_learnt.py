"""From frames to goals by way of an encoder: more latents than coordinates, in another order, some of them flipped."""

import dataclasses
import json
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import THIRDS

from colour_encoder import ORDER, ColourEncoder, colour_encoder
from cumulant.commands.cli import main
from cumulant.config import FreePlay, Represent
from cumulant.features.coordinates import Inputs, feature_count
from cumulant.features.encoder import Encoder, make_autoencoder
from cumulant.freeplay.learning import make_network, start, train
from cumulant.storage import Unreadable
from cumulant.transfer.exploration import collect
from cumulant.transfer.gpi import Gpi
from cumulant.transfer.library import Library
from cumulant.transfer.pretraining import pretrain
from cumulant.web.api import world_of
from cumulant.web.player import Player
from cumulant.worlds.pixels import PixelSpriteworld

WORLD = PixelSpriteworld(size=32)
TINY = FreePlay(width=8, depth=1, num_envs=4, batch=16, env_steps=4 * 40, replay=400)
SMALL = PixelSpriteworld(("square",), size=16, max_steps=30)


@pytest.fixture(scope="module")
def encoder():
    return colour_encoder(WORLD)


@pytest.fixture(scope="module")
def library(encoder):
    """A network that has learnt nothing, for grounded latents."""
    return Library(WORLD, TINY, make_network(TINY, Inputs(7), 8, jax.random.key(0)), encoder)


@pytest.fixture(scope="module")
def few():
    """Five latents of a smaller world, which nobody has labelled."""
    return ColourEncoder(jnp.array([2, 0, 4, 1, 3]), jnp.array([True, False, False, False, True]), None, SMALL)


class Scrambled(NamedTuple):
    """Positions that only their own world can read."""

    bits: Any


@dataclasses.dataclass(frozen=True)
class Locked:
    """The same world, for whom the state means nothing."""

    inner: PixelSpriteworld = SMALL
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


def test_free_play_reads_frames_alone(few):
    def learnt(world):
        def run(key):
            begun = start(world, TINY, few, key)
            return begun.network, train(world, TINY, few, begun, jnp.int32(30))[0].network

        return eqx.filter_jit(run)(jax.random.key(0))

    first, network = learnt(SMALL)
    assert eqx.tree_equal(network, learnt(Locked())[1])
    assert not eqx.tree_equal(network, first)


def test_labelled_steps_read_frames_and_the_given_rewards_alone(few):
    skills, locked = Gpi(make_network(TINY, Inputs(5), 8, jax.random.key(0)), few, committed=False), Locked()
    labelled = [
        jax.jit(lambda key, w=world, r=reward: collect(w, skills, 3, r, key, 500))(jax.random.key(1))
        for world, reward in (
            (SMALL, lambda state: state.agent[0]),
            (locked, lambda state: locked.unlock(state).agent[0]),
        )
    ]
    assert labelled[0].bins.shape == (500, 5)
    np.testing.assert_array_equal(labelled[0].bins, labelled[1].bins)
    np.testing.assert_array_equal(labelled[0].reward, labelled[1].reward)


@pytest.fixture(scope="module")
def unlearnt():
    """An encoder proper, whose weights are random: five of six latents, which nobody has labelled."""
    settings = Represent(latents=6, width=4)
    autoencoder = make_autoencoder(SMALL, settings, jax.random.key(0))
    kept, unfold = jnp.arange(5, dtype=jnp.int32), jnp.zeros((6, 6))
    return Encoder(autoencoder, kept, jnp.zeros(5), jnp.ones(5), unfold, None, SMALL, settings)


def test_a_run_keeps_its_encoder_and_can_go_on_and_move_without_any_other_folder(unlearnt, tmp_path):
    out, left = tmp_path / "run", iter([False] * 5 + [True])
    assert pretrain(SMALL, TINY, 1, out, unlearnt, should_stop=lambda: next(left)) is None
    other = eqx.tree_at(lambda encoder: encoder.high, unlearnt, 2 * unlearnt.high)
    with pytest.raises(ValueError, match="another encoder"):
        pretrain(SMALL, TINY, 1, out, other, resume=True)
    finished = pretrain(SMALL, TINY, 1, out, Encoder.load(out / "encoder"), resume=True)
    out.rename(tmp_path / "moved")
    loaded = Library.load(tmp_path / "moved")
    assert eqx.tree_equal(loaded.network, finished.network)
    assert eqx.tree_equal(loaded.features, unlearnt)
    assert loaded.world == SMALL
    assert json.loads((tmp_path / "moved" / "config.json").read_text())["features"] == "learnt:encoder"
    (tmp_path / "moved" / "encoder" / "config.json").unlink()
    with pytest.raises(Unreadable, match="encoder holds no config"):
        Library.load(tmp_path / "moved")


def test_learnt_features_belong_to_their_world(few, tmp_path):
    with pytest.raises(ValueError, match="another world"):
        pretrain(PixelSpriteworld(("star",), size=16), TINY, 0, tmp_path / "out", few)
    assert not (tmp_path / "out").exists()


def test_there_are_as_many_features_as_the_encoder_has(encoder, few):
    assert feature_count(encoder, WORLD) == 7
    assert feature_count(few, SMALL) == 5


def test_latents_are_called_what_they_are_grounded_to(library):
    names = (*WORLD.feature_names, "latent 2")
    assert library.feature_names == tuple(names[i] for i in ORDER)
    assert library.bin_names[0] == ("top", "middle", "bottom")  # a flipped y
    assert library.bin_names[1] == ("left", "centre", "right")
    assert library.bin_names[2] == ("1/3", "2/3", "3/3")
    w = np.asarray(library.weights("square top"))[0]
    assert w[0].argmax() == 0
    assert not w[1:].any()


def test_without_labels_words_mean_nothing(few):
    deaf = Library(SMALL, TINY, make_network(TINY, Inputs(5), 8, jax.random.key(0)), few)
    assert not deaf.knows_words
    assert deaf.feature_names == tuple(f"latent {i}" for i in range(5))
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


def test_phrases_are_solved_from_frames():
    world, shipped = PixelSpriteworld(max_steps=50), Library.load(THIRDS)
    encoder = colour_encoder(world)
    place = jnp.array([ORDER.index(i) for i in range(6)])
    library = Library(world, shipped.config, Rewired(shipped.network, place, encoder.flip), encoder)
    tasks = {phrase: [library.task(phrase)] for phrase in ("agent right", "square top left")}
    results = library.evaluate(tasks, jax.random.key(0), 10)
    assert min(result.success for result in results.values()) >= 0.8, results


def test_the_page_shows_latents_and_drags_sprites(library):
    player = Player(library)
    described = world_of(player)
    assert described.features == list(library.feature_names)
    here = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6], np.float32)
    taken = player.step(player.aim("square left"), here, 3)
    np.testing.assert_allclose(taken.positions[1], [0.2, 0.2, 0.3, 0.4, 0.5, 0.6], atol=1e-6)
    assert taken.bins.shape == (2, 7)
    assert taken.success


def test_a_library_without_words_refuses_them_in_one_line(unlearnt, tmp_path, capsys):
    Library(SMALL, TINY, make_network(TINY, Inputs(5), 8, jax.random.key(0)), unlearnt).save(tmp_path)
    out, sees = ["--out", str(tmp_path / "out")], ["--features", f"learnt:{tmp_path / 'encoder'}"]
    for args, message in [
        (["solve", "square left"], "give --reward"),
        (["evaluate"], "give --few-shot N"),
        (["demo", *out], "no labels say what goals mean"),
        (["serve", "--port", "0"], "the page is for goals in words"),
        (["pretrain", *out, *sees, "--objects", "star"], "learnt in a world of square: leave out --objects"),
        (["pretrain", *out, "--features", "learnt:/nowhere"], "there is no folder /nowhere"),
        (["pretrain", *out, "--features", f"learnt:{tmp_path}"], "is not an encoder"),
    ]:
        given = [] if args[0] == "pretrain" else ["--library", str(tmp_path)]
        assert main([*args, *given]) == 2
        said = capsys.readouterr().err
        assert message in said
        assert said.count("\n") == 1
