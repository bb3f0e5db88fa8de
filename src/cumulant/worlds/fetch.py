"""Fetch, a robot's arm, from Gymnasium-Robotics: its hand reaches places in the air, or pushes a puck over a table."""

from typing import Any

import gymnasium
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from cumulant.goals.feature import Feature
from cumulant.worlds.host import HostWorld
from cumulant.worlds.primitives import primitives

_DEPTH = {"low": 1.08, "high": 1.52, "unit": "m", "words": ("near", "centre", "far")}
_WIDTH = {"low": 0.45, "high": 1.05, "unit": "m", "words": ("right", "middle", "left")}  # as the robot sees it
_HEIGHT = {"low": 0.41, "unit": "m", "words": ("low", "medium", "high")}
# The hand may leave the table, so that it can get behind a puck; the puck's places end well before the edge.
_TABLE = (_DEPTH | {"low": 1.04, "high": 1.56}, _WIDTH | {"low": 0.39, "high": 1.11})
_PUCKS = (_DEPTH | {"low": 1.10, "high": 1.50}, _WIDTH | {"low": 0.50, "high": 1.00})
_TREMBLE = 0.003  # of a range: less is no move
_FALLEN = 0.40  # m: a puck below has left the table
_PUCK, _TURN, _HURRY, _SPEED = slice(3, 6), 13, slice(14, 17), slice(20, 23)  # in the observation, behind the hand
_CLOSE = 0.1  # m: what is nearer to the hand is seen more closely
_FAST = 0.02  # m in a step
_MIDDLE, _HALF = np.array([1.3, 0.75, 0.45]), np.array([0.26, 0.36, 0.08])  # m, of all places


def fetch_reach(num_envs: int = 8, max_steps: int = 50) -> HostWorld:
    """The hand in the air: three coordinates, seven actions. Needs the extra `robotics`."""
    names = (_of("hand", "x", _DEPTH), _of("hand", "y", _WIDTH), _of("hand", "z", _HEIGHT | {"high": 0.82}))
    actions = primitives(4, moved=(0, 1, 2), diagonal=(), fence=((0, 0), (1, 1), (2, 2)))
    return HostWorld(reach_environment, _hand, names, actions, num_envs, max_steps)


def fetch_push(num_envs: int = 16, max_steps: int = 50) -> HostWorld:
    """The hand just above a table, and a puck on it: five coordinates, eleven actions. Needs the extra `robotics`."""
    hand = (_of("hand", "x", _TABLE[0]), _of("hand", "y", _TABLE[1]), _of("hand", "z", _HEIGHT | {"high": 0.56}))
    puck = (_of("puck", "x", _PUCKS[0]), _of("puck", "y", _PUCKS[1]))
    actions = primitives(4, moved=(0, 1, 2), diagonal=(0, 1), fence=((0, 0), (1, 1), (2, 2)))
    names = (*hand, *puck)
    return HostWorld(push_environment, _hand_and_puck, names, actions, num_envs, max_steps, inputs=_seen_closely)


def _of(thing: str, axis: str, described: dict[str, Any]) -> Feature:
    return Feature(axis, thing, **described, resolution=_TREMBLE * (described["high"] - described["low"]))


def _hand(obs: dict[str, Array]) -> Float[Array, "3"]:
    return obs["observation"][:3]


def _hand_and_puck(obs: dict[str, Array]) -> Float[Array, "5"]:
    return jnp.concatenate([obs["observation"][:3], obs["observation"][_PUCK][:2]])


def _seen_closely(obs: dict[str, Array]) -> Float[Array, "17"]:
    """Where the hand and the puck are, the last centimetres between them, how they move, and how the puck is turned.

    The whole observation, scaled by what random play sees, shows the same, but poorly: as the puck hardly ever moves
    there, any push is off the scale.
    """
    shown = obs["observation"]
    hand, puck = shown[:3], shown[_PUCK]
    speed = shown[_SPEED]
    moves = jnp.concatenate([speed, shown[_HURRY] + speed]) / _FAST  # the puck's is shown beside the hand's
    quarter = 4 * shown[_TURN]  # a cube looks the same after a quarter of a turn
    close = jnp.clip((puck - hand) / _CLOSE, -1, 1)
    places = [(place - _MIDDLE) / _HALF for place in (hand, puck)]
    return jnp.concatenate([*places, close, jnp.clip(moves, -5, 5), jnp.stack([jnp.cos(quarter), jnp.sin(quarter)])])


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
