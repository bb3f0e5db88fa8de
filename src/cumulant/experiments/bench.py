"""How fast the world, free play and GPI run, beside a peer in the same run and beside what the hardware allows."""

import contextlib
import random
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.spaces import Box, flatdim
from gymnasium.vector import SyncVectorEnv
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from cumulant.config import PRESETS, FreePlay, check_memory
from cumulant.experiments import peers
from cumulant.features.coordinates import Inputs, inputs_of, true_features
from cumulant.freeplay.learning import check_size, learn, start, train
from cumulant.freeplay.networks import make_network
from cumulant.goals.errors import LanguageError
from cumulant.goals.language import parse
from cumulant.goals.tasks import THIRDS
from cumulant.transfer.gpi import plain_gpi
from cumulant.worlds.host import HostWorld
from cumulant.worlds.primitives import primitives
from cumulant.worlds.protocol import Episodes, World, advance, begin, render
from cumulant.worlds.spriteworld import Spriteworld

_REPEATS = 5  # of which the median counts
_PEER_SECONDS = 2.0  # that the peer is given
_LONG = 1000  # characters of a phrase, as many as a person may give
_ROUNDS, _UPDATES = 200, 20  # of play and update, and of updates alone, that are timed together
_SHOWN = 5  # numbers of an observation that stand for features where only time matters

Report = dict[str, float | str | None]  # what was measured, by name


def bench_env(world: Spriteworld, num_envs: int, num_steps: int, with_peer: bool) -> Report:
    """Environment steps per second under random actions, observing positions, with time limit and automatic reset."""
    check_memory(f"{num_envs:,} worlds at once", 4 * num_envs * len(world.feature_names))

    @jax.jit
    def walk(key: PRNGKeyArray) -> tuple[Episodes, Float[Array, "n k"]]:
        key_start, key_walk = jax.random.split(key)
        episodes = begin(world, key_start, num_envs)

        def step(now: tuple[Episodes, Array], key: PRNGKeyArray) -> tuple[tuple[Episodes, Array], None]:
            key_act, key_reset = jax.random.split(key)
            action = jax.random.bits(key_act, (num_envs,), jnp.uint8) % world.num_actions
            episodes, timestep = advance(world, now[0], action.astype(jnp.int32), key_reset)
            return (episodes, timestep.obs), None

        first = (episodes, jax.vmap(world.observe)(episodes.state))
        return jax.lax.scan(step, first, jax.random.split(key_walk, num_steps))[0]

    seconds, compile_seconds = _median_seconds(walk, jax.random.key(0))
    # Each step must read and write the positions and the clock, and write the observation.
    floats = len(world.feature_names)
    bytes_per_step = 4 * (2 * floats + 2 + floats)
    peer = _peer_rate(world) if with_peer else None
    return _report("env steps/s", num_envs * num_steps / seconds, peer, bytes_per_step, compile_seconds) | {
        "num_envs": num_envs
    }


def bench_render(world: Spriteworld, num_frames: int, size: int, with_peer: bool) -> Report:
    """Anti-aliased frames per second; the original renders with its anti-aliasing of 5."""
    check_memory(f"{num_frames:,} frames of {size:,} pixels a side", 3 * num_frames * size**2)
    states = jax.vmap(world.reset)(jax.random.split(jax.random.key(0), num_frames))
    draw = jax.jit(jax.vmap(partial(render, world, size=size)))
    seconds, compile_seconds = _median_seconds(draw, states)
    bytes_per_frame = 3 * size * size + 4 * len(world.feature_names)
    peer = _peer_rate(world, image_size=size) if with_peer else None
    return _report("frames/s", num_frames / seconds, peer, bytes_per_frame, compile_seconds) | {
        "batch": num_frames,
        "size": size,
    }


def bench_parse(world: Spriteworld) -> Report:
    """The worst time to parse a long phrase, over families that strain the normal form."""
    words = random.Random(0)

    def long(join: str, part: Callable[[], str]) -> str:
        phrase = part()
        while len(phrase) + len(join) + len(more := part()) <= _LONG - 5:
            phrase += join + more
        return phrase

    def spot() -> str:
        return f"{words.choice(world.sprites)} {words.choice(THIRDS['y'])} {words.choice(THIRDS['x'])}"

    phrases = [
        long(" or ", spot),
        f"not({long(' or ', spot)})",
        long(" and ", lambda: f"({spot()} or {spot()})"),
        long(" and ", lambda: f"not ({spot()} and {spot()})"),
        long(" or ", lambda: f"not ({' or '.join(words.sample(world.sprites, 2))} {words.choice(THIRDS['x'])})"),
        "agent left" + long("", lambda: f" {words.choice(['and', 'or'])} not {words.choice(THIRDS['y'])}"),
        "q" * _LONG,
    ]
    milliseconds = []
    for phrase in phrases:
        times = []
        for _ in range(_REPEATS):  # the median: a fresh process also collects its start's garbage now and then
            start = time.perf_counter()
            with contextlib.suppress(LanguageError):
                parse(phrase, world.feature_names)
            times.append(1000 * (time.perf_counter() - start))
        milliseconds.append(float(np.median(times)))
    return {"unit": "ms, worst phrase", "ours": max(milliseconds), "peer": None, "ratio": None, "phrases": len(phrases)}


def bench_pretrain(world: World, wide_batch: int) -> Report:
    """Free play's updates and steps per second, and how near a wide update in bfloat16 comes to the matrix peak."""
    config = PRESETS["cpu" if jax.default_backend() == "cpu" else "fast"]
    wide = replace(config, network="all_policies", width=1024, bins=9, batch=wide_batch, half_precision=True)
    check_size(world, wide, true_features)
    seconds, compile_seconds = _training_seconds(world, config)
    wide_seconds = _update_seconds(world, wide)
    peak, flops = matrix_peak(), update_flops(world, wide)
    return {
        "unit": "updates/s",
        "ours": _ROUNDS / seconds,
        "peer": None,
        "ratio": None,
        "env_steps_per_s": _ROUNDS * config.num_envs / seconds,
        "compile_s": compile_seconds,
        "device": jax.devices()[0].device_kind,
        "wide_update_ms": 1000 * wide_seconds,
        "wide_update_flops": flops,  # of whole passes, however much of them is spared
        "matrix_peak_flops_per_s": peak,
        "share_of_peak": flops / wide_seconds / peak,
    }


def host_world(environment: str, num_envs: int) -> HostWorld:
    """Any environment, with the first numbers that it shows for features: to be measured, not to be learnt from."""
    env = gymnasium.make(environment, disable_env_checker=True)
    few = min(_SHOWN, flatdim(env.observation_space))
    actions = primitives(flatdim(env.action_space), diagonal=()) if isinstance(env.action_space, Box) else None
    env.close()

    def features(obs: PyTree) -> Array:
        flat = jnp.concatenate([jnp.ravel(leaf).astype(jnp.float32) for leaf in jax.tree.leaves(obs)])
        return jax.nn.sigmoid(flat[:few])

    return HostWorld(environment, features, tuple(f"f{i}" for i in range(few)), actions, num_envs)


def bench_host(world: HostWorld, config: FreePlay) -> Report:
    """Steps per second of free play on the host, with an update per round, against Gymnasium's bare loop.

    Both run by turns in the same process, on as many copies; the ratio is the median of the turns' own. Of a round,
    `update_ms` is what the update takes by itself, and `bare_ms` what the bare steps take.
    """
    config = replace(config, num_envs=world.num_envs)
    f = world.features_of
    arrays, static = eqx.partition(start(world, config, f, jax.random.key(0)), eqx.is_array)

    def play(arrays: PyTree) -> PyTree:
        training = eqx.combine(arrays, static)
        return eqx.filter(train(world, config, f, training, training.update + _ROUNDS)[0], eqx.is_array)

    def updates(arrays: PyTree) -> PyTree:
        def step(arrays: PyTree, key: PRNGKeyArray) -> tuple[PyTree, None]:
            return eqx.filter(learn(config, eqx.combine(arrays, static), key)[0], eqx.is_array), None

        return jax.lax.scan(step, arrays, jax.random.split(jax.random.key(1), _UPDATES))[0]

    played, updated = jax.jit(play, donate_argnums=0), jax.jit(updates)
    begun = time.perf_counter()
    arrays = jax.block_until_ready(played(arrays))
    compile_seconds = time.perf_counter() - begun
    jax.block_until_ready(updated(arrays))
    copies = SyncVectorEnv([world.make] * world.num_envs)
    copies.reset(seed=0)
    turns = []
    for _ in range(_REPEATS):
        ours, arrays = _timed(played, arrays)
        bare, _ = _timed(lambda rounds: [copies.step(copies.action_space.sample())[1] for _ in range(rounds)], _ROUNDS)
        alone, _ = _timed(updated, arrays)
        turns.append((ours / _ROUNDS, bare / _ROUNDS, alone / _UPDATES))
    copies.close()
    ours, bare, alone = np.median(turns, axis=0)
    return {
        "unit": "env steps/s",
        "ours": world.num_envs / ours,
        "peer": world.num_envs / bare,
        "ratio": float(np.median([bare / ours for ours, bare, _ in turns])),
        "num_envs": world.num_envs,
        "compile_s": compile_seconds,
        "round_ms": 1000 * ours,
        "bare_ms": 1000 * bare,
        "update_ms": 1000 * alone,
    }


def _timed(work: Callable[[Any], PyTree], given: Any) -> tuple[float, PyTree]:
    begun = time.perf_counter()
    result = jax.block_until_ready(work(given))
    return time.perf_counter() - begun, result


def _training_seconds(world: World, config: FreePlay) -> tuple[float, float]:
    """The median time of so many rounds of play and update, from a replay that already holds something."""
    arrays, static = eqx.partition(start(world, config, true_features, jax.random.key(0)), eqx.is_array)

    @jax.jit
    def advance(arrays: PyTree) -> PyTree:
        training = eqx.combine(arrays, static)
        return eqx.filter(train(world, config, true_features, training, training.update + _ROUNDS)[0], eqx.is_array)

    begun = time.perf_counter()
    filled = jax.block_until_ready(advance(arrays))
    compile_seconds = time.perf_counter() - begun
    return _median_seconds(advance, filled)[0], compile_seconds


def _update_seconds(world: World, config: FreePlay) -> float:
    """The median time of one update alone."""
    arrays, static = eqx.partition(start(world, config, true_features, jax.random.key(0)), eqx.is_array)

    @jax.jit
    def updates(arrays: PyTree) -> PyTree:
        def step(arrays: PyTree, key: PRNGKeyArray) -> tuple[PyTree, None]:
            return eqx.filter(learn(config, eqx.combine(arrays, static), key)[0], eqx.is_array), None

        return jax.lax.scan(step, arrays, jax.random.split(jax.random.key(1), _UPDATES))[0]

    return _median_seconds(updates, arrays)[0] / _UPDATES


def update_flops(world: World, config: FreePlay) -> float:
    """Operations of an update's matrix products: forward and backward of the network, and two forward passes more."""
    network = make_network(config, inputs_of(true_features, world), world.num_actions, jax.random.key(0))
    linear = [layer for layer in jax.tree.leaves(network, is_leaf=_is_linear) if _is_linear(layer)]
    matrices = [layer.weight for layer in linear]  # with a leading axis, where every feature has its own
    forward = 2 * config.batch * sum(matrix.size for matrix in matrices)
    return float(5 * forward - 2 * config.batch * matrices[0].size)  # no gradient is taken of the input


def _is_linear(tree: PyTree) -> bool:
    return isinstance(tree, eqx.nn.Linear)


def matrix_peak() -> float:
    """Operations per second of large bfloat16 matrix products, one after another."""
    n, products = (8192, 10) if jax.default_backend() != "cpu" else (1024, 2)
    x = jax.random.normal(jax.random.key(0), (n, n), jnp.bfloat16) / n**0.5
    chain = jax.jit(lambda x: jax.lax.fori_loop(0, products, lambda _, y: y @ x, x))
    return products * 2 * n**3 / _median_seconds(chain, x)[0]


def bench_gpi(world: World) -> Report:
    """Actions per second of plain GPI from 1, 64 and 4,096 states: one pass for all policies against one for each."""
    k, bins = len(world.feature_names), 9
    w = jnp.zeros((1, k, bins)).at[:, :, 0].set(1.0)
    rates: dict[str, float] = {}
    for name in ("all_policies", "goal_conditioned"):
        config = replace(PRESETS["fast"], network=name, bins=bins, width=512)
        network = make_network(config, Inputs(k), world.num_actions, jax.random.key(0))
        for states in (1, 64, 4096):
            f = jax.random.uniform(jax.random.key(1), (states, k))
            act = jax.jit(
                jax.vmap(lambda f, n=network: plain_gpi(n, true_features, w).act((), f, jax.random.key(0))[1])
            )
            rates[f"{name}_{states}"] = states / _median_seconds(act, f)[0]
    ours, peer = rates["all_policies_4096"], rates["goal_conditioned_4096"]
    about: Report = {"unit": "actions/s", "device": jax.devices()[0].device_kind}
    return about | rates | {"ours": ours, "peer": peer, "ratio": ours / peer}


def _peer_rate(world: Spriteworld, image_size: int = 0) -> float:
    """The original's rate: steps that observe positions, or frames drawn of one random scene after another."""
    module = peers.load()
    environment = peers.environment(module, world, image_size)
    np.random.seed(0)  # noqa: NPY002  # the original draws from NumPy's global state
    environment.reset()
    if image_size:
        work, inputs = environment._renderers["frame"].render, [environment._init_sprites() for _ in range(100)]
    else:
        work, inputs = environment.step, [environment.action_space.sample() for _ in range(100)]
    done, start = 0, time.perf_counter()
    while time.perf_counter() - start < _PEER_SECONDS:
        for item in inputs:
            work(item)
        done += len(inputs)
    return done / (time.perf_counter() - start)


def _median_seconds(function: jax.stages.Wrapped, *args: PyTree) -> tuple[float, float]:
    """The median time of a compiled call, and the time to compile it."""
    start = time.perf_counter()
    compiled = function.lower(*args).compile()
    compile_seconds = time.perf_counter() - start
    jax.block_until_ready(compiled(*args))
    times = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        jax.block_until_ready(compiled(*args))
        times.append(time.perf_counter() - start)
    return float(np.median(times)), compile_seconds


def copy_bandwidth() -> float:
    """Bytes per second, read and written, of passes over an array that fits no cache."""
    size, passes = (2**30 if jax.default_backend() != "cpu" else 2**27), 8
    walk = jax.jit(lambda x: jax.lax.fori_loop(0, passes, lambda _, x: x + 1, x))
    seconds, _ = _median_seconds(walk, jnp.ones(size // 4, jnp.float32))
    return 2 * size * passes / seconds


def _report(unit: str, ours: float, peer: float | None, bytes_each: int, compile_seconds: float) -> Report:
    bandwidth = copy_bandwidth()
    return {
        "unit": unit,
        "ours": ours,
        "peer": peer,
        "ratio": ours / peer if peer else None,
        "device": jax.devices()[0].device_kind,
        "compile_s": compile_seconds,
        "bytes_each": bytes_each,
        "copy_bytes_per_s": bandwidth,
        "memory_limit": bandwidth / bytes_each,
        "share_of_limit": ours * bytes_each / bandwidth,
    }
