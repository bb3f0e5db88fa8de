"""Several runs in step, over all devices of this process: each has an equal share of them.

GPUs take their shares in one program, sharded over the axis of runs. A GPU's runs go side by side, vmapped, which keeps
it busier than one after another. A CPU is busy with one, and takes its runs in turn, in a program of its own: each is
then, bit for bit, what it is alone. Side by side, or in a program for several devices, sums come in another order.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Int, PyTree

Run = TypeVar("Run", bound=tuple)  # a NamedTuple of what a run carries, with a counter `update`
# (what is the run's own, run, until) → (run, report)
Train = Callable[[PyTree, Run, Int[Array, ""]], tuple[Run, PyTree]]


class InStep(Generic[Run]):
    """Runs that make their updates in step: `runs` holds all of them, their arrays with a leading axis."""

    def __init__(self, train: Train[Run], each: Sequence[PyTree], runs: Sequence[Run]):
        """Compile `train` for all runs at once; `each` is what every run has of its own, such as its task."""
        devices = jax.local_devices()
        in_turn = jax.default_backend() == "cpu"
        self._share = share = -(-len(runs) // len(devices))  # runs of one device
        used = -(-len(runs) // share)  # devices
        self._together = together = 1 if in_turn else used  # devices that one program is for
        self._number, spare = len(runs), used * share - len(runs)  # the last run again, which nobody asks for
        each, runs = [*each, *[each[-1]] * spare], [*runs, *[runs[-1]] * spare]
        own, own_static = eqx.partition(each[0], eqx.is_array)
        _, self._static = eqx.partition(runs[0], eqx.is_array)

        def advance(own: PyTree, arrays: Run, until: Int[Array, ""]) -> tuple[Run, PyTree]:
            run, report = train(eqx.combine(own, own_static), eqx.combine(arrays, self._static), until)
            return eqx.filter(run, eqx.is_array), report

        begun = time.perf_counter()
        self._parts = []
        for first in range(0, used, together):
            mine = slice(first * share, (first + together) * share)
            own, arrays = (_stack([eqx.filter(tree, eqx.is_array) for tree in trees[mine]]) for trees in (each, runs))
            # One counter for all: a loop whose end is the same for every run stays a plain loop under vmap.
            arrays = arrays._replace(update=runs[0].update)  # type: ignore[attr-defined]
            program = (_in_turn if in_turn else _side_by_side)(advance, arrays)
            self._parts.append(_Part(program, own, arrays, devices[first : first + together]))
        self.compile_seconds, self.train_seconds = time.perf_counter() - begun, 0.0

    def advance(self, until: int) -> PyTree:
        """Go on up to update `until`; returns what `train` reports of every run."""
        begun = time.perf_counter()
        reports = jax.block_until_ready([part.advance(until) for part in self._parts])
        self.train_seconds += time.perf_counter() - begun
        return self._joined(reports)

    @property
    def runs(self) -> Run:
        """All runs as they stand; their arrays are gone once `advance` is called again."""
        update = self._parts[0].arrays.update
        arrays = self._joined([part.arrays._replace(update=None) for part in self._parts])
        return eqx.combine(arrays._replace(update=update), self._static)

    def run(self, i: int) -> Run:
        """One of them."""
        part, place = divmod(i, self._share * self._together)
        device, place = divmod(place, self._share)

        def mine(leaf: Array) -> Array:
            return jax.device_put(_shares_of(leaf)[device][place], jax.local_devices()[0])

        arrays = jax.tree.map(mine, self._parts[part].arrays._replace(update=None))
        return eqx.combine(arrays, self._static._replace(update=None))

    def _joined(self, parts: Sequence[PyTree]) -> PyTree:
        """What the parts have of every run, on the first device; nothing of the spare ones."""

        def joined(*leaves: Array) -> Array:
            shares = [share for leaf in leaves for share in _shares_of(leaf)]
            if len(shares) == 1:
                return shares[0]
            return jnp.concatenate([jax.device_put(each, jax.local_devices()[0]) for each in shares])[: self._number]

        return jax.tree.map(joined, *parts)


def _shares_of(leaf: Array) -> list[Array]:
    """What each device has of an array, in the order of the runs."""
    return [shard.data for shard in sorted(leaf.addressable_shards, key=lambda shard: shard.index[0].start or 0)]


class _Part(Generic[Run]):
    """A program with its runs, on one device or sharded over several."""

    def __init__(self, program: Train[Run], own: PyTree, arrays: Run, devices: Sequence[jax.Device]):
        mesh = jax.make_mesh((len(devices),), ("runs",), (AxisType.Auto,), devices=devices)
        shares = _for_all_but_the_counter(arrays, P("runs"), P())
        if len(devices) > 1:
            program = jax.shard_map(
                program,
                mesh=mesh,
                in_specs=(P("runs"), shares, P()),
                out_specs=(shares, P("runs")),
                check_vma=False,  # of whoever trains nothing is asked that has to do with devices
            )
        self._own = jax.device_put(own, _place(mesh, P("runs")))
        self.arrays = type(arrays)(*map(jax.device_put, arrays, [_place(mesh, share) for share in shares]))
        self._everywhere = _place(mesh, P())
        self._program = jax.jit(program, donate_argnums=1).lower(self._own, self.arrays, self._until(0)).compile()

    def advance(self, until: int) -> PyTree:
        """Begin to go on up to update `until`; returns what is reported of every run, once it is there."""
        self.arrays, report = self._program(self._own, self.arrays, self._until(until))
        return report

    def _until(self, update: int) -> Int[Array, ""]:
        return jax.device_put(jnp.int32(update), self._everywhere)


def _place(mesh: Mesh, share: P) -> jax.Device | NamedSharding:
    return NamedSharding(mesh, share) if mesh.size > 1 else mesh.devices.item()


def _side_by_side(advance: Train[Run], arrays: Run) -> Train[Run]:
    axes = _for_all_but_the_counter(arrays, 0, None)
    return jax.vmap(advance, in_axes=(0, axes, None), out_axes=(axes, 0))


def _in_turn(advance: Train[Run], arrays: Run) -> Train[Run]:
    def program(own: PyTree, arrays: Run, until: Int[Array, ""]) -> tuple[Run, PyTree]:
        update = arrays.update  # type: ignore[attr-defined]

        def one(each: tuple[PyTree, Run]) -> tuple[Run, PyTree]:
            return advance(each[0], each[1]._replace(update=update), until)  # type: ignore[attr-defined]

        after, report = jax.lax.map(one, (own, arrays._replace(update=None)))  # type: ignore[attr-defined]
        return after._replace(update=after.update[0]), report

    return program


def _for_all_but_the_counter(run: Run, each: Any, counter: Any) -> Run:
    """The same for each field of a run, and something else for the counter that all share."""
    return type(run)(*[each] * len(run))._replace(update=counter)  # type: ignore[attr-defined]


def _stack(trees: Sequence[PyTree]) -> PyTree:
    """Arrays one above the other."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)
