"""DoorKey: what is behind the door needs the key, and neither can be had by itself."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cumulant

pytest.importorskip("xminigrid", reason="DoorKey is not tested: it needs the extra `xland`")

from cumulant.transfer.evaluation import evaluate
from cumulant.worlds import shipped
from cumulant.worlds.doorkey import DoorKey
from cumulant.worlds.episodes import goal_of, rollout
from cumulant.worlds.search import search_policy

WORLD = DoorKey(size=5, max_steps=20)
KEY, DOOR = 2, 3  # of the features
LOCKED = 0


def goal(phrase: str) -> cumulant.Task:
    return cumulant.parse(phrase, WORLD.feature_names)


@pytest.fixture(scope="module")
def walks():
    """Random play: observations and features, [n, t, ...]."""

    def walk(key):
        def step(state, key):
            following = WORLD.step(state, jax.random.randint(key, (), 0, WORLD.num_actions))
            return following, (
                WORLD.observe(following),
                WORLD.features(following),
                WORLD.number_of(WORLD.observe(following)),
            )

        key_start, key_steps = jax.random.split(key)
        return jax.lax.scan(step, WORLD.reset(key_start), jax.random.split(key_steps, 200))[1]

    return jax.device_get(jax.jit(jax.vmap(walk))(jax.random.split(jax.random.key(0), 256)))


def test_nothing_is_wrong_with_it():
    assert cumulant.check(DoorKey()) == []


def test_a_locked_door_opens_only_to_whoever_has_the_key(walks):
    obs, features, _ = walks
    unlocked = (obs[:, :-1, 8] == LOCKED) & (obs[:, 1:, 8] != LOCKED)
    assert unlocked.sum() > 10
    assert features[:, :-1, KEY][unlocked].all()
    assert features[:, 1:, DOOR][unlocked].all()


def test_every_state_has_a_number_of_its_own(walks):
    obs, _, numbers = walks
    again = jax.jit(jax.vmap(lambda number: WORLD.observe(WORLD.state_at(number))))(jnp.asarray(numbers).ravel())
    assert np.array_equal(again, obs.reshape(-1, obs.shape[-1]))


def test_the_search_solves_every_start():
    tasks = {"hard": [goal("door open and agent right"), goal("agent right and door shut and key lying")]}
    world, oracle = shipped.oracle_of(WORLD)
    assert oracle is search_policy
    found = evaluate(world, oracle, tasks, jax.random.key(0), episodes=128)["hard"]
    assert found.success == 1


def test_what_is_searched_is_the_shortest_way():
    """To have the key one turns, walks up to it and takes it: in a room of one column it is known how soon."""
    table = jnp.asarray(goal("key held").table())

    @jax.jit
    def searched(key):
        policy = search_policy(WORLD, table)
        world, start = policy.sees(WORLD), WORLD.reset(key)
        return WORLD.observe(start), rollout(world, policy, goal_of(world, table), start, key).steps

    obs, steps = map(np.asarray, jax.vmap(searched)(jax.random.split(jax.random.key(0), 64)))
    down = obs[:, 3] - obs[:, 0]
    turns = np.abs((obs[:, 2] - np.where(down < 0, 0, 2) + 2) % 4 - 2)
    assert np.array_equal(steps, turns + np.abs(down))


def test_it_comes_back_from_what_a_folder_holds():
    assert shipped.restore(shipped.describe(WORLD)) == WORLD


def test_it_can_be_drawn():
    drawn = jax.jit(lambda key: cumulant.render(WORLD, WORLD.reset(key), size=160))
    frame = np.asarray(drawn(jax.random.key(0)))
    for colour in ([255, 0, 0], [255, 255, 0], [0, 255, 0]):  # the agent, the key, the green tile
        assert (frame == colour).all(axis=-1).any(), colour


def test_free_play_learns_to_take_the_key(walks):
    brief = replace(cumulant.PRESETS["cpu"], width=32, num_envs=64, batch=128, env_steps=64 * 1200, replay=30_000)
    library = cumulant.pretrain(WORLD, brief, seed=0)
    tasks = {"key": [goal("key held")]}
    learnt = library.evaluate(tasks, jax.random.key(1), episodes=64)["key"]
    chance = walks[1][:, : WORLD.max_steps, KEY].any(axis=1).mean()
    assert learnt.success > chance + 0.2
