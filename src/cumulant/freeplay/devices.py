"""One run over several devices, which may be those of several hosts.

The program is the very one that a single device runs; only where its arrays lie is said here. Copies of the world and
the transitions of a batch are spread over the devices. Networks and replay are whole on each, so that a batch is drawn
without asking anybody: what devices tell each other is what their worlds have just shown, and their gradients.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

import equinox as eqx
import jax
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import PyTree

from cumulant.bounds import OutOfBounds
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
    if not 1 <= devices <= there:
        raise OutOfBounds(f"devices must lie between 1 and {there}, which there are, but is {devices}")
    if processes > 1 and devices < there:
        raise OutOfBounds(f"{processes} processes with {there} devices take part: all of them run it, not {devices}")
    if devices == 1:
        return None
    if at_once(world) is not None:
        raise OutOfBounds("a world that one process steps cannot be spread over several devices: use one")
    for name in ("num_envs", "batch"):
        if (size := getattr(config, name)) % devices:
            raise OutOfBounds(f"{name} must be a multiple of the devices, but {size:,} is none of {devices}")
    return jax.make_mesh((devices,), (_AXIS,), (AxisType.Auto,), devices=jax.devices()[:devices])


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
    """A Training as it lies between updates; on one device, the same."""
    names = training._fields  # type: ignore[attr-defined]
    parts = {name: (spread if name in _SPREAD else everywhere)(getattr(training, name)) for name in names}
    return training._replace(**parts)  # type: ignore[attr-defined]


def _held(tree: Tree, share: P) -> Tree:
    if jax.sharding.get_abstract_mesh().empty:
        return tree
    return jax.tree.map(lambda a: jax.lax.with_sharding_constraint(a, share) if eqx.is_array(a) else a, tree)
