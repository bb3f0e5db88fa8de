"""Spriteworld: an agent that walks over objects and drags the one it stands on (the paper's appendix A.1)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt8
from msgspec import Meta

from cumulant.config import Positive, check_settings
from cumulant.worlds.protocol import Drawing
from cumulant.worlds.renderer import Look, draw, drawing
from cumulant.worlds.shapes import SHAPES, signed_distance

_MAX_STEPS = 100_000  # of an episode, all of which is kept
ACTIONS = ("up", "down", "left", "right", "drag up", "drag down", "drag left", "drag right")


class State(NamedTuple):
    """Positions in the arena [0, 1]², y upwards."""

    agent: Float[Array, "2"]
    objects: Float[Array, "n 2"]


@dataclass(frozen=True)
class Spriteworld:
    """The world's parameters, and its pure functions. The paper gives neither sizes nor lengths: these are ours.

    >>> import jax, cumulant
    >>> world = cumulant.Spriteworld(("square", "circle"))
    >>> state = world.reset(jax.random.key(0))
    >>> following = world.step(state, jax.numpy.int32(3))  # to the right
    >>> world.observe(following).shape  # x and y of agent, square and circle
    (6,)
    """

    objects: tuple[str, ...] = ("square", "circle")  # topmost first; each is named after its shape
    step_size: Positive = 0.1
    drag_ratio: Positive = 0.5  # how far a drag goes, as a part of a step
    half_extent: Positive = 0.1  # of every object
    max_steps: Annotated[int, Meta(ge=1, le=_MAX_STEPS)] = 100
    shows_features: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse a world that cannot be."""
        if isinstance(self.objects, str) or not all(isinstance(name, str) for name in self.objects):
            raise ValueError(f"objects are names of shapes, but got {self.objects!r}")
        object.__setattr__(self, "objects", tuple(self.objects))
        unknown = [name for name in self.objects if name not in SHAPES]
        if unknown:
            raise ValueError(f"unknown object {unknown[0]!r}: choose from {', '.join(SHAPES)}")
        if len(set(self.objects)) != len(self.objects):
            raise ValueError(f"every object may appear once, but got {', '.join(self.objects)}")
        if not self.objects:
            raise ValueError(f"a world has 1 to {len(SHAPES)} objects, but got none")
        check_settings(self)

    @property
    def num_actions(self) -> int:
        """Four moves, then four drags."""
        return len(ACTIONS)

    @property
    def action_names(self) -> tuple[str, ...]:
        """In words."""
        return ACTIONS

    @property
    def sprites(self) -> tuple[str, ...]:
        """The agent's and the objects' names, in the order of the observation."""
        return ("agent", *self.objects)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """agent_x, agent_y, square_x, ...: the k coordinates."""
        return tuple(f"{sprite}_{axis}" for sprite in self.sprites for axis in "xy")

    def reset(self, key: PRNGKeyArray) -> State:
        """Every sprite somewhere, uniformly."""
        positions = jax.random.uniform(key, (len(self.sprites), 2))
        return State(positions[0], positions[1:])

    def step(self, state: State, action: Int[Array, ""]) -> State:
        """Move, or drag the topmost object under the agent's centre by what the agent really moved."""
        drag, heading = action >= 4, action % 4
        direction = jnp.stack([(heading == 3) * 1.0 - (heading == 2), (heading == 0) * 1.0 - (heading == 1)])
        length = self.step_size * jnp.where(drag, self.drag_ratio, 1.0)
        agent = jnp.clip(state.agent + length * direction, 0, 1)
        moved = jnp.clip(state.objects + (agent - state.agent), 0, 1)
        dragged = drag & self.topmost(state.agent, state.objects)
        return State(agent, jnp.where(dragged[:, None], moved, state.objects))

    def covers(self, point: Float[Array, "2"], objects: Float[Array, "n 2"]) -> Bool[Array, " n"]:
        """Which objects the point lies in, edges included: [2], [n, 2] → [n]."""
        offset = (point - objects) / self.half_extent
        return jnp.stack([signed_distance(shape, *offset[i]) <= 0 for i, shape in enumerate(self.objects)])

    def topmost(self, point: Float[Array, "2"], objects: Float[Array, "n 2"]) -> Bool[Array, " n"]:
        """The object that a drag at this point would take, at most one: [2], [n, 2] → [n]."""
        covers = self.covers(point, objects)
        return covers & (jnp.cumsum(covers) == 1)

    def observe(self, state: State) -> Float[Array, " k"]:
        """The vector (agent_x, agent_y, square_x, square_y, ...)."""
        return self.features(state)

    def features(self, state: State) -> Float[Array, " k"]:
        """The true disentangled features are the coordinates themselves."""
        return jnp.concatenate([state.agent, state.objects.reshape(-1)])

    def render(self, state: State, size: int = 64, look: Look | None = None) -> UInt8[Array, "size size 3"]:
        """The state as an RGB frame: [size, size, 3]."""
        return draw(self, state, size, look)

    @property
    def drawing(self) -> Drawing:
        """How a page draws it."""
        return drawing(self)

    @property
    def colours(self) -> dict[str, str]:
        """Of every sprite, in hex."""
        return dict(zip(self.sprites, self.drawing.colours, strict=True))

    @property
    def fully_observed(self) -> "Spriteworld":
        """The same world showing its coordinates, which the oracle reads."""
        return self

    def state_of(self, coordinates: Float[Array, " k"]) -> State:
        """The inverse of `features`: [k] → State."""
        return State(coordinates[:2], coordinates[2:].reshape(-1, 2))
