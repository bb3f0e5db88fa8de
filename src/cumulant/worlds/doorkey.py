"""DoorKey: two rooms, a locked door between them and its key, on XLand-MiniGrid. What is behind needs the key first."""

from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, UInt8
from xminigrid.core.actions import take_action
from xminigrid.core.constants import DIRECTIONS, NUM_ACTIONS, TILES_REGISTRY, Colors, Tiles
from xminigrid.envs.minigrid import doorkey
from xminigrid.rendering.rgb_render import render_tile
from xminigrid.types import AgentState

from cumulant.goals.feature import Feature

_SMALLEST = 5
_KEY, _NOTHING, _WALL, _GOAL = (
    np.asarray(TILES_REGISTRY[tile, colour])
    for tile, colour in (
        (Tiles.KEY, Colors.YELLOW),
        (Tiles.EMPTY, Colors.EMPTY),
        (Tiles.WALL, Colors.GREY),
        (Tiles.GOAL, Colors.GREEN),
    )
)
_DOORS = (Tiles.DOOR_LOCKED, Tiles.DOOR_CLOSED, Tiles.DOOR_OPEN)
_AHEAD = (Tiles.FLOOR, Tiles.WALL, Tiles.KEY, *_DOORS)  # what an agent may have before it
_TURNS = 4
_TILE = 32  # pixels of a cell, before a frame is brought to its size


class State(NamedTuple):
    """The grid's tiles, [tile, colour], and the agent: its row and column, where it faces, what is in its pocket."""

    grid: UInt8[Array, "size size 2"]
    agent: Any


class Sight(NamedTuple):
    """All there is to know, in cells: rows count downwards. The place of a key that is held is its bearer's."""

    agent: Int[Array, "2"]  # row and column
    facing: Int[Array, ""]  # up, right, down, left
    key: Int[Array, "2"]
    held: Int[Array, ""]
    door: Int[Array, "2"]  # its column is the wall's
    shut: Int[Array, ""]  # 0 locked, 1 shut, 2 open


@dataclass(frozen=True)
class DoorKey:
    """MiniGrid's DoorKey: the agent and the key begin on the left of a wall, and its door is locked.

    Six actions: ahead, turn right, turn left, take, put down, toggle a door. A locked door opens to whoever has the
    key; from then on anybody can shut and open it. The agent's place, the key and the door are features. Where it
    faces is not: nobody asks for it, and "agent left" is a place. The network sees it, and all else, as `inputs`. The
    green tile is MiniGrid's goal; here it is a floor like any other, but that no key can be put there.

    >>> import jax, cumulant
    >>> world = DoorKey()
    >>> print(cumulant.parse("door open and key held and agent top right", world.feature_names))
    agent top right and key held and door open
    """

    size: int = 8  # cells along a side, the walls included
    max_steps: int = 200
    num_actions: ClassVar[int] = NUM_ACTIONS

    def __post_init__(self) -> None:
        """Refuse a size in which there is no room for two rooms."""
        if self.size < _SMALLEST:
            raise ValueError(f"two rooms and their walls take a size of {_SMALLEST} or more, but it is {self.size}")

    @property
    def feature_names(self) -> tuple[Feature, ...]:
        """The agent's column from the left and its row from the bottom, both from 1; the key; the door."""
        last = self.size - 2
        return (
            Feature("x", "agent", low=1, high=last, values=last),
            Feature("y", "agent", low=1, high=last, values=last),
            Feature("key", words=("lying", "held"), values=2),
            Feature("door", words=("shut", "open"), values=2),
        )

    def reset(self, key: PRNGKeyArray) -> State:
        """MiniGrid's own start: walls, door, key and agent anywhere that they may be."""
        rooms = doorkey.DoorKey()
        start = rooms.reset(rooms.default_params(height=self.size, width=self.size), key).state
        return _tidy(start.grid, start.agent)

    def step(self, state: State, action: Int[Array, ""]) -> State:
        """One action, by MiniGrid's rules. Nothing ends it."""
        return _tidy(*take_action(state.grid, state.agent, action)[:2])

    def observe(self, state: State) -> Int[Array, "9"]:
        """All there is to know, as one vector of whole numbers: a `Sight`."""
        tiles, agent = state.grid[..., 0], state.agent
        held = agent.pocket[0] == Tiles.KEY
        door = _where(tiles >= Tiles.DOOR_LOCKED)
        key = jnp.where(held, agent.position, _where(tiles == Tiles.KEY))
        sight = Sight(agent.position, agent.direction, key, held, door, tiles[door[0], door[1]] - Tiles.DOOR_LOCKED)
        return jnp.concatenate([jnp.atleast_1d(part).astype(jnp.int32) for part in sight])

    def features(self, state: State) -> Float[Array, "4"]:
        """Column, row from the bottom, whether the key is held, whether the door is open."""
        sight = _sight(self.observe(state))
        row, column = sight.agent
        return jnp.stack([column, self.size - 1 - row, sight.held, sight.shut == 2]).astype(jnp.float32)

    def inputs(self, obs: Int[Array, "9"]) -> Float[Array, " n"]:
        """Everything: all places cell by cell, where it faces and what lies ahead, how far the key and the door are."""
        sight = _sight(obs)
        tiles = _tiles(self.size, sight)[..., 0]
        row, column = sight.agent + DIRECTIONS[sight.facing]
        tile = tiles[row, column]
        ahead = jnp.where(tile == Tiles.GOAL, Tiles.FLOOR, tile) == jnp.array(_AHEAD)
        places = jnp.stack([sight.agent, sight.key, sight.door])
        cells = jax.nn.one_hot(places - 1, self.size - 2).ravel()
        away = (places[1:] - places[0]).ravel() / (self.size - 2)
        others = (jax.nn.one_hot(sight.facing, _TURNS), ahead, jnp.atleast_1d(sight.shut == 0))
        return jnp.concatenate([cells, away, *others])

    def render(self, state: State, size: int) -> UInt8[Array, "size size 3"]:
        """A frame as XLand-MiniGrid draws it."""
        looks = jnp.asarray(_atlas())
        bare = looks[state.grid[..., 0], _TURNS]  # [rows, columns, pixels, pixels, 3]
        row, column = state.agent.position
        whole = bare.at[row, column].set(looks[state.grid[row, column, 0], state.agent.direction])
        whole = whole.transpose(0, 2, 1, 3, 4).reshape(self.size * _TILE, self.size * _TILE, 3)
        drawn = jax.image.resize(whole.astype(jnp.float32), (size, size, 3), "linear")
        return jnp.clip(jnp.round(drawn), 0, 255).astype(jnp.uint8)

    @property
    def num_states(self) -> int:
        """How many states there are, with some that never come about."""
        return int(np.prod(self._counts))

    def state_at(self, index: Int[Array, ""]) -> State:
        """The state of a number."""
        column, row, agent_row, agent_column, facing, place, shut = jnp.unravel_index(index, self._counts)
        agent, held = jnp.stack([agent_row, agent_column]) + 1, place == (self.size - 2) ** 2
        key = jnp.where(held, agent, jnp.stack(jnp.divmod(place, self.size - 2)) + 1)
        sight = Sight(agent, facing, key, held, jnp.stack([row + 1, column + 2]), shut)
        pocket = jnp.where(held, _KEY, _NOTHING)
        return _tidy(_tiles(self.size, sight), AgentState(position=agent, direction=facing, pocket=pocket))

    def number_of(self, obs: Int[Array, "9"]) -> Int[Array, ""]:
        """The number of the state that is seen."""
        sight = _sight(obs)
        key_row, key_column = sight.key - 1
        place = jnp.where(sight.held == 1, (self.size - 2) ** 2, key_row * (self.size - 2) + key_column)
        parts = (sight.door[1] - 2, sight.door[0] - 1, *(sight.agent - 1), sight.facing, place, sight.shut)
        return jnp.ravel_multi_index(parts, self._counts, mode="clip")

    @property
    def _counts(self) -> tuple[int, ...]:
        """The wall's columns, the door's rows, the agent's rows, columns and turns, the key's places, the doors."""
        inside = self.size - 2
        return (self.size - 4, self.size - 3, inside, inside, _TURNS, inside**2 + 1, len(_DOORS))


def _tidy(grid: Array, agent: Any) -> State:
    """A state of the same types throughout."""
    whole = AgentState(
        position=jnp.asarray(agent.position, jnp.int32),
        direction=jnp.asarray(agent.direction, jnp.int32),
        pocket=jnp.asarray(agent.pocket, jnp.uint8),
    )
    return State(jnp.asarray(grid, jnp.uint8), whole)


def _where(found: Array) -> Int[Array, "2"]:
    """Row and column of the only one."""
    return jnp.stack(jnp.unravel_index(jnp.argmax(found), found.shape)).astype(jnp.int32)


def _sight(obs: Int[Array, "9"]) -> Sight:
    return Sight(obs[0:2], obs[2], obs[3:5], obs[5], obs[6:8], obs[8])


def _tiles(size: int, sight: Sight) -> UInt8[Array, "size size 2"]:
    """The grid that is seen."""
    row, column = jnp.indices((size, size))
    edge = (row % (size - 1) == 0) | (column % (size - 1) == 0)
    grid = jnp.where((edge | (column == sight.door[1]))[..., None], _WALL, TILES_REGISTRY[Tiles.FLOOR, Colors.BLACK])
    grid = grid.at[size - 2, size - 2].set(_GOAL)
    grid = grid.at[tuple(sight.door)].set(jnp.stack([sight.shut + Tiles.DOOR_LOCKED, Colors.YELLOW]).astype(jnp.uint8))
    lying = (row == sight.key[0]) & (column == sight.key[1]) & (sight.held == 0)
    return jnp.where(lying[..., None], _KEY, grid)


@cache
def _atlas() -> UInt8[np.ndarray, "tiles looks pixels pixels 3"]:
    """What every tile looks like with the agent on it, turn by turn, and without."""
    colours = {Tiles.FLOOR: Colors.BLACK, Tiles.WALL: Colors.GREY, Tiles.GOAL: Colors.GREEN, Tiles.KEY: Colors.YELLOW}
    colours |= dict.fromkeys(_DOORS, Colors.YELLOW)
    walkable = (Tiles.FLOOR, Tiles.GOAL, Tiles.DOOR_OPEN)
    atlas = np.zeros((max(colours) + 1, _TURNS + 1, _TILE, _TILE, 3), np.uint8)
    for tile, colour in colours.items():
        for turn in (*range(_TURNS), None) if tile in walkable else (None,):
            atlas[tile, _TURNS if turn is None else turn] = render_tile((tile, colour), turn, tile_size=_TILE)
    return atlas
