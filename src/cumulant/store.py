"""Arrays on disk as a folder of config.json and weights.safetensors: no code runs on load, and damage is noticed."""

import hashlib
import json
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import safetensors
import safetensors.numpy

from cumulant.files import write_whole

Tree = TypeVar("Tree")


class Unreadable(Exception):
    """A folder that does not hold what it should; the message is one clear line that names it."""


def write(folder: Path, tree: Any, info: dict[str, Any]) -> None:
    """Write a pytree's arrays, and what else to know; config.json, written last, vouches for the arrays."""
    data = safetensors.numpy.save(_named(tree))
    write_whole(folder / "weights.safetensors", data)
    config = info | {"sha256": hashlib.sha256(data).hexdigest()}
    write_whole(folder / "config.json", json.dumps(config, indent=2).encode() + b"\n")


def read_info(folder: Path) -> dict[str, Any]:
    """What config.json says."""
    path = folder / "config.json"
    try:
        info = json.loads(path.read_text())
    except FileNotFoundError:
        raise Unreadable(f"{folder} holds no config.json") from None
    except (OSError, ValueError) as error:
        raise Unreadable(f"{path} cannot be read: {error}") from None
    if not isinstance(info, dict):
        raise Unreadable(f"{path} does not hold a JSON object")
    return info


def read(folder: Path, like: Tree) -> Tree:
    """A pytree like `like`, of arrays or merely of their shapes, with the arrays of the folder."""
    path = folder / "weights.safetensors"
    try:
        data = path.read_bytes()
    except OSError as error:
        raise Unreadable(f"{path} cannot be read: {error.strerror}") from None
    if hashlib.sha256(data).hexdigest() != read_info(folder).get("sha256"):
        raise Unreadable(f"{path} is damaged: its checksum is not the one in config.json")
    try:
        stored = safetensors.numpy.load(data)
    except safetensors.SafetensorError as error:
        raise Unreadable(f"{path} cannot be read: {error}") from None
    leaves, structure = jax.tree.flatten(like)
    wanted = {str(i): jax.eval_shape(_plain, leaf) for i, leaf in enumerate(leaves) if _is_array(leaf)}
    if {name: (a.shape, a.dtype) for name, a in stored.items()} != {n: (a.shape, a.dtype) for n, a in wanted.items()}:
        raise Unreadable(f"{path} holds other arrays than its config.json describes")
    for i, array in stored.items():
        is_key = jnp.issubdtype(leaves[int(i)].dtype, jax.dtypes.prng_key)
        leaves[int(i)] = jax.random.wrap_key_data(jnp.asarray(array)) if is_key else jnp.asarray(array)
    return jax.tree.unflatten(structure, leaves)


def _named(tree: Any) -> dict[str, np.ndarray]:
    """The arrays of a pytree, by their place among its leaves."""
    leaves = enumerate(jax.tree.leaves(tree))
    return {str(i): np.asarray(_plain(leaf)) for i, leaf in leaves if _is_array(leaf)}


def _is_array(leaf: Any) -> bool:
    return eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)


def _plain(array: Any) -> Any:
    """The array, or, of random keys, their numbers."""
    return jax.random.key_data(array) if jnp.issubdtype(array.dtype, jax.dtypes.prng_key) else array
