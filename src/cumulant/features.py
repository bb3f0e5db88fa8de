"""Features f: observation → [0, 1]^k. The true coordinates, a rotation that entangles them, or your own function."""

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped

Features = Callable[[Shaped[Array, "..."]], Float[Array, " k"]]


def true_features(obs: Float[Array, " k"]) -> Float[Array, " k"]:
    """The coordinates themselves, for a world whose observation they are: [k] → [k]."""
    return obs


def named_features(name: str, k: int) -> Features:
    """Features by name: "true", "entangled:SEED", or "package.module:function" for a function of the observation."""
    if name == "true":
        return true_features
    module, _, rest = name.partition(":")
    if module == "entangled" and rest.isdigit():
        return entangled_features(k, int(rest))
    return load_function(name, "features")


def load_function(name: str, role: str) -> Callable[..., Any]:
    """The function that "package.module:function" names; modules of the working folder count. ValueError if none."""
    module, _, function = name.partition(":")
    if not module or not function:
        raise ValueError(f"{role} {name!r} must have the form package.module:function")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found = getattr(import_module(module), function)
    except ModuleNotFoundError as error:
        raise ValueError(f"{role} {name!r}: there is no module {error.name!r}") from None
    except AttributeError:
        raise ValueError(f"{role} {name!r}: the module {module!r} has no {function!r}") from None
    if not callable(found):
        raise ValueError(f"{role} {name!r} is no function")
    return found


class Rotation(eqx.Module):
    """Features that mix all coordinates, turned about the centre of the unit cube: [k] → [k]."""

    matrix: Float[Array, "k k"]

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
    return Rotation(jnp.asarray(rotation / np.abs(rotation).sum(axis=1, keepdims=True), jnp.float32))
