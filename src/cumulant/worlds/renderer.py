"""State → RGB: every sprite's signed distance becomes an anti-aliased coverage, painted from the bottom up."""

from typing import NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt8

from cumulant.worlds.protocol import Drawing
from cumulant.worlds.shapes import SHAPES, outline, signed_distance


@runtime_checkable
class Sprites(Protocol):
    """What there is to draw: Spriteworld, or anything with its objects."""

    @property
    def objects(self) -> tuple[str, ...]:
        """Shapes, topmost first."""

    @property
    def half_extent(self) -> float:
        """Of every object."""


@runtime_checkable
class Places(Protocol):
    """Where to draw it: Spriteworld's state."""

    @property
    def agent(self) -> Float[Array, "2"]:
        """The agent's centre."""

    @property
    def objects(self) -> Float[Array, "n 2"]:
        """The objects' centres."""


# Okabe and Ito's palette, told apart by colour-blind readers; one colour per shape.
_COLOURS = "#56b4e9 #e69f00 #009e73 #cc79a7 #f0e442 #d55e00 #0072b2 #999999".split()
AGENT_RADIUS = 0.05
_AGENT_DISCS = ((1.0, "ink"), (0.72, "agent"), (0.3, "ink"))  # share of the radius, colour: an eye, unlike any object


def rgb(colour: str) -> np.ndarray:
    """A hex colour such as "#56b4e9" as three numbers in [0, 1]."""
    return np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)], np.float32) / 255


class Look(NamedTuple):
    """Colours in [0, 1]. A background of [size, size, 3] is a texture."""

    background: Float[Array | np.ndarray, "*texture 3"]
    ink: Float[Array | np.ndarray, "3"]
    agent: Float[Array | np.ndarray, "3"]
    objects: Float[Array | np.ndarray, "n 3"]


def default_look(world: Sprites, size: int = 64) -> Look:
    """Bright objects on slate, each in the colour of its shape; the agent is a white eye."""
    objects = np.stack([rgb(_COLOURS[SHAPES.index(name)]) for name in world.objects])
    return Look(rgb("#20242e"), rgb("#20242e"), rgb("#ffffff"), objects)


def other_colours(world: Sprites, size: int = 64) -> Look:
    """The same sprites in colours that none of them had before."""
    plain = default_look(world)
    return plain._replace(agent=rgb("#ff5ac8"), objects=np.roll(1 - plain.objects, 1, axis=0))


def alike(world: Sprites, size: int = 64) -> Look:
    """Objects that only their shapes tell apart."""
    plain = default_look(world)
    return plain._replace(objects=np.tile(plain.objects[:1], (len(world.objects), 1)))


def textured(world: Sprites, size: int = 64) -> Look:
    """Sprites on smooth noise, brighter and darker than the plain background."""
    noise = np.random.default_rng(0).standard_normal((9, 9, 3)).astype(np.float32)
    cloth = jax.image.resize(jnp.asarray(noise), (size, size, 3), "bicubic")
    return default_look(world)._replace(background=jnp.clip(rgb("#20242e") + 0.06 * cloth, 0, 1))


LOOKS = {"plain": default_look, "other-colours": other_colours, "alike": alike, "textured": textured}


def draw(world: Sprites, state: Places, size: int = 64, look: Look | None = None) -> UInt8[Array, "size size 3"]:
    """An RGB frame, row 0 at the top: state → [size, size, 3]. The object that a drag would take lies above."""
    look = jax.tree.map(jnp.asarray, look or default_look(world))
    centres = (jnp.arange(size) + 0.5) / size
    x, y = centres[None, :], 1 - centres[:, None]
    frame = jnp.broadcast_to(look.background, (size, size, 3))

    def paint(frame: Array, distance: Array, colour: Array) -> Array:
        coverage = jnp.clip(0.5 - size * distance, 0, 1)[..., None]
        return frame + coverage * (colour - frame)

    for i in reversed(range(len(world.objects))):
        dx, dy = (x - state.objects[i, 0]) / world.half_extent, (y - state.objects[i, 1]) / world.half_extent
        frame = paint(frame, world.half_extent * signed_distance(world.objects[i], dx, dy), look.objects[i])
    from_agent = jnp.sqrt((x - state.agent[0]) ** 2 + (y - state.agent[1]) ** 2)
    for share, colour in _AGENT_DISCS:
        frame = paint(frame, from_agent - share * AGENT_RADIUS, getattr(look, colour))
    return jnp.round(255 * frame).astype(jnp.uint8)


def colours(look: Look) -> list[str]:
    """The agent's colour and the objects', in hex."""
    return [_hex(look.agent), *(_hex(colour) for colour in look.objects)]


def drawing(world: Sprites) -> Drawing:
    """The plain look in a page's terms."""
    look = default_look(world)
    outlines = [[], *([list(corner) for corner in outline(name)] for name in world.objects)]
    return Drawing(colours(look), outlines, AGENT_RADIUS, _hex(look.background))


def _hex(colour: Float[Array | np.ndarray, "3"]) -> str:
    return "#" + "".join(f"{round(255 * float(part)):02x}" for part in colour)
