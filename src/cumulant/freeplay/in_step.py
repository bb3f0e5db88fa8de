"""Several runs as one program, which makes their updates in step.

A GPU takes them side by side, vmapped, which keeps it busier than one after another. A CPU is busy with one and takes
them in turn: each is then, bit for bit, what it is alone. Side by side, sums come in another order.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

Run = TypeVar("Run", bound=tuple)  # a NamedTuple of what a run carries, with a counter `update`
# (what is the run's own, run, until) → (run, report)
Train = Callable[[PyTree, Run, Int[Array, ""]], tuple[Run, PyTree]]


class InStep(Generic[Run]):
    """Runs that make their updates in step."""

    def __init__(self, train: Train[Run], each: Sequence[PyTree], runs: Sequence[Run]):
        """Compile `train` for all runs at once.

        Args:
            train: One run up to some update. It is given what is the run's own, the run, and the update.
            each: What every run has of its own, such as its task.
            runs: Where they begin, all at the same update.

        """
        own_static, self._static = (eqx.partition(trees[0], eqx.is_array)[1] for trees in (each, runs))
        self._own, arrays = (_stack([eqx.filter(tree, eqx.is_array) for tree in trees]) for trees in (each, runs))
        # One counter for all: a loop whose end is the same for every run stays a plain loop under vmap.
        self._arrays: Any = arrays._replace(update=runs[0].update.copy())  # type: ignore[attr-defined]

        def advance(own: PyTree, arrays: Run, until: Int[Array, ""]) -> tuple[Run, PyTree]:
            run, report = train(eqx.combine(own, own_static), eqx.combine(arrays, self._static), until)
            return eqx.filter(run, eqx.is_array), report

        begun = time.perf_counter()
        program = (_in_turn if jax.default_backend() == "cpu" else _side_by_side)(advance, self._arrays)
        self._program = jax.jit(program, donate_argnums=1).lower(self._own, self._arrays, jnp.int32(0)).compile()
        self.compile_seconds, self.train_seconds = time.perf_counter() - begun, 0.0

    def advance(self, until: int) -> PyTree:
        """Go on up to update `until`; return what `train` reports of every run, with a leading axis of runs."""
        begun = time.perf_counter()
        self._arrays, report = jax.block_until_ready(self._program(self._own, self._arrays, jnp.int32(until)))
        self.train_seconds += time.perf_counter() - begun
        return report

    @property
    def runs(self) -> Run:
        """All runs as they stand, their arrays with a leading axis. The next `advance` donates these buffers."""
        return eqx.combine(self._arrays, self._static)

    def run(self, i: int) -> Run:
        """Return a copy of run `i`, without the counter."""
        arrays = jax.tree.map(lambda leaf: leaf[i], self._arrays._replace(update=None))
        return eqx.combine(arrays, self._static._replace(update=None))


def _side_by_side(advance: Train[Run], arrays: Run) -> Train[Run]:
    axes = arrays._replace(**dict.fromkeys(arrays._fields, 0) | {"update": None})  # type: ignore[attr-defined]
    return jax.vmap(advance, in_axes=(0, axes, None), out_axes=(axes, 0))


def _in_turn(advance: Train[Run], arrays: Run) -> Train[Run]:
    def program(own: PyTree, arrays: Run, until: Int[Array, ""]) -> tuple[Run, PyTree]:
        update = arrays.update  # type: ignore[attr-defined]

        def one(given: tuple[PyTree, Run]) -> tuple[Run, PyTree]:
            return advance(given[0], given[1]._replace(update=update), until)  # type: ignore[attr-defined]

        after, report = jax.lax.map(one, (own, arrays._replace(update=None)))  # type: ignore[attr-defined]
        return after._replace(update=after.update[0]), report

    return program


def _stack(trees: Sequence[PyTree]) -> PyTree:
    """Arrays one above the other."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)
