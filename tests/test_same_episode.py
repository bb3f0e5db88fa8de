"""A phrase and a seed mean one episode: in Python, on the command line, in Gymnasium and on the page."""

import json

import httpx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import THIRDS

from cumulant import Library, play, reached
from cumulant.commands.cli import main
from cumulant.worlds.gymnasium_envs import SpriteworldEnv

EPISODES = (
    ("square top left and circle right", 3),
    ("not (square left or circle top)", 1),
    ("agent x 2/7 or circle y 1/7", 2**32 - 1),
)


@pytest.fixture(scope="module")
def library():
    return Library.load(THIRDS)


def in_python(library, phrase, seed):
    world, table = library.world, jnp.asarray(library.task(phrase).table())
    policy, goal = library.policy(phrase), lambda state: reached(table, world.features(state))
    episode = jax.jit(lambda key: play(world, policy, goal, key))(jax.random.key(seed))
    steps = int(episode.steps)
    return jax.vmap(world.observe)(episode.states)[: steps + 1], episode.actions[:steps]


def in_gymnasium(library, phrase, seed):
    env, policy = SpriteworldEnv(phrase), library.policy(phrase)
    _, key = jax.random.split(jax.random.key(seed))
    obs, _ = env.reset(seed=seed)
    memory, seen, actions = policy.begin(jnp.asarray(obs)), [obs], []
    act = jax.jit(policy.act)
    for key_act in jax.random.split(key, library.world.max_steps):
        memory, action = act(memory, obs, key_act)
        obs, _, terminated, truncated, _ = env.step(int(action))
        seen.append(obs)
        actions.append(int(action))
        if terminated or truncated:
            break
    return seen, actions


def on_the_command_line(tmp_path, phrase, seed):
    trace = tmp_path / f"{seed}.json"
    given = ["--library", str(THIRDS), "--seed", str(seed), "--episodes", "3", "--trace", str(trace), "--json"]
    assert main(["solve", phrase, *given]) == 0
    written = json.loads(trace.read_text())
    return written["observations"], written["actions"]


def on_the_page(address, phrase, seed):
    answer = httpx.post(f"http://{address}/api/episode", json={"phrase": phrase, "seed": seed}, timeout=60).json()
    return answer["positions"], answer["actions"]


@pytest.mark.parametrize(("phrase", "seed"), EPISODES)
def test_a_phrase_and_a_seed_mean_one_episode_everywhere(library, address, tmp_path, capsys, phrase, seed):
    seen, actions = in_python(library, phrase, seed)
    assert len(actions) > 0
    others = (
        in_gymnasium(library, phrase, seed),
        on_the_command_line(tmp_path, phrase, seed),
        on_the_page(address, phrase, seed),
    )
    for other_seen, other_actions in others:
        np.testing.assert_array_equal(np.asarray(other_actions), actions)
        np.testing.assert_array_equal(np.asarray(other_seen, np.float32), seen)
