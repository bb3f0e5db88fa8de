"""The player behind the page: plans, goals on any grid, films; and how few programs serve all of them."""

import contextlib
import io

import equinox as eqx
import jax
import jax.monitoring
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from cumulant.features.grounding import Grounding
from cumulant.goals.language import parse_plan
from cumulant.goals.plans import begin, follow
from cumulant.goals.tasks import MAX_CLAUSES, Task, met, reached
from cumulant.goals.weights import weights
from cumulant.web import compiled, courses, grids
from cumulant.worlds.shipped import oracle_of
from web_server import PHRASE, PLAN


@pytest.mark.parametrize("phrase", [PLAN, "agent x 2,3/7 then circle y 6/7 without agent y 1/7 then keep agent x 5/7"])
def test_a_plan_is_followed_as_in_compiled_programs(phrase):
    plan = parse_plan(phrase)
    table, ours, rng = plan.table(), courses.regions_of(plan), np.random.default_rng(0)
    walks = np.clip(rng.random((20, 1, 6)) + np.cumsum(rng.normal(0, 0.1, (20, 40, 6)), axis=1), 0, 1)
    walks = walks.astype(np.float32)

    def theirs(walk):
        first = begin(table, walk[0])
        return jax.lax.scan(lambda now, f: (follow(table, now, f),) * 2, first, walk[1:])[1]

    expected, broken = jax.jit(jax.vmap(theirs))(walks), set()
    for walk, stages, violated in zip(walks, expected.stage, expected.violated, strict=True):
        holding = ours.holding(walk)
        now = ours.begin(holding.at(0))
        for t, (stage, failed) in enumerate(zip(stages, violated, strict=True), 1):
            now = ours.follow(now, holding.at(t))
            assert (now.stage, bool(now.broken)) == (int(stage), bool(failed))
        broken.add(now.broken)
    assert broken >= {"", "entered"}


@pytest.mark.parametrize("grounded", [False, True])
def test_a_stage_is_felt_to_be_reached_as_gpi_feels_it(grounded):
    plan = parse_plan("agent x 2/7 and circle y 1,2/7 then agent x 6/7")
    grounding = Grounding(jnp.arange(6)[::-1], jnp.linspace(0, 1, 4) ** 2 * jnp.ones((6, 1)), 8) if grounded else None
    mean = eqx.filter_jit(grounding.weights if grounding else weights)
    for goal in plan.goals:
        felt = courses.as_felt(goal, 3, grounding)
        exact = np.asarray(mean(goal.table(), 168 if grounded else 21))  # as `Library.guides_of` has it
        np.testing.assert_array_equal(felt, exact >= exact.max(axis=-1, keepdims=True) / 2)


def test_of_a_long_episode_the_film_shows_some_steps_and_the_last(player):
    places = np.linspace(0, 1, 251, dtype=np.float32)[:, None] * np.ones(6, np.float32)
    aim = player.aim("agent left")
    episode = player.episode(aim, 3, None, "committed")._replace(positions=places)
    with Image.open(io.BytesIO(player.film("long", aim.plan, episode))) as film:
        assert film.n_frames == 84  # of steps 1, 4, ..., 250


@pytest.mark.parametrize("bins", [1, 2, 3, 7, 10, 49, 98, 99])
@settings(max_examples=10)
@given(data=st.data())
def test_a_goal_on_any_grid_is_the_goal_on_its_own_to_the_bit(bins, data):
    names = ("agent_x", "agent_y")
    masks = st.integers(1, 2**bins - 1)
    clauses = data.draw(st.lists(st.tuples(masks, masks), min_size=1, max_size=5))
    task = Task(names, tuple(clauses), bins)
    table = jnp.asarray(task.table(MAX_CLAUSES))
    edges = st.integers(0, bins).map(lambda i: i / bins)  # where rounding could matter
    near = st.tuples(edges, st.sampled_from([-2, -1, 0, 1, 2])).map(lambda x: x[0] * (1 + x[1] * 2**-23))
    places = st.tuples(*[st.floats(0, 1, width=32) | near] * 2)
    f = np.clip(np.array(data.draw(st.lists(places, min_size=20, max_size=20)), np.float32), 0, 1)
    np.testing.assert_array_equal(grids.met(np.asarray(table), f), _MET(table, f))
    np.testing.assert_array_equal(_REACHED_ON_ANY_GRID(grids.on_any_grid(task), f), _REACHED(table, f))


_MET = jax.jit(jax.vmap(met, (None, 0)))
_REACHED = jax.jit(jax.vmap(reached, (None, 0)))
_REACHED_ON_ANY_GRID = jax.jit(jax.vmap(grids.reached, (None, 0)))


@pytest.mark.parametrize("bins", [3, 7, 99])
def test_weights_on_any_grid_are_those_on_its_own(bins, player):
    rng = np.random.default_rng(bins)
    names = player.world.feature_names
    task = Task(
        names, tuple(tuple(int(x) for x in rng.integers(1, 2 ** min(bins, 62), len(names))) for _ in range(3)), bins
    )
    grounding = Grounding(jnp.arange(6)[::-1], jnp.linspace(0, 1, 4) ** 2 * jnp.ones((6, 1)), 8)
    for mean, known in ((weights, None), (grounding.weights, grounding)):
        ours = compiled.weights_of(grids.on_any_grid(task), 3, known)
        np.testing.assert_allclose(ours[: len(task.clauses)], mean(jnp.asarray(task.table()), 3), atol=1e-6)
        assert (np.asarray(ours)[len(task.clauses) :] == -1).all()


def test_other_goals_on_any_grid_compile_nothing_new(client, player):
    odd = "({}) and agent left".format(
        " or ".join(f"square {x} {y}" for x in ("left", "right") for y in ("top", "bottom"))
    )
    many = " or ".join(f"square x {i}/9 and circle y {10 - i}/9" for i in range(1, 10))
    for phrase in (PHRASE, many, PLAN):
        client.post("/api/episode", json={"phrase": phrase, "start": [0.9] * 6})  # outside of all
    player.teach(player.library.task(PHRASE), 0)
    told = []
    jax.monitoring.register_event_duration_secs_listener(lambda name, *_, **__: told.append(name))
    for phrase in (odd, "circle bottom", "not (square left or circle top)", many.replace("circle", "agent")):
        assert client.post("/api/episode", json={"phrase": phrase, "seed": 1}).status_code == 200
    for bins in (1, 2, 7, 18, 63, 72, 80, 99):
        aim = player.aim(f"square x {bins}/{bins} or circle y 1/{bins}")
        player.episode(aim, bins, None, "committed")
        if bins == 80:
            player.teach(aim.task, 0)
        with contextlib.suppress(ValueError):  # too fine
            player.guides("oracle", aim)
        if bins % 9 == 0:
            stages = [f"square x {i + 1}/{bins}" for i in range(bins // 9 % 8)]
            heed = f" without circle y 1/{bins}" if bins % 2 else ""
            plan = player.aim(" then ".join([*stages, f"agent x {bins}/{bins}"]) + heed)
            player.episode(plan, bins, None, "committed")
    assert not [name for name in told if "backend_compile" in name]


def test_the_oracle_needs_few_programs_and_acts_as_on_the_goals_own_grid(player):
    aims = [player.aim(f"square x 1/{bins}") for bins in range(1, 11)]
    assert {player.guides("oracle", aim)[0].shape[-1] for aim in aims} == {6, 7, 8, 9, 10}
    world, oracle = oracle_of(player.world)
    here = jax.vmap(lambda key: world.observe(world.reset(key)))(jax.random.split(jax.random.key(0), 50))

    def actions(policy):
        return jax.jit(jax.vmap(lambda obs: policy.act(policy.begin(obs), obs, jax.random.key(0))[1]))(here)

    own, ours = (
        oracle(world, jnp.asarray(table)) for table in (aims[2].task.table(), player.guides("oracle", aims[2])[0][0])
    )
    np.testing.assert_array_equal(actions(own), actions(ours))
