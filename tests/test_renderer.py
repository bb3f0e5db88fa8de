from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cumulant.goals.language import parse, parse_plan
from cumulant.worlds.episodes import play_many, random_policy
from cumulant.worlds.films import film_of
from cumulant.worlds.markings import marked, stages_of, ticked, zones_of
from cumulant.worlds.renderer import LOOKS, default_look, draw
from cumulant.worlds.shapes import SHAPES
from cumulant.worlds.spriteworld import Spriteworld, State


def scene(agent, *objects):
    return State(jnp.array(agent, jnp.float32), jnp.array(objects, jnp.float32))


def colour(array):
    return np.round(255 * np.asarray(array)).astype(int)


def test_the_sprite_that_a_drag_takes_is_the_one_seen():
    world = Spriteworld()
    look = default_look(world)
    frame = np.asarray(draw(world, scene((0.1, 0.1), (0.5, 0.5), (0.5, 0.5)), 64))
    np.testing.assert_array_equal(frame[32, 32], colour(look.objects[0]))  # the square, above the circle
    reversed_world = Spriteworld(("circle", "square"))
    frame = np.asarray(draw(reversed_world, scene((0.1, 0.1), (0.5, 0.5), (0.5, 0.5)), 64))
    np.testing.assert_array_equal(frame[32, 32], colour(default_look(reversed_world).objects[0]))


def test_up_is_up_and_right_is_right():
    world = Spriteworld(("square",))
    frame = np.asarray(draw(world, scene((0.5, 0.5), (0.8, 0.9)), 100)).astype(int)
    np.testing.assert_array_equal(frame[10, 80], colour(default_look(world).objects[0]))
    np.testing.assert_array_equal(frame[90, 20], colour(default_look(world).background))


@pytest.mark.parametrize("shape", SHAPES)
def test_brightness_moves_smoothly_with_the_sprite(shape):
    """Anti-aliasing: a shift of a hundredth of a pixel changes a frame a little, and conserves what is painted."""
    world = Spriteworld((shape,))
    sums = []
    for shift in np.linspace(0, 1 / 64, 9):
        frame = np.asarray(draw(world, scene((0.9, 0.1), (0.4 + shift, 0.5)), 64)).astype(float)
        sums.append(np.abs(frame - colour(default_look(world).background)).sum())
    assert np.ptp(sums) / np.mean(sums) < 0.04


@pytest.mark.parametrize("size", [16, 64, 200])
def test_any_size_paints_the_same_area(size):
    world = Spriteworld(("square",))
    frame = np.asarray(draw(world, scene((0.9, 0.1), (0.4, 0.5)), size)).astype(float)
    assert frame.shape == (size, size, 3)
    contrast = np.abs(colour(default_look(world).objects[0]) - colour(default_look(world).background)).sum()
    painted = np.abs(frame - colour(default_look(world).background))[:, : int(0.7 * size)].sum() / contrast / size**2
    assert abs(painted - 0.04) < 0.002  # a square of side 0.2


def test_every_pair_of_sprites_differs_in_colour_and_from_the_agent():
    look = default_look(Spriteworld(SHAPES))
    colours = np.stack([look.background, look.agent, *look.objects])
    distances = np.abs(colours[:, None] - colours[None]).sum(-1) + 9 * np.eye(len(colours))
    assert distances.min() > 0.25


def test_other_looks_and_textures():
    world = Spriteworld(("square",))
    texture = np.random.default_rng(0).random((64, 64, 3), np.float32)
    frame = draw(world, scene((0.9, 0.1), (0.4, 0.5)), 64, default_look(world)._replace(background=texture))
    np.testing.assert_array_equal(np.asarray(frame)[0], colour(texture[0]))


@pytest.mark.parametrize("name", LOOKS)
def test_every_look_can_be_had_inside_a_compiled_program(name):
    world, look = Spriteworld(), LOOKS[name]
    state = world.reset(jax.random.key(1))
    frame = np.asarray(jax.jit(lambda state: draw(world, state, 16, look(world, 16)))(state)).astype(int)
    plain, alone = (np.asarray(draw(world, state, 16, each)).astype(int) for each in (None, look(world, 16)))
    assert np.abs(frame - alone).max() <= 1  # compiled and interpreted arithmetic may round apart
    assert (np.abs(frame - plain).max() > 5) == (name != "plain")


def test_batches_render_as_single_frames_do():
    world = Spriteworld(SHAPES)
    states = jax.vmap(world.reset)(jax.random.split(jax.random.key(0), 8))
    batch = np.asarray(jax.jit(jax.vmap(partial(draw, world)))(states)).astype(int)
    single = np.asarray(draw(world, jax.tree.map(lambda leaf: leaf[3], states))).astype(int)
    assert np.abs(batch[3] - single).max() <= 1  # compiled and interpreted arithmetic may round apart


def test_a_film_shows_where_sprites_are_to_be_and_where_they_are():
    world, goal = Spriteworld(), parse("square left")
    place = np.array([[0.9, 0.1, 0.5, 0.5, 0.8, 0.8]], np.float32)  # the agent's, the square's and the circle's
    frame = np.asarray(draw(world, world.state_of(jnp.asarray(place[0])), 96))
    (shown,) = marked(world, frame[None], place, goal)
    changed = (shown != frame).any(axis=2)
    assert changed[2:30, 2:30].all()  # the left third
    assert not changed[40:60, 68:92].any()  # elsewhere nothing but lines and dots
    for x, y in place.reshape(-1, 2):
        assert (shown[int((1 - y) * 96), int(x * 96)] == 255).all()


def test_of_a_plan_the_stage_pursued_is_shown():
    plan = parse_plan("square left then agent top", Spriteworld().feature_names)
    places = np.array([[0.5, 0.1, 0.5, 0.5, 0.5, 0.5], [0.2, 0.1, 0.2, 0.5, 0.5, 0.5], [0.2, 0.9, 0.2, 0.5, 0.5, 0.5]])
    assert stages_of(plan, places) == [0, 1, 1]


def test_what_is_done_so_far_is_ticked_off():
    plan = parse_plan("square left then agent top", Spriteworld().feature_names)
    places = np.array([[0.5, 0.1, 0.5, 0.5, 0.5, 0.5], [0.2, 0.1, 0.2, 0.5, 0.5, 0.5], [0.2, 0.9, 0.8, 0.5, 0.5, 0.5]])
    assert [[done for _, done in moment] for moment in ticked(plan, places)] == [[False] * 2, [True, False], [True] * 2]
    either = ticked(
        parse("circle top left or (agent top and square x 3/3)"), places
    )  # the way that was gone in the end
    assert [dict(moment) for moment in either] == [
        {"agent top": False, "square right": False},
        {"agent top": False, "square right": False},
        {"agent top": True, "square right": True},
    ]


def test_an_episode_worth_watching_takes_some_steps_and_not_too_many():
    goal, world = parse("agent left"), Spriteworld(max_steps=12)
    keys = jax.random.split(jax.random.key(0), 12)
    episodes = play_many(world, random_policy(world), goal, keys)
    episodes = episodes._replace(steps=jnp.array([1, 12, 5, *[9] * 9]), success=jnp.array([True, False, *[True] * 10]))
    assert len(film_of(world, "", episodes, goal, least=4).frames) == 6
    assert len(film_of(world, "", episodes, goal, least=7).frames) == 10
    assert len(film_of(world, "", episodes, goal).frames) == 2


def test_zones_of_alternatives_are_those_of_what_each_binds():
    agent, square, circle = zones_of(parse("square left or square top or circle right"))
    assert agent is None
    assert square.sum() == 5
    assert circle.sum() == 3
