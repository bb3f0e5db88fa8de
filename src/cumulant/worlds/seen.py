"""A world as the agent sees it: what every part of the project but the world's own author deals with."""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree, Shaped, UInt8

from cumulant.goals.feature import described
from cumulant.worlds import protocol
from cumulant.worlds.protocol import Around, World


@dataclass(frozen=True)
class Seen(Around):
    """A world whose features lie in [0, 1], and whose observation has them first, then the world's further inputs.

    An agent with features of its own sees the world's observation as it is.
    """

    world: World
    as_features: bool = True
    tremble: tuple[float, ...] = ()  # of each feature, as a share of its range, where it was measured

    @property
    def max_steps(self) -> int:
        """As in the world."""
        return self.world.max_steps

    def reset(self, key: PRNGKeyArray) -> PyTree:
        """As in the world."""
        return self.world.reset(key)

    def step(self, state: PyTree, action: Int[Array, ""]) -> PyTree:
        """As in the world."""
        return self.world.step(state, action)

    def step_unless(self, over: Bool[Array, ""], state: PyTree, action: Int[Array, ""]) -> PyTree:
        """As in the world."""
        return protocol.step_unless(self.world, over, state, action)

    def restart(
        self, states: PyTree[Shaped[Array, "n ..."]], ended: Bool[Array, " n"], key: PRNGKeyArray
    ) -> PyTree[Shaped[Array, "n ..."]]:
        """As in the world."""
        return protocol.restarted(self.world, states, ended, key)

    def foresee(self, state: PyTree, action: Int[Array, ""]) -> Bool[Array, ""]:
        """As in a world on the host."""
        return self.world.foresee(state, action)  # type: ignore[attr-defined]

    @property
    def at_once(self) -> int | None:
        """As in the world."""
        return protocol.at_once(self.world)

    def apart(self) -> "Seen":
        """As in the world."""
        return replace(self, world=protocol.apart(self.world))

    def done(self, state: PyTree) -> Bool[Array, ""]:
        """As in the world."""
        return protocol.done_in(self.world, state)

    def render(self, state: PyTree, size: int) -> UInt8[Array, "size size 3"]:
        """As in the world."""
        return protocol.render(self.world, state, size)

    def features(self, state: PyTree) -> Float[Array, " k"]:
        """The world's features, each as a share of its range."""
        features = described(self.world.feature_names)
        low, high = (np.array([getattr(each, end) for each in features], np.float32) for end in ("low", "high"))
        return jnp.clip((jnp.asarray(self.world.features(state), jnp.float32) - low) / (high - low), 0, 1)

    def observe(self, state: PyTree) -> PyTree:
        """The features and the world's further inputs, [k + n]; or what the world itself shows."""
        shown = self.world.observe(state)
        if not self.as_features:
            return shown
        inputs = self.world.inputs(shown) if hasattr(self.world, "inputs") else jnp.zeros(0)
        return jnp.concatenate([self.features(state), jnp.ravel(inputs).astype(jnp.float32)])


def seen(world: World, as_features: bool = True) -> World:
    """The world as an agent sees it; the very same where there is nothing to add.

    >>> from cumulant.worlds.spriteworld import Spriteworld
    >>> seen(Spriteworld()) == Spriteworld()
    True
    """
    named = all(isinstance(name, str) for name in world.feature_names)
    plain = named and (getattr(world, "shows_features", False) or not as_features)
    return world if plain or isinstance(world, Seen) else Seen(world, as_features)


def resolutions(world: World) -> Float[np.ndarray, " k"]:
    """How far off the world's features may be, as a share of their range: as it says, or as they were seen to."""
    given = [each.resolution / (each.high - each.low) for each in described(world.feature_names)]
    measured = getattr(world, "tremble", ()) or [0.0] * len(given)
    return np.array([own or found for own, found in zip(given, measured, strict=True)], np.float32)


def observation_rank(world: World) -> int:
    """The axes of what the world shows: 1 for a vector, 3 for frames; of several arrays, the most."""
    shown = jax.eval_shape(lambda key: world.observe(world.reset(key)), jax.random.key(0))
    return max(leaf.ndim for leaf in jax.tree.leaves(shown))
