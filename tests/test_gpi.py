from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import THIRDS
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cumulant.features.coordinates import true_features
from cumulant.goals.bins import phi
from cumulant.goals.language import parse
from cumulant.goals.weights import weights
from cumulant.transfer.commitment import before, committed_gpi, first_of
from cumulant.transfer.gpi import Gpi, plain_gpi
from cumulant.transfer.library import Library
from cumulant.transfer.values import at_worst, doubt, gpe
from cumulant.worlds.episodes import endings


def random_blocks(seed, k=3, m=4, actions=5):
    return jax.random.uniform(jax.random.key(seed), (k, m, m, actions))


@given(st.integers(0, 1000))
def test_blocks_are_completed_by_the_lemma(seed):
    """GPE over blocks equals GPE over the whole matrix whose other entries are what the Lemma says."""
    blocks = random_blocks(seed)
    k, m = blocks.shape[:2]
    cumulants = phi(jax.random.uniform(jax.random.key(seed + 1), (k,)), m)
    w = jax.random.normal(jax.random.key(seed + 2), (k, m))
    lemma = jnp.broadcast_to(cumulants[None, None, :, :, None], (k, m, k, m, blocks.shape[-1]))
    same = jnp.eye(k, dtype=bool)[:, None, :, None, None]
    own = jnp.broadcast_to(blocks[:, :, None], lemma.shape)
    np.testing.assert_allclose(gpe(blocks, w, cumulants), gpe(jnp.where(same, own, lemma), w, cumulants), atol=1e-5)


def test_weights_are_the_share_of_a_bin_that_is_allowed():
    table = jnp.asarray(parse("square left or circle not top").table())
    w = np.asarray(weights(table, 9))
    names = ("agent_x", "agent_y", "square_x", "square_y", "circle_x", "circle_y")
    clause = int(np.argmax(w[:, names.index("square_x"), 0]))
    np.testing.assert_allclose(w[clause, 2], [1] * 3 + [0] * 6, atol=1e-6)
    np.testing.assert_allclose(w[1 - clause, 5], [1] * 6 + [0] * 3, atol=1e-6)
    assert w[clause, [0, 1, 3, 4, 5]].sum() == 0
    misaligned = np.asarray(weights(jnp.asarray(parse("square left").table()), 5))[0, 2]
    np.testing.assert_allclose(misaligned, [1, 2 / 3, 0, 0, 0], atol=1e-6)


def test_clauses_that_only_pad_are_never_pursued():
    w = weights(jnp.asarray(parse("square left").table(clauses=3)), 3)
    np.testing.assert_array_equal(w[1:], -1)
    network = lambda f: jnp.full((6, 3, 3, 8), 0.5)  # noqa: E731
    commitment = committed_gpi(network, true_features, w).begin(jnp.full(6, 0.9))
    assert (int(commitment.clause), int(commitment.feature)) == (0, 2)


@given(arrays(bool, 5), arrays(np.float32, (5, 5), elements=st.floats(0, 1, width=32)))
def test_somebody_wanted_always_goes_first_and_nobody_wanted_goes_before_them_unless_all_go_in_a_circle(wanted, moved):
    order = before(jnp.asarray(moved))
    assert not (order & order.T).any()  # two features never each go before the other
    first = np.asarray(first_of(jnp.asarray(wanted), order))
    assert first.any() == wanted.any()
    assert (first <= wanted).all()
    preceded = (wanted[:, None] & np.asarray(order)).any(axis=0)
    assert not (first & preceded).any() or (preceded >= wanted).all()


@pytest.mark.parametrize(("moved", "feature"), [(None, 0), (jnp.zeros((2, 2)).at[1, 0].set(0.3), 1)])
def test_what_disturbs_others_is_pursued_before_what_is_easier(moved, feature):
    blocks = jnp.full((2, 2, 2, 3), 0.5).at[0].set(0.9)  # the first feature promises more
    w = jnp.zeros((1, 2, 2)).at[:, :, 1].set(1.0)
    policy = committed_gpi(lambda f: blocks, true_features, w, moved)
    assert int(policy.begin(jnp.zeros(2)).feature) == feature


def test_of_actions_as_good_the_one_is_taken_that_spares_what_is_reached():
    own = jnp.array([0.900, 0.895, 0.5])  # the first two serve the second feature alike
    spoilt = jnp.array([0.8, 1.0, 1.0])  # the best of them spoils the first feature
    blocks = jnp.stack([jnp.broadcast_to(each, (2, 2, 3)) for each in (spoilt, own)])
    w = jnp.zeros((1, 2, 2)).at[:, :, 1].set(1.0)
    policy = committed_gpi(lambda f: blocks, true_features, w)
    for first, action in ((0.9, 1), (0.1, 0)):  # reached, and not
        obs = jnp.array([first, 0.1])
        begun = policy.begin(obs)._replace(feature=jnp.int32(1), bin=jnp.int32(1))
        assert int(policy.act(begun, obs, jax.random.key(0))[1]) == action


def test_plain_gpi_takes_the_best_action_of_the_best_policy():
    psi = jnp.zeros((2, 2, 2, 3)).at[1, 0, 0, 2].set(0.9).at[0, 0, 0, 1].set(0.5)
    w = jnp.array([[[1.0, 0.0], [1.0, 0.0]]])
    policy = plain_gpi(lambda f: psi, true_features, w)
    _, action = policy.act((), jnp.array([0.9, 0.9]), jax.random.key(0))
    assert int(action) == 2


def test_commitment_holds_until_the_feature_arrives_then_passes_on():
    psi = jnp.zeros((2, 2, 2, 3)).at[0, 0, 0, 1].set(0.8).at[1, 0, 0, 2].set(0.4)
    policy = committed_gpi(lambda f: psi, true_features, jnp.array([[[1.0, 0.0], [1.0, 0.0]]]))
    memory = policy.begin(jnp.array([0.9, 0.9]))
    assert int(memory.feature) == 0  # the easier one first
    memory, action = policy.act(memory, jnp.array([0.8, 0.9]), jax.random.key(0))
    assert (int(memory.feature), int(action)) == (0, 1)
    memory, action = policy.act(memory, jnp.array([0.2, 0.9]), jax.random.key(0))
    assert (int(memory.feature), int(action)) == (1, 2)


def test_what_does_not_get_closer_is_given_up_for_another():
    psi = jnp.zeros((2, 2, 2, 3)).at[0, 0, 0, 1].set(0.8).at[1, 0, 0, 2].set(0.4)
    policy = committed_gpi(lambda f: psi, true_features, jnp.array([[[1.0, 0.0], [1.0, 0.0]]]), patience=3)
    memory, pursued = policy.begin(jnp.array([0.9, 0.9])), []
    for t in range(4):
        memory, _ = policy.act(memory, jnp.array([0.9, 0.9]), jax.random.key(t))
        pursued.append(int(memory.feature))
    assert pursued == [0, 0, 1, 1]


@given(arrays(int, 4, elements=st.integers(0, 999)), arrays(int, (4, 3), elements=st.integers(-1, 2)))
def test_in_doubt_a_feature_is_where_it_is_worth_least(thousandths, w):
    f, resolution = (thousandths / 999).astype(np.float32), 1 / 64
    worst = np.asarray(at_worst(jnp.asarray(f), jnp.asarray(w, float), resolution))
    assert (np.abs(worst - f) <= resolution + 1e-6).all()
    assert (np.clip(worst, 0, 1) == worst).all()
    worth = lambda f: (w * np.asarray(phi(jnp.asarray(f), 3))).sum(axis=1)  # noqa: E731
    for other in (f, np.clip(f - np.float32(resolution), 0, 1), np.clip(f + np.float32(resolution), 0, 1)):
        assert (worth(worst) <= worth(other)).all()
    certain = worth(worst) == worth(f)
    np.testing.assert_array_equal(worst[certain], f[certain])


@pytest.mark.parametrize("bins", [2, 3, 9, 30])
def test_every_bin_has_a_place_without_doubt_however_coarse_the_features(bins):
    f, resolution = jnp.linspace(0, 1, 1000), doubt(1 / 16, bins)
    for j in range(bins):
        w = jnp.tile(jax.nn.one_hot(j, bins), (1000, 1))
        assert float((w * phi(at_worst(f, w, resolution), bins)).sum(axis=1).max()) == 1


@dataclass(frozen=True)
class Beside:
    """Coordinates seen a little too far to the right and to the top."""

    resolution: float

    def __call__(self, obs):
        return jnp.clip(obs + 0.012, 0, 1)


def test_features_a_little_off_reach_goals_if_their_resolution_is_known():
    """Otherwise the agent stops at the edge of a goal, where it believes to have reached it."""
    library = Library.load(THIRDS)
    table = jnp.asarray(parse("square top right and circle middle").table())[None]
    starts = jax.random.split(jax.random.key(0), (1, 128))

    def success(resolution):
        gpi = Gpi(library.network, Beside(resolution))
        return float(endings(library.world, gpi, table, jax.vmap(library.weights_of)(table), starts)[0].mean())

    assert success(1 / 64) > 0.98
    assert success(0.0) < 0.9
