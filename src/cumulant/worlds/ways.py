"""Shortest ways in Spriteworld that never enter what is to be avoided, and never lose what is to be kept.

The agent walks, or drags, over a lattice of the points where its own steps lead. What it carries moves along with it.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from cumulant.goals.tasks import reached
from cumulant.worlds.spriteworld import Spriteworld, State

_FAR = 1e6
_ROUNDS = 4  # of sweeps in all four directions: each lets a way turn several times more
_HEADINGS = ((0, 1), (0, -1), (-1, 0), (1, 0))  # up, down, left, right, as the world's actions


class Bounds(NamedTuple):
    """What the present stage of a plan forbids, as rows of its `PlanTable`."""

    avoid: Bool[Array, "a k m"]
    kept: Bool[Array, "q k m"]

    def broken(self, f: Float[Array, " k"]) -> Bool[Array, ""]:
        """Whether features lie in what is avoided, or outside of what is kept. Only a step that goes there is wrong."""
        return reached(self.avoid, f) | ~reached(self.kept, f)


def barred(world: Spriteworld, bounds: Bounds, state: State) -> Bool[Array, " a"]:
    """Which actions break the bounds at once."""
    following = jax.vmap(lambda action: bounds.broken(world.features(world.step(state, action))))
    return following(jnp.arange(world.num_actions)) & ~bounds.broken(world.features(state))


class Lattice(NamedTuple):
    """Where steps of one length may lead the agent, up to the walls."""

    points: Float[Array, "n n 2"]  # by x, then by y
    here: Int[Array, "2"]  # the agent's own index


def lattice(agent: Float[Array, "2"], stride: float) -> Lattice:
    """The lattice around the agent."""
    here = jnp.ceil(agent / stride).astype(jnp.int32)
    steps = jnp.arange(math.ceil(1 / stride) + 2)
    along = jnp.clip(agent[:, None] + stride * (steps - here[:, None]), 0, 1)  # [2, n]
    return Lattice(jnp.stack(jnp.meshgrid(*along, indexing="ij"), axis=-1), here)


class Way(NamedTuple):
    """The first step of a shortest way."""

    heading: Int[Array, ""]
    length: Float[Array, ""]
    found: Bool[Array, ""]


def carried(state: State, load: Bool[Array, " n"], agent: Float[Array, "2"]) -> State:
    """The state with the agent elsewhere, and with it the objects that it carries."""
    moved = jnp.clip(state.objects + agent - state.agent, 0, 1)
    return State(agent, jnp.where(load[:, None], moved, state.objects))


def way(
    world: Spriteworld, bounds: Bounds, state: State, load: Bool[Array, " n"], grid: Lattice, ends: Bool[Array, "n n"]
) -> Way:
    """The shortest way over a lattice to any of its ends, carrying a load, if there is one that keeps to the bounds."""
    broken = jax.vmap(jax.vmap(lambda agent: bounds.broken(world.features(carried(state, load, agent)))))(grid.points)
    distance = _distances(ends & ~broken, broken)
    around = jnp.clip(grid.here + jnp.array(_HEADINGS), 0, len(ends) - 1)
    wrong = broken[around[:, 0], around[:, 1]] & ~broken[grid.here[0], grid.here[1]]
    each = jnp.where(wrong, _FAR, distance[around[:, 0], around[:, 1]])
    length = distance[grid.here[0], grid.here[1]]
    return Way(each.argmin(), length, length < _FAR)


def _distances(ends: Bool[Array, "n n"], broken: Bool[Array, "n n"]) -> Float[Array, "n n"]:
    """Steps from every point to the nearest end, none of which goes from inside the bounds to outside."""

    def sweep(distance: Array, broken: Array, reverse: bool) -> Array:
        def row(before: tuple[Array, Array], here: tuple[Array, Array]) -> tuple[tuple[Array, Array], Array]:
            nearest = jnp.minimum(here[0], jnp.where(before[1] & ~here[1], _FAR, before[0] + 1))
            return (nearest, here[1]), nearest

        none = (jnp.full_like(distance[0], _FAR), broken[0])
        return jax.lax.scan(row, none, (distance, broken), reverse=reverse)[1]

    def sweeps(_: Int[Array, ""], distance: Array) -> Array:
        for reverse in (False, True):
            distance = sweep(distance, broken, reverse)
            distance = sweep(distance.T, broken.T, reverse).T
        return distance

    return jnp.minimum(jax.lax.fori_loop(0, _ROUNDS, sweeps, jnp.where(ends, 0.0, _FAR)), _FAR)
