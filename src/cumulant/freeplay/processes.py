"""Processes, on one host or several, that share a run: what they tell each other, beside what their devices do.

All do the same; the first alone writes and speaks. One process by itself is the first, and agrees with itself.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import equinox as eqx
import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, PyTree

from cumulant.bounds import OutOfBounds

Tree = TypeVar("Tree", bound=PyTree)
_LONGEST = 500  # bytes of what one process tells the others


def is_first() -> bool:
    """Whether this process writes and speaks for all."""
    return jax.process_index() == 0


@contextmanager
def together() -> Iterator[None]:
    """What is refused within, in any process, is refused in all, so that none waits for one that has ended."""
    if jax.process_count() == 1:
        yield
        return
    problem: Exception | None = None
    try:
        yield
    except Exception as error:
        problem = error
    said = _told(str(problem) or type(problem).__name__ if problem else "")
    if problem:
        raise problem
    for process, words in enumerate(said):
        if words:
            raise OutOfBounds(f"process {process}: {words}")


def check_same(digest: str) -> None:
    """OutOfBounds in every process if they were not all started with the same."""
    if jax.process_count() > 1 and len(set(_told(digest))) > 1:
        raise OutOfBounds(
            "the processes were started with different worlds, settings or seeds: they are to share one run"
        )


def any_of(*flags: bool) -> tuple[bool, ...]:
    """For each flag, whether any process has it set."""
    if jax.process_count() == 1:
        return flags
    return tuple(bool(flag) for flag in multihost_utils.process_allgather(np.array(flags)).any(axis=0))


def of_the_first(tree: Tree) -> Tree:
    """The arrays as the first process has them; the others give some of the same shapes."""
    if jax.process_count() == 1:
        return tree
    sent = multihost_utils.broadcast_one_to_all(jax.tree.map(numbers_of, tree))
    return jax.tree.map(lambda leaf, numbers: like(leaf, jax.device_put(numbers)), tree, sent)


def gathered(tree: Tree) -> Tree:
    """All of the arrays in this process; every process has to ask at the same time."""

    def whole(leaf: Array) -> Array:
        if leaf.is_fully_addressable:
            return leaf
        numbers = numbers_of(leaf)
        assert isinstance(numbers.sharding, NamedSharding)
        everywhere = NamedSharding(numbers.sharding.mesh, P())
        return like(leaf, jax.jit(lambda a: a, out_shardings=everywhere)(numbers).addressable_data(0))

    return jax.tree.map(whole, tree)


def at_home(tree: Tree) -> Tree:
    """The copy, on this process's first device, of what is on all of them."""

    def copy(leaf: Array) -> Array:
        return leaf if len(leaf.devices()) == 1 else like(leaf, numbers_of(leaf).addressable_data(0))

    return jax.tree.map(lambda leaf: copy(leaf) if eqx.is_array(leaf) else leaf, tree)


def _told(words: str) -> list[str]:
    """What every process has to say."""
    mine = np.zeros(_LONGEST, np.uint8)
    data = np.frombuffer(words.encode()[:_LONGEST], np.uint8)
    mine[: len(data)] = data
    return [row.tobytes().rstrip(b"\0").decode(errors="replace") for row in multihost_utils.process_allgather(mine)]


def numbers_of(array: Array) -> Array:
    """The array, or, of random keys, their numbers: keys themselves cannot be sent."""
    return jax.random.key_data(array) if jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key) else array


def like(array: Array, numbers: Array) -> Array:
    """The numbers, as random keys if the array is of such."""
    is_key = jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key)
    return jax.random.wrap_key_data(numbers) if is_key else numbers
