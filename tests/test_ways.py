"""Ways around what is to be avoided, and the oracle that goes by them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cumulant.goals.language import parse, parse_plan
from cumulant.goals.plans import tables_of
from cumulant.goals.suites import plans
from cumulant.worlds.episodes import endings, play_many, rollout, tracker_of
from cumulant.worlds.oracle import oracle_policy
from cumulant.worlds.spriteworld import Spriteworld, State
from cumulant.worlds.ways import Bounds, barred, lattice, lies, way_to_carry, way_to_walk

WORLD = Spriteworld()
ANYTHING = jnp.ones((1, 6, 3), bool)


def bounds(phrase):
    return Bounds(jnp.asarray(parse(phrase).table()), ANYTHING)


def walk(limits, agent, place, objects=((0.9, 0.9), (0.9, 0.1))):
    state = State(jnp.array(agent), jnp.array(objects))
    grid = lattice(WORLD, state.agent)
    allowed = jnp.asarray(parse(place).table())[:, :2]
    return way_to_walk(limits, state, grid, lies(allowed, grid.along), jnp.ones((len(grid.along[0]),) * 2, bool))


def test_a_lattice_has_the_agent_in_it_and_reaches_every_wall():
    for agent in ([0.0, 1.0], [0.5, 0.05], [0.123, 0.987]):
        grid = lattice(WORLD, jnp.array(agent))
        np.testing.assert_allclose(grid.points[tuple(grid.here)], agent, atol=1e-6)
        np.testing.assert_allclose([grid.along.min(axis=1), grid.along.max(axis=1)], [[0, 0], [1, 1]], atol=1e-6)


def test_a_way_goes_around_a_cell_but_not_through_a_third():
    assert int(walk(bounds("circle left"), (0.1, 0.5), "agent middle right").action) == 3  # straight on
    around = walk(bounds("agent middle centre"), (0.29, 0.6), "agent middle right")
    assert around.found
    assert int(around.action) % 4 == 0  # above it, which is nearer than below
    assert not walk(bounds("agent centre"), (0.29, 0.6), "agent middle right").found


def test_who_begins_inside_may_stay_but_not_come_back():
    limits = bounds("agent left")
    assert walk(limits, (0.1, 0.1), "agent top left").found
    assert not walk(limits, (0.5, 0.1), "agent top left").found
    state = State(jnp.array([0.35, 0.5]), jnp.full((2, 2), 0.9))
    assert np.flatnonzero(barred(WORLD, limits, state)).tolist() == [2, 6]
    assert not barred(WORLD, limits, state._replace(agent=jnp.array([0.2, 0.5]))).any()


def test_a_load_is_carried_by_a_grip_that_stays_outside():
    """The agent may not be at the bottom, but the square has to: it is held at its upper edge."""
    limits, square = bounds("agent bottom"), jnp.array([True, False])
    objects = jnp.array([[0.5, 0.5], [0.9, 0.9]])
    allowed = jnp.asarray(parse("square bottom").table())[:, 2:4]
    for dy, found in ((0.08, True), (-0.08, False)):
        state = State(objects[0] + jnp.array([0.0, dy]), objects)
        carry = way_to_carry(limits, state, square, lattice(WORLD, state.agent), allowed)
        assert bool(carry.found) == found


@pytest.mark.parametrize(
    "phrase",
    [
        "agent middle right without agent middle centre",
        "square right without square centre and square middle",
        "circle bottom without agent bottom",  # handed over the edge
        "keep circle middle centre then square bottom right without agent bottom centre",
    ],
)
def test_the_oracle_goes_around(phrase):
    table = parse_plan(phrase).table()
    spots = jnp.array([(0.1, 0.5), (0.08, 0.52), (0.5, 0.9), (0.62, 0.95), (0.45, 0.71)])
    starts = [State(spots[i], jnp.stack([spots[j], spots[k]])) for i, j, k in ((0, 1, 2), (2, 4, 3), (3, 0, 4))]

    @jax.jit
    def episode(start):
        return rollout(WORLD, oracle_policy(WORLD, table), tracker_of(WORLD, table), start, jax.random.key(0))

    for start in starts:
        played = episode(start)
        assert played.success
        assert not played.progress.violated


def test_every_plan_can_be_fulfilled_and_the_oracle_never_breaks_one():
    drawn = plans(WORLD.feature_names, 2, seed=21)
    everything = [plan for group in drawn.values() for plan in group]
    tables = tables_of(everything)
    keys = jax.random.split(jax.random.key(3), (len(everything), 8))
    success, _, violated = jax.device_get(endings(WORLD, oracle_policy, tables, tables, keys))
    assert not violated.any()
    assert success.any(axis=1).all()
    rates = dict(zip(drawn, success.reshape(len(drawn), -1).mean(axis=1), strict=True))
    assert min(rates[name] for name in ("then", "keep", "without")) > 0.98
    assert rates["without_agent"] > 0.8


def test_endings_are_those_of_the_whole_episodes():
    plan = parse_plan("agent left then square top without agent right")
    table = tables_of([plan])
    keys = jax.random.split(jax.random.key(5), (1, 12))
    success, steps, violated = endings(WORLD, oracle_policy, table, table, keys)
    one = plan.table()
    played = jax.jit(lambda keys: play_many(WORLD, oracle_policy(WORLD, one), tracker_of(WORLD, one), keys))(keys[0])
    np.testing.assert_array_equal(success[0], played.success)
    np.testing.assert_array_equal(steps[0], played.steps)
    np.testing.assert_array_equal(violated[0], played.progress.violated)
