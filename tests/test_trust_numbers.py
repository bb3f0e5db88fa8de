"""Numbers as people bring them: rewards and weights of any scale, rewards that are no numbers, and absurd sizes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import THIRDS
from jax.tree_util import Partial

from cumulant.goals.suites import coverage, suite
from cumulant.goals.tasks import Task, tables_of
from cumulant.goals.weights import in_units, padded, unit
from cumulant.transfer.library import Library
from cumulant.transfer.reward_models import Labelled, fit, least_squares
from cumulant.worlds.episodes import play
from cumulant.worlds.protocol import never

SCALES = [10.0**n for n in range(-20, 31, 5)]
BUDGET = 500


@pytest.fixture(scope="module")
def library():
    return Library.load(THIRDS)


def scaled(scale, edge, state):
    """Reward a state; infinite left of an edge."""
    return scale * ((state.agent[0] > 0.5) + 0.3 * state.objects[0, 1]) / (state.agent[0] > edge)


def test_unit_is_the_power_of_two_below():
    powers = np.float32(2) ** np.arange(-126, 128)
    np.testing.assert_array_equal(unit(jnp.asarray(powers)), powers)
    np.testing.assert_array_equal(unit(jnp.asarray(powers * np.float32(1.999))), powers)
    assert float(unit(jnp.zeros(()))) == 1


def assert_same_reward(found, w):
    """Compare up to what powers of ten round off: most of that only moves a reward from one feature to another.

    The indicators of a feature sum to one, so w is all but free to grow in one row by what it falls in another.
    """
    centred, expected = (each - each.mean(axis=-1, keepdims=True) for each in (found, w))
    np.testing.assert_allclose(centred, expected, atol=2e-4)
    np.testing.assert_allclose(found.mean(axis=-1).sum(), w.mean(axis=-1).sum(), atol=1e-3)


@pytest.mark.parametrize("conjunction", [True, False])
def test_fit_grows_with_the_reward_alone(conjunction):
    rng = np.random.default_rng(0)
    bins = jnp.asarray(rng.integers(3, size=(1000, 4)))
    first, second = bins[:, 0] == 2, bins[:, 1] == 0
    reward = np.asarray(first & second if conjunction else 0.7 * first + second, np.float32)
    taken, key = jnp.ones(len(bins), bool), jax.random.key(0)
    ours = jax.jit(lambda r: fit(Labelled(bins, r, taken), 3, key).w)
    papers = jax.jit(lambda r: least_squares(Labelled(bins, r, taken), 3).w)
    for program in (ours, papers):
        w = np.asarray(program(reward), np.float64)
        assert w.max() > 0.2
        for scale in SCALES:
            assert_same_reward(np.asarray(program(np.float32(scale) * reward), np.float64) / scale, w)
        for power in (-60, -1, 7, 99):
            np.testing.assert_array_equal(program(np.float32(2.0**power) * reward), 2.0**power * w)


@pytest.mark.parametrize("paper", [True, False])
def test_learn_reward_grows_with_the_reward_alone(library, paper):
    @jax.jit  # one program for all scales
    def learnt(scale):
        return library.learn_reward(Partial(scaled, scale, jnp.float32(-1)), jax.random.key(0), BUDGET, paper)

    def at(scale):
        return np.asarray(learnt(jnp.float32(scale)), np.float64)

    w = at(1)
    assert w.max() > 0.3
    for power in (-66, -1, 99):
        np.testing.assert_array_equal(at(2.0**power), 2.0**power * w)
    for scale in SCALES[::5]:
        assert_same_reward(at(scale) / scale, w)
    assert not np.isfinite(at(np.nan)).all()  # within a transformation no reward can be looked at


@pytest.mark.parametrize(("scale", "edge"), [(np.nan, -1), (np.inf, -1), (-np.inf, -1), (1, 0.05)])
def test_learn_reward_refuses_what_is_not_finite(library, scale, edge):
    reward = Partial(scaled, jnp.float32(scale), jnp.float32(edge))  # in every state, or in few
    with pytest.raises(ValueError, match=r"^the reward is not finite: it was NaN or infinite in [\d,]+ of 500 states$"):
        library.learn_reward(reward, jax.random.key(0), BUDGET, True)


@pytest.mark.parametrize(
    ("reward", "said"),
    [
        (lambda state: state.agent, r"float32\[2\]"),
        (lambda state: state.agent[0] * 1j, r"complex64\[\]"),
        (lambda state: None, "None"),
        (lambda state: (state.agent[0], 1.0), "ShapeDtypeStruct"),
    ],
)
def test_learn_reward_refuses_what_is_no_number(library, reward, said):
    told = f"^a reward is one number for each state, but this one gives .*{said}"
    with pytest.raises(ValueError, match=told) as error:
        library.learn_reward(reward, jax.random.key(0), BUDGET)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("committed", [True, False])
def test_gpi_acts_alike_at_every_scale(library, committed):
    w = padded(library.weights("square top left and circle not left or agent bottom"), 3)
    holds = (w > -1).all(axis=(1, 2), keepdims=True)
    keys = jax.random.split(jax.random.key(0), 10)

    @jax.jit
    def actions(w):
        policy = library.gpi(committed)(library.world, w)
        return jax.vmap(lambda key: play(library.world, policy, never, key).actions)(keys)

    expected = actions(w)
    for scale in (1e-30, 1e-12, 2.0**-40, 1e12, 1e30):
        np.testing.assert_array_equal(actions(jnp.where(holds, scale * w, -1)), expected)  # padded afterwards
        np.testing.assert_array_equal(actions(scale * w), expected)
    assert np.asarray(actions(0 * w)).shape == expected.shape  # nothing is wanted: nothing breaks


def test_in_units_leaves_ordinary_goals_alone(library):
    w = padded(library.weights("square left or circle top"), 4)
    np.testing.assert_array_equal(in_units(w), w)
    for odd in (0 * w, -1 + 0 * w):
        np.testing.assert_array_equal(in_units(odd), odd)


@pytest.mark.parametrize("size", [0, -1, 10**11])
def test_library_refuses_absurd_sizes_by_name(library, size):
    names = library.world.feature_names
    task, key = Task.where(names, {}), jax.random.key(0)
    refused = {
        "bins": lambda: Task.where(names, {"agent_x": [0]}, size),
        "tasks of a class are 1": lambda: suite(names, size),
        "1 to 1,000 bins": lambda: suite(names, 3, bins=size),
        "tasks of a class": lambda: coverage(names, size),
        "a task has 1 to 1,000 bins": lambda: coverage(names, 3, bins=size),
        "budget is at": lambda: library.learn_rewards([task], key, size),
        "a budget": lambda: library.learn_reward(lambda state: state.agent[0], key, size),
    }
    for name, call in refused.items():
        with pytest.raises(ValueError, match=name):
            call()


def test_task_refuses_bins_and_clauses_out_of_range():
    for b in (-1, 3, 10**11):
        with pytest.raises(ValueError, match=f"agent_x has bins 0 to 2, but got {b}"):
            Task.where(("agent_x", "agent_y"), {"agent_x": [b]})
    with pytest.raises(ValueError, match="a mask of 3 bins is 0 to 7"):
        Task(("agent_x",), ((8,),))
    with pytest.raises(ValueError, match="a clause has a mask for each of agent_x"):
        Task(("agent_x",), ((1, 2),))
    with pytest.raises(ValueError, match="at most 64 clauses, but got 100000000000"):
        Task(("agent_x",), ((1,),)).table(10**11)
    with pytest.raises(ValueError, match="there are no tasks"):
        tables_of([])
