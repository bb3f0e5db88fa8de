"""What every world offers, and how copies of one run side by side: the only view of a world that learning has."""

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree, Shaped, UInt8


@runtime_checkable
class World(Protocol):
    """A world of pure functions. A state is any pytree; a world is hashable, so that it can be a static argument.

    >>> from dataclasses import dataclass
    >>> import jax, jax.numpy as jnp, cumulant
    >>> @dataclass(frozen=True)
    ... class Dial:
    ...     num_actions: int = 2
    ...     max_steps: int = 20
    ...     feature_names: tuple[str, ...] = ("dial",)
    ...     def reset(self, key):
    ...         return jax.random.uniform(key, (1,))
    ...     def step(self, state, action):
    ...         return jnp.clip(state + 0.1 * (2 * action - 1), 0, 1)
    ...     def observe(self, state):
    ...         return state
    ...     def features(self, state):
    ...         return state
    >>> isinstance(Dial(), cumulant.World)
    True
    """

    @property
    def num_actions(self) -> int:
        """Actions are 0 .. num_actions - 1."""

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the k true features."""

    @property
    def max_steps(self) -> int:
        """The time limit of an episode."""

    def reset(self, key: PRNGKeyArray) -> PyTree:
        """A random first state."""

    def step(self, state: PyTree, action: Int[Array, ""]) -> PyTree:
        """The state that follows."""

    def observe(self, state: PyTree) -> Shaped[Array, "..."]:
        """What an agent sees of a state."""

    def features(self, state: PyTree) -> Float[Array, " k"]:
        """The true features of a state, each in [0, 1]."""


class Drawing(NamedTuple):
    """What a page needs to draw sprites by itself: the agent's first, then the objects'. Colours in hex."""

    colours: list[str]
    outlines: list[list[list[float]]]  # corners in half-extents; none for a circle, or for the agent
    agent_radius: float
    background: str


@runtime_checkable
class Arena(World, Protocol):
    """A world of sprites at places, which a page can draw: its features are the sprites' coordinates, x then y."""

    @property
    def sprites(self) -> tuple[str, ...]:
        """Their names, in the order of the features; the first is the agent."""

    @property
    def objects(self) -> tuple[str, ...]:
        """The sprites but the agent, topmost first."""

    @property
    def half_extent(self) -> float:
        """Of every object."""

    @property
    def action_names(self) -> tuple[str, ...]:
        """The actions, in words."""

    @property
    def drawing(self) -> Drawing:
        """How a page draws it."""

    def state_of(self, coordinates: Float[Array, " k"]) -> PyTree:
        """The state whose features these are."""

    def render(self, state: PyTree, size: int) -> UInt8[Array, "size size 3"]:
        """A state as an RGB frame."""


def render(world: World, state: PyTree, size: int = 64) -> UInt8[Array, "size size 3"]:
    """A state as an RGB frame, row 0 at the top, in any world that can be drawn: [size, size, 3].

    >>> import jax, cumulant
    >>> world = cumulant.Spriteworld()
    >>> cumulant.render(world, world.reset(jax.random.key(0)), size=32).shape
    (32, 32, 3)
    """
    if not hasattr(world, "render"):
        raise ValueError(f"a world of kind {type(world).__name__} cannot be drawn: it has no `render`")
    return world.render(state, size)


class Episodes(NamedTuple):
    """n copies of a world, each in the middle of its episode. The states' leaves have a leading axis n."""

    state: PyTree
    time: Int[Array, " n"]


class Timestep(NamedTuple):
    """What one step of n episodes shows. `final_obs` is where the action led; `obs` is where to act next.

    The two differ only where an episode ended, by success (`terminated`) or by the time limit (`truncated`),
    and `obs` already belongs to the next one. Values bootstrap from `final_obs`, and only `terminated` stops them.
    """

    obs: Shaped[Array, "n ..."]
    final_obs: Shaped[Array, "n ..."]
    terminated: Bool[Array, " n"]
    truncated: Bool[Array, " n"]


Goal = Callable[[PyTree], Bool[Array, ""]]  # a predicate on one state


def never(state: PyTree) -> Bool[Array, ""]:
    """The goal of free play: no state ends it."""
    return jnp.zeros((), bool)


def begin(world: World, key: PRNGKeyArray, num: int) -> Episodes:
    """`num` new episodes."""
    return Episodes(jax.vmap(world.reset)(jax.random.split(key, num)), jnp.zeros(num, jnp.int32))


def restart(world: World, states: PyTree, ended: Bool[Array, " n"], key: PRNGKeyArray) -> PyTree:
    """States with a new start in place of each that ended; a world that is costly to reset does no more than that."""
    if hasattr(world, "restart"):
        return world.restart(states, ended, key)
    fresh = begin(world, key, len(ended)).state
    return jax.tree.map(lambda new, old: jax.vmap(jnp.where)(ended, new, old), fresh, states)


def step_unless(world: World, over: Bool[Array, ""], state: PyTree, action: Int[Array, ""]) -> PyTree:
    """The state that follows, or the same if the episode is over; a world that is costly to step is not stepped."""
    if hasattr(world, "step_unless"):
        return world.step_unless(over, state, action)
    return jax.tree.map(lambda old, new: jnp.where(over, old, new), state, world.step(state, action))


def at_once(world: World) -> int | None:
    """How many episodes of a world can go on at once, if there is a limit but memory: it is one on the host."""
    return getattr(world, "at_once", None)


def apart(world: World) -> World:
    """The world, to play in while episodes of it go on elsewhere."""
    return world.apart() if hasattr(world, "apart") else world


def advance(
    world: World,
    episodes: Episodes,
    action: Int[Array, " n"],
    key: PRNGKeyArray,
    goal: Goal = never,
    observe: Callable[[PyTree], Shaped[Array, "..."]] | None = None,
) -> tuple[Episodes, Timestep]:
    """One step of every episode, and a new episode (from `key`) in place of each that ended.

    `observe` takes the place of the world's own, to see frames for instance. A start that already lies in the goal
    counts as success on the first step, whatever the action.
    """
    state, time = jax.vmap(world.step)(episodes.state, action), episodes.time + 1
    terminated = jax.vmap(goal)(state) | jax.vmap(goal)(episodes.state) | jax.vmap(getattr(world, "done", never))(state)
    truncated = ~terminated & (time >= world.max_steps)
    ended = terminated | truncated

    def replace(_: None) -> Episodes:
        return Episodes(restart(world, state, ended, key), jnp.where(ended, 0, time))

    # Most steps end no episode, and then no start need be drawn: ten times the speed on a CPU.
    following = jax.lax.cond(ended.any(), replace, lambda _: Episodes(state, time), None)
    observe = jax.vmap(observe or world.observe)
    return following, Timestep(observe(following.state), observe(state), terminated, truncated)
