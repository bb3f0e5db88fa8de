"""Fetch, a robot's arm, from Gymnasium-Robotics: its hand reaches places in the air, or pushes a puck over a table."""

from typing import Any

import gymnasium
import jax.numpy as jnp
from jaxtyping import Array, Float

from cumulant.goals.feature import Feature
from cumulant.worlds.host import HostWorld
from cumulant.worlds.primitives import primitives

_DEPTH = {"low": 1.08, "high": 1.52, "unit": "m", "words": ("near", "centre", "far")}
_WIDTH = {"low": 0.45, "high": 1.05, "unit": "m", "words": ("right", "middle", "left")}  # as the robot sees it
_HEIGHT = {"low": 0.41, "unit": "m", "words": ("low", "medium", "high")}
_TREMBLE = 0.003  # of a range: less is no move
_FALLEN = 0.40  # m: a puck below has left the table
_PUCK = slice(3, 6)  # in the observation, behind the hand's place


def fetch_reach(num_envs: int = 8, max_steps: int = 50) -> HostWorld:
    """The hand in the air: three coordinates, seven actions. Needs the extra `robotics`."""
    names = (_of("hand", "x", _DEPTH), _of("hand", "y", _WIDTH), _of("hand", "z", _HEIGHT | {"high": 0.82}))
    actions = primitives(4, moved=(0, 1, 2), diagonal=(), fence=((0, 0), (1, 1), (2, 2)))
    return HostWorld(reach_environment, _hand, names, actions, num_envs, max_steps)


def fetch_push(num_envs: int = 8, max_steps: int = 50) -> HostWorld:
    """The hand just above a table, and a puck on it: five coordinates, eleven actions. Needs the extra `robotics`."""
    hand = (_of("hand", "x", _DEPTH), _of("hand", "y", _WIDTH), _of("hand", "z", _HEIGHT | {"high": 0.56}))
    puck = (_of("puck", "x", _DEPTH), _of("puck", "y", _WIDTH))
    actions = primitives(4, moved=(0, 1, 2), diagonal=(0, 1), fence=((0, 0), (1, 1), (2, 2)))
    return HostWorld(push_environment, _hand_and_puck, (*hand, *puck), actions, num_envs, max_steps)


def _of(thing: str, axis: str, described: dict[str, Any]) -> Feature:
    return Feature(axis, thing, **described, resolution=_TREMBLE * (described["high"] - described["low"]))


def _hand(obs: dict[str, Array]) -> Float[Array, "3"]:
    return obs["observation"][:3]


def _hand_and_puck(obs: dict[str, Array]) -> Float[Array, "5"]:
    return jnp.concatenate([obs["observation"][:3], obs["observation"][_PUCK][:2]])


def reach_environment() -> gymnasium.Env:
    """FetchReach-v4 as it is."""
    return _made("FetchReach-v4")


def push_environment() -> gymnasium.Env:
    """FetchPush-v4, which ends where the puck falls."""
    return _EndsOnTheFloor(_made("FetchPush-v4"))


def _made(identifier: str) -> gymnasium.Env:
    import gymnasium_robotics

    gymnasium.register_envs(gymnasium_robotics)
    return gymnasium.make(identifier, render_mode="rgb_array", max_episode_steps=-1, disable_env_checker=True)


class _EndsOnTheFloor(gymnasium.Wrapper):
    """A puck that has fallen from the table never comes back: the episode ends."""

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """One action."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        fallen = bool(obs["observation"][_PUCK][2] < _FALLEN)
        return obs, reward, terminated or fallen, truncated, info
