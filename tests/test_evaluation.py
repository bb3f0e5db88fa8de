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


@pytest.mark.parametrize(
    ("action", "x", "success", "steps"),
    [(2, 0.6, True, 3), (3, 0.1, True, 0), (3, 0.6, False, 9)],  # reached, begun there, never reached
)
def test_play_counts_steps_until_the_goal(action, x, success, steps):
    start = State(jnp.array([x, 0.5]), jnp.array([[0.9, 0.9], [0.9, 0.9]]))
    episode = rollout(Spriteworld(max_steps=9), always(action), agent_left, start, jax.random.key(0))
    assert (bool(episode.success), int(episode.steps)) == (success, steps)
    after = np.asarray(episode.states.agent)[steps:]
    assert (after == after[:1]).all()  # time stands still


def test_evaluate_agrees_with_geometry():
    tasks = {"reach": (parse("agent left"),), "luck": (parse("agent top left"),)}
    results = evaluate(Spriteworld(), lambda world, table: always(2), tasks, jax.random.key(0), 2000)
    assert results["reach"].success == 1.0
    assert results["luck"].ci95[0] < 1 / 3 < results["luck"].ci95[1]


@pytest.mark.parametrize("episodes", [0, -1, 10**11, 10**30])
def test_evaluate_refuses_too_few_or_many_episodes(episodes):
    with pytest.raises(ValueError, match="the episodes of a task are 1 to 10,000,000, but got"):
        evaluate(Spriteworld(), random_policy, {"any": (parse("agent left"),)}, jax.random.key(0), episodes)


def test_summarise_tells_no_steps_from_none():
    """A goal that nobody reaches takes no steps that could be told; one that holds at every start takes 0."""
    never = summarise(np.zeros((2, 50), bool), np.full((2, 50), 100), 100)
    assert (never.success, never.mean_steps, never.tasks, never.episodes) == (0.0, None, 2, 100)
    assert never.ci95 == (0.0, pytest.approx(1 - 0.025 ** (1 / 100)))
    assert rate_and_steps(never)[1] == "100.0"
    assert rate_and_steps(summarise(np.ones((1, 2), bool), np.zeros((1, 2), int), 100))[1] == "0.0"


def test_summarise_counts_failures_as_slow():
    """One of two tasks allows twice the time, as a plan of two stages does. An episode may have ended early."""
    success = np.array([[True, False], [False, False]])
    lucky = summarise(success, np.array([[2, 7], [50, 100]]), np.array([50, 100]))
    slow = summarise(np.ones((2, 2), bool), np.full((2, 2), 30), np.array([50, 100]))
    assert (lucky.mean_steps, lucky.steps_or_limit) == (2.0, (2 + 50 + 100 + 100) / 4)
    assert lucky.steps_or_limit > slow.steps_or_limit == slow.mean_steps == 30
    assert pool([lucky, slow]).steps_or_limit == (lucky.steps_or_limit + slow.steps_or_limit) / 2


@given(st.integers(1, 10_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_interval_is_that_of_the_exact_test(counted):
    solved, episodes = counted
    known = binomtest(solved, episodes).proportion_ci(0.95)
    np.testing.assert_allclose(interval(solved, episodes), (known.low, known.high), rtol=1e-6)
