"""Spriteworld seen as frames, and the frames of a play without reward or purpose, from which features are learnt."""

from dataclasses import dataclass, fields
from typing import NamedTuple

import jax
from jaxtyping import Array, PRNGKeyArray, UInt8

from cumulant.policy import play_from, random_policy
from cumulant.renderer import LOOKS, render
from cumulant.spriteworld import Spriteworld, State
from cumulant.world import World, never


@dataclass(frozen=True)
class PixelSpriteworld(Spriteworld):
    """The same world, of which an agent sees RGB frames alone. The coordinates remain what success is judged by."""

    size: int = 64  # of a frame, in pixels
    look: str = "plain"  # one of LOOKS

    def __post_init__(self) -> None:
        """Refuse a world that cannot be."""
        super().__post_init__()
        if self.size < 8:
            raise ValueError(f"a frame has at least 8 pixels a side, but size is {self.size}")
        if self.look not in LOOKS:
            raise ValueError(f"unknown look {self.look!r}: choose from {', '.join(LOOKS)}")

    def observe(self, state: State) -> UInt8[Array, "size size 3"]:
        """The frame, and nothing else."""
        return render(self, state, self.size)

    @property
    def seen_through(self) -> Spriteworld:
        """The same world, where the coordinates are seen."""
        return Spriteworld(**{field.name: getattr(self, field.name) for field in fields(Spriteworld)})


class Pairs(NamedTuple):
    """Frames and those that followed one action later."""

    before: UInt8[Array, "n size size 3"]
    after: UInt8[Array, "n size size 3"]


_SPACING, _MOMENTS = 10, 8  # of an episode, every tenth step, eight times: neighbours in time are too much alike


def explore(world: World, key: PRNGKeyArray, pairs: int) -> Pairs:
    """What random play sees, rendered where the program runs: pairs of frames, one action apart."""

    def episode(key: PRNGKeyArray) -> Pairs:
        key_start, key_play = jax.random.split(key)
        steps = _SPACING * _MOMENTS
        states = play_from(world, random_policy(world), never, world.reset(key_start), key_play, steps).states
        chosen = [jax.tree.map(lambda leaf, i=i: leaf[i:steps:_SPACING], states) for i in (0, 1)]
        return Pairs(*(jax.vmap(world.observe)(part) for part in chosen))

    episodes = jax.jit(jax.vmap(episode))(jax.random.split(key, -(-pairs // _MOMENTS)))
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[:pairs], episodes)
