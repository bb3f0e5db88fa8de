"""What every world offers, and how copies of one run side by side: the only view of a world that learning has."""

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree, Shaped, UInt8

from cumulant.goals.feature import Feature


@runtime_checkable
class World(Protocol):
    """A world of pure functions. A state is any pytree; a world is hashable, so that it can be a static argument.

    Beside what every world has, it may have: `inputs(obs)`, what the network is to see beside the features, [n];
    `done(state)`, whether the episode cannot go on; `render(state, size)`, an RGB frame; `action_names`, its actions in
    words. A world whose observation is its features says so by `shows_features = True`.

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
    def feature_names(self) -> tuple[str | Feature, ...]:
        """The k features: bare names of numbers in [0, 1], or descriptions with a range, a unit and words."""

    @property
    def max_steps(self) -> int:
        """The time limit of an episode."""

    def reset(self, key: PRNGKeyArray) -> PyTree:
        """A random first state."""

    def step(self, state: PyTree, action: Int[Array, ""]) -> PyTree:
        """The state that follows."""

    def observe(self, state: PyTree) -> PyTree:
        """What an agent sees of a state."""

    def features(self, state: PyTree) -> Float[Array, " k"]:
        """The features of a state, each within its range: [0, 1] where it has only a name."""


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
    check_drawable(world)
    return world.render(state, size)  # type: ignore[attr-defined]


def check_drawable(world: World) -> None:
    """Refuse a world without frames to show, before anything is played.

    Raises:
        ValueError: The world has no `render`, or its environment lacks what it draws with.

    """
    inner = world
    while isinstance(inner, Around):
        inner = inner.world
    if not hasattr(inner, "render"):
        raise ValueError(
            f"a world of kind {type(inner).__name__} cannot be drawn: it has no `render`; "
            "give it render(state, size), which returns an RGB frame"
        )
    if hasattr(inner, "check_drawable"):
        inner.check_drawable()


class Episodes(NamedTuple):
    """n copies of a world, each in the middle of its episode. The states' leaves have a leading axis n."""

    state: PyTree
    time: Int[Array, " n"]


class Timestep(NamedTuple):
    """What one step of n episodes shows. `final_obs` is where the action led; `obs` is where to act next.

    The two differ only where an episode ended: by success (`terminated`), since the world cannot go on (`done`), or by
    the time limit (`truncated`). Then `obs` already belongs to the next one. Values bootstrap from `final_obs`; success
    and `done` stop them.
    """

    obs: PyTree[Shaped[Array, "n ..."]]
    final_obs: PyTree[Shaped[Array, "n ..."]]
    terminated: Bool[Array, " n"]
    truncated: Bool[Array, " n"]
    done: Bool[Array, " n"]

    @property
    def ended(self) -> Bool[Array, " n"]:
        """Where a new episode began."""
        return self.terminated | self.truncated | self.done


Goal = Callable[[PyTree], Bool[Array, ""]]  # a predicate on one state


def never(state: PyTree) -> Bool[Array, ""]:
    """The goal of free play: no state ends it."""
    return jnp.zeros((), bool)


def done_in(world: World, state: PyTree) -> Bool[Array, ""]:
    """Whether the world cannot go on from a state. Most worlds always can."""
    return world.done(state) if hasattr(world, "done") else jnp.zeros((), bool)


def ends(world: World) -> bool:
    """Whether there are states from which the world cannot go on."""
    return getattr(world, "ends", hasattr(world, "done"))


class Around:
    """What a world that is put around another takes from it as it is."""

    world: World

    @property
    def num_actions(self) -> int:
        """As in the world."""
        return self.world.num_actions

    @property
    def feature_names(self) -> tuple[str | Feature, ...]:
        """As in the world."""
        return self.world.feature_names

    @property
    def ends(self) -> bool:
        """Whether the world ever cannot go on."""
        return ends(self.world)


def begin(world: World, key: PRNGKeyArray, num: int) -> Episodes:
    """`num` new episodes."""
    return Episodes(jax.vmap(world.reset)(jax.random.split(key, num)), jnp.zeros(num, jnp.int32))


def restarted(
    world: World, states: PyTree[Shaped[Array, "n ..."]], ended: Bool[Array, " n"], key: PRNGKeyArray
) -> PyTree[Shaped[Array, "n ..."]]:
    """The states, with a random first one in place of each where an episode ended."""

    def fresh(_: None) -> PyTree:
        if hasattr(world, "restart"):  # a world that is costly to reset does no more than that
            return world.restart(states, ended, key)
        new = jax.vmap(world.reset)(jax.random.split(key, len(ended)))
        return jax.tree.map(lambda new, old: jax.vmap(jnp.where)(ended, new, old), new, states)

    # Most steps end no episode, and then no start need be drawn: ten times the speed on a CPU.
    return jax.lax.cond(ended.any(), fresh, lambda _: states, None)


def step_unless(world: World, over: Bool[Array, ""], state: PyTree, action: Int[Array, ""]) -> PyTree:
    """The state that follows, or the same if the episode is over; a world that is costly to step is not stepped."""
    if hasattr(world, "step_unless"):
        return world.step_unless(over, state, action)
    return jax.tree.map(lambda old, new: jnp.where(over, old, new), state, world.step(state, action))


def at_once(world: World) -> int | None:
    """How many episodes of a world can go on at once, if there is a limit but memory: it is one on the host."""
    return getattr(world, "at_once", None)


def colours_of(world: World) -> Mapping[str, str]:
    """The colours of a world's things, in hex, by which phrases may speak of them; none, if it does not say."""
    return getattr(world, "colours", {})


def apart(world: World) -> World:
    """The world, to play in while episodes of it go on elsewhere."""
    return world.apart() if hasattr(world, "apart") else world


def advance(
    world: World,
    episodes: Episodes,
    action: Int[Array, " n"],
    key: PRNGKeyArray,
    goal: Goal = never,
    observe: Callable[[PyTree], PyTree] | None = None,
) -> tuple[Episodes, Timestep]:
    """One step of every episode, and a new episode (from `key`) in place of each that ended.

    `observe` takes the place of the world's own, to see frames for instance. A start that already lies in the goal
    counts as success on the first step, whatever the action.
    """
    state, time = jax.vmap(world.step)(episodes.state, action), episodes.time + 1
    terminated = jax.vmap(goal)(state) | jax.vmap(goal)(episodes.state)
    done = ~terminated & jax.vmap(lambda state: done_in(world, state))(state)
    truncated = ~terminated & ~done & (time >= world.max_steps)
    ended = terminated | truncated | done
    following = Episodes(restarted(world, state, ended, key), jnp.where(ended, 0, time))
    observe = jax.vmap(observe or world.observe)
    return following, Timestep(observe(following.state), observe(state), terminated, truncated, done)
