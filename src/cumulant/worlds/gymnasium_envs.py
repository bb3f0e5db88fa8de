"""Spriteworld as Gymnasium environments: one world, or any number stepped in one compiled call.

Importing this module registers `cumulant/Spriteworld-v0`.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from jaxtyping import Array, Key, PRNGKeyArray, PyTree

from cumulant.goals.language import parse_plan
from cumulant.goals.plans import Plan
from cumulant.goals.tasks import Task
from cumulant.worlds.episodes import goal_of, tracker_of
from cumulant.worlds.protocol import Episodes, Goal, World, advance, never, render
from cumulant.worlds.pursuing import Pursuing
from cumulant.worlds.spriteworld import Spriteworld

_RENDER_SIZE = 256
_METADATA: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 15}


class _Scene:
    """What one world and many share: the world, its goal, and the spaces."""

    def __init__(self, task: str | Task | Plan | None, observation: str, size: int, parameters: dict[str, Any]):
        if observation not in ("state", "pixels"):
            raise ValueError(f"observation must be 'state' or 'pixels', but is {observation!r}")
        self.world, self.goal = _pursuing(task, Spriteworld(**parameters))
        self.actions = spaces.Discrete(self.world.num_actions)
        if observation == "state":
            self.observations: spaces.Box = spaces.Box(0.0, 1.0, (len(self.world.feature_names),), np.float32)
            self.observe: Callable[[PyTree], Any] = self.world.observe
        else:
            self.observations = spaces.Box(0, 255, (size, size, 3), np.uint8)
            self.observe = partial(render, self.world, size=size)
        self.frame = jax.jit(partial(render, self.world, size=_RENDER_SIZE))


def _pursuing(task: str | Task | Plan | None, world: Spriteworld) -> tuple[World, Goal]:
    """The world and the goal for a task or a plan; for a plan, a world whose states know how far it has come."""
    asked = parse_plan(task, world.feature_names, world.colours) if isinstance(task, str) else task
    if isinstance(asked, Plan):
        if asked.task is None:
            pursuing = Pursuing(world, tracker_of(world, asked))
            return pursuing, pursuing.success
        asked = asked.task
    return world, never if asked is None else goal_of(world, jnp.asarray(asked.table()))


def _key(seed: int) -> PRNGKeyArray:
    """A key that depends on every bit of the seed (JAX alone reads the lower 32)."""
    key = jax.random.key(seed & 0xFFFFFFFF)
    return jax.random.fold_in(key, seed >> 32 & 0xFFFFFFFF) if seed >> 32 else key


class SpriteworldEnv(gymnasium.Env):
    """One Spriteworld. Reward 1 on reaching the task's goal, which terminates; the time limit truncates.

    Of a plan, the reward comes with its last stage, and none comes any more once it is violated; each stage has the
    time limit. `task` is a phrase, a Task, a Plan, or None for free play; `observation` is "state" or "pixels", frames
    of `size`; further keywords are Spriteworld's parameters.
    """

    metadata = _METADATA

    def __init__(
        self,
        task: str | Task | Plan | None = None,
        observation: str = "state",
        size: int = 64,
        render_mode: str | None = None,
        **parameters: Any,
    ):
        """Compile the world's functions for this task."""
        self._scene = scene = _Scene(task, observation, size, parameters)
        self.action_space, self.observation_space, self.render_mode = scene.actions, scene.observations, render_mode
        self._observe = jax.jit(scene.observe)
        self._reset = jax.jit(scene.world.reset)
        self._step = jax.jit(lambda state, action: _single_step(scene, state, action))
        self._key: PRNGKeyArray | None = None
        self._state: PyTree | None = None
        self._time = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        """A random start; the same seed gives the same episodes from here on."""
        super().reset(seed=seed)
        if seed is not None:
            self._key = _key(seed)
        elif self._key is None:
            self._key = _key(int(self.np_random.integers(2**32)))
        key_start, self._key = jax.random.split(self._key)
        self._state, self._time = self._reset(key_start), 0
        return np.array(self._observe(self._state)), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        """One action."""
        if not self.action_space.contains(action):
            raise ValueError(f"an action is a whole number from 0 to {self._scene.actions.n - 1}, not {action!r}")
        if self._state is None:
            raise RuntimeError("call reset before step")
        self._state, obs, terminated = self._step(self._state, jnp.int32(action))
        self._time += 1
        success = bool(terminated)
        truncated = not success and self._time >= self._scene.world.max_steps
        return np.array(obs), float(success), success, truncated, {"is_success": success}

    def render(self) -> np.ndarray | None:
        """An RGB frame, where render_mode asks for one."""
        return np.array(self._scene.frame(self._state)) if self.render_mode == "rgb_array" else None


def _single_step(scene: _Scene, state: PyTree, action: Any) -> tuple[PyTree, Any, Any]:
    following = scene.world.step(state, action)
    return following, scene.observe(following), scene.goal(following) | scene.goal(state)


class SpriteworldVectorEnv(VectorEnv):
    """Many Spriteworlds in one compiled call. An episode that ends is followed by the next in the same step.

    Where any ended, `info` holds `final_obs`, where the actions led before the new starts, and the mask `_final_obs`.
    """

    metadata = _METADATA | {"autoreset_mode": AutoresetMode.SAME_STEP}

    def __init__(
        self,
        num_envs: int = 1,
        task: str | Task | Plan | None = None,
        observation: str = "state",
        size: int = 64,
        render_mode: str | None = None,
        **parameters: Any,
    ):
        """Compile the worlds' functions for this task."""
        self._scene = scene = _Scene(task, observation, size, parameters)
        self.num_envs, self.render_mode = num_envs, render_mode
        self.single_action_space, self.single_observation_space = scene.actions, scene.observations
        self.action_space = batch_space(scene.actions, num_envs)
        self.observation_space = batch_space(scene.observations, num_envs)
        self._begin = jax.jit(lambda keys: _begin_all(scene, keys))
        self._advance = jax.jit(lambda episodes, action, key: _advance_all(scene, episodes, action, key))
        self._key: PRNGKeyArray | None = None
        self._episodes: Episodes | None = None

    def reset(
        self, *, seed: int | list[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict]:
        """Random starts. From one seed s, the starts are those of single worlds seeded s, s + 1, ..."""
        super().reset(seed=seed[0] if isinstance(seed, list) else seed)
        if seed is None:
            first = _key(int(self.np_random.integers(2**32))) if self._key is None else self._key
            key_start, self._key = jax.random.split(first)
            keys = jax.random.split(key_start, self.num_envs)
        else:
            seeds = list(range(seed, seed + self.num_envs)) if isinstance(seed, int) else seed
            pairs = jax.vmap(jax.random.split)(jnp.stack([_key(s) for s in seeds]))
            keys, self._key = pairs[:, 0], pairs[0, 1]
        self._episodes, obs = self._begin(keys)
        return np.array(obs), {}

    def step(self, actions: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict]:
        """One action in every world."""
        if not self.action_space.contains(np.asarray(actions)):
            raise ValueError(f"actions are {self.num_envs} whole numbers from 0 to {self._scene.world.num_actions - 1}")
        if self._key is None or self._episodes is None:
            raise RuntimeError("call reset before step")
        key, self._key = jax.random.split(self._key)
        self._episodes, (obs, final_obs, terminated, truncated, _) = self._advance(
            self._episodes, jnp.asarray(actions, jnp.int32), key
        )
        success, time_out = np.array(terminated), np.array(truncated)
        info = {"is_success": success, "_is_success": success | time_out}
        if (success | time_out).any():
            info |= {"final_obs": np.array(final_obs), "_final_obs": success | time_out}
        return np.array(obs), success.astype(np.float64), success, time_out, info

    def render(self) -> tuple[np.ndarray, ...] | None:
        """An RGB frame of every world, where render_mode asks for it."""
        if self.render_mode != "rgb_array" or self._episodes is None:
            return None
        return tuple(np.array(jax.vmap(self._scene.frame)(self._episodes.state)))


def _begin_all(scene: _Scene, keys: Key[Array, " n"]) -> tuple[Episodes, Any]:
    states = jax.vmap(scene.world.reset)(keys)
    return Episodes(states, jnp.zeros(len(keys), jnp.int32)), jax.vmap(scene.observe)(states)


def _advance_all(scene: _Scene, episodes: Episodes, action: Any, key: PRNGKeyArray) -> tuple[Episodes, tuple]:
    return advance(scene.world, episodes, action, key, scene.goal, scene.observe)


gymnasium.register(
    id="cumulant/Spriteworld-v0",
    entry_point="cumulant.worlds.gymnasium_envs:SpriteworldEnv",
    vector_entry_point="cumulant.worlds.gymnasium_envs:SpriteworldVectorEnv",
)
