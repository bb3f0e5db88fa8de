"""What is written to disk, and how: files replaced whole, arrays under their names, damage noticed, no code run.

A folder of arrays holds weights.safetensors and config.json. This is the bottom of the house: it knows no other room.
"""

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import safetensors
import safetensors.numpy
from jaxtyping import PyTree

Tree = TypeVar("Tree")


class Unreadable(Exception):
    """A folder that does not hold what it should; the message is one clear line that names it.

    >>> try:
    ...     read_info(Path("no-such-folder"))
    ... except Unreadable as error:
    ...     print(error)
    no-such-folder holds no config.json
    """


def write_whole(path: Path, data: bytes) -> None:
    """Write a file under a temporary name in its folder, then rename it, so that it is never half there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON; NaN and infinities, which JSON lacks, are refused."""
    write_whole(path, json.dumps(value, indent=2, allow_nan=False).encode() + b"\n")


def write(folder: Path, tree: PyTree, info: dict[str, Any]) -> None:
    """Write a pytree's arrays, and what else to know; config.json, written last, vouches for the arrays."""
    data = safetensors.numpy.save(_arrays_by_name(tree))
    write_whole(folder / "weights.safetensors", data)
    write_json(folder / "config.json", info | {"sha256": hashlib.sha256(data).hexdigest()})


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
    names = _names(like)
    if all(name.isdecimal() for name in stored):  # version 0.1 wrote an array's place among the leaves
        names = [str(i) for i in range(len(leaves))]
    place = {name: i for i, (name, leaf) in enumerate(zip(names, leaves, strict=True)) if _is_array(leaf)}
    wanted = {name: jax.eval_shape(_plain, leaves[i]) for name, i in place.items()}
    if {name: (a.shape, a.dtype) for name, a in stored.items()} != {n: (a.shape, a.dtype) for n, a in wanted.items()}:
        raise Unreadable(f"{path} holds other arrays than its config.json describes")
    for name, array in stored.items():
        is_key = jnp.issubdtype(leaves[place[name]].dtype, jax.dtypes.prng_key)
        leaves[place[name]] = jax.random.wrap_key_data(jnp.asarray(array)) if is_key else jnp.asarray(array)
    return jax.tree.unflatten(structure, leaves)


def _arrays_by_name(tree: PyTree) -> dict[str, np.ndarray]:
    named = zip(_names(tree), jax.tree.leaves(tree), strict=True)
    return {name: np.asarray(_plain(leaf)) for name, leaf in named if _is_array(leaf)}


def _names(tree: PyTree) -> list[str]:
    """Every leaf's place in the tree, in words: "layers.0.weight"."""
    paths = [path for path, _ in jax.tree_util.tree_flatten_with_path(tree)[0]]
    return [jax.tree_util.keystr(path, simple=True, separator=".") for path in paths]


def _is_array(leaf: object) -> bool:
    return eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)


def _plain(array: jax.Array) -> jax.Array:
    """The array, or, of random keys, their numbers."""
    return jax.random.key_data(array) if jnp.issubdtype(array.dtype, jax.dtypes.prng_key) else array
