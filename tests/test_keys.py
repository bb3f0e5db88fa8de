"""Random keys are used once, under JAX's own check; where that is not so today is listed, and expected to fail.

JAX takes keys that one scan or loop indexes for one key, and so does it for a scan of keys under vmap. What is batched
is therefore tried with a single episode, and training with a single round.
"""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from conftest import THIRDS, WORLDS, Sliders
from jax.errors import KeyReuseError

import cumulant
from cumulant.features.autoencoders import Keypoints
from cumulant.features.coordinates import true_features
from cumulant.freeplay.learning import collect, learn, start
from cumulant.goals.plans import tables_of
from cumulant.transfer.inference import beliefs
from cumulant.transfer.reward_models import Labelled
from cumulant.worlds.episodes import play

BRIEF = cumulant.FreePlay(width=8, num_envs=4, batch=8, env_steps=400, replay=400)
STEPS = Labelled(jnp.zeros((8, 4), jnp.int32), jnp.zeros(8), jnp.ones(8, bool))

# What no check can see, since fold_in(key, 0) is the first of split(key), and a key can be made twice of one seed:
# - transfer.inference.beliefs: its key_fit is transfer.exploration's key_start;
# - `cumulant solve --reward` and the page's lessons: the key that they learn with is the first episode's key_start;
# - transfer.pretraining measures what skills move with the key that trained them, made again of the seed.


def known(path, where):
    """Mark a place that uses a key twice; once mended it fails here, until it is taken off the list."""
    return pytest.param(path, marks=pytest.mark.xfail(strict=True, raises=KeyReuseError, reason=where))


def play_at_random(world):
    jax.jit(lambda key: play(world, cumulant.random_policy(world), lambda state: jnp.bool_(False), key))(
        jax.random.key(0)
    )


def play_with_gpi():
    library = cumulant.Library.load(THIRDS)
    policy = library.policy("square left")
    jax.jit(lambda key: play(library.world, policy, library.task("square left"), key))(jax.random.key(0))


def play_with_the_oracle():
    world, task = WORLDS[0], cumulant.parse("square left")
    policy = cumulant.oracle_policy(world, jax.tree.map(lambda leaf: leaf[0], tables_of([task])))
    jax.jit(lambda key: play(world, policy, task, key))(jax.random.key(0))


def begin_free_play(world):
    return start(world, BRIEF, true_features, jax.random.key(0))


def update():
    jax.block_until_ready(eqx.filter_jit(learn)(BRIEF, begin_free_play(Sliders()), jax.random.key(0)))


def play_a_round():
    training = begin_free_play(Sliders())
    eqx.filter_jit(collect)(Sliders(), BRIEF, true_features, training, jax.random.key(0))


def begin_on_the_host():
    places = (cumulant.Feature("x", of="cart", low=-4.8, high=4.8),)
    begin_free_play(cumulant.HostWorld("CartPole-v1", lambda obs: obs[:1], places, num_envs=4, max_steps=10))


def believe():
    jax.jit(lambda key: beliefs(STEPS, 3, key, (4, 8)))(jax.random.key(0))


def make_keypoints():
    Keypoints(16, 8, 4, jax.random.key(0))


def represent():
    brief = cumulant.Represent(latents=8, width=4, pairs=64, updates=4, batch=4, restarts=1)
    cumulant.represent(cumulant.PixelSpriteworld(("square",), size=16), brief, labelled=8)


PATHS = (
    *(pytest.param(partial(play_at_random, world), id=f"play {world}") for world in (*WORLDS, cumulant.Room())),
    play_with_gpi,
    play_with_the_oracle,
    *(pytest.param(partial(begin_free_play, world), id=f"begin {world}") for world in (Sliders(), WORLDS[0])),
    update,
    known(play_a_round, "freeplay.learning: choose and experience split one key alike, and use different parts"),
    known(begin_on_the_host, "the same, and start: key_policy draws policies, and is the first round's key"),
    known(believe, "transfer.inference.beliefs: one key_fit for every budget"),
    known(make_keypoints, "features.autoencoders: one key makes a layer, then its weights anew: the first are dropped"),
    known(represent, "the same, and features.representation: one key makes the autoencoder, and trains it"),
)


@pytest.fixture
def _checked():
    jax.clear_caches()  # what was traced without the check would not be checked
    with jax.debug_key_reuse(True):
        yield
    jax.clear_caches()


@pytest.mark.usefixtures("_checked")
@pytest.mark.parametrize("path", PATHS)
def test_no_key_is_used_twice(path):
    path()
