from functools import partial

import jax
import jax.monitoring
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import THIRDS
from hypothesis import given
from hypothesis import strategies as st

from cumulant.goals.rewards import rewards, value
from cumulant.goals.tasks import reached
from cumulant.transfer import linear_systems
from cumulant.transfer.exploration import collect, collect_at_random
from cumulant.transfer.inference import learn_many
from cumulant.transfer.library import Library
from cumulant.transfer.reward_models import Labelled, first, fit, least_squares, outstanding
from cumulant.worlds.episodes import reward_of
from cumulant.worlds.spriteworld import Spriteworld

KEY = jax.random.key(0)


def steps(n=4000, k=4, m=3, seed=0):
    """Features in random bins, the last one a copy of the first nine times in ten: correlated, and irrelevant."""
    rng = np.random.default_rng(seed)
    bins = rng.integers(m, size=(n, k))
    copy = rng.random(n) < 0.9
    bins[copy, -1] = bins[copy, 0]
    return jnp.asarray(bins)


def labelled(bins, reward):
    return Labelled(bins, jnp.asarray(reward, float), jnp.ones(len(bins), bool))


@partial(jax.jit, static_argnums=1)
def belief(steps, bins):
    return fit(steps, bins, jax.random.key(0))


def test_least_squares_recovers_linear_rewards():
    bins, w = steps(), jax.random.normal(jax.random.key(0), (4, 3))
    reward = jnp.take_along_axis(w.T, bins, axis=0).sum(axis=1)
    found = least_squares(labelled(bins, reward), 3)
    predicted = jnp.take_along_axis(found.w.T, bins, axis=0).sum(axis=1)
    np.testing.assert_allclose(predicted, reward, atol=0.05)
    assert float(found.explained) > 0.999  # the ridge leaves a little


@pytest.mark.parametrize(("scale", "noise", "shift"), [(1, 0, 0), (1, 0.1, 0), (1, 0, -1), (1e6, 1e5, 3e6)])
def test_a_conjunction_is_told_from_what_merely_goes_along_with_it(scale, noise, shift):
    """Whatever its unit, its noise, and what there is elsewhere; "-1 but in the goal" is a goal, too."""
    bins = steps()
    inside = np.asarray((bins[:, 0] == 2) & (bins[:, 1] != 1))
    reward = scale * inside + shift + noise * np.random.default_rng(0).standard_normal(len(inside))
    found = belief(labelled(bins, reward), 3)
    expected = np.zeros((4, 3))
    expected[0, 2] = expected[1, 0] = expected[1, 2] = 1
    assert int(found.boxes) == 1
    assert float(found.sure) > 0.9
    np.testing.assert_array_equal(np.asarray(found.w) > 0, expected > 0)


@pytest.mark.parametrize("outside", [False, True])
def test_with_many_bins_a_box_is_of_neighbours_or_of_all_but_neighbours(outside):
    bins = jnp.asarray(np.random.default_rng(0).integers(9, size=(4000, 3)))
    middle = (bins[:, 0] >= 3) & (bins[:, 0] < 6)
    found = belief(labelled(bins, (middle ^ outside) & (bins[:, 2] < 3)), 9)
    assert int(found.boxes) == 1
    assert np.flatnonzero(np.asarray(found.w[0])).tolist() == ([0, 1, 2, 6, 7, 8] if outside else [3, 4, 5])
    assert np.flatnonzero(np.asarray(found.w[2])).tolist() == [0, 1, 2]
    assert not np.asarray(found.w[1]).any()


def test_in_a_sum_a_bin_that_nobody_tried_is_worth_what_its_neighbours_are():
    """Where rewards are costs, it would else be the best of all."""
    bins = jnp.asarray(np.random.default_rng(0).integers(9, size=(4000, 3)))
    bins = bins[bins[:, 0] != 1]
    cost = jnp.abs(bins[:, 0] - 5) / 9 + jnp.abs(bins[:, 1] - 2) / 9
    found = belief(labelled(bins, -cost), 9)
    assert int(found.boxes) == 0
    np.testing.assert_allclose(found.w[0], (5 - np.abs(np.arange(9) - 5)) / 9, atol=0.01)


def test_a_bin_that_nobody_tried_is_not_believed_to_be_good():
    bins = steps()
    bins = bins[(bins[:, 0] != 1) | (bins[:, 1] != 0)]  # of the goal's second feature, one bin was never seen with it
    found = belief(labelled(bins, (bins[:, 0] == 1) & (bins[:, 1] != 2)), 3)
    assert np.flatnonzero(np.asarray(found.w[1])).tolist() == [1]


def test_what_the_weights_of_a_disjunction_favour_is_rewarded():
    bins = steps()
    reward = np.asarray((bins[:, 1] == 2) | (bins[:, 2] == 0))
    w = np.asarray(belief(labelled(bins, reward), 3).w)
    assert (w[[0, 3]] == 0).all()
    favoured = (np.take_along_axis(w.T, np.asarray(bins), axis=0) >= w.max(axis=1)).all(axis=1)
    assert favoured.any()
    assert reward[favoured].all()


def test_a_goal_and_a_place_to_shun_are_two_conjunctions():
    bins = steps()
    reward = 1.0 * ((bins[:, 1] == 2) & (bins[:, 2] == 0)) - (bins[:, 0] == 1)
    found = belief(labelled(bins, reward), 3)
    assert int(found.boxes) == 2
    assert np.flatnonzero(np.asarray(found.w[0]) > 0.9).tolist() == [0, 2]
    assert np.asarray(found.w[1]).argmax() == 2
    assert np.asarray(found.w[2]).argmax() == 0
    assert not np.asarray(found.w[3]).any()


def test_no_reward_gives_no_weights():
    found = belief(labelled(steps(), jnp.zeros(4000)), 3)
    assert not np.asarray(found.w).any()
    assert float(found.sure) == float(found.explained) == 0


def test_steps_that_were_not_taken_tell_nothing():
    bins = steps()
    reward = (bins[:, 0] == 2) & (bins[:, 1] == 0)
    some = first(labelled(bins, reward), jnp.int32(1500))
    lie = some._replace(bins=jnp.where(some.taken[:, None], bins, 0))
    for one, other in zip(belief(some, 3), belief(lie, 3), strict=True):
        np.testing.assert_array_equal(one, other)


def test_only_what_stands_out_from_its_noise_is_outstanding():
    rng = np.random.default_rng(0)
    noise = 0.1 * rng.standard_normal(4000)
    assert not np.asarray(outstanding(labelled(steps(), noise))).any()
    assert np.flatnonzero(np.asarray(outstanding(labelled(steps(), noise + (np.arange(4000) == 7))))).tolist() == [7]
    assert np.asarray(outstanding(labelled(steps(), np.arange(4000) == 7)))[7]  # without noise, anything new


@pytest.fixture(scope="module")
def library():
    return Library.load(THIRDS)


@pytest.mark.parametrize("gather", [collect_at_random, collect])
def test_labelled_steps_are_as_many_as_asked_for(library, gather):
    take = jax.jit(lambda key: gather(library.world, library.gpi(), 3, lambda state: state.agent[0], key, 1030))
    found = take(jax.random.key(0))
    assert found.bins.shape == (1030, 6)
    third = np.minimum(np.floor(3 * np.asarray(found.reward)), 2)
    np.testing.assert_array_equal(found.bins[:, 0], third)  # each reward belongs to its state
    assert np.asarray(found.taken).all()


def test_a_conjunction_is_found_and_understood_within_2000_steps(library):
    task = library.task("square top left and circle bottom right")
    learnt = learn_many(
        library.world, library.gpi(), 3, reward_of, jnp.asarray(task.table())[None], jax.random.split(KEY, 1), (2000,)
    )
    assert int(learnt.boxes[0, 0]) == 1
    wanted = np.asarray(library.weights(task))[0] > 0
    np.testing.assert_array_equal(np.asarray(learnt.w[0, 0]) > 0, wanted)


def test_rewards_are_best_where_their_tasks_hold():
    """Those that are drawn: none is more than at its goal, but for its noise."""
    names = Spriteworld().feature_names
    places = jax.random.uniform(KEY, (5000, len(names)))
    for name, group in rewards(names, 4, seed=3).items():
        for goal, reward in group:
            values = np.asarray(jax.vmap(value, (None, 0))(reward, places))
            holds = np.asarray(jax.vmap(reached, (None, 0))(jnp.asarray(goal.table()), places))
            best = values[holds] if name != "dense" else values[holds].max(keepdims=True)
            assert best.min() >= values[~holds].max() - (1 if name == "noisy" else 1e-6), (name, str(goal))


def test_a_reward_that_computes_the_same_compiles_nothing_new(library):
    """Whatever function it is, and whatever arrays it refers to; but one that computes something else is compiled."""
    told, edge = [], np.array([1 / 3, 0.5], np.float32)

    def learnt(reward):
        told.clear()
        w = np.asarray(library.learn_reward(reward, KEY, 200)[0])
        return w, sum("backend_compile" in name for name in told)

    jax.monitoring.register_event_duration_secs_listener(lambda name, *_, **__: told.append(name))
    first, _ = learnt(lambda state: (state.agent < edge).all())
    again, compiled = learnt(lambda state: (state.agent < edge).all())
    np.testing.assert_array_equal(first, again)
    assert compiled == 0
    edge[:] = [1, 1 / 3]
    other, compiled = learnt(lambda state: (state.agent < edge).all())
    assert compiled == 0
    assert other[1].argmax() == 0
    assert not (other[0] > 0.5).any()  # now the agent may be anywhere from left to right
    np.testing.assert_array_equal(other, learnt(lambda state: state.agent[1] < 1 / 3)[0])
    halves = [learnt(lambda state, half=half: jnp.sin(half * state.agent[0]))[0] for half in (1.0, -1.0)]
    assert halves[0][0].argmax() == 2
    assert halves[1][0].argmax() == 0


def test_functions_on_the_host_are_told_apart(library):
    def asked(function):
        shape = jax.ShapeDtypeStruct((), jnp.float32)
        reward = lambda state: jax.pure_callback(function, shape, state.agent[0], vmap_method="expand_dims")  # noqa: E731
        return np.asarray(library.learn_reward(reward, KEY, 100)[0])[0].argmax()

    assert asked(lambda x: np.float32(1) * x) == 2
    assert asked(lambda x: np.float32(-1) * x) == 0


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
