"""Pusher: a hand pushes two pucks over a table, by the physics of MuJoCo's MJX, thousands of tables side by side."""

import contextlib
import io
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, UInt8

from cumulant.goals.feature import Feature
from cumulant.worlds.primitives import primitives
from cumulant.worlds.renderer import AGENT_RADIUS, Look, draw, rgb

with contextlib.redirect_stdout(io.StringIO()):  # it prints which of its other engines are missing
    import mujoco.mjx

_FRAME = 1.1  # m across a drawing, so that a hand at the edge is seen
_HAND, _PUCK = _FRAME * AGENT_RADIUS, 0.06  # radii, m
_MARGIN = 0.18  # m from the table's edge to a puck's centre, at least: the hand fits in between
_LOW = np.array([0.0] * 2 + [_MARGIN] * 4, np.float32)  # of all coordinates; the table is 1 m wide
_HIGH = 1 - _LOW
_TREMBLE = 0.004  # m: a puck that rolls out by less has come to rest
_CLOSE = 0.2  # m: what is nearer to the hand is seen more closely
_SUBSTEPS = 5
_FASTEST = 2.0  # m/s: 3 cm in a step of physics
_DRAWS = 8  # of a start: one in six has discs that overlap
_GAPS = {(0, 1): _HAND + _PUCK, (0, 2): _HAND + _PUCK, (1, 2): 2 * _PUCK}  # m, of two discs that touch
_PUSHES = primitives(2)
_COLOURS = {"table": "#3b4252", "rim": "#20242e", "hand": "#ffffff", "red": "#d55e00", "blue": "#0072b2"}


def _body(name: str, radius: float, mass: float, damping: float, low: float) -> str:
    """A disc that slides along x and y, and never turns. Damping is the table's friction, and the hand's brake."""
    joints = (
        f'<joint name="{name}_{axis}" type="slide" axis="{direction}" damping="{damping}" range="{low} {1 - low}"/>'
        for axis, direction in (("x", "1 0 0"), ("y", "0 1 0"))
    )
    geom = f'<geom name="{name}" type="sphere" size="{radius}" mass="{mass}" contype="0" conaffinity="0"/>'
    return f'<body name="{name}">{"".join(joints)}{geom}</body>'


# What is left to the hand's aim falls by half every 14 ms, and a puck's speed every 28 ms. Contacts are rough: a puck
# stays ahead of the hand, and does not slip round it.
_MJCF = f"""
<mujoco>
  <compiler autolimits="true"/>
  <option timestep="0.016" solver="Newton" iterations="4" ls_iterations="6" jacobian="dense">
    <flag gravity="disable" sensor="disable"/>
  </option>
  <default><joint solimplimit="0.95 0.99 0.001"/></default>
  <worldbody>
    {_body("hand", _HAND, 1.0, 50.0, 0.0)}
    {_body("red", _PUCK, 0.2, 5.0, _MARGIN)}
    {_body("blue", _PUCK, 0.2, 5.0, _MARGIN)}
  </worldbody>
  <contact>
    <pair geom1="hand" geom2="red" condim="3" friction="1 1 0 0 0"/>
    <pair geom1="hand" geom2="blue" condim="3" friction="1 1 0 0 0"/>
    <pair geom1="red" geom2="blue" condim="3" friction="1 1 0 0 0"/>
  </contact>
  <actuator><motor joint="hand_x" gear="50"/><motor joint="hand_y" gear="50"/></actuator>
</mujoco>
"""


class State(NamedTuple):
    """Places in m and velocities in m/s, of the hand, the red puck and the blue: x, y of each."""

    qpos: Float[Array, "6"]
    qvel: Float[Array, "6"]

    @property
    def agent(self) -> Float[Array, "2"]:
        """The hand's centre."""
        return self.qpos[:2]

    @property
    def objects(self) -> Float[Array, "2 2"]:
        """The pucks' centres."""
        return self.qpos[2:].reshape(2, 2)


@dataclass(frozen=True)
class Pusher:
    """A hand and two pucks, red and blue, on a table of 1 m × 1 m.

    Nine actions: to stay, or to go one of eight ways for 0.08 s. A rim keeps the pucks from the table's edge; the hand
    reaches over it, and so comes behind a puck wherever it lies. Places are features, each over the range that it can
    have. Velocities are not: nobody asks for them. The network sees them as `inputs`, and closely what is near a hand.

    >>> import cumulant
    >>> print(cumulant.parse("red left and blue right", Pusher().feature_names))
    red left and blue right
    """

    max_steps: int = 100
    speed: int | float = 1.0  # of the hand along an axis, m/s
    num_actions: ClassVar[int] = len(_PUSHES)
    action_names: ClassVar[tuple[str, ...]] = (
        *("stay", "left", "right", "down", "up"),
        *("down left", "up left", "down right", "up right"),
    )
    feature_names: ClassVar[tuple[Feature, ...]] = tuple(
        Feature(axis, thing, low=low, high=round(1 - low, 2), unit="m", resolution=_TREMBLE)
        for thing, low in (("hand", 0.0), ("red", _MARGIN), ("blue", _MARGIN))
        for axis in "xy"
    )
    objects: ClassVar[tuple[str, ...]] = ("circle", "circle")  # as they are drawn
    half_extent: ClassVar[float] = _PUCK / _FRAME

    def __post_init__(self) -> None:
        """Refuse a speed at which the hand would stand still, or jump over pucks."""
        if not 0 < self.speed <= _FASTEST:
            raise ValueError(f"the hand's speed lies above 0 and up to {_FASTEST} m/s, but is {self.speed}")

    def reset(self, key: PRNGKeyArray) -> State:
        """All three anywhere, at rest, and apart."""
        draws = jax.random.uniform(key, (_DRAWS, 6), minval=_LOW, maxval=_HIGH)
        discs = draws.reshape(_DRAWS, 3, 2)
        apart = [jnp.linalg.norm(discs[:, i] - discs[:, j], axis=-1) > gap for (i, j), gap in _GAPS.items()]
        first = jnp.argmax(jnp.stack(apart).all(axis=0))
        return State(draws[first], jnp.zeros(6))

    def step(self, state: State, action: Int[Array, ""]) -> State:
        """One push, for five steps of physics."""
        return _after(state, self.speed * jnp.asarray(_PUSHES.values)[action])

    def observe(self, state: State) -> Float[Array, "12"]:
        """Places, then velocities."""
        return jnp.concatenate(state)

    def features(self, state: State) -> Float[Array, "6"]:
        """The places. What is pressed against an end of its range gives way by up to 2 cm, which do not count."""
        return jnp.clip(state.qpos, _LOW, _HIGH)

    def inputs(self, obs: Float[Array, "12"]) -> Float[Array, "12"]:
        """Velocities as shares of the hand's; how the pucks lie from the hand, and the blue from the red, if near."""
        hand, red, blue = obs[:6].reshape(3, 2)
        away = jnp.concatenate([red - hand, blue - hand, blue - red])
        return jnp.concatenate([obs[6:] / self.speed, jnp.tanh(away / _CLOSE)])

    def render(self, state: State, size: int) -> UInt8[Array, "size size 3"]:
        """The table from above."""
        rim, hand, red, blue = (rgb(_COLOURS[name]) for name in ("rim", "hand", "red", "blue"))
        drawn = State(0.5 + (state.qpos - 0.5) / _FRAME, state.qvel)
        return draw(self, drawn, size, Look(_table(size), rim, hand, np.stack([red, blue])))


@jax.jit  # traced once, whatever program it is part of
def _after(state: State, target: Float[Array, "2"]) -> State:
    """Where the discs are when the hand has aimed at a velocity for one step of the world."""
    model = _model()
    start = mujoco.mjx.make_data(model).replace(qpos=state.qpos, qvel=state.qvel, ctrl=target)
    end = jax.lax.fori_loop(0, _SUBSTEPS, lambda _, data: mujoco.mjx.step(model, data), start)
    return State(end.qpos, end.qvel)


@cache
def _model() -> Any:
    """The table as MJX has it: a constant of every program."""
    with jax.ensure_compile_time_eval():
        return mujoco.mjx.put_model(mujoco.MjModel.from_xml_string(_MJCF), impl="jax")


@cache
def _table(size: int) -> Float[np.ndarray, "size size 3"]:
    """Where pucks can lie, and the rim around."""
    from_middle = _FRAME * np.abs((np.arange(size) + 0.5) / size - 0.5)
    inside = np.maximum(from_middle[:, None], from_middle) < 0.5 - _MARGIN + _PUCK
    return np.where(inside[..., None], rgb(_COLOURS["table"]), rgb(_COLOURS["rim"]))
