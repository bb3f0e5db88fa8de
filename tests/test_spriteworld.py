from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import unit, worlds
from hypothesis import assume, given
from hypothesis import strategies as st

from cumulant.worlds.shapes import SHAPES, signed_distance
from cumulant.worlds.spriteworld import ACTIONS, Spriteworld, State

HEADINGS = np.array([(0, 1), (0, -1), (-1, 0), (1, 0)])
GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.npz"))


@cache
def compiled_step(world):
    return jax.jit(world.step)


@st.composite
def situations(draw):
    """A world, a state in it with the agent often upon an object, and an action."""
    world = draw(worlds)
    objects = np.array(draw(st.lists(st.tuples(unit, unit), min_size=len(world.objects), max_size=len(world.objects))))
    agent = np.array(draw(st.tuples(unit, unit)))
    if draw(st.booleans()):
        agent = objects[draw(st.integers(0, len(objects) - 1))] + 0.3 * world.half_extent * (agent - 0.5)
    state = State(jnp.float32(np.clip(agent, 0, 1)), jnp.float32(objects))
    return world, state, draw(st.integers(0, 7))


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_moves_and_full_carries_agree_with_the_original_at_every_step(path):
    data = np.load(path)
    world = Spriteworld(tuple(data["objects"].tolist()), step_size=float(data["step_size"]), drag_ratio=1.0)

    def follow(start, actions):
        def step(state, action):
            state = world.step(state, action)
            return state, world.observe(state)

        return jax.lax.scan(step, State(start[0], start[1:]), actions)[1]

    recorded = data["positions"]
    ours = jax.jit(jax.vmap(follow))(jnp.float32(recorded[:, 0]), jnp.int32(data["actions"]))
    theirs = recorded[:, 1:].reshape(ours.shape)
    assert np.abs(np.asarray(ours) - theirs).max() < 1e-6
    assert (np.diff(recorded[:, :, 1:], axis=1) != 0).any(axis=(2, 3)).mean() > 0.1  # carries are among them


def test_golden_scenes_are_there():
    assert len(GOLDEN) == 2


@given(situations())
def test_only_the_topmost_object_under_the_agent_is_dragged(situation):
    world, state, action = situation
    after = compiled_step(world)(state, jnp.int32(action))
    moved = np.flatnonzero((np.asarray(after.objects) != np.asarray(state.objects)).any(axis=1))
    offsets = (np.asarray(state.agent) - np.asarray(state.objects)) / world.half_extent
    distances = [float(signed_distance(s, *jnp.float32(o))) for s, o in zip(world.objects, offsets, strict=True)]
    assume(min(abs(d) for d in distances) > 1e-5)  # on the very edge, rounding decides
    under = [i for i, d in enumerate(distances) if d < 0]
    may_move = under[:1] if action >= 4 else []
    assert set(moved) <= set(may_move)
    if may_move and (np.asarray(after.agent) != np.asarray(state.agent)).any():
        shift = np.asarray(after.agent) - np.asarray(state.agent)
        expected = np.clip(np.asarray(state.objects)[may_move[0]] + shift, 0, 1)
        np.testing.assert_allclose(np.asarray(after.objects)[may_move[0]], expected, atol=1e-6)


@given(situations())
def test_nothing_leaves_the_arena(situation):
    world, state, action = situation
    obs = np.asarray(world.observe(compiled_step(world)(state, jnp.int32(action))))
    assert ((obs >= 0) & (obs <= 1)).all()


@given(situations())
def test_a_drag_is_half_a_move_and_both_go_where_they_say(situation):
    world, state, action = situation
    for kind, share in ((action % 4, 1.0), (action % 4 + 4, 0.5)):
        after = compiled_step(world)(state, jnp.int32(kind))
        expected = np.clip(np.asarray(state.agent) + share * world.step_size * HEADINGS[kind % 4], 0, 1)
        np.testing.assert_allclose(np.asarray(after.agent), expected, atol=1e-6)
        assert ACTIONS[kind].endswith(["up", "down", "left", "right"][kind % 4])


def test_the_square_lies_above_the_circle():
    world = Spriteworld()
    state = State(jnp.array([0.5, 0.5]), jnp.array([[0.5, 0.5], [0.5, 0.5]]))
    after = world.step(state, jnp.int32(7))
    np.testing.assert_allclose(after.objects, [[0.55, 0.5], [0.5, 0.5]], atol=1e-6)


def test_an_object_moves_by_what_the_agent_really_moved():
    world = Spriteworld()
    state = State(jnp.array([0.98, 0.5]), jnp.array([[0.92, 0.5], [0.1, 0.1]]))
    after = world.step(state, jnp.int32(7))
    np.testing.assert_allclose(after.agent, [1.0, 0.5], atol=1e-6)
    np.testing.assert_allclose(after.objects[0], [0.94, 0.5], atol=1e-6)


def test_starts_depend_on_the_key_alone_and_fill_the_arena():
    world = Spriteworld()
    keys = jax.random.split(jax.random.key(0), 2000)
    obs = jax.vmap(lambda key: world.observe(world.reset(key)))(keys)
    np.testing.assert_array_equal(obs, jax.vmap(lambda key: world.observe(world.reset(key)))(keys))
    np.testing.assert_allclose(obs.mean(axis=0), 0.5, atol=0.03)
    np.testing.assert_allclose(obs.var(axis=0), 1 / 12, atol=0.01)


@given(situations())
def test_a_state_can_be_read_off_its_observation(situation):
    world, state, _ = situation
    back = world.state_of(world.observe(state))
    assert all(np.array_equal(a, b) for a, b in zip(back, state, strict=True))


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_fits_its_extent_and_holds_its_centre(shape):
    axis = jnp.linspace(-1.5, 1.5, 301)
    inside = np.asarray(signed_distance(shape, axis[None, :], axis[:, None]) < 0)
    reach = np.abs(np.asarray(axis)[np.argwhere(inside)]).max()
    assert 0.97 <= reach <= 1.0
    assert inside[150, 150]
    core = np.hypot(axis[None, :], axis[:, None]) < 0.38
    assert inside[core].all()  # wide enough for the grid of half-steps, so that everything can be gripped


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"objects": ()}, "1 to 8 objects"),
        ({"objects": ("square", "blob")}, "unknown object 'blob'"),
        ({"objects": ("square", "square")}, "appear once"),
        ({"step_size": 0.0}, "step_size"),
        ({"max_steps": 0}, "max_steps"),
    ],
)
def test_impossible_worlds_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        Spriteworld(**parameters)
