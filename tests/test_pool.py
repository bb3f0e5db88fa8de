"""Environments on the host, without any program that asks for them."""

import threading

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from cumulant.worlds.failures import WorldFailed
from cumulant.worlds.pool import Pool

ACTIONS = np.array([[1.0], [0.0], [1.0]], np.float32)


class Counter(gymnasium.Env):
    """Counts its steps to the right; `before` is called before each, with how many there were."""

    observation_space = spaces.Box(0, 9, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, before=lambda count: None):
        self.before = before

    def reset(self, *, seed=None, options=None):
        self.count = seed % 3
        return np.array([self.count], np.float32), {}

    def step(self, action):
        self.before(self.count)
        self.count += int(action)
        return np.array([self.count], np.float32), 0.0, False, False, {}


def pool_of(*args):
    return Pool("counters", lambda mode: Counter(*args), Counter.observation_space, 3, 1)


def test_a_step_begun_beforehand_is_the_same_step():
    at_once, begun = pool_of(), pool_of()
    tokens, others = (pool.reset(np.arange(3))[2] for pool in (at_once, begun))
    for _ in range(4):
        assert begun.foresee(others, ACTIONS).all()
        expected, found = at_once.step(tokens, ACTIONS), begun.step(others, ACTIONS)
        for a, b in zip(expected, found, strict=True):
            np.testing.assert_array_equal(a, b)
        tokens, others = expected[2], found[2]


def test_whoever_waits_for_a_step_takes_part_in_it():
    second = threading.Event()

    def before(count):
        if count:
            second.set()
        elif not second.wait(timeout=30):
            raise TimeoutError("nobody steps the second episode")

    pool = pool_of(before)
    tokens = pool.reset(np.array([0, 1, 1]))[2]
    pool.foresee(tokens, ACTIONS)  # the background takes the first episode, which waits for the second
    shown, _, _ = pool.step(tokens, ACTIONS)
    np.testing.assert_array_equal(shown[:, 0], [1, 1, 2])


@pytest.mark.parametrize("culprit", range(3))
def test_a_step_that_failed_says_so_when_it_is_asked_for_and_never_else(culprit):
    def before(count):
        if count == culprit:
            raise RuntimeError("the gears are stuck")

    pool = pool_of(before)
    tokens = pool.reset(np.arange(3))[2]
    pool.foresee(tokens, ACTIONS)
    with pytest.raises(WorldFailed, match=f"gears are stuck, in step 1 of its episode of seed {culprit}"):
        pool.step(tokens, ACTIONS)
    tokens = pool.reset(np.arange(3))[2]
    pool.foresee(tokens, ACTIONS)
    shown = pool.reset(np.arange(3))[0]  # settles the step, which nobody asked for
    np.testing.assert_array_equal(shown[:, 0], range(3))
