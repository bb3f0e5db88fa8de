"""Several runs as one program: side by side, which keeps a GPU busy; on a CPU in turn, each as if it were alone."""

import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

Run = TypeVar("Run", bound=tuple)  # a NamedTuple of what a run carries, with a counter `update`
# (what is the run's own, run, until) → (run, report)
Train = Callable[[PyTree, Run, Int[Array, ""]], tuple[Run, PyTree]]


class InStep(Generic[Run]):
    """Runs that make their updates in step: `runs` holds all of them, their arrays with a leading axis."""

    def __init__(self, train: Train[Run], each: Sequence[PyTree], runs: Sequence[Run]):
        """Compile `train` for all runs at once; `each` is what every run has of its own, such as its task."""
        own, own_static = eqx.partition(_stack(each), eqx.is_array)
        arrays, static = eqx.partition(_stack(runs), eqx.is_array)
        # One counter for all: a loop whose end is the same for every run stays a plain loop under vmap.
        arrays = arrays._replace(update=runs[0].update)  # type: ignore[attr-defined]
        axes = type(arrays)(*[0] * len(arrays))._replace(update=None)

        def advance(own: PyTree, arrays: Run, until: Int[Array, ""]) -> tuple[Run, PyTree]:
            run, report = train(eqx.combine(own, own_static), eqx.combine(arrays, static), until)
            return eqx.filter(run, eqx.is_array), report

        begun = time.perf_counter()
        if jax.default_backend() == "cpu":  # which is as quick so, and gives each run the bits of a run by itself
            all_runs = _one_after_another(advance)
        else:
            all_runs = jax.vmap(advance, in_axes=(0, axes, None), out_axes=(axes, 0))
        program = jax.jit(all_runs, donate_argnums=1)
        self._program = program.lower(own, arrays, arrays.update).compile()
        self.compile_seconds, self.train_seconds = time.perf_counter() - begun, 0.0
        self._own, self._arrays, self._static = own, arrays, static

    def advance(self, until: int) -> PyTree:
        """Go on up to update `until`; returns what `train` reports of every run."""
        begun = time.perf_counter()
        self._arrays, report = jax.block_until_ready(self._program(self._own, self._arrays, jnp.int32(until)))
        self.train_seconds += time.perf_counter() - begun
        return report

    @property
    def runs(self) -> Run:
        """All runs as they stand; their arrays are gone once `advance` is called again."""
        return eqx.combine(self._arrays, self._static)

    def run(self, i: int) -> Run:
        """One of them."""
        return jax.tree.map(lambda leaf: leaf[i] if eqx.is_array(leaf) else leaf, self.runs._replace(update=None))  # type: ignore[attr-defined]


def _one_after_another(advance: Callable[..., tuple[Run, PyTree]]) -> Callable[..., tuple[Run, PyTree]]:
    """Runs in a loop, whose body is the very program of one run: in batches, products are summed in another order."""

    def all_runs(own: PyTree, arrays: Run, until: Int[Array, ""]) -> tuple[Run, PyTree]:
        def one(given: tuple[PyTree, Run]) -> tuple[Run, Array, PyTree]:
            run, report = advance(given[0], given[1]._replace(update=arrays.update), until)  # type: ignore[attr-defined]
            return run._replace(update=None), run.update, report  # type: ignore[attr-defined]

        each = own, arrays._replace(update=None)  # type: ignore[attr-defined]
        runs, update, reports = jax.lax.map(one, each)
        return runs._replace(update=update[0]), reports

    return all_runs


def _stack(trees: Sequence[PyTree]) -> PyTree:
    """Arrays one above the other; what is no array, once."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves) if eqx.is_array(leaves[0]) else leaves[0], *trees)
