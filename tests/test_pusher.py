"""Pusher: what the hand runs into moves ahead of it, wherever it lies, and nothing else does."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cumulant

pytest.importorskip("mujoco.mjx", reason="Pusher is not tested: it needs the extra `mjx`")

from cumulant.worlds import shipped
from cumulant.worlds.check import resolution_seen
from cumulant.worlds.pusher import Pusher, State

WORLD = Pusher()
COPIES, STEPS = 64, 200
STAY, LEFT, RIGHT, DOWN, UP = range(5)
FEATURES = WORLD.feature_names


@pytest.fixture(scope="module")
def step():
    """One step of all copies, compiled once."""
    return jax.jit(jax.vmap(WORLD.step))


@pytest.fixture(scope="module")
def push(step):
    """What becomes of hand, red and blue, at rest at first, after these actions: [3, 2]."""

    def pushed(*places: tuple[float, float], actions: list[int]) -> np.ndarray:
        state = State(*np.zeros((2, COPIES, 6), np.float32))
        state.qpos[:] = np.ravel(places)
        for action in actions:
            state = step(state, np.full(COPIES, action))
        return np.asarray(state.qpos)[0].reshape(3, 2)

    return pushed


@pytest.fixture(scope="module")
def walks(step):
    """Random play, [t, n, ...]."""
    states = [jax.jit(jax.vmap(WORLD.reset))(jax.random.split(jax.random.key(0), COPIES))]
    rng = np.random.default_rng(0)
    for _ in range(STEPS):
        states.append(step(states[-1], rng.integers(WORLD.num_actions, size=COPIES)))
    return State(*(np.stack(each) for each in zip(*states, strict=True)))


def test_what_trembles_has_not_moved(walks):
    changes = np.abs(np.diff(walks.qpos, axis=0))
    assert (changes > FEATURES[0].resolution).any(axis=(0, 1)).all()
    assert max(resolution_seen(changes[:, :, i]) for i in range(6)) <= FEATURES[0].resolution


def test_everything_stays_on_the_table(walks):
    low, high = (np.array([getattr(each, end) for each in FEATURES]) for end in ("low", "high"))
    beyond = np.maximum(low - walks.qpos, walks.qpos - high)
    assert beyond.max() < 0.05  # m: what is pressed gives way
    features = jax.vmap(jax.vmap(WORLD.features))(walks)
    assert ((low <= features + 1e-6) & (features <= high + 1e-6)).all()


def test_discs_start_apart_and_never_pass_through_each_other(walks):
    hand, red, blue = np.moveaxis(walks.qpos.reshape(STEPS + 1, COPIES, 3, 2), 2, 0)
    for one, other, touching in ((hand, red, 0.115), (hand, blue, 0.115), (red, blue, 0.12)):
        distance = np.linalg.norm(one - other, axis=-1)
        assert distance[0].min() > touching
        assert distance.min() > touching / 2


@pytest.mark.parametrize(("action", "direction"), [(LEFT, (-1, 0)), (RIGHT, (1, 0)), (DOWN, (0, -1)), (UP, (0, 1))])
def test_the_hand_pushes_what_it_runs_into_ahead_of_it(push, action, direction):
    way = np.array(direction)
    red, blue = np.array([0.5, 0.5]), np.array([0.75, 0.75])
    after = push(red - 0.2 * way, red, blue, actions=[action] * 4 + [STAY] * 2)
    assert 0.1 < (after[1] - red) @ way < 0.3
    assert np.abs((after[1] - red) @ way[::-1]) < 0.01
    assert np.array_equal(after[2], blue.astype(np.float32))


def test_a_push_leads_even_a_puck_that_is_hit_askew(push):
    after = push((0.2, 0.53), (0.4, 0.5), (0.75, 0.75), actions=[RIGHT] * 5)
    assert after[1, 0] > 0.55
    assert abs(after[1, 1] - 0.5) < 0.05


def test_a_puck_comes_to_rest_soon(push):
    actions = [RIGHT] * 3
    places = [push((0.2, 0.5), (0.4, 0.5), (0.75, 0.75), actions=actions + [STAY] * n)[1, 0] for n in (0, 3, 4)]
    assert places[1] - places[0] < 0.06
    assert places[2] - places[1] < FEATURES[2].resolution


def test_a_puck_in_a_corner_can_be_fetched_back(push):
    corner = (0.82, 0.82)
    below = push((1.0, 1.0), corner, (0.3, 0.3), actions=[LEFT, LEFT, STAY, *[DOWN] * 6])
    aside = push((1.0, 1.0), corner, (0.3, 0.3), actions=[DOWN, DOWN, STAY, *[LEFT] * 6])
    assert below[1, 1] < 0.5
    assert aside[1, 0] < 0.5


def test_the_same_push_leads_to_the_same_place(step, walks):
    state, actions = State(*(part[100] for part in walks)), np.arange(COPIES) % WORLD.num_actions
    assert np.array_equal(step(state, actions).qpos, step(state, actions).qpos)


def test_the_network_sees_velocities_that_are_no_features(walks):
    obs = np.concatenate(walks, axis=-1)[50]
    moving, resting = (jax.vmap(WORLD.inputs)(each) for each in (obs, np.where(np.arange(12) < 6, obs, 0)))
    assert np.abs(moving).max() < 1.5
    assert np.abs(moving - resting)[:, :2].max() > 0.5


def test_goals_are_spoken_of_the_pucks():
    assert str(cumulant.parse("red left and blue top right", FEATURES)) == "red left and blue top right"
    assert WORLD.num_actions == len(WORLD.action_names) == 9


def test_it_comes_back_from_what_a_folder_holds():
    other = Pusher(max_steps=30, speed=0.5)
    assert shipped.restore(shipped.describe(other)) == other


def test_a_hand_that_jumps_over_pucks_is_refused():
    with pytest.raises(ValueError, match=r"up to 2\.0 m/s, but is 5"):
        Pusher(speed=5)


def test_it_can_be_drawn():
    state = State(jnp.array([0.0, 0.0, 0.5, 0.5, 0.8, 0.2]), jnp.zeros(6))
    frame = np.asarray(cumulant.render(WORLD, state, size=110))
    assert frame.shape == (110, 110, 3)
    assert np.array_equal(frame[55, 55], [213, 94, 0])  # red in the middle
    assert np.array_equal(frame[110 - 25, 85], [0, 114, 178])  # blue at the bottom right
    assert (frame[-10:, :10] == 255).all(axis=-1).any()  # the hand
