"""One run over several devices, which may be those of several hosts.

The program is the very one that a single device runs; only where its arrays lie is said here. Copies of the world and
the transitions of a batch are spread over the devices. Networks and replay are whole on each, so that a batch is drawn
without asking anybody: what devices tell each other is what their worlds have just shown, and their gradients.
"""

from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TypeVar

import equinox as eqx
import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, PyTree

from cumulant.bounds import OutOfBounds
from cumulant.freeplay.processes import like, numbers_of
from cumulant.freeplay.settings import FreePlay
from cumulant.worlds.protocol import World, at_once

Tree = TypeVar("Tree", bound=PyTree)
_SPREAD = ("episodes", "x", "policy")  # of a Training: what there is of each copy of the world
_AXIS = "devices"


def mesh_of(devices: int | None, world: World, config: FreePlay) -> Mesh | None:
    """So many devices, to share a run; None for the usual one. By default one, or all that several processes have.

    OutOfBounds if there are not so many, or if the settings cannot be shared among them.
    """
    there, processes = jax.device_count(), jax.process_count()
    devices = (there if processes > 1 else 1) if devices is None else devices
    if devices < 1:
        raise OutOfBounds(f"devices must be at least 1, but is {devices}")
    if devices > there:
        raise OutOfBounds(f"devices must be at most {there}, as many as there are, but is {devices}")
    if processes > 1 and devices < there:
        raise OutOfBounds(f"devices must be {there}, all that the {processes} processes have, but is {devices}")
    if devices == 1:
        return None
    if at_once(world) is not None:
        raise OutOfBounds(f"devices must be 1 for a world on the host, which one process steps, but is {devices}")
    for name in ("num_envs", "batch"):
        if (size := getattr(config, name)) % devices:
            raise OutOfBounds(f"{name} must be a multiple of the {devices} devices, but is {size:,}")
    return jax.make_mesh((devices,), (_AXIS,), (AxisType.Auto,), devices=jax.devices()[:devices])


def place(mesh: Mesh | None, training: Tree) -> Tree:
    """The arrays of a Training as they are to lie on the devices, from one device or from others."""
    if mesh is None:
        return training

    def put(array: Array, at: NamedSharding) -> Array:
        numbers = np.asarray(numbers_of(array))
        return like(array, jax.make_array_from_callback(numbers.shape, at, lambda part: numbers[part]))

    shares = {name: NamedSharding(mesh, share) for name, share in _shares(training).items()}
    return training._replace(
        **{name: jax.tree.map(partial(put, at=at), getattr(training, name)) for name, at in shares.items()}
    )


def over(mesh: Mesh | None) -> AbstractContextManager[object]:
    """Where a program over the mesh is compiled."""
    return nullcontext() if mesh is None else jax.set_mesh(mesh)


def spread(tree: Tree) -> Tree:
    """An equal share of the leading axis on each device; on one device, the same."""
    return _held(tree, P(_AXIS))


def everywhere(tree: Tree) -> Tree:
    """All of it on each device; on one device, the same."""
    return _held(tree, P())


def settled(training: Tree) -> Tree:
    """A Training as `place` puts it, after each update; on one device, the same."""
    return training._replace(**{n: _held(getattr(training, n), share) for n, share in _shares(training).items()})


def _shares(training: Tree) -> dict[str, P]:
    return {name: P(_AXIS) if name in _SPREAD else P() for name in training._fields}


def _held(tree: Tree, share: P) -> Tree:
    if _AXIS not in jax.sharding.get_abstract_mesh().axis_names:  # of runs in step, each is whole on its device
        return tree
    return jax.tree.map(lambda a: jax.lax.with_sharding_constraint(a, share) if eqx.is_array(a) else a, tree)
