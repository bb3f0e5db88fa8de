"""Spriteworld seen as frames."""

from dataclasses import dataclass, fields
from typing import ClassVar

from jaxtyping import Array, UInt8

from cumulant.worlds.renderer import LOOKS, Look, colours, draw
from cumulant.worlds.spriteworld import Spriteworld, State

_LEAST_SIZE, _GREATEST_SIZE = 8, 1024


@dataclass(frozen=True)
class PixelSpriteworld(Spriteworld):
    """Spriteworld, of which an agent sees RGB frames alone. The coordinates remain what success is judged by.

    >>> import jax
    >>> world = PixelSpriteworld(("square",), size=32)
    >>> world.observe(world.reset(jax.random.key(0))).shape
    (32, 32, 3)
    """

    size: int = 64  # of a frame, in pixels
    look: str = "plain"  # one of LOOKS
    shows_features: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Refuse a world that cannot be."""
        super().__post_init__()
        if not _LEAST_SIZE <= self.size <= _GREATEST_SIZE:
            raise ValueError(f"a frame has {_LEAST_SIZE} to {_GREATEST_SIZE} pixels a side, but size is {self.size}")
        if self.look not in LOOKS:
            raise ValueError(f"unknown look {self.look!r}: choose from {', '.join(LOOKS)}")

    def observe(self, state: State) -> UInt8[Array, "size size 3"]:
        """The frame, and nothing else."""
        return self.render(state, self.size)

    def render(self, state: State, size: int = 64, look: Look | None = None) -> UInt8[Array, "size size 3"]:
        """The state as an RGB frame in the world's own look: [size, size, 3]."""
        return draw(self, state, size, look or LOOKS[self.look](self, size))

    @property
    def colours(self) -> dict[str, str]:
        """Of every sprite, in hex, as the world's own look has it."""
        return dict(zip(self.sprites, colours(LOOKS[self.look](self)), strict=True))

    @property
    def fully_observed(self) -> Spriteworld:
        """The same world showing its coordinates."""
        return Spriteworld(**{field.name: getattr(self, field.name) for field in fields(Spriteworld)})
