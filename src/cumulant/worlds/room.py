"""A room with a heater, a lamp, a blind and music: the smallest world with words and units of its own."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from cumulant.goals.feature import Feature

_FEATURES = (
    Feature("temperature", low=10, high=30, unit="°C", words=("cold", "mild", "warm")),
    Feature("lamp", words=("off", "on"), values=2),
    Feature("blind", high=100, unit="%", words=("shut", "half", "open")),
    Feature("volume", high=10, words=("quiet", "soft", "loud")),
)
_LOW, _HIGH = ([getattr(feature, end) for feature in _FEATURES] for end in ("low", "high"))
_SWITCHES = {
    "warmer": (1, 0, 0, 0),
    "colder": (-1, 0, 0, 0),
    "lamp on": (0, 1, 0, 0),
    "lamp off": (0, -1, 0, 0),
    "blind up": (0, 0, 10, 0),
    "blind down": (0, 0, -10, 0),
    "louder": (0, 0, 0, 1),
    "quieter": (0, 0, 0, -1),
}


@dataclass(frozen=True)
class Room:
    """Eight switches: warmer, colder, lamp on, lamp off, blind up, blind down, louder, quieter.

    >>> import jax
    >>> room = Room()
    >>> room.step(jax.numpy.array([20.0, 0.0, 50.0, 3.0]), jax.numpy.int32(2))  # lamp on
    Array([20.,  1., 50.,  3.], dtype=float32)
    """

    max_steps: int = 60
    num_actions: ClassVar[int] = len(_SWITCHES)
    action_names: ClassVar[tuple[str, ...]] = tuple(_SWITCHES)
    feature_names: ClassVar[tuple[Feature, ...]] = _FEATURES

    def reset(self, key: PRNGKeyArray) -> Float[Array, "4"]:
        """Anything anyhow; the lamp is on or off."""
        state = jax.random.uniform(key, (4,), minval=jnp.array(_LOW), maxval=jnp.array(_HIGH))
        return state.at[1].set(jnp.round(state[1]))

    def step(self, state: Float[Array, "4"], action: Int[Array, ""]) -> Float[Array, "4"]:
        """One switch."""
        return jnp.clip(state + jnp.array(list(_SWITCHES.values()), float)[action], jnp.array(_LOW), jnp.array(_HIGH))

    def observe(self, state: Float[Array, "4"]) -> Float[Array, "4"]:
        """All there is."""
        return state

    def features(self, state: Float[Array, "4"]) -> Float[Array, "4"]:
        """Temperature in °C, lamp, blind in %, volume."""
        return state
