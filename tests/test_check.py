"""What `check` says of worlds with one fault each."""

import re
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cumulant.goals.feature import Feature
from cumulant.worlds.check import check, resolution_seen
from cumulant.worlds.host import HostWorld
from cumulant.worlds.room import Room
from cumulant.worlds.spriteworld import Spriteworld


@dataclass(frozen=True)
class Dial:
    """A dial from 0 to 1, with a fault if asked for."""

    fault: str = ""
    max_steps: int = 20
    num_actions: int = 2
    feature_names: tuple[str | Feature, ...] = ("dial",)

    def reset(self, key):
        return jax.random.uniform(key, (2,))

    def step(self, state, action):
        moves = jnp.array([(0.1, 0.0), (-0.1, 0.0)])
        if self.fault == "impure":
            return state + np.random.default_rng().uniform(size=2).astype(np.float32)
        if self.fault == "shape":
            return jnp.concatenate([state, state])
        if self.fault == "python":
            return state if action else -state
        if self.fault == "nan":
            return jnp.log(state - 0.5)
        free = state + moves[action]
        return free if self.fault == "range" else jnp.clip(free, 0, 1)

    def observe(self, state):
        return state

    def features(self, state):
        return {"two": state, "still": jnp.zeros(1)}.get(self.fault, state[:1])


@dataclass(frozen=True)
class Watched(Dial):
    """A dial that shows the network something of its own."""

    loudness: float = 1.0

    def inputs(self, obs):
        return jnp.log(obs - 2) if self.fault == "inputs" else self.loudness * (2 * obs - 1)


@dataclass(frozen=True)
class Latch(Dial):
    """A dial with a third and a fourth action that do something only once it is turned up."""

    num_actions: int = 4

    def reset(self, key):
        return jnp.zeros(2)

    def step(self, state, action):
        moves = jnp.array([(0.1, 0.0), (-0.1, 0.0), (0.05, 0.0), (0.0, 0.1)])[action]
        return jnp.clip(jnp.where((action > 1) & (state[0] < 0.1), state, state + moves), 0, 1)


@pytest.mark.parametrize(
    "world", [Spriteworld(), Room(), Dial(), Watched(), Latch()], ids=lambda world: type(world).__name__
)
def test_check_finds_no_fault_in_good_worlds(world):
    assert check(world) == []


def test_check_plays_worlds_on_the_host():
    place = Feature("x", of="cart", low=-4.8, high=4.8)
    world = HostWorld("CartPole-v1", features=lambda obs: obs[:1], feature_names=(place,), num_envs=4)
    assert [finding.about for finding in check(world)] == ["cart_x"]  # it falls long before it gets anywhere


@pytest.mark.parametrize(
    ("world", "about", "says"),
    [
        (Dial("impure"), "step", "two results"),
        (Dial("shape"), "step", r"float32\[2\] one float32\[4\]"),
        (Dial("python"), "step", "not written in JAX"),
        (Dial("nan"), "features", "NaN"),
        (Dial("two"), "features", "1 feature_names"),
        (Dial("range"), "dial", "its range is 0 to 1"),
        (Dial("still"), "dial", "never moves"),
        (Dial(num_actions=3), "num_actions", "1 and 2 do the same"),
        (Dial(num_actions=0), "num_actions", "1 or more"),
        (Dial(feature_names=()), "feature_names", "name of its own"),
        (Dial(feature_names=(Feature("dial", high=40),)), "dial", "narrow the range"),
        (Watched("inputs"), "inputs", "NaN"),
        (Watched(loudness=2000.0), "inputs", "a network likes"),
        (object(), "num_actions", "has none"),
    ],
)
def test_check_names_each_fault_in_one_line(world, about, says):
    findings = check(world)
    assert [finding.about for finding in findings][:1] == [about]
    assert re.search(says, findings[0].message), findings[0].message
    assert "\n" not in findings[0].message


def test_resolution_seen_tells_trembles_from_moves():
    rng = np.random.default_rng(0)
    moves = np.where(rng.random(1000) < 0.3, 0.1, 0.002 * rng.random(1000))
    assert 0.002 < resolution_seen(moves) <= 0.003
    seldom = np.where(rng.random(1000) < 0.005, 0.1, 0.002 * rng.random(1000))  # as random play moves what is dragged
    assert 0.002 < resolution_seen(seldom) <= 0.003
    ripple = 0.00394 * np.abs(np.cos(np.arange(1000)))  # most often at its largest
    assert resolution_seen(np.where(rng.random(1000) < 0.005, 0.1, ripple)) > 0.00394
    assert resolution_seen(np.where(rng.random(1000) < 0.3, 0.1, 0.0)) == 0
    assert resolution_seen(0.1 * rng.random(1000)) == 0


def test_feature_refuses_ranges_and_resolutions_of_none():
    with pytest.raises(ValueError, match="low must lie below high"):
        Feature("dial", low=1, high=1)
    with pytest.raises(ValueError, match="resolution"):
        replace(Feature("dial"), resolution=2.0)
