"""What an environment of Gymnasium's says of itself: its spaces, its name, and how large its numbers are."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import gymnasium
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit
from jaxtyping import Array, Float

from cumulant.worlds.pool import Pool
from cumulant.worlds.primitives import Primitives

Environment = str | Callable[[], gymnasium.Env]
_PROBED = 256  # steps at random that show how large the numbers are of which the environment does not say it
_HUGE = 1e6  # a bound as good as none


class Shown(NamedTuple):
    """What an environment says of itself."""

    observation_space: spaces.Space
    action_space: spaces.Space
    limit: int | None  # of its steps, if it has one


@cache
def shown_by(environment: Environment) -> Shown:
    """What an environment says of itself, asked once."""
    env = gymnasium.make(environment, disable_env_checker=True) if isinstance(environment, str) else environment()
    limits = [each._max_episode_steps for each in _wrappers(env) if isinstance(each, TimeLimit)]
    limit = min(limits, default=env.spec.max_episode_steps if env.spec else None)
    spec = Shown(env.observation_space, env.action_space, limit)
    env.close()
    return spec


def made(environment: Environment, render_mode: str | None = None) -> gymnasium.Env:
    """An environment without a time limit of its own: the world has one."""
    if isinstance(environment, str):
        mode = {"render_mode": render_mode} if render_mode else {}  # not every environment knows of such
        return gymnasium.make(environment, max_episode_steps=-1, disable_env_checker=True, **mode)
    env = environment()
    for wrapper in _wrappers(env):
        if isinstance(wrapper, TimeLimit):
            wrapper._max_episode_steps = np.iinfo(np.int64).max
    return env


def _wrappers(env: gymnasium.Env) -> list[gymnasium.Wrapper]:
    found = []
    while isinstance(env, gymnasium.Wrapper):
        found.append(env)
        env = env.env
    return found


def name_of(environment: Environment) -> str:
    """What to call it: its id, or the name of what makes it."""
    if isinstance(environment, str):
        return environment
    return getattr(environment, "__qualname__", type(environment).__qualname__)


def check_actions(name: str, space: spaces.Space, actions: Primitives | None) -> None:
    """Refuse actions that do not fit the environment's."""
    if isinstance(space, spaces.Discrete):
        if actions is not None:
            raise ValueError(f"{name} has {space.n} actions already: give none")
        return
    if not isinstance(space, spaces.Box):
        raise ValueError(f"the actions of {name} are {space}: only Discrete ones and a Box can be taken")
    dimensions = int(np.prod(space.shape))
    if actions is None:
        raise ValueError(f"{name} has continuous actions: give actions=cumulant.primitives({dimensions})")
    if actions.values.shape[1] != dimensions:
        raise ValueError(f"{name} has actions of {dimensions} dimensions, but these have {actions.values.shape[1]}")


def check_observations(name: str, space: spaces.Space) -> None:
    """Refuse observations that cannot be laid flat."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        for part in space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces:
            check_observations(name, part)
    elif not isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiBinary):
        raise ValueError(f"{name} shows {space}: only Box, Discrete, MultiBinary, Dict and Tuple can be seen")


def unflatten(space: spaces.Space, flat: Float[Array, " n"]) -> Any:
    """An observation as the environment shows it, from what `gymnasium.spaces.flatten` made of it."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        parts = dict(space.spaces) if isinstance(space, spaces.Dict) else dict(enumerate(space.spaces))
        cuts = np.cumsum([spaces.flatdim(part) for part in parts.values()])[:-1]
        pieces = zip(parts.items(), jnp.split(flat, cuts), strict=True)
        shown = {name: unflatten(part, piece) for (name, part), piece in pieces}
        return shown if isinstance(space, spaces.Dict) else tuple(shown.values())
    if isinstance(space, spaces.Discrete):
        return jnp.argmax(flat).astype(jnp.int32) + int(space.start)
    assert space.shape is not None
    return flat.reshape(space.shape)


@cache
def scales(environment: Environment, actions: Primitives | None) -> tuple[np.ndarray, np.ndarray]:
    """Centre and scale of every number of a flat observation."""
    space = shown_by(environment).observation_space
    flat = spaces.flatten_space(space)
    assert isinstance(flat, spaces.Box)
    low, high = flat.low.astype(np.float64), flat.high.astype(np.float64)
    bounded = (np.abs(low) < _HUGE) & (np.abs(high) < _HUGE) & (low < high)
    if bounded.all():
        return ((low + high) / 2).astype(np.float32), ((high - low) / 2).astype(np.float32)
    walked = _walk(environment, actions, space)
    spread = walked.std(axis=0)
    spread = np.where(spread > 1e-6 * np.maximum(1, np.abs(walked).max(axis=0)), spread, 1.0)
    centre = np.where(bounded, (np.where(bounded, low, 0) + np.where(bounded, high, 0)) / 2, walked.mean(axis=0))
    scale = np.where(bounded, (np.where(bounded, high, 0) - np.where(bounded, low, 0)) / 2, spread)
    return centre.astype(np.float32), scale.astype(np.float32)


def _walk(environment: Environment, actions: Primitives | None, space: spaces.Space) -> Float[np.ndarray, "t n"]:
    """What an environment shows under random actions, in a few episodes of the seeds 0, 1, ..."""
    repeat = actions.repeat if actions else 1
    pool = Pool(name_of(environment), partial(made, environment), space, 8, repeat)
    random = np.random.default_rng(0)
    table = actions.values if actions else np.arange(shown_by(environment).action_space.n, dtype=np.float32)[:, None]  # type: ignore[attr-defined]
    seen, _, tokens = pool.reset(np.arange(8))
    walked = [seen]
    for _ in range(_PROBED // 8):
        seen, _, tokens = pool.step(tokens, table[random.integers(len(table), size=8)])
        walked.append(seen)
    return np.concatenate(walked).astype(np.float64)
