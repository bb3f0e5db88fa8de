"""Shortest ways in Spriteworld that never enter what is to be avoided, and never lose what is to be kept.

The agent walks, or drags, over a lattice of the points where its own steps lead. Bounds are made of boxes, so whether a
point keeps to them is found for its x and for its y apart.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from cumulant.goals.tasks import GoalTable, met, reached
from cumulant.worlds.spriteworld import Spriteworld, State

_FAR = 1e6
_ROUNDS = 3  # of sweeps in all four directions: each lets a way turn several times more


class Bounds(NamedTuple):
    """What the present stage of a plan forbids, as rows of its `PlanTable`. Only to break them is wrong."""

    avoid: GoalTable | Bool[Array, "a k m"]
    kept: GoalTable | Bool[Array, "q k m"]

    def broken(self, f: Float[Array, " k"]) -> Bool[Array, ""]:
        """Whether features lie in what is avoided, or outside of what is kept."""
        return reached(self.avoid, f) | ~reached(self.kept, f)

    def broken_over(self, places: Float[Array, "2 n sprites"]) -> Bool[Array, "n n"]:
        """The same for every x of the sprites with every y of theirs."""
        return _held(self.avoid, places) | ~_held(self.kept, places)


def barred(world: Spriteworld, bounds: Bounds, state: State) -> Bool[Array, " a"]:
    """Which actions break the bounds at once."""
    following = jax.vmap(lambda action: bounds.broken(world.features(world.step(state, action))))
    return following(jnp.arange(world.num_actions)) & ~bounds.broken(world.features(state))


class Lattice(NamedTuple):
    """Where the agent's drags may lead it, up to the walls. Its moves go `stride` of these steps at once."""

    along: Float[Array, "2 n"]  # its x, and its y
    here: Int[Array, "2"]  # the index of where it is
    stride: int

    @property
    def points(self) -> Float[Array, "n n 2"]:
        """By x, then by y."""
        return jnp.stack(jnp.meshgrid(*self.along, indexing="ij"), axis=-1)


def lattice(world: Spriteworld, agent: Float[Array, "2"]) -> Lattice:
    """The lattice around the agent."""
    stride = max(1, round(1 / world.drag_ratio))
    fine = world.step_size / stride
    here = jnp.ceil(agent / fine).astype(jnp.int32)
    steps = jnp.arange(math.ceil(1 / fine) + 2)
    return Lattice(jnp.clip(agent[:, None] + fine * (steps - here[:, None]), 0, 1), here, stride)


def places(
    state: State, agents: Float[Array, "2 n"], load: Bool[Array, " o"], by: Float[Array, "2 #n"]
) -> Float[Array, "2 n sprites"]:
    """Where all sprites are, along x and along y, with the agent in many places, and a load moved by as many."""
    objects = state.objects.T[:, None, :] + jnp.where(load, by[:, :, None], 0)
    objects = jnp.broadcast_to(objects, (*agents.shape, len(load)))
    return jnp.clip(jnp.concatenate([agents[:, :, None], objects], axis=2), 0, 1)


class Way(NamedTuple):
    """The first action of a shortest way."""

    action: Int[Array, ""]
    found: Bool[Array, ""]


def way_to_carry(
    bounds: Bounds, state: State, load: Bool[Array, " o"], grid: Lattice, place: GoalTable | Bool[Array, "1 2 m"]
) -> Way:
    """The shortest way by drags alone to where a load, which moves along, lies where its x and its y are to be."""
    sprites = places(state, grid.along, load, grid.along - state.agent[:, None])
    ends = lies(place, sprites[:, :, 1 + load.argmax()])
    outside = bounds.broken_over(sprites)
    return _first(grid, _distances(ends, outside), outside, moves=False)


def way_to_walk(
    bounds: Bounds, state: State, grid: Lattice, ends: Bool[Array, "n n"], floor: Bool[Array, "n n"]
) -> Way:
    """The shortest way to an end of the lattice by moves, and by drags on free floor."""
    outside = bounds.broken_over(places(state, grid.along, jnp.zeros(len(state.objects), bool), jnp.zeros((2, 1))))
    distance = _distances(ends, outside, grid.stride, floor)
    return _first(grid, distance, outside, moves=True, drags=floor[tuple(grid.here)])


def lies(place: GoalTable | Bool[Array, "1 2 m"], along: Float[Array, "2 n"]) -> Bool[Array, "n n"]:
    """Whether every x with every y lies where a single sprite's are to be."""
    return _held(place, along[:, :, None])


def _held(table: GoalTable | Bool[Array, "c k m"], sprites: Float[Array, "2 n sprites"]) -> Bool[Array, "n n"]:
    """Whether a task holds for every x of the sprites with every y of theirs."""
    _, n, number = sprites.shape
    along = sprites.transpose(1, 2, 0).reshape(n, -1)  # [n, k]: the i-th x beside the i-th y
    each = jax.vmap(met, (None, 0))(table, along).reshape(n, -1, number, 2)  # [n, c, sprites, 2]
    x, y = each.all(axis=2).T  # [2, c, n]
    return (x[:, :, None] & y[:, None, :]).any(axis=0)


def _first(
    grid: Lattice, distance: Float[Array, "n n"], outside: Bool[Array, "n n"], moves: bool, drags: Array | bool = True
) -> Way:
    headings = jnp.array([(0, 1), (0, -1), (-1, 0), (1, 0)])  # up, down, left, right, as the world's actions
    following = jnp.clip(grid.here + jnp.concatenate([grid.stride * headings, headings]), 0, len(distance) - 1)
    there, here = tuple(following.T), tuple(grid.here)
    taken = jnp.concatenate([jnp.full(4, moves), jnp.broadcast_to(drags, 4)]) & ~(outside[there] & ~outside[here])
    return Way(jnp.where(taken, distance[there], _FAR).argmin(), distance[here] < _FAR)


def _distances(
    ends: Bool[Array, "n n"], outside: Bool[Array, "n n"], stride: int = 1, single: Bool[Array, "n n"] | None = None
) -> Float[Array, "n n"]:
    """Actions from every point to the nearest end, none of which leads out of the bounds.

    An action goes `stride` steps of the lattice, or fewer up to its edge; from some points it may go a `single` one.
    """
    single = jnp.zeros_like(ends) if single is None else single

    def sweep(distance: Array, outside: Array, single: Array) -> Array:
        """Along the first axis, from the first row on."""

        def row(before: tuple[Array, Array], here: tuple[Array, ...]) -> tuple[tuple[Array, Array], Array]:
            costs = before[0] + jnp.where(before[1] & ~here[1], _FAR, 1)  # [stride, n], the last row last
            nearest = jnp.minimum(here[0], costs[0])
            if stride > 1:
                nearest = jnp.minimum(nearest, jnp.where(here[2], costs[-1], _FAR))
            return (jnp.stack([*before[0][1:], nearest]), jnp.stack([*before[1][1:], here[1]])), nearest

        edge = (jnp.stack([distance[0]] * stride), jnp.stack([outside[0]] * stride))
        return jax.lax.scan(row, edge, (distance, outside, single))[1]

    def sweeps(_: Int[Array, ""], distance: Array) -> Array:
        for turns in range(4):
            turned = (jnp.rot90(part, turns) for part in (distance, outside, single))
            distance = jnp.rot90(sweep(*turned), -turns)
        return distance

    return jnp.minimum(jax.lax.fori_loop(0, _ROUNDS, sweeps, jnp.where(ends, 0.0, _FAR)), _FAR)
