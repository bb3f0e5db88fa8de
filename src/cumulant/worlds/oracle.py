"""A scripted player that solves any task from the true state, with no learning: the upper bound of every evaluation.

Objects are placed from the bottom up, the agent last. A drag takes the topmost object, so what is placed already can
never be disturbed by what is placed later, and an object in the way is always one that still has its turn.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from cumulant.goals.bins import bin_index
from cumulant.goals.plans import PlanTable
from cumulant.goals.tasks import GoalTable, reached
from cumulant.goals.weights import edges_of
from cumulant.worlds.episodes import Policy, in_stages
from cumulant.worlds.spriteworld import Spriteworld, State
from cumulant.worlds.ways import Bounds, Lattice, barred, lattice, lies, places, way_to_carry, way_to_walk

_UP, _DOWN, _LEFT, _RIGHT = range(4)
_FAR = 1e6
_ROUNDING = 1e-6
_HEADINGS = ((0.0, 1.0), (0.0, -1.0), (-1.0, 0.0), (1.0, 0.0))


def oracle_policy(world: Spriteworld, table: Bool[Array, "c k m"] | PlanTable) -> Policy:
    """The scripted player for the task that `Task.table` describes. It commits to one clause at the start.

    Of a plan, `Plan.table`, it plays the stages in turn, and goes around what is to be avoided where
    there is a way; it never enters it. It does not look ahead to later stages.

    >>> import jax, cumulant
    >>> world = cumulant.Spriteworld()
    >>> table = jax.numpy.asarray(cumulant.parse("agent left").table())
    >>> player = cumulant.oracle_policy(world, table)
    >>> start = jax.numpy.array([0.9, 0.5, 0.2, 0.2, 0.4, 0.4])
    >>> act = jax.jit(lambda obs, key: player.act(player.begin(obs), obs, key)[1])
    >>> int(act(start, jax.random.key(0)))  # one step to the left
    2
    """
    if not isinstance(table, PlanTable):
        return _player(world, _aimed_at(world, GoalTable(table, np.array(table.shape[-1]))))
    goal, avoid, kept = (_aimed_at(world, part) for part in table[:3])

    def player(stage: Int[Array, ""] | int) -> Policy:
        now, *limits = (jax.tree.map(lambda leaf: leaf[stage], part) for part in (goal, avoid, kept))
        return _player(world, now, Bounds(*limits) if avoid.allowed.shape[1] else None)

    if len(goal.allowed) == 1 and not avoid.allowed.shape[1]:
        return player(0)
    return in_stages(player, lambda obs: jax.vmap(reached, (0, None))(goal, obs), jnp.asarray(table.stages))


def _aimed_at(world: Spriteworld, table: GoalTable) -> GoalTable:
    """A table without the bins that are too many for the world's steps; ValueError for one that has such."""
    bins = table.bins
    if not isinstance(bins, jax.core.Tracer) and not can_aim(world, int(np.max(bins))):
        raise ValueError(
            f"the oracle cannot aim at {np.max(bins)} bins with steps of {world.step_size}: a step skips a bin"
        )
    most = int((1 + _ROUNDING) / world.step_size)
    return GoalTable(jnp.asarray(table.allowed)[..., :most], jnp.asarray(bins))


def _player(world: Spriteworld, goal: GoalTable, bounds: Bounds | None = None) -> Policy:
    """The player for one task, or for one stage of a plan within its bounds."""
    table, bins = goal

    def begin(obs: Float[Array, " k"]) -> Bool[Array, "k m"]:
        return table[jnp.argmin(jax.vmap(lambda clause: _effort(world, clause, bins, obs))(table))]

    def act(clause: Bool[Array, "k m"], obs: Float[Array, " k"], key: PRNGKeyArray) -> tuple[Array, Int[Array, ""]]:
        state, gap = world.state_of(obs), _gap(clause, bins, obs).reshape(-1, 2)
        open_tasks = (gap != 0).any(axis=1)
        target = jnp.argmax(open_tasks[1:] * (1 + jnp.arange(len(world.objects))))  # the lowest one not in place
        move = _place_object(world, state, target, gap[1:][target], bounds)
        placed = ~open_tasks[1:].any()
        if bounds is None:
            return clause, jnp.where(placed, _towards(gap[0]), move.action)
        walls = barred(world, bounds, state)
        action, found = _within(world, bounds, state, GoalTable(clause, bins), move, placed)
        return clause, jnp.where(found & ~walls[action], action, _any_other(walls, key))

    return Policy(begin, act, about="the oracle")


def can_aim(world: Spriteworld, bins: int) -> bool:
    """Whether the bins of a goal are so wide that no step skips one."""
    return bins * world.step_size <= 1 + _ROUNDING


def _gap(clause: Bool[Array, "k m"], bins: Int[Array | np.ndarray, ""], f: Float[Array, " k"]) -> Float[Array, " k"]:
    """How far each coordinate lies from its nearest allowed bin, signed; 0 inside: [k, m], [k] → [k]."""
    index, each = bin_index(f, jnp.asarray(bins))[:, None], jnp.arange(clause.shape[-1])
    edges = edges_of(GoalTable(clause[None], bins))
    low, high = edges[:-1], edges[1:]
    # Half-open bins: at its upper edge a coordinate lies outside, if by nothing, so a gap is never less than epsilon.
    up, down = jnp.maximum(low - f[:, None], _ROUNDING), jnp.minimum(high - f[:, None], -_ROUNDING)
    gaps = jnp.where(each == index, 0.0, jnp.where(each > index, up, down))
    nearest = jnp.argmin(jnp.where(clause, jnp.abs(gaps), jnp.inf), axis=1)
    return jnp.take_along_axis(gaps, nearest[:, None], axis=1)[:, 0]


def _effort(
    world: Spriteworld, clause: Bool[Array, "k m"], bins: Int[Array | np.ndarray, ""], f: Float[Array, " k"]
) -> Float[Array, ""]:
    """Roughly how many actions a clause needs; infinite for one that allows nothing."""
    gap, positions = jnp.abs(_gap(clause, bins, f)).reshape(-1, 2), f.reshape(-1, 2)
    drags = jnp.ceil(gap[1:] / (world.step_size * world.drag_ratio)).sum(axis=1)
    walks = (jnp.abs(positions[1:] - positions[0]) / world.step_size).sum(axis=1)
    moves = jnp.ceil(gap[0] / world.step_size).sum()
    effort = moves + jnp.where(drags > 0, drags + walks, 0).sum()
    return jnp.where(clause.any(axis=1).all(), effort, jnp.inf)


def _towards(gap: Shaped[Array, "2"]) -> Int[Array, ""]:
    """The move that closes the larger gap."""
    horizontal = jnp.where(gap[0] > 0, _RIGHT, _LEFT)
    vertical = jnp.where(gap[1] > 0, _UP, _DOWN)
    return jnp.where(jnp.abs(gap[0]) >= jnp.abs(gap[1]), horizontal, vertical)


class _Placing(NamedTuple):
    """What placing an object comes to now."""

    action: Int[Array, ""]
    target: Int[Array, ""]  # the object to take: the one to be placed, or one that lies on it
    gap: Float[Array, "2"]  # of the object to be placed
    clearing: Bool[Array, ""]  # whether it is one that lies on it


def _place_object(
    world: Spriteworld, state: State, target: Int[Array, ""], gap: Float[Array, "2"], bounds: Bounds | None
) -> _Placing:
    """Drag the target towards its place; if it cannot be gripped, first clear away what lies on it."""
    walls = jnp.zeros(world.num_actions, bool) if bounds is None else barred(world, bounds, state)

    def uncover(_: Any, plan: tuple[Array, Array]) -> tuple[Array, Array]:
        target, drag = plan
        buried = ~_grips(world, state, target, bounds).visible.any()
        cover = _cover(state.objects, target)
        clearing = 4 + _clearing(world, state.objects[cover], state.objects[target], gap, walls[4:])
        return jnp.where(buried, cover, target), jnp.where(buried, clearing, drag)

    # What lies on it may itself be covered, and so on upwards.
    taken, drag = jax.lax.fori_loop(0, len(world.objects), uncover, (target, 4 + _towards(gap)))
    gripped = world.topmost(state.agent, state.objects)[taken]
    action = jnp.where(gripped, drag, _approach(world, state, _grips(world, state, taken, bounds)))
    return _Placing(action, taken, gap, taken != target)


def _within(
    world: Spriteworld,
    bounds: Bounds,
    state: State,
    clause: GoalTable,  # [k, m]
    move: _Placing,
    placed: Bool[Array, ""],
) -> tuple[Int[Array, ""], Bool[Array, ""]]:
    """The same wish fulfilled by a way that keeps to the bounds, and whether there is any."""
    allowed = clause.allowed.reshape(-1, 1, 2, clause.allowed.shape[-1])  # [sprites, 1, 2, m]
    load = jnp.arange(len(world.objects)) == move.target
    grid = lattice(world, state.agent)
    covers = jax.vmap(jax.vmap(lambda point: world.covers(point, state.objects)))(grid.points)  # [n, n, objects]
    visible = covers[:, :, move.target] & ~(covers & (jnp.arange(len(load)) < move.target)).any(axis=2)
    home = lies(GoalTable(allowed[0], clause.bins), grid.along)
    ends = jnp.where(placed, home, _grips_within(world, bounds, state, move, grid, visible))
    walk = way_to_walk(bounds, state, grid, ends, ~covers.any(axis=2))
    drag = way_to_carry(bounds, state, load, grid, GoalTable(allowed[1:][move.target], clause.bins))
    gripped = visible[tuple(grid.here)] & ~placed
    dragging = gripped & drag.found & ~move.clearing
    walking = walk.found & ~(gripped & move.clearing)
    action = jnp.where(dragging, drag.action, jnp.where(walking, walk.action, move.action))
    return action, dragging | walking | gripped


def _grips_within(
    world: Spriteworld, bounds: Bounds, state: State, move: _Placing, grid: Lattice, visible: Bool[Array, "n n"]
) -> Bool[Array, "n n"]:
    """Where to hold the object so that both it and the agent may be where it gets to its place.

    If there is no such point, any where it can be held, and once it is held none: then it is dragged as far as it goes,
    say away from a wall, and held anew.
    """
    fine = world.step_size / _fine_steps(world)
    drags = (jnp.sign(move.gap) * jnp.ceil(jnp.abs(move.gap) / fine - _ROUNDING) * fine)[:, None]
    load = jnp.arange(len(world.objects)) == move.target
    before = bounds.broken_over(places(state, grid.along, load, jnp.zeros((2, 1))))
    after = bounds.broken_over(places(state, grid.along + drags, load, drags))
    here = tuple(grid.here)
    useful = (visible & (before[here] | ~(before | after))).at[here].set(False)
    return jnp.where(useful.any() & ~move.clearing, useful, visible & ~visible[here])


def _any_other(walls: Bool[Array, " a"], key: PRNGKeyArray) -> Int[Array, ""]:
    """A random action that breaks no bounds, a move if there is one: at a wall it comes to stand on another lattice."""
    chance = jax.random.uniform(key, walls.shape) + (jnp.arange(len(walls)) < 4)
    return jnp.where(walls, -1, chance).argmax()


class _Grips(NamedTuple):
    """Points around an object on the agent's grid. Drags walk the fine grid; moves go `fine_steps` of it at once."""

    offset: Int[Array, "p 2"]  # from the agent, in steps of the fine grid
    visible: Bool[Array, " p"]  # whether a drag there would take the object, and the agent may be there
    by_moves: Bool[Array, "p 2"]  # whether moves alone get there, along x and along y


def _fine_steps(world: Spriteworld) -> int:
    return max(1, round(1 / world.drag_ratio))


def _grips(world: Spriteworld, state: State, target: Int[Array, ""], bounds: Bounds | None) -> _Grips:
    fine = world.step_size / _fine_steps(world)
    reach = math.ceil(world.half_extent / fine - _ROUNDING)
    near = jnp.round((state.objects[target] - state.agent) / fine).astype(jnp.int32)
    window = jnp.arange(-reach, reach + 1)
    offset = near + jnp.stack(jnp.meshgrid(window, window), axis=-1).reshape(-1, 2)
    unclipped = state.agent + fine * offset
    points = jnp.clip(unclipped, 0, 1)
    visible = jax.vmap(lambda point: world.topmost(point, state.objects)[target])(points)
    if bounds is not None:
        broken = jax.vmap(lambda point: bounds.broken(world.features(state._replace(agent=point))))(points)
        visible &= ~broken | bounds.broken(world.features(state))
    return _Grips(offset, visible, (offset % _fine_steps(world) == 0) | (points != unclipped))  # walls stop any move


def _approach(world: Spriteworld, state: State, grips: _Grips) -> Int[Array, ""]:
    """One action towards the nearest grip. Where the agent's grid misses the object, a drag on free floor shifts it."""
    cost = jnp.abs(grips.offset).sum(axis=1)
    by_moves = grips.visible & grips.by_moves.all(axis=1)
    walk = grips.offset[jnp.argmin(jnp.where(by_moves, cost, _FAR))]
    best = jnp.argmin(jnp.where(grips.visible, cost, _FAR))
    shift = 4 + _towards(jnp.where(grips.by_moves[best], 0, grips.offset[best]))
    on_floor = ~world.covers(state.agent, state.objects).any()
    detour = jnp.where(on_floor, shift, _to_free_floor(world, state, grips.offset[best]))
    return jnp.where(by_moves.any(), _towards(walk), detour)


def _to_free_floor(world: Spriteworld, state: State, wish: Int[Array, "2"]) -> Int[Array, ""]:
    """The move to where the fewest objects lie, preferably the way the agent wishes to go."""
    headings = jnp.array(_HEADINGS)
    points = jnp.clip(state.agent + world.step_size * headings, 0, 1)
    crowd = jax.vmap(lambda point: world.covers(point, state.objects).sum())(points)
    return jnp.argmin(1000 * crowd - headings @ wish)


def _cover(objects: Float[Array, "n 2"], target: Int[Array, ""]) -> Int[Array, ""]:
    """The nearest object above the target; the target itself where there is none."""
    distance = jnp.abs(objects - objects[target]).max(axis=1)
    index = jnp.arange(len(objects))
    return jnp.argmin(jnp.where(index < target, distance, _FAR + (index != target)))


def _clearing(
    world: Spriteworld,
    cover: Float[Array, "2"],
    target: Float[Array, "2"],
    gap: Float[Array, "2"],
    walls: Bool[Array, "4"],
) -> Int[Array, ""]:
    """The heading in which the cover leaves the target soonest, off the target's own way and without meeting a wall."""
    headings = jnp.array(_HEADINGS)
    distance = 2 * world.half_extent - headings @ (cover - target)
    final = cover + distance[:, None] * headings
    blocked = ((final < 0) | (final > 1)).any(axis=1) | walls
    in_the_way = headings @ jnp.sign(gap) > 0
    return jnp.argmin(distance + 2 * world.half_extent * in_the_way + _FAR * blocked)
