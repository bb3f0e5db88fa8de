import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

import cumulant.worlds.gymnasium_envs

ID = "cumulant/Spriteworld-v0"


@pytest.mark.parametrize("observation", ["state", "pixels"])
@pytest.mark.parametrize("task", [None, "square top left", "keep square left then agent top"])
def test_gymnasiums_own_checks_pass_without_warnings(observation, task):
    env = gymnasium.make(ID, task=task, observation=observation, render_mode="rgb_array")
    check_env(env.unwrapped)
    check_env(gymnasium.make(ID, task=task, observation=observation).unwrapped, skip_render_check=True)


@pytest.mark.parametrize("seed", [0, 1, 2**32, 2**40 + 1])
def test_seeding_is_exact(seed):
    def episode(seed):
        env = gymnasium.make(ID, task="circle right")
        observations = [env.reset(seed=seed)[0]]
        for action in [0, 7, 3, 4, 2, 1] * 5:
            observations.append(env.step(action)[0])
        observations.append(env.reset()[0])
        return np.stack(observations)

    np.testing.assert_array_equal(episode(seed), episode(seed))
    assert not np.array_equal(episode(seed)[0], episode(seed + 1)[0])
    assert not np.array_equal(episode(seed)[0], episode(seed)[-1])


def test_success_terminates_with_reward_and_time_truncates_without():
    env = gymnasium.make(ID, task="agent left", max_steps=20)
    endings = set()
    for seed in range(20):
        env.reset(seed=seed)
        terminated = truncated = False
        while not (terminated or truncated):
            obs, reward, terminated, truncated, info = env.step(2 if seed % 2 else 3)
        endings.add((reward, terminated, truncated))
        assert info["is_success"] == terminated
    assert endings == {(1.0, True, False), (0.0, False, True)}


def test_a_plan_gives_its_reward_at_its_end_and_none_after_a_violation():
    left, up, right = 2, 0, 3
    env = gymnasium.make(ID, task="agent left then agent right without agent top", max_steps=20)
    many = gymnasium.make_vec(ID, num_envs=2, task="agent left then agent right without agent top", max_steps=20)
    for first in ([left] * 10 + [right] * 10, [left] * 10 + [up] * 10 + [right] * 20):
        obs, _ = env.reset(seed=3)
        batch, _ = many.reset(seed=[3, 3])
        assert obs[1] < 0.6  # not in what is avoided
        rewards = []
        for action in first:
            _, reward, terminated, truncated, _ = env.step(action)
            batch, both, ended, _, _ = many.step(np.array([action] * 2))
            assert (both == reward).all()
            assert (ended == terminated).all()
            rewards.append(reward)
            if terminated or truncated:
                break
        assert (sum(rewards), rewards[-1]) == ((0, 0) if up in first else (1, 1))
        assert truncated == (up in first)


def test_free_play_gives_no_reward_and_never_terminates():
    env = gymnasium.make(ID, max_steps=30)
    env.reset(seed=0)
    steps = [env.step(env.action_space.sample()) for _ in range(30)]
    assert {reward for _, reward, *_ in steps} == {0.0}
    assert [(t, u) for _, _, t, u, _ in steps] == [(False, False)] * 29 + [(False, True)]


def test_pixels_and_frames_show_the_same_scene():
    env = gymnasium.make(ID, observation="pixels", size=256, render_mode="rgb_array")
    obs, _ = env.reset(seed=3)
    np.testing.assert_array_equal(obs, env.render())
    assert obs.shape == (256, 256, 3)


def test_many_worlds_step_as_single_ones_do():
    task = "square top left and circle bottom right and agent centre"
    many = gymnasium.make_vec(ID, num_envs=4, task=task)
    assert many.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    singles = [gymnasium.make(ID, task=task) for _ in range(4)]
    batch, _ = many.reset(seed=10)
    np.testing.assert_array_equal(batch, [env.reset(seed=10 + i)[0] for i, env in enumerate(singles)])
    for t in range(12):
        actions = (np.arange(4) + t) % 8
        batch, rewards, terminated, truncated, _ = many.step(actions)
        rows = [env.step(int(action)) for env, action in zip(singles, actions, strict=True)]
        assert not terminated.any()
        np.testing.assert_allclose(batch, [row[0] for row in rows], atol=1e-6)
        np.testing.assert_array_equal(truncated, [row[3] for row in rows])
    assert rewards.shape == (4,)


def test_many_worlds_keep_the_final_observation():
    many = gymnasium.make_vec(ID, num_envs=64, task="agent left", max_steps=5)
    obs, _ = many.reset(seed=0)
    for _ in range(5):
        before = obs
        obs, rewards, terminated, _truncated, info = many.step(np.full(64, 2))
    ended = info["_final_obs"]
    assert ended.any()
    np.testing.assert_array_equal(rewards > 0, terminated)
    moved = np.maximum(before[ended, 0] - 0.1, 0)
    np.testing.assert_allclose(info["final_obs"][ended, 0], moved, atol=1e-6)
    assert (obs[ended] != info["final_obs"][ended]).any()


def test_vector_seeding_frames_and_pixels():
    many = gymnasium.make_vec(ID, num_envs=3, observation="pixels", render_mode="rgb_array")
    first, again, listed = (many.reset(seed=seed)[0] for seed in (5, 5, [5, 6, 7]))
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first, listed)
    assert first.shape == (3, 64, 64, 3)
    assert many.observation_space.contains(first)
    assert [frame.shape for frame in many.render()] == [(256, 256, 3)] * 3


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="observation"):
        gymnasium.make(ID, observation="smell")
    with pytest.raises(cumulant.LanguageError, match="unknown word 'sqare'"):
        gymnasium.make(ID, task="sqare left")
    env = gymnasium.make(ID).unwrapped
    env.reset(seed=0)
    with pytest.raises(ValueError, match="whole number from 0 to 7"):
        env.step(8)
