"""The player behind the page: plans, goals on any grid, films; and how few programs serve all of them."""

import io

import jax
import jax.monitoring
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from cumulant.features.grounding import Grounding
from cumulant.goals.tasks import MAX_CLAUSES, Task, goal_table, reached
from cumulant.goals.weights import weights
from web_server import PHRASE, PLAN


def test_of_a_long_episode_the_film_shows_some_steps_and_the_last(player):
    places = np.linspace(0, 1, 251, dtype=np.float32)[:, None] * np.ones(6, np.float32)
    aim, states = player.aim("agent left"), jax.device_get(jax.vmap(player.arena.state_of)(places))
    episode = player.episode(aim, 3, None, "committed")._replace(positions=places, states=states)
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
    any_grid = jax.tree.map(lambda leaf: leaf[0, ...], goal_table([task], MAX_CLAUSES))
    edges = st.integers(0, bins).map(lambda i: i / bins)  # where rounding could matter
    near = st.tuples(edges, st.sampled_from([-2, -1, 0, 1, 2])).map(lambda x: x[0] * (1 + x[1] * 2**-23))
    places = st.tuples(*[st.floats(0, 1, width=32) | near] * 2)
    f = np.clip(np.array(data.draw(st.lists(places, min_size=20, max_size=20)), np.float32), 0, 1)
    own = _REACHED(jnp.asarray(task.table(MAX_CLAUSES)), f)
    np.testing.assert_array_equal(_REACHED(any_grid, f), own)


_REACHED = jax.jit(jax.vmap(reached, (None, 0)))


@pytest.mark.parametrize("bins", [3, 7, 99])
def test_weights_on_any_grid_are_those_on_its_own(bins, player):
    rng = np.random.default_rng(bins)
    names = player.world.feature_names
    task = Task(
        names, tuple(tuple(int(x) for x in rng.integers(1, 2 ** min(bins, 62), len(names))) for _ in range(3)), bins
    )
    grounding = Grounding(jnp.arange(6)[::-1], jnp.linspace(0, 1, 4) ** 2 * jnp.ones((6, 1)), 8)
    any_grid = jax.tree.map(lambda leaf: jnp.asarray(leaf[0, ...]), goal_table([task], 8))
    for mean in (weights, grounding.weights):
        ours = mean(any_grid, 3)
        np.testing.assert_allclose(ours[: len(task.clauses)], mean(jnp.asarray(task.table()), 3), atol=1e-6)
        assert (np.asarray(ours)[len(task.clauses) :] == -1).all()


def test_other_goals_on_any_grid_compile_nothing_new(client, player):
    many = " or ".join(f"square x {i}/9 and circle y {10 - i}/9" for i in range(1, 10))
    for phrase in (PHRASE, many, PLAN):
        client.post("/api/episode", json={"phrase": phrase, "start": [0.9] * 6})  # outside of all
    client.post("/api/episode", json={"phrase": PHRASE, "method": "oracle"})
    player.teach(player.library.task(PHRASE), 0)
    told = []
    jax.monitoring.register_event_duration_secs_listener(lambda name, *_, **__: told.append(name))
    odd = " or ".join(f"square {x} {y}" for x in ("left", "right") for y in ("top", "bottom"))
    for phrase in (f"({odd}) and agent left", "not (square left or circle top)", many.replace("circle", "agent")):
        assert client.post("/api/episode", json={"phrase": phrase, "seed": 1}).status_code == 200
    for bins in (1, 2, 7, 18, 63, 72, 80, 99):
        aim = player.aim(f"square x {bins}/{bins} or circle y 1/{bins}")
        player.episode(aim, bins, None, "committed")
        if bins == 80:
            player.teach(aim.task, 0)
        if bins < 10:
            player.episode(aim, bins, None, "oracle")
        if bins % 9 == 0:
            stages = [f"square x {i + 1}/{bins}" for i in range(bins // 9 % 8)]
            heed = f" without circle y 1/{bins}" if bins % 2 else ""
            plan = player.aim(" then ".join([*stages, f"agent x {bins}/{bins}"]) + heed)
            player.episode(plan, bins, None, "committed")
    assert not [name for name in told if "backend_compile" in name]
