"""What features are, and two that need no learning: the world's own, and a rotation of them."""

from collections.abc import Callable
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped

from cumulant.goals.feature import described
from cumulant.worlds.protocol import World
from cumulant.worlds.seen import resolutions, seen

if TYPE_CHECKING:
    from cumulant.features.grounding import Grounding

# A function of the observation, or a Module. Features that jitter have a `resolution`: how far off they may be.
Features = Callable[[Shaped[Array, "..."]], Float[Array, " d"]]
Resolution = float | Float[np.ndarray, " k"]  # how far off features may be: all alike, or each
_MOST_FEATURES = 1000


@runtime_checkable
class Learnt(Protocol):
    """Features that were learnt in a world, as an encoder's are."""

    @property
    def world(self) -> World:
        """Where they were learnt."""

    @property
    def grounding(self) -> "Grounding | None":
        """What words mean for them, if that is known."""

    def __call__(self, obs: Shaped[Array, "..."]) -> Float[Array, " d"]:
        """[...] → [d], each in [0, 1]."""


def true_features(obs: Float[Array, " n"]) -> Float[Array, " n"]:
    """The world's own features, which are first in what an agent sees of it (`Seen`): [n] → [n]."""
    return obs


class Rotation(eqx.Module):
    """Features that mix all coordinates, turned about the centre of the unit cube: [k] → [k]."""

    matrix: Float[Array, "k k"]
    seed: int = eqx.field(static=True)  # that it was drawn with

    def __call__(self, obs: Float[Array, " k"]) -> Float[Array, " k"]:
        """Each feature a weighted sum of all coordinates."""
        return jnp.clip(self.matrix @ (obs - 0.5) + 0.5, 0, 1)


def entangled_features(k: int, seed: int) -> Rotation:
    """A seeded rotation of the true features about the centre, scaled to fill [0, 1] (the paper's comparison)."""
    gaussian = np.random.default_rng(seed).standard_normal((k, k))
    q, r = np.linalg.qr(gaussian)
    rotation = q * np.sign(np.diag(r))  # this sign makes the rotation uniform
    if np.linalg.det(rotation) < 0:
        rotation[0] *= -1  # a rotation, not a reflection
    # The unit cube reaches as far as sum_j |R_ij| / 2 along row i.
    return Rotation(jnp.asarray(rotation / np.abs(rotation).sum(axis=1, keepdims=True), jnp.float32), seed)


class Inputs(NamedTuple):
    """What a network sees: features, and perhaps other numbers of the observation behind them."""

    features: int
    others: int = 0
    pairs: tuple[tuple[int, int], ...] | None = None  # of features whose differences mean something; None: all


def world_of(features: Features, world: World) -> World:
    """The world as an agent sees it who goes by these features."""
    return seen(world, as_features=features is true_features)


def feature_count(features: Features, world: World) -> int:
    """d: how many features there are of what the world shows. They need not be the k that it is made of.

    ValueError if they are no features: a vector of numbers, made by a function that is written in JAX.
    """
    return inputs_of(features, world).features


def inputs_of(features: Features, world: World) -> Inputs:
    """What a network sees of a world through features. ValueError if they are none."""
    as_seen = world_of(features, world)
    shown = jax.eval_shape(lambda: as_seen.observe(as_seen.reset(jax.random.key(0))))
    try:
        found = jax.eval_shape(features, shown)
    except Exception as error:
        first = str(error).strip().partition("\n")[0] or type(error).__name__
        raise ValueError(f"the features fail on an observation, or are not written in JAX: {first}") from None
    one = isinstance(found, jax.ShapeDtypeStruct) and len(found.shape) == 1
    if not one or not jnp.issubdtype(found.dtype, jnp.floating):
        raise ValueError(f"features are a vector of numbers [d], but these are {found}")
    if features is not true_features:
        if not 1 <= found.shape[0] <= _MOST_FEATURES:
            raise ValueError(f"there may be 1 to {_MOST_FEATURES:,} features, but these are {found.shape[0]:,}")
        return Inputs(found.shape[0])
    number = len(world.feature_names)
    return Inputs(number, found.shape[0] - number, comparable(world))


def comparable(world: World) -> tuple[tuple[int, int], ...] | None:
    """The pairs of features of one range and unit, or None for all: elsewhere a difference means nothing."""
    measures = [(each.low, each.high, each.unit) for each in described(world.feature_names)]
    pairs = combinations(range(len(measures)), 2)
    return None if len(set(measures)) == 1 else tuple((i, j) for i, j in pairs if measures[i] == measures[j])


def resolution_of(features: Features, world: World) -> Resolution:
    """How far off features may be: the world says so of its own; others that jitter, as learnt ones do, have one."""
    return resolutions(world) if features is true_features else getattr(features, "resolution", 0.0)
