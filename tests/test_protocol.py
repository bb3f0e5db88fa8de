import jax
import jax.numpy as jnp
import numpy as np

from cumulant.worlds.protocol import Timestep, advance, begin
from cumulant.worlds.spriteworld import Spriteworld


def run(world, num, steps, goal=None):
    """Episodes under random actions: the stacked timesteps."""

    def step(episodes, key):
        key_act, key_reset = jax.random.split(key)
        action = jax.random.randint(key_act, (num,), 0, world.num_actions)
        return advance(world, episodes, action, key_reset, *([goal] if goal else []))

    first = begin(world, jax.random.key(0), num)
    return jax.device_get(jax.lax.scan(step, first, jax.random.split(jax.random.key(1), steps))[1])


def agent_left(state):
    return state.agent[0] < 1 / 3


def test_advance_truncates_free_play_alone():
    steps: Timestep = run(Spriteworld(max_steps=7), num=3, steps=21)
    assert not steps.terminated.any()
    np.testing.assert_array_equal(steps.truncated, np.arange(1, 22)[:, None] % 7 == 0 * np.ones((1, 3)))


def test_advance_resets_only_where_episodes_ended():
    steps: Timestep = run(Spriteworld(max_steps=7), num=5, steps=40, goal=agent_left)
    ended = steps.terminated | steps.truncated
    assert ended.any()
    assert not ended.all()
    np.testing.assert_array_equal((steps.obs != steps.final_obs).any(axis=2), ended)


def test_advance_terminates_at_success_alone():
    steps: Timestep = run(Spriteworld(max_steps=7), num=50, steps=40, goal=agent_left)
    assert not (steps.terminated & steps.truncated).any()
    reached = steps.final_obs[..., 0] < 1 / 3
    assert steps.terminated[reached].all()
    assert (steps.final_obs[..., 0][steps.truncated] >= 1 / 3).all()


def test_advance_terminates_starts_inside_the_goal():
    world = Spriteworld()
    episodes = begin(world, jax.random.key(3), 200)
    inside = np.asarray(jax.vmap(agent_left)(episodes.state))
    _, steps = advance(world, episodes, jnp.full(200, 3), jax.random.key(4), agent_left)
    assert inside.any()
    assert np.asarray(steps.terminated)[inside].all()
