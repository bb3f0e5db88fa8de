import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cumulant.goals.tasks import reached
from cumulant.transfer import linear_systems
from cumulant.transfer.inference import Labelled, collect_labelled, fit, least_squares
from cumulant.transfer.library import Library


def steps(n=4000, k=4, m=3, seed=0):
    """Features in random bins, the last one a copy of the first nine times in ten: correlated, and irrelevant."""
    rng = np.random.default_rng(seed)
    bins = rng.integers(m, size=(n, k))
    copy = rng.random(n) < 0.9
    bins[copy, -1] = bins[copy, 0]
    return jnp.asarray(bins)


def test_least_squares_recovers_linear_rewards():
    bins, w = steps(), jax.random.normal(jax.random.key(0), (4, 3))
    reward = jnp.take_along_axis(w.T, bins, axis=0).sum(axis=1)
    estimate, error = least_squares(Labelled(bins, reward), 3)
    assert float(error) < 1.0  # the ridge leaves a little
    predicted = jnp.take_along_axis(estimate.T, bins, axis=0).sum(axis=1)
    np.testing.assert_allclose(predicted, reward, atol=0.05)


def test_a_conjunction_is_told_from_what_merely_goes_along_with_it():
    bins = steps()
    reward = ((bins[:, 0] == 2) & (bins[:, 1] == 0)).astype(float)
    w = np.asarray(fit(Labelled(bins, reward), 3))
    expected = np.zeros((4, 3))
    expected[0, 2] = expected[1, 0] = 1
    np.testing.assert_allclose(w, expected, atol=1e-5)


def test_a_disjunction_is_kept_as_a_sum_over_its_features():
    bins = steps()
    reward = ((bins[:, 1] == 2) | (bins[:, 2] == 0)).astype(float)
    w = np.asarray(fit(Labelled(bins, reward), 3))
    assert (w[[0, 3]] == 0).all()
    assert w[1].argmax() == 2
    assert w[2].argmax() == 0


def test_no_reward_gives_no_weights():
    assert not np.asarray(fit(Labelled(steps(), jnp.zeros(4000)), 3)).any()


@pytest.fixture(scope="module")
def library():
    return Library.load()


@pytest.mark.parametrize("paper", [True, False])
def test_labelled_steps_are_as_many_as_asked_for(library, paper):
    labelled = collect_labelled(
        library.world, library.gpi(), 3, lambda state: state.agent[0], jax.random.key(0), 1030, random=paper
    )
    assert labelled.bins.shape == (1030, 6)
    third = np.minimum(np.floor(3 * np.asarray(labelled.reward)), 2)
    np.testing.assert_array_equal(labelled.bins[:, 0], third)  # each reward belongs to its state


def test_skills_find_more_reward_than_random_play(library):
    table = jnp.asarray(library.task("square top left and circle bottom right").table())

    def reward(state):
        return reached(table, library.world.features(state)).astype(float)

    found = [
        float(collect_labelled(library.world, library.gpi(), 3, reward, jax.random.key(1), 5000, random=r).reward.sum())
        for r in (True, False)
    ]
    assert found[1] > 3 * found[0]


def test_a_budget_of_nothing_is_refused(library):
    with pytest.raises(ValueError, match="at least 1"):
        library.learn_reward(lambda state: state.agent[0], jax.random.key(0), 0)


@given(st.sampled_from([1, 7, 18]), st.integers(0, 2**31))
def test_positive_definite_systems_are_solved_as_lapack_solves_them(d, seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((d + 2, d)).astype(np.float32)
    a, b = x.T @ x + np.eye(d, dtype=np.float32), rng.standard_normal(d).astype(np.float32)
    lower = jax.jit(linear_systems.cholesky)(jnp.asarray(a))
    np.testing.assert_allclose(lower, np.linalg.cholesky(a), atol=1e-4)
    np.testing.assert_allclose(
        jax.jit(linear_systems.solve)(jnp.asarray(a), jnp.asarray(b)), np.linalg.solve(a, b), atol=1e-3
    )
    np.testing.assert_allclose(lower.T @ jax.jit(linear_systems.solve_upper)(lower, jnp.asarray(b)), b, atol=1e-3)
