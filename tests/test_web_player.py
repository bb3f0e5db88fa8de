"""The player behind the page: goals on any grid, in any world, by few programs; films; and worlds that fail."""

import contextlib
import io
import threading
from dataclasses import replace

import httpx
import jax
import jax.monitoring
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import cumulant
from cumulant.features.grounding import Grounding
from cumulant.goals.feature import described
from cumulant.goals.tasks import MAX_CLAUSES, Task, goal_table, reached
from cumulant.goals.weights import weights
from cumulant.web.examples import examples_for
from cumulant.web.player import NotForThePage, Player
from cumulant.web.server import create_app
from other_worlds import Crane, Unlit, crane, crane_library, room_library
from web_server import PHRASE, PLAN, ROOM_PLAN, UP_AND_DOWN, player_in, serving

AND_ROOM = "lamp on and temperature warm"


@contextlib.contextmanager
def nothing_compiled():
    """Fail if a program is compiled meanwhile."""
    told = []

    def listen(name, *_, **__):
        told.append(name)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield
    jax.monitoring.unregister_event_duration_listener(listen)
    assert not [name for name in told if "backend_compile" in name]


def test_long_episodes_show_some_moments_and_the_last(player):
    places = np.linspace(0, 1, 251, dtype=np.float32)[:, None] * np.ones(6, np.float32)
    aim, states = player.aim("agent left"), jax.device_get(jax.vmap(player.arena.state_of)(places))
    episode = player.episode(aim, 3, None, "committed")._replace(positions=places, states=states)
    with Image.open(io.BytesIO(player.film("long", aim.plan, episode))) as film:
        assert film.n_frames == 84  # of steps 1, 4, ..., 250
    lifted = player_in("crane")
    episode = lifted.episode(lifted.aim("load up then load down then load up"), 0, None, "random")
    assert len(episode.positions) > 20
    frames = lifted.frames(episode, 10)
    assert len(frames.pictures) <= 10
    assert frames.first + frames.every * (len(frames.pictures) - 1) == len(episode.positions) - 1


_REACHED = jax.jit(jax.vmap(reached, (None, 0)))


@pytest.mark.parametrize("bins", [1, 2, 3, 7, 10, 49, 98, 99])
@settings(max_examples=10)
@given(data=st.data())
def test_goal_on_any_grid_is_its_own(bins, data):
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


@pytest.mark.parametrize("bins", [3, 7, 99])
def test_weights_on_any_grid_are_their_own(bins, player):
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


def test_other_goals_on_any_grid_compile_nothing(client, player):
    many = " or ".join(f"square x {i}/9 and circle y {10 - i}/9" for i in range(1, 10))
    for phrase in (PHRASE, many, PLAN):
        client.post("/api/episode", json={"phrase": phrase, "start": [0.9] * 6})  # outside of all
    client.post("/api/episode", json={"phrase": PHRASE, "method": "oracle"})
    player.teach(player.library.task(PHRASE), 0)
    odd = " or ".join(f"square {x} {y}" for x in ("left", "right") for y in ("top", "bottom"))
    with nothing_compiled():
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


@pytest.mark.parametrize(
    ("world", "cases"),
    [
        ("crane", {"load up": "not load half", UP_AND_DOWN: "load half then load down then load up"}),
        ("room", {AND_ROOM: "blind 3/7 or volume above 4.5", ROOM_PLAN: ROOM_PLAN.removeprefix("keep ")}),
    ],
)
def test_other_goals_in_other_worlds_compile_nothing(world, cases):
    player = player_in(world)

    def watch(phrase, first_seed):
        for seed in range(4):  # some of which do not begin in the goal
            player.episode(player.aim(phrase), seed, None, "committed")
        player.outcomes(player.aim(phrase), first_seed, "committed")

    for phrase in cases:
        watch(phrase, 0)
    with nothing_compiled():
        for phrase in cases.values():
            watch(phrase, 7)


@pytest.mark.parametrize(
    "names", [cumulant.Room.feature_names, ("dial",), ("hand_x", "hand_y"), ("joint_0", "joint_1", "gripper_open")]
)
def test_examples_are_in_a_worlds_own_words(names):
    found = examples_for(names)
    assert len(found) >= 4
    for phrase in found:
        assert cumulant.parse_plan(phrase, names)
    assert any(" then " in phrase for phrase in found)
    assert examples_for(cumulant.Spriteworld().feature_names)[0] == PHRASE
    assert examples_for(cumulant.Spriteworld(("star",)).feature_names)[1] == "star left"


def test_episodes_at_once_leave_each_other_alone():
    lifted = player_in("crane")
    aim, found = lifted.aim(UP_AND_DOWN), {}

    def watch(seed):
        found[seed] = lifted.episode(aim, seed, None, "committed").actions.tolist()

    threads = [threading.Thread(target=watch, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {seed: lifted.episode(aim, seed, None, "committed").actions.tolist() for seed in range(8)}


class Stuck(Crane):
    """A crane that breaks."""

    def step(self, action):
        raise RuntimeError("the cable has snapped")


def test_failing_environment_is_told_in_one_line():
    player = Player(replace(crane_library(), world=crane(Stuck)))
    with serving(create_app(player, warm_up=False)) as address:
        for method in ("committed", "random"):
            request = {"phrase": UP_AND_DOWN, "method": method}
            answer = httpx.post(f"http://{address}/api/episode", json=request, timeout=60)
            assert answer.status_code == 500
            assert "Stuck raised RuntimeError: the cable has snapped" in answer.json()["message"]


def test_world_that_cannot_be_drawn_has_bars_alone():
    assert not Player(replace(crane_library(), world=crane(Unlit))).draws


def test_world_that_words_cannot_name_is_refused():
    library = room_library()
    names = tuple(replace(each, words=("on", "on")) for each in described(library.world.feature_names))
    renamed = type("Renamed", (type(library.world),), {"feature_names": names})()
    with pytest.raises(NotForThePage, match="no phrase can tell the regions"):
        Player(replace(library, world=renamed))


def test_every_program_is_warmed_up():
    assert all(work() is not None for work in player_in("room").warm_ups())
