"""Features f: observation → [0, 1]^d. The true coordinates, a rotation of them, an encoder's latents, or your own."""

import sys
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped

from cumulant import store
from cumulant.world import World

if TYPE_CHECKING:
    from cumulant.representation import Encoder

Features = Callable[[Shaped[Array, "..."]], Float[Array, " d"]]


def resolution_of(features: Features) -> float:
    """How far off features may be: those that tremble, as learnt ones do, have a `resolution`; others are exact."""
    return getattr(features, "resolution", 0.0)


def number_of(features: Features, world: World) -> int:
    """d: how many features there are of what the world shows. They need not be the k that it is made of."""
    return jax.eval_shape(lambda key: features(world.observe(world.reset(key))), jax.random.key(0)).shape[0]


def true_features(obs: Float[Array, " k"]) -> Float[Array, " k"]:
    """The coordinates themselves, for a world whose observation they are: [k] → [k]."""
    return obs


def named_features(name: str, k: int) -> Features:
    """Features by name, in a world of k coordinates.

    They are "true", "entangled:SEED", "learnt:FOLDER", or "package.module:function" for a function of the observation.
    """
    if name == "true":
        return true_features
    if is_learnt(name):
        return encoder_in(folder_of(name))
    module, _, rest = name.partition(":")
    if module == "entangled" and rest.isdigit():
        return entangled_features(k, int(rest))
    return load_function(name, "features")


def is_learnt(name: str) -> bool:
    """Whether it names the latents of an encoder."""
    return name.startswith("learnt:")


def folder_of(name: str) -> Path:
    """The encoder's folder in "learnt:FOLDER"."""
    return Path(name.removeprefix("learnt:"))


def encoder_in(folder: Path) -> "Encoder":
    """The encoder of a folder, read once while the folder holds the same. Unreadable if it holds none."""
    return _read_encoder(folder.resolve(), store.read_info(folder).get("sha256"))


@lru_cache(maxsize=8)
def _read_encoder(folder: Path, sha256: str | None) -> "Encoder":
    from cumulant.representation import Encoder  # which builds on much that builds on this module

    return Encoder.load(folder)


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
