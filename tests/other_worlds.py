"""Small libraries of worlds without sprites, for the tests of the page: a room of bars, and a crane on the host."""

from dataclasses import replace
from functools import cache

import gymnasium
import numpy as np
from gymnasium import spaces

import cumulant

HEIGHT = 20  # metres
CRANE = (cumulant.Feature("height", of="load", high=HEIGHT, unit="m", words=("down", "half", "up")),)
_STEP = 1.25


class Crane(gymnasium.Env):
    """A load that is let down, held, or hauled up; drawn as a block on a dark ground."""

    observation_space = spaces.Box(0, HEIGHT, (1,), np.float32)
    action_space = spaces.Discrete(3)
    render_mode = "rgb_array"

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.height = np.float32(self.np_random.integers(17) * _STEP)
        return self._shown(), {}

    def step(self, action):
        self.height = np.clip(self.height + np.float32(_STEP * (int(action) - 1)), 0, HEIGHT)
        return self._shown(), 0.0, False, False, {}

    def render(self):
        frame = np.full((84, 84, 3), 40, np.uint8)
        top = int((1 - self.height / HEIGHT) * 64)
        frame[:top, 40:44] = 200
        frame[top : top + 20, 32:52] = (230, 159, 0)
        return frame

    def _shown(self):
        return np.array([self.height], np.float32)


class Unlit(Crane):
    """The same where nobody can look."""

    def render(self):
        raise RuntimeError("there is no screen")


def heights(obs):
    """The features of the crane, in metres."""
    return obs


def crane(kind=Crane):
    """The crane as a world; four of them, so that 25 episodes take several waves."""
    return cumulant.HostWorld(kind, heights, CRANE, num_envs=4, max_steps=20)


@cache
def crane_library():
    """Some seconds of free play."""
    config = cumulant.FreePlay(width=16, batch=64, num_envs=4, env_steps=4_000, replay=4_000, learning_rate=3e-3)
    return cumulant.pretrain(crane(), config, seed=0)


@cache
def room_library():
    """Some seconds of free play."""
    config = replace(cumulant.PRESETS["cpu"], width=32, batch=128, env_steps=256 * 1_000, replay=50_000)
    return cumulant.pretrain(cumulant.Room(), config, seed=0)
