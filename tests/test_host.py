from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

import cumulant
from cumulant.goals.feature import Feature
from cumulant.goals.suites import coverage
from cumulant.worlds import films
from cumulant.worlds.failures import WorldFailed, plainly
from cumulant.worlds.host import _pool
from cumulant.worlds.primitives import primitives
from cumulant.worlds.protocol import advance, begin

STEP = 0.125  # exact in binary, so that the host and JAX agree to the last bit


class Dial(gymnasium.Env):
    """A dial that two actions turn; it may have a stop, where an episode ends, and a fault."""

    observation_space = spaces.Box(0, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, stop=2.0, fault=None, render_mode="rgb_array"):
        self.stop, self.fault, self.steps, self.render_mode = stop, fault, 0, render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.steps = np.float32(self.np_random.integers(9)) * np.float32(STEP), 0
        return self._shown(), {}

    def step(self, action):
        self.steps += 1
        if self.fault is not None and self.steps == 5:
            return self.fault()
        self.place = np.clip(self.place + np.float32(STEP * (2 * int(action) - 1)), 0, 1)
        return self._shown(), 0.0, bool(self.place >= self.stop), False, {}

    def render(self):
        return np.full((8, 8, 3), round(255 * float(self.place)), np.uint8)

    def _shown(self):
        return np.array([self.place], np.float32)


class Point(gymnasium.Env):
    """A point in the plane, pushed by a box of actions; shown as a dictionary."""

    observation_space = spaces.Dict({"where": spaces.Box(-1, 1, (2,)), "turn": spaces.Discrete(3, start=1)})
    action_space = spaces.Box(-0.5, 0.5, (2,), np.float32)

    def __init__(self, reach=1):
        self.reach = reach

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.where, self.turn = self.np_random.uniform(-1, 1, 2).astype(np.float32), 1
        return {"where": self.where, "turn": self.turn}, {}

    def step(self, action):
        self.where, self.turn = (
            np.clip(self.where + action, -self.reach, self.reach).astype(np.float32),
            self.turn % 3 + 1,
        )
        return {"where": self.where, "turn": self.turn}, 0.0, False, False, {}


class TwinState(NamedTuple):
    place: jax.Array


@dataclass(frozen=True)
class Twin:
    """The dial in JAX."""

    max_steps: int = 12
    num_actions: int = 2
    feature_names: tuple[str, ...] = ("dial",)

    def reset(self, key):
        return TwinState(jnp.zeros(1))  # replaced by the host's

    def step(self, state, action):
        return TwinState(jnp.clip(state.place + STEP * (2 * action - 1), 0, 1))

    def observe(self, state):
        return state.place

    def features(self, state):
        return state.place


def whole(obs):
    return obs


def place(obs):
    return (obs["where"] + 1) / 2


def dial(num_envs=8, max_steps=12, **about):
    return cumulant.HostWorld(partial(Dial, **about), whole, ("dial",), num_envs=num_envs, max_steps=max_steps)


def point(**about):
    actions = about.pop("actions", primitives(2, diagonal=(), scale=0.5))
    return cumulant.HostWorld(Point, place, ("hand_x", "hand_y"), actions=actions, max_steps=20, **about)


def keys(n, seed=0):
    return jax.random.split(jax.random.key(seed), n)


@pytest.fixture
def calls(monkeypatch):
    """What the host was asked to do: the function's name, and for how many."""
    found = []

    def listened(pool, name):
        inner = getattr(pool, name)

        def listening(self, first, *rest):
            found.append((name, len(first)))
            return inner(self, first, *rest)

        monkeypatch.setattr(pool, name, listening)

    pool = type(_pool(dial()))
    for name in ("reset", "restart", "step"):
        listened(pool, name)
    return found


def test_a_host_world_is_a_world_and_can_be_a_static_argument():
    assert isinstance(dial(), cumulant.World)
    make = partial(Dial)
    one, other = (cumulant.HostWorld(make, whole, ("dial",), max_steps=12) for _ in range(2))
    assert one == other
    assert hash(one) == hash(other)
    assert one.num_actions == 2


def test_an_episode_is_that_of_the_same_world_in_jax():
    world, twin = dial(), Twin()
    states = jax.jit(jax.vmap(world.reset))(keys(8))
    twins = TwinState(states.observation)
    both = jax.jit(lambda s, t, a: (jax.vmap(world.step)(s, a), jax.vmap(twin.step)(t, a)))
    assert len({float(x) for x in states.observation[:, 0]}) > 2
    for key in keys(12):
        states, twins = both(states, twins, jax.random.randint(key, (8,), 0, 2))
        np.testing.assert_array_equal(jax.vmap(world.observe)(states), jax.vmap(twin.observe)(twins))
        np.testing.assert_array_equal(jax.vmap(world.features)(states), jax.vmap(twin.features)(twins))


def test_the_same_key_gives_the_same_episodes():
    def walk(world, seed):
        actions = [1, 0, 0, 1, 1, 1]
        states, found = jax.vmap(world.reset)(keys(4, seed)), []
        for action in actions:
            states = jax.vmap(world.step)(states, jnp.full(4, action))
            found.append(states.observation)
        return np.stack(found)

    np.testing.assert_array_equal(walk(dial(), 3), walk(dial(num_envs=5), 3))
    assert not np.array_equal(walk(dial(), 3), walk(dial(), 4))


@pytest.mark.parametrize("program", ["plain", "nested", "looped"])
def test_a_batch_is_one_call_of_the_host(calls, program):
    world = dial(num_envs=12)
    if program == "plain":
        states = jax.jit(jax.vmap(world.reset))(keys(12))
        jax.block_until_ready(jax.jit(jax.vmap(world.step))(states, jnp.zeros(12, int)))
    elif program == "nested":
        states = jax.jit(jax.vmap(jax.vmap(world.reset)))(keys(12).reshape(3, 4))
        following = jax.jit(jax.vmap(jax.vmap(world.step)))(states, jnp.zeros((3, 4), int))
        assert following.observation.shape == (3, 4, 1)
        np.testing.assert_array_equal(following.observation, jnp.clip(states.observation - STEP, 0, 1))
    else:
        states = jax.vmap(world.reset)(keys(12))
        walk = jax.jit(jax.vmap(lambda s: jax.lax.scan(lambda s, a: (world.step(s, a), None), s, jnp.zeros(1, int))[0]))
        jax.block_until_ready(walk(states))
    jax.effects_barrier()
    assert calls == [("reset", 12), ("step", 12)]


def test_only_environments_whose_episode_ended_are_reset():
    world = dial(stop=0.99, max_steps=7)
    episodes = begin(world, jax.random.key(0), 8)
    go = jax.jit(lambda episodes, action, key: advance(world, episodes, action, key))
    ends = {"done": 0, "truncated": 0}
    for key in keys(30, 1):
        action = jax.random.randint(key, (8,), 0, 2)
        following, timestep = go(episodes, action, key)
        ended = np.asarray(timestep.ended)
        renewed = np.asarray(following.state.token[:, 1] != episodes.state.token[:, 1])
        np.testing.assert_array_equal(renewed, ended)
        np.testing.assert_array_equal(following.time == 0, ended)
        np.testing.assert_array_equal(timestep.done, timestep.final_obs[:, 0] >= 0.99)
        ends["done"] += int(timestep.done.sum())
        ends["truncated"] += int(timestep.truncated.sum())
        episodes = following
    assert all(ends.values())


def test_an_episode_that_is_over_stays_where_it_is():
    world = dial(stop=0.99)
    state = world.reset(jax.random.key(0))
    for _ in range(10):
        state = world.step(state, jnp.int32(1))
    assert bool(world.done(state))
    assert float(world.step(state, jnp.int32(0)).observation[0]) == 1.0


def test_a_state_can_be_stepped_once_and_only_while_it_lasts():
    world = dial(num_envs=2)
    first = world.reset(jax.random.key(0))
    jax.block_until_ready(world.step(first, jnp.int32(0)))
    with pytest.raises(WorldFailed, match="cannot be copied or turned back"), plainly():
        jax.block_until_ready(world.step(first, jnp.int32(0)))
    old = world.reset(jax.random.key(1))
    jax.block_until_ready(jax.vmap(world.reset)(keys(2)))
    with pytest.raises(WorldFailed, match="gone: its environment was needed"), plainly():
        jax.block_until_ready(world.step(old, jnp.int32(0)))
    with pytest.raises(WorldFailed, match="has 2 environments, and 3 episodes"), plainly():
        jax.block_until_ready(jax.vmap(world.reset)(keys(3)))
    state = world.reset(jax.random.key(1))
    with pytest.raises(WorldFailed, match="cannot be copied"), plainly():  # two futures of one state
        jax.block_until_ready(jax.vmap(world.step, (None, 0))(state, jnp.arange(2)))


def test_a_world_apart_leaves_the_episodes_of_the_first_alone():
    world = dial(num_envs=2)
    other = world.apart()
    assert other != world
    assert other.apart() != other
    assert world.described == other.described
    states = jax.vmap(world.reset)(keys(2))
    jax.block_until_ready(jax.vmap(other.reset)(keys(2, 1)))
    following = jax.vmap(world.step)(states, jnp.zeros(2, int))
    np.testing.assert_array_equal(following.observation, jnp.clip(states.observation - STEP, 0, 1))


def raises():
    raise ValueError("the dial is stuck\nand more that nobody wants to read")


FAULTS = {
    "raised ValueError: the dial is stuck": raises,
    "NaN": lambda: (np.array([np.nan], np.float32), 0.0, False, False, {}),
    "2 numbers in place of 1": lambda: (np.zeros(2, np.float32), 0.0, False, False, {}),
}
BRIEF = cumulant.FreePlay(width=16, batch=32, num_envs=8, env_steps=800, replay=400)


@pytest.mark.parametrize("said", FAULTS)
def test_an_environment_that_fails_ends_free_play_with_one_line(said, capfd, caplog):
    with pytest.raises(WorldFailed) as caught:
        cumulant.pretrain(dial(fault=FAULTS[said]), BRIEF)
    assert said in str(caught.value)
    assert "in step 5 of its episode of seed" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value.__cause__, ValueError)
    assert "Traceback" not in capfd.readouterr().err
    assert not caplog.records


def test_after_a_failure_the_world_can_be_played_again():
    world = dial(fault=raises)
    policy = cumulant.random_policy(world)
    for _ in range(2):
        with pytest.raises(WorldFailed, match="stuck"), plainly():
            jax.block_until_ready(cumulant.play(world, policy, lambda state: state.terminated, jax.random.key(0)))


@pytest.fixture(scope="module")
def learnt():
    config = cumulant.FreePlay(width=32, batch=128, num_envs=8, env_steps=6_400, learning_rate=3e-3, replay=8_000)
    events = []
    library = cumulant.pretrain(point(), config, features=point().features_of, report=events.append)
    return library, events


def test_free_play_and_evaluation_are_the_ordinary_ones(learnt):
    library, events = learnt
    goals = coverage(library.world.feature_names, 9, seed=0)
    results = library.evaluate({"goals": goals}, jax.random.key(0), episodes=5)["goals"]
    assert results.success > 0.9
    assert results.episodes == 45
    assert [event["success"] for event in events if "success" in event][-1] > 0.8


def test_few_shot_audit_and_films_work_too(learnt, tmp_path):
    library, _ = learnt
    w = library.learn_reward(lambda state: state.observation[0] > 1 / 3, jax.random.key(0), budget=300)
    assert w.shape == (1, 2, 3)
    found = cumulant.audit(library, jax.random.key(0), starts=5)
    assert found.moved.shape == (2, 2)
    library.save(tmp_path / "mine")
    again = cumulant.Library.load(tmp_path / "mine", world=library.world, features=library.features)
    assert again.world is library.world


def test_a_moment_is_drawn_as_it_was():
    world = dial()
    states = [world.reset(jax.random.key(0))]
    for action in (1, 0, 0, 1):
        states.append(world.step(states[-1], jnp.int32(action)))
    jax.block_until_ready(world.reset(jax.random.key(1)))
    for state in (states[3], states[0], states[4]):
        frame = cumulant.render(world, state, 16)
        assert frame.shape == (16, 16, 3)
        assert int(frame.max()) == round(255 * float(state.observation[0]))


class Undrawn(Dial):
    """A dial whose drawing package is missing."""

    def render(self):
        raise gymnasium.error.DependencyNotInstalled("pygame is not installed, run `pip install pygame`")


def test_watch_names_the_missing_drawing_package(monkeypatch):
    world = cumulant.HostWorld(Undrawn, lambda obs: obs, ("dial",), max_steps=9)
    monkeypatch.setattr(films, "rollouts", None)  # nothing is played
    with pytest.raises(
        ValueError, match=r"^Undrawn cannot be drawn: pygame is not installed, run `pip install pygame`$"
    ):
        films.watch(world, cumulant.random_policy, "", None, jnp.zeros((1, 1)), 0)
    with pytest.raises(ValueError, match="Undrawn cannot be drawn"):
        cumulant.render(world, world.reset(jax.random.key(0)))


def test_a_film_shows_the_episode(tmp_path):
    library = cumulant.pretrain(dial(), BRIEF, features=dial().features_of)
    film = library.watch(coverage(("dial",), 1, seed=0)[0])
    assert len(film.frames) == film.steps + 1
    film.save(tmp_path / "dial.gif")
    assert (tmp_path / "dial.gif").read_bytes().startswith(b"GIF89a")


def test_a_run_that_was_stopped_goes_on_with_new_episodes(tmp_path):
    world, asked = dial(), []

    def soon():
        asked.append(1)
        return len(asked) == 3

    assert cumulant.pretrain(world, BRIEF, out=tmp_path, features=world.features_of, should_stop=soon) is None
    jax.block_until_ready(jax.vmap(world.reset)(keys(8)))  # as in another process
    assert cumulant.pretrain(world, BRIEF, out=tmp_path, features=world.features_of, resume=True) is not None


def test_observations_are_shown_as_the_environment_has_them():
    seen = []

    def features(obs):
        seen.append(obs)
        return obs["where"]

    world = cumulant.HostWorld(Point, features, ("x", "y"), actions=primitives(2), max_steps=5)
    state = world.step(world.reset(jax.random.key(0)), jnp.int32(0))
    world.features(state)
    assert int(seen[-1]["turn"]) == 2
    assert seen[-1]["where"].shape == (2,)
    assert state.observation.shape == (5,)
    assert (jnp.abs(world.inputs(state.observation)) <= 1).all()


def test_inputs_are_of_size_one_where_the_environment_has_no_bounds():
    world = cumulant.HostWorld("CartPole-v1", whole, ("a", "b", "c", "d"))
    assert world.max_steps == 500
    states = jax.vmap(world.reset)(keys(8))
    for key in keys(10):
        states = jax.vmap(world.step)(states, jax.random.randint(key, (8,), 0, 2))
    x = jax.vmap(world.inputs)(states.observation)
    assert 0.1 < float(jnp.abs(x[:, 1]).mean()) < 2


def test_a_network_sees_what_the_user_makes_of_an_observation():
    world = point(inputs=lambda obs: 10 * obs["where"][:1])
    obs = world.observe(world.reset(jax.random.key(0)))
    np.testing.assert_allclose(world.inputs(obs), 10 * world.as_shown(obs)["where"][:1])
    assert world.apart().view is world.view
    with pytest.raises(ValueError, match="row of numbers"):
        point(inputs=lambda obs: obs["where"][None])


def test_a_fence_keeps_the_point_within_reach():
    f = (Feature("x", low=-1.0, high=1.0), Feature("y", low=-1.0, high=1.0))
    for fence, within in (((0, 0),), True), ((), False):
        actions = primitives(2, diagonal=(), scale=0.5, fence=fence)
        world = cumulant.HostWorld(partial(Point, reach=4), lambda obs: obs["where"], f, actions=actions, max_steps=20)
        right = jnp.int32(actions.table.index((0.5, 0.0)))
        state = world.reset(jax.random.key(0))
        for _ in range(20):
            state = world.step(state, right)
        assert (float(world.features(state)[0]) < 1.3) == within


def test_an_action_is_held_for_so_many_steps():
    world = point(actions=primitives(2, diagonal=(), scale=0.1, repeat=3))
    state = world.reset(jax.random.key(0))
    right = jnp.int32(world.actions.table.index((0.1, 0.0)))
    before, after = place_of(world, state), place_of(world, world.step(state, right))
    np.testing.assert_allclose(after - before, [0.15, 0], atol=1e-6)


def place_of(world, state):
    return 2 * world.features(state) - 1


class Many(Dial):
    action_space = spaces.MultiDiscrete([2, 2])


def test_what_cannot_work_is_refused_at_once():
    with pytest.raises(ValueError, match=r"continuous actions: give actions=cumulant.primitives\(2\)"):
        cumulant.HostWorld(Point, place, ("x", "y"), max_steps=5)
    with pytest.raises(ValueError, match="dimensions, but these have 3"):
        cumulant.HostWorld(Point, place, ("x", "y"), actions=primitives(3), max_steps=5)
    with pytest.raises(ValueError, match="only Discrete ones and a Box"):
        cumulant.HostWorld(Many, whole, ("dial",), max_steps=5)
    with pytest.raises(ValueError, match="no time limit: give max_steps"):
        cumulant.HostWorld(Dial, whole, ("dial",))
    with pytest.raises(ValueError, match="2 names are given"):
        cumulant.HostWorld(Dial, whole, ("dial", "other"), max_steps=5)


def test_the_time_limit_of_the_environment_is_off():
    limited = lambda: gymnasium.wrappers.TimeLimit(Dial(), 3)  # noqa: E731
    world = cumulant.HostWorld(limited, whole, ("dial",))
    assert world.max_steps == 3
    assert _pool(world)._make(None)._max_episode_steps > 10**9


@given(st.integers(1, 6), st.sampled_from([3, 5]), st.data())
def test_primitives_are_a_grid_along_some_dimensions(dimensions, levels, data):
    diagonal = data.draw(st.none() | st.sets(st.integers(0, dimensions - 1), max_size=3))
    scale = data.draw(st.sampled_from([1.0, 0.5]))
    table = primitives(dimensions, levels, diagonal=diagonal, scale=scale).values
    joint = levels**dimensions if diagonal is None and levels**dimensions <= 81 else None
    together = set() if diagonal is None else diagonal
    alone = 1 + (levels - 1) * (dimensions - len(together)) + levels ** len(together) - 1
    assert len(table) == len(np.unique(table, axis=0)) == (joint or alone)
    assert not table[0].any()  # the first is to stay
    assert np.abs(table).max() == scale
    np.testing.assert_array_equal(np.unique(table, axis=0), np.unique(-table, axis=0))  # each has its opposite


def test_primitives_of_a_pushing_hand_are_eleven():
    assert len(primitives(4, moved=(0, 1, 2), diagonal=(0, 1))) == 11
    assert len(primitives(4, moved=(0, 1, 2), diagonal=())) == 7
    for wrong in ({"levels": 4}, {"diagonal": (4,)}, {"scale": 2.0}, {"repeat": 0}, {"fence": ((9, 0),)}):
        with pytest.raises(ValueError, match=r"."):
            primitives(4, **wrong)
