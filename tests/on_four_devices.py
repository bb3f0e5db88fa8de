"""What tests/test_devices.py checks on four devices: for that JAX is started anew. Prints one JSON object."""

import json
import shutil
import sys
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from conftest import Sliders
from jaxtyping import Array

from cumulant.bounds import OutOfBounds
from cumulant.features.coordinates import true_features
from cumulant.freeplay.devices import mesh_of
from cumulant.freeplay.in_step import InStep
from cumulant.freeplay.learning import start, train
from cumulant.freeplay.runs import play_freely
from cumulant.freeplay.settings import FreePlay
from cumulant.transfer.library_folders import describe

WORLD = Sliders()
# Of a command line, too: cumulant pretrain --width 16 ...
SETTINGS = {"width": 16, "num_envs": 16, "batch": 32, "env_steps": 16 * 200, "replay": 1_000}
CONFIG = FreePlay(**SETTINGS)


def largest_difference(one, other):
    leaves = zip(*(jax.tree.leaves(eqx.filter(tree, eqx.is_array)) for tree in (one, other)), strict=True)
    return max(float(np.abs(np.asarray(a, float) - np.asarray(b, float)).max()) for a, b in leaves)


class Sum(NamedTuple):
    total: Array
    update: Array


def sums(number):
    """What some runs in step come to that add what is their own at each update, and what they report."""

    def adding(own, run, until):
        total = run.total + own * (until - run.update)
        return Sum(total, until), 2 * total

    runs = InStep(adding, list(jnp.arange(1.0, number + 1)), [Sum(jnp.zeros(()), jnp.int32(0))] * number)
    runs.advance(3)
    report = runs.advance(10)
    each = [float(runs.run(i).total) for i in range(number)]
    return [runs.runs.total.tolist(), (report / 2).tolist(), each] == [[10.0 * i for i in range(1, number + 1)]] * 3


def side_by_side():
    """The largest difference of what two runs in step, which devices share as GPUs do, learn in a few updates."""

    def learnt(seeds):
        runs = InStep(
            lambda _, training, until: train(WORLD, CONFIG, true_features, training, until),
            [None] * len(seeds),
            [start(WORLD, CONFIG, true_features, jax.random.key(seed)) for seed in seeds],
        )
        runs.advance(5)
        return [runs.run(i).network for i in range(len(seeds))]

    in_turn = learnt((0, 1))
    with mock.patch("jax.default_backend", return_value="gpu"):
        return max(map(largest_difference, in_turn, learnt((0, 1))))


def shared(devices, out=None, resume=False, parts=None):
    """The network of seed 0 whose run so many devices share; None if it is stopped after some parts."""
    left = iter([False] * (parts - 1) + [True]) if parts else None
    return play_freely(
        WORLD,
        CONFIG,
        true_features,
        0,
        judge=lambda network: None,
        report=lambda metrics: None,
        should_stop=lambda: bool(left and next(left)),
        out=out,
        about=describe(WORLD, CONFIG, true_features) | {"seed": 0},
        resume=resume,
        mesh=mesh_of(devices, WORLD, CONFIG),
    )


def refusals():
    class OnTheHost(Sliders):
        at_once = 4

    odd = FreePlay(num_envs=10)
    for devices, world, config in ((5, WORLD, CONFIG), (0, WORLD, CONFIG), (4, WORLD, odd), (2, OnTheHost(), CONFIG)):
        try:
            mesh_of(devices, world, config)
        except OutOfBounds as error:
            yield str(error)


def main(folder):
    """All of it. In the folder stay what one device learns in double precision, and the run that four began."""
    found = {"devices": jax.local_device_count(), "refused": list(refusals())}
    found["in turn"] = [sums(number) for number in (1, 3, 5, 8)]
    with mock.patch("jax.default_backend", return_value="gpu"):
        found["side by side"] = [sums(number) for number in (1, 3, 5, 8)]
    found["trained side by side"] = side_by_side()
    # What one rounding changes, an argmax may make large; with twice the digits only another program would.
    jax.config.update("jax_enable_x64", True)
    alone = shared(1)
    np.savez(folder / "alone.npz", *jax.tree.leaves(eqx.filter(alone, eqx.is_array)))
    found["shared"] = largest_difference(alone, shared(4))
    assert shared(4, folder / "run", parts=13) is None
    shutil.copytree(folder / "run", folder / "begun")  # for two processes to go on with
    found["resumed on two"] = largest_difference(alone, shared(2, folder / "run", resume=True))
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
