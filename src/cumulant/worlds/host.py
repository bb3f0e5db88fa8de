"""Any Gymnasium environment as a world: compiled programs step it, on the host, a whole batch in one call."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jax.custom_batching import custom_vmap
from jax.experimental import io_callback
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree, UInt8

from cumulant.goals.feature import Feature, described
from cumulant.worlds.environments import (
    Environment,
    Shown,
    check_actions,
    check_observations,
    made,
    name_of,
    scales,
    shown_by,
    unflatten,
)
from cumulant.worlds.failures import WorldFailed
from cumulant.worlds.pool import HELD, Pool
from cumulant.worlds.primitives import Primitives, primitives

_FAR = 5.0  # standard deviations, beyond which an input is cut off


class HostState(NamedTuple):
    """What a program knows of an episode on the host: what it shows, and which it is."""

    observation: Float[Array, " n"]
    terminated: Bool[Array, ""]
    token: Int[Array, "4"]  # slot, generation, moment, and whether to hold it


@dataclass(frozen=True, init=False)
class HostWorld:
    """A Gymnasium environment, by its id or by a function that makes one, and the features that goals speak of.

    `features` is written in JAX, and takes an observation as the environment shows it: an array, or a dictionary or
    tuple of them. `feature_names` describe what it returns, in their own units. An agent sees the observation flat, as
    `gymnasium.spaces.flatten` has it. The network sees all of that beside the features; or what `inputs` makes of the
    observation, a row of numbers of about [-1, 1], where a good eye needs more than scaling. Environments with
    continuous actions need `actions`, made by `primitives`. Up to `num_envs` episodes go on at once, each for
    `max_steps` actions, by default the environment's own time limit.

    States are tickets: each can be stepped once, and only as long as its environment is not needed for another episode.
    Seeds come from keys, so runs can be repeated as far as the environment can.

    >>> import jax, cumulant
    >>> world = cumulant.HostWorld(
    ...     "CartPole-v1", features=lambda obs: obs[:1], feature_names=(Feature("x", of="cart", low=-2.4, high=2.4),)
    ... )
    >>> state = jax.vmap(world.reset)(jax.random.split(jax.random.key(0), 3))
    >>> following = jax.vmap(world.step)(state, jax.numpy.array([0, 1, 1]))  # one call of the host
    >>> following.observation.shape, jax.vmap(world.features)(following).shape
    ((3, 4), (3, 1))
    """

    environment: Environment
    measure: Callable[[Any], Float[Array, " k"]]
    feature_names: tuple[Any, ...]  # names, or descriptions
    actions: Primitives | None
    num_envs: int
    max_steps: int
    purpose: str
    view: Callable[[Any], Float[Array, " n"]] | None

    def __init__(
        self,
        environment: Environment,
        features: Callable[[Any], Float[Array, " k"]],
        feature_names: tuple[str | Feature, ...],
        actions: Primitives | None = None,
        num_envs: int = 8,
        max_steps: int | None = None,
        purpose: str = "",
        inputs: Callable[[Any], Float[Array, " n"]] | None = None,
    ):
        """Make one environment, and refuse what cannot work with it."""
        spec = shown_by(environment)
        name = name_of(environment)
        check_actions(name, spec.action_space, actions)
        check_observations(name, spec.observation_space)
        limit = max_steps or -(-(spec.limit or 0) // (actions.repeat if actions else 1))
        if limit < 1:
            raise ValueError(f"{name} has no time limit: give max_steps")
        if num_envs < 1:
            raise ValueError(f"a world has at least one environment, but num_envs is {num_envs}")
        names = tuple(feature_names)
        values: dict[str, Any] = {
            "environment": environment,
            "measure": features,
            "feature_names": names,
            "actions": actions,
        }
        values |= {"num_envs": num_envs, "max_steps": limit, "purpose": purpose, "view": inputs}
        for field, value in values.items():
            object.__setattr__(self, field, value)
        self._check_features(name)

    def _check_features(self, name: str) -> None:
        shown = jax.ShapeDtypeStruct((spaces.flatdim(self._spec.observation_space),), jnp.float32)
        found = jax.eval_shape(self.features_of, shown)
        if getattr(found, "shape", None) != (len(self.feature_names),):
            raise ValueError(f"{len(self.feature_names)} names are given for the features of {name}, which are {found}")
        if self.view and len(shape := jax.eval_shape(self._viewed, shown).shape) != 1:
            raise ValueError(f"the inputs of {name} must be a row of numbers, but have shape {shape}")
        fenced = [feature for _, feature in self.actions.fence] if self.actions else []
        if not set(fenced) <= set(range(len(self.feature_names))):
            raise ValueError(f"the fence speaks of features {fenced}, and there are {len(self.feature_names)}")

    def apart(self, purpose: str = "judging") -> "HostWorld":
        """The same world with environments of its own: what is played in one leaves the other's episodes alone."""
        return HostWorld(
            self.environment,
            self.measure,
            self.feature_names,
            self.actions,
            self.num_envs,
            self.max_steps,
            f"{self.purpose}/{purpose}",
            self.view,
        )

    @property
    def described(self) -> dict[str, Any]:
        """Whose library it is, as JSON holds it: the environment and what is made of it."""
        features = [vars(each) | {"words": list(each.words)} for each in described(self.feature_names)]
        actions = None if self.actions is None else [list(row) for row in self.actions.table]
        repeat, fence = (self.actions.repeat, self.actions.fence) if self.actions else (1, ())
        about = {"environment": name_of(self.environment), "features": features, "actions": actions}
        return about | {"repeat": repeat, "fence": [list(pair) for pair in fence], "max_steps": self.max_steps}

    @property
    def at_once(self) -> int:
        """Episodes that can go on at once: whoever plays more does so in waves."""
        return self.num_envs

    @property
    def num_actions(self) -> int:
        """Actions are 0 .. num_actions - 1."""
        return len(self.actions) if self.actions else int(self._spec.action_space.n)  # type: ignore[attr-defined]

    @property
    def _spec(self) -> "Shown":
        return shown_by(self.environment)

    def make(self) -> gymnasium.Env:
        """One such environment, by itself."""
        return made(self.environment)

    def reset(self, key: PRNGKeyArray) -> HostState:
        """An episode from its start, of the seed that the key gives."""
        return _one(_calls(self).reset, _seed(key))

    def step(self, state: HostState, action: Int[Array, ""]) -> HostState:
        """The state that follows. An episode that has come to its end stays there."""
        return _one(_calls(self).step, state.token, self._values(state, action))

    def foresee(self, state: HostState, action: Int[Array, ""]) -> Bool[Array, ""]:
        """Have the host begin with a step that is sure to be asked for; returns at once, and `step` waits for it."""
        return _calls(self).foresee(state.token[None], self._values(state, action)[None])[0]

    def step_unless(self, over: Bool[Array, ""], state: HostState, action: Int[Array, ""]) -> HostState:
        """The same, but for an episode that is over for the player: it stays, and the host does nothing."""
        token = state.token.at[HELD].set(over.astype(jnp.int32))
        following = _one(_calls(self).step, token, self._values(state, action))
        return jax.tree.map(lambda old, new: jnp.where(over, old, new), state, following)

    def restart(self, states: HostState, ended: Bool[Array, " n"], key: PRNGKeyArray) -> HostState:
        """New episodes in place of those that ended; no other environment is reset."""
        seeds = jax.vmap(_seed)(jax.random.split(key, len(ended)))
        fresh = _calls(self).restart(states.token, ended, seeds)
        return jax.tree.map(lambda new, old: jax.vmap(jnp.where)(ended, new, old), fresh, states)

    def observe(self, state: HostState) -> Float[Array, " n"]:
        """The observation, flat."""
        return state.observation

    def features(self, state: HostState) -> Float[Array, " k"]:
        """The features of a state, in their own units."""
        return self.features_of(state.observation)

    def features_of(self, obs: Float[Array, " n"]) -> Float[Array, " k"]:
        """The features of a flat observation, in their own units."""
        return jnp.asarray(self.measure(self.as_shown(obs)), jnp.float32)

    def as_shown(self, obs: Float[Array, " n"]) -> Any:
        """A flat observation as the environment shows it: an array, or a dictionary or tuple of them."""
        return unflatten(self._spec.observation_space, obs)

    def inputs(self, obs: Float[Array, " n"]) -> Float[Array, " i"]:
        """What a network sees of an observation, roughly in [-1, 1]: by default all of it.

        Scaled by its bounds where the environment has any; elsewhere by mean and deviation of a walk at random.
        """
        if self.view:
            return self._viewed(obs)
        centre, scale = scales(self.environment, self.actions)
        return jnp.clip((obs - centre) / scale, -_FAR, _FAR)

    def _viewed(self, obs: Float[Array, " n"]) -> Array:
        assert self.view is not None
        return jnp.asarray(self.view(self.as_shown(obs)), jnp.float32)

    def done(self, state: HostState) -> Bool[Array, ""]:
        """Whether the environment has said that the episode is over."""
        return state.terminated

    def render(self, state: HostState, size: int) -> UInt8[Array, "size size 3"]:
        """What the environment looked like then, as an RGB frame: the episode is played again up to there."""
        return jax.tree.map(lambda leaf: leaf[0], _frames(self, size)(state.token[None]))

    def check_drawable(self) -> None:
        """Draw a start, so that a missing package or screen is told before anything is played.

        Raises:
            ValueError: The environment cannot be drawn; the message is its own.

        """
        try:
            _drawn_once(self)
        except WorldFailed as failure:
            raise ValueError(str(failure)) from None

    def _values(self, state: HostState, action: Int[Array, ""]) -> Float[Array, " d"]:
        """What the environment is given: the number of the action, or its row of the table, within the fence."""
        if self.actions is None:
            return jnp.asarray(action, jnp.float32)[None]
        push = jnp.asarray(self.actions.values)[action]
        if not self.actions.fence:
            return push
        f, ranges = self.features(state), described(self.feature_names)
        for dimension, i in self.actions.fence:
            outwards = ((f[i] <= ranges[i].low) & (push[dimension] < 0)) | (
                (f[i] >= ranges[i].high) & (push[dimension] > 0)
            )
            push = push.at[dimension].set(jnp.where(outwards, 0.0, push[dimension]))
        return push


class _Calls(NamedTuple):
    """The host, for batches: each takes and gives arrays with a leading axis, and under vmap still calls it once."""

    reset: Callable[..., HostState]
    restart: Callable[..., HostState]
    step: Callable[..., HostState]
    foresee: Callable[..., Bool[Array, " n"]]


@cache
def _pool(world: HostWorld) -> Pool:
    repeat = world.actions.repeat if world.actions else 1
    make = partial(made, world.environment)
    return Pool(name_of(world.environment), make, world._spec.observation_space, world.num_envs, repeat)


@cache
def _calls(world: HostWorld) -> _Calls:
    size, pool = spaces.flatdim(world._spec.observation_space), _pool(world)

    def states(n: int) -> PyTree:
        shapes = ((size,), jnp.float32), ((), jnp.bool_), ((HELD + 1,), jnp.int32)
        return HostState._make(jax.ShapeDtypeStruct((n, *shape), kind) for shape, kind in shapes)

    reset, restart, step = (_batched(call, states) for call in (pool.reset, pool.restart, pool.step))
    foresee = _batched(pool.foresee, lambda n: jax.ShapeDtypeStruct((n,), jnp.bool_))
    return _Calls(reset, restart, step, foresee)


@cache
def _drawn_once(world: HostWorld) -> None:
    _pool(world).draw_start()


@cache
def _frames(world: HostWorld, size: int) -> Callable[..., Array]:
    draw = partial(_pool(world).frames, size=size)
    return _batched(draw, lambda n: jax.ShapeDtypeStruct((n, size, size, 3), jnp.uint8))


def _batched(call: Callable[..., Any], results: Callable[[int], PyTree]) -> Callable[..., Any]:
    """A call of the host with leading axes of length n, which under vmap becomes one call with n times as many."""

    def asked(*args: Any) -> Any:
        return call(*(np.asarray(arg) for arg in args))

    @custom_vmap
    def many(*args: Array) -> PyTree:
        # Not ordered: what a call needs of those before it, its arguments bring; so it goes on beside all else.
        return io_callback(asked, results(len(args[0])), *args, ordered=False)

    @many.def_vmap
    def _(size: int, batched: list[bool], *args: Array) -> tuple[PyTree, PyTree]:
        full = [
            arg if own else jnp.broadcast_to(arg, (size, *arg.shape)) for arg, own in zip(args, batched, strict=True)
        ]
        out = many(*(arg.reshape(-1, *arg.shape[2:]) for arg in full))
        apart = jax.tree.map(lambda leaf: leaf.reshape(size, -1, *leaf.shape[1:]), out)
        return apart, jax.tree.map(lambda _: True, apart)

    return many


def _one(call: Callable[..., PyTree], *args: Array) -> PyTree:
    """A call for a single state."""
    return jax.tree.map(lambda leaf: leaf[0], call(*(arg[None] for arg in args)))


def _seed(key: PRNGKeyArray) -> Int[Array, ""]:
    return (jax.random.bits(key, (), jnp.uint32) >> 1).astype(jnp.int32)


def world_of_environment(
    environment: str, features: Callable[[Any], Float[Array, " k"]], **parameters: Any
) -> HostWorld:
    """A world from an id and a function of the observation, where nothing else is said of either.

    The function may have the attribute `feature_names`, which describes what it returns; else there are only numbers.
    Of continuous actions there are `primitives`.
    """
    space = shown_by(environment).action_space
    if isinstance(space, spaces.Box):
        parameters = {"actions": primitives(int(np.prod(space.shape)))} | parameters
    names = getattr(features, "feature_names", None)
    if names is None:
        shown = jax.ShapeDtypeStruct((spaces.flatdim(shown_by(environment).observation_space),), jnp.float32)
        flat = jax.eval_shape(lambda obs: features(unflatten(shown_by(environment).observation_space, obs)), shown)
        names = tuple(f"feature_{i}" for i in range(flat.shape[0]))
    return HostWorld(environment, features, names, **parameters)
