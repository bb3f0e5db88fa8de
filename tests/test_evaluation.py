import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from cumulant.commands.output import rate_and_steps
from cumulant.goals.language import parse
from cumulant.transfer.evaluation import evaluate, interval, pool, summarise
from cumulant.worlds.episodes import Policy, random_policy, rollout
from cumulant.worlds.spriteworld import Spriteworld, State


def always(action):
    return Policy(lambda obs: (), lambda memory, obs, key: (memory, jnp.int32(action)))


def agent_left(state):
    return state.agent[0] < 1 / 3


def start_at(x):
    return State(jnp.array([x, 0.5]), jnp.array([[0.9, 0.9], [0.9, 0.9]]))


def test_steps_are_counted_until_the_goal_and_then_time_stands_still():
    episode = rollout(Spriteworld(), always(2), agent_left, start_at(0.6), jax.random.key(0))
    assert episode.success
    assert int(episode.steps) == 3
    assert (np.asarray(episode.states.agent)[3:] == np.asarray(episode.states.agent)[3]).all()


def test_a_start_in_the_goal_is_a_success_of_no_steps():
    episode = rollout(Spriteworld(), always(3), agent_left, start_at(0.1), jax.random.key(0))
    assert (bool(episode.success), int(episode.steps)) == (True, 0)


def test_a_goal_never_reached_takes_all_the_time():
    episode = rollout(Spriteworld(max_steps=9), always(3), agent_left, start_at(0.6), jax.random.key(0))
    assert (bool(episode.success), int(episode.steps)) == (False, 9)


def test_one_action_alone_succeeds_as_often_as_geometry_says():
    tasks = {"reach": (parse("agent left"),), "luck": (parse("agent top left"),)}
    results = evaluate(Spriteworld(), lambda world, table: always(2), tasks, jax.random.key(0), 2000)
    assert results["reach"].success == 1.0
    assert results["luck"].ci95[0] < 1 / 3 < results["luck"].ci95[1]


@pytest.mark.parametrize("episodes", [0, -1, 10**11, 10**30])
def test_so_many_episodes_are_refused_before_anything_is_played(episodes):
    with pytest.raises(ValueError, match="the episodes of a task are 1 to 10,000,000, but got"):
        evaluate(Spriteworld(), random_policy, {"any": (parse("agent left"),)}, jax.random.key(0), episodes)


def test_the_interval_is_exact_and_an_empty_success_has_no_steps():
    result = summarise(np.zeros((2, 50), bool), np.full((2, 50), 100), 100)
    assert (result.success, result.mean_steps, result.tasks, result.episodes) == (0.0, None, 2, 100)
    assert result.ci95 == (0.0, pytest.approx(1 - 0.025 ** (1 / 100)))


def test_no_steps_at_all_are_not_no_number():
    """A goal that holds at every start takes 0 steps; one that nobody reaches takes none that could be told."""
    always = summarise(np.ones((1, 2), bool), np.zeros((1, 2), int), 100)
    assert rate_and_steps(always)[1] == "0.0"
    assert rate_and_steps(summarise(np.zeros((1, 2), bool), np.full((1, 2), 100), 100))[1] == "100.0"


def test_whoever_mostly_fails_is_not_quick():
    """One of two tasks allows twice the time, as a plan of two stages does. An episode may have ended early."""
    success = np.array([[True, False], [False, False]])
    lucky = summarise(success, np.array([[2, 7], [50, 100]]), np.array([50, 100]))
    slow = summarise(np.ones((2, 2), bool), np.full((2, 2), 30), np.array([50, 100]))
    assert (lucky.mean_steps, lucky.steps_or_limit) == (2.0, (2 + 50 + 100 + 100) / 4)
    assert lucky.steps_or_limit > slow.steps_or_limit == slow.mean_steps == 30
    assert pool([lucky, slow]).steps_or_limit == (lucky.steps_or_limit + slow.steps_or_limit) / 2


@given(st.integers(1, 10_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_intervals_are_those_of_the_exact_test(counted):
    solved, episodes = counted
    known = binomtest(solved, episodes).proportion_ci(0.95)
    np.testing.assert_allclose(interval(solved, episodes), (known.low, known.high), rtol=1e-6)
