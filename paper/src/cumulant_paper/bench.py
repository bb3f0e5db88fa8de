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
from cumulant.features.coordinates import Features, Inputs, inputs_of, true_features
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
from cumulant_paper import peers

_REPEATS = 5  # of which the median counts
_PEER_SECONDS = 2.0  # that the peer is given
_LONG = 1000  # characters of a phrase, as many as a person may give
_ROUNDS, _UPDATES = 200, 20  # of play and update, and of updates alone, that are timed together
_SHOWN = 5  # numbers of an observation that stand for features where only time matters

Report = dict[str, float | str | None]  # what was measured, by name


def bench_env(world: Spriteworld, num_envs: int, num_steps: int, with_peer: bool) -> Report:
    """Measure environment steps per second: random actions, positions observed, time limit and automatic reset."""
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

    # Each step must read and write the positions and the clock, and write the observation.
    floats = len(world.feature_names)
    bytes_per_step = 4 * (2 * floats + 2 + floats)
    peer = _peer_rate(world) if with_peer else None
    report = _beside_memory("env steps/s", num_envs * num_steps, peer, bytes_per_step, walk, jax.random.key(0))
    return report | {"num_envs": num_envs}


def bench_render(world: Spriteworld, num_frames: int, size: int, with_peer: bool) -> Report:
    """Measure anti-aliased frames per second; the original renders with its anti-aliasing of 5."""
    check_memory(f"{num_frames:,} frames of {size:,} pixels a side", 3 * num_frames * size**2)
    states = jax.vmap(world.reset)(jax.random.split(jax.random.key(0), num_frames))
    draw = jax.jit(jax.vmap(partial(render, world, size=size)))
    bytes_per_frame = 3 * size * size + 4 * len(world.feature_names)
    peer = _peer_rate(world, image_size=size) if with_peer else None
    report = _beside_memory("frames/s", num_frames, peer, bytes_per_frame, draw, states)
    return report | {"batch": num_frames, "size": size}


def bench_parse(world: Spriteworld) -> Report:
    """Measure the worst time to parse a long phrase, over families that strain the normal form."""
    words = random.Random(0)

    def long(join: str, part: Callable[[], str]) -> str:
        phrase = part()
        while len(phrase) + len(join) + len(more := part()) <= _LONG - 5:
            phrase += join + more
        return phrase

    def spot() -> str:
        return f"{words.choice(world.sprites)} {words.choice(THIRDS['y'])} {words.choice(THIRDS['x'])}"

    def read(phrase: str) -> None:
        with contextlib.suppress(LanguageError):
            parse(phrase, world.feature_names)

    phrases = [
        long(" or ", spot),
        f"not({long(' or ', spot)})",
        long(" and ", lambda: f"({spot()} or {spot()})"),
        long(" and ", lambda: f"not ({spot()} and {spot()})"),
        long(" or ", lambda: f"not ({' or '.join(words.sample(world.sprites, 2))} {words.choice(THIRDS['x'])})"),
        "agent left" + long("", lambda: f" {words.choice(['and', 'or'])} not {words.choice(THIRDS['y'])}"),
        "q" * _LONG,
    ]
    # The median: a fresh process also collects its start's garbage now and then.
    worst = max(float(np.median([_timed(read, phrase)[0] for _ in range(_REPEATS)])) for phrase in phrases)
    return _report("ms, worst phrase", 1000 * worst) | {"phrases": len(phrases)}


def bench_pretrain(world: World, wide_batch: int) -> Report:
    """Measure free play's updates and steps per second, and how near a wide update in bfloat16 is to the peak."""
    config = PRESETS["cpu" if jax.default_backend() == "cpu" else "fast"]
    wide = replace(config, network="all_policies", width=1024, bins=9, batch=wide_batch, half_precision=True)
    check_size(world, wide, true_features)
    arrays, play, _ = _free_play(world, config, true_features)
    compile_seconds, filled = _timed(play, arrays)  # a replay that already holds something
    seconds = _median_seconds(play, filled)
    arrays, _, updates = _free_play(world, wide, true_features)
    wide_seconds = _median_seconds(updates, arrays) / _UPDATES
    peak, flops = matrix_peak(), update_flops(world, wide)
    return _report("updates/s", _ROUNDS / seconds) | {
        "env_steps_per_s": _ROUNDS * config.num_envs / seconds,
        "compile_s": compile_seconds,
        "device": jax.devices()[0].device_kind,
        "wide_update_ms": 1000 * wide_seconds,
        "wide_update_flops": flops,  # of whole passes, however much of them is spared
        "matrix_peak_flops_per_s": peak,
        "share_of_peak": flops / wide_seconds / peak,
    }


def bench_gpi(world: World) -> Report:
    """Measure actions of plain GPI per second from 1, 64 and 4,096 states: one pass for all policies, or one each."""
    k, bins = len(world.feature_names), 9
    w = jnp.zeros((1, k, bins)).at[:, :, 0].set(1.0)
    rates: dict[str, float] = {}
    for name in ("all_policies", "goal_conditioned"):
        config = replace(PRESETS["fast"], network=name, bins=bins, width=512)
        network = make_network(config, Inputs(k), world.num_actions, jax.random.key(0))
        act = plain_gpi(network, true_features, w).act
        program = jax.jit(jax.vmap(lambda f, act=act: act((), f, jax.random.key(0))[1]))
        for states in (1, 64, 4096):
            f = jax.random.uniform(jax.random.key(1), (states, k))
            rates[f"{name}_{states}"] = states / _median_seconds(program, f)
    about: Report = {"device": jax.devices()[0].device_kind}
    return about | rates | _report("actions/s", rates["all_policies_4096"], rates["goal_conditioned_4096"])


def bench_host(world: HostWorld, config: FreePlay) -> Report:
    """Measure steps per second of free play on the host, with an update per round, against Gymnasium's bare loop.

    Both run by turns in the same process, on as many copies; the ratio is the median of the turns' own. Of a round,
    `update_ms` is what the update takes by itself, and `bare_ms` what the bare steps take.
    """
    config = replace(config, num_envs=world.num_envs)
    arrays, play, updates = _free_play(world, config, world.features_of, donate=True)
    compile_seconds, arrays = _timed(play, arrays)
    jax.block_until_ready(updates(arrays))
    copies = SyncVectorEnv([world.make] * world.num_envs)
    copies.reset(seed=0)
    turns = []
    for _ in range(_REPEATS):
        ours, arrays = _timed(play, arrays)
        bare, _ = _timed(lambda: [copies.step(copies.action_space.sample())[1] for _ in range(_ROUNDS)])
        alone, _ = _timed(updates, arrays)
        turns.append((ours / _ROUNDS, bare / _ROUNDS, alone / _UPDATES))
    copies.close()
    ours, bare, alone = np.median(turns, axis=0)
    return _report("env steps/s", world.num_envs / ours, world.num_envs / bare) | {
        "ratio": float(np.median([bare / ours for ours, bare, _ in turns])),
        "num_envs": world.num_envs,
        "compile_s": compile_seconds,
        "round_ms": 1000 * ours,
        "bare_ms": 1000 * bare,
        "update_ms": 1000 * alone,
    }


def host_world(environment: str, num_envs: int) -> HostWorld:
    """Return any environment, with the first numbers that it shows for features: to be measured, not learnt from."""
    env = gymnasium.make(environment, disable_env_checker=True)
    few = min(_SHOWN, flatdim(env.observation_space))
    actions = primitives(flatdim(env.action_space), diagonal=()) if isinstance(env.action_space, Box) else None
    env.close()

    def features(obs: PyTree) -> Array:
        flat = jnp.concatenate([jnp.ravel(leaf).astype(jnp.float32) for leaf in jax.tree.leaves(obs)])
        return jax.nn.sigmoid(flat[:few])

    return HostWorld(environment, features, tuple(f"f{i}" for i in range(few)), actions, num_envs)


def update_flops(world: World, config: FreePlay) -> float:
    """Return the operations of an update's matrix products: the network forward and backward, two forward passes."""
    network = make_network(config, inputs_of(true_features, world), world.num_actions, jax.random.key(0))
    parts = jax.tree.leaves(network, is_leaf=lambda part: isinstance(part, eqx.nn.Linear))
    # With a leading axis, where every feature has its own.
    matrices = [part.weight for part in parts if isinstance(part, eqx.nn.Linear)]
    forward = 2 * config.batch * sum(matrix.size for matrix in matrices)
    return float(5 * forward - 2 * config.batch * matrices[0].size)  # no gradient is taken of the input


def matrix_peak() -> float:
    """Return the operations per second of large bfloat16 matrix products, one after another."""
    n, products = (8192, 10) if jax.default_backend() != "cpu" else (1024, 2)
    x = jax.random.normal(jax.random.key(0), (n, n), jnp.bfloat16) / n**0.5
    chain = jax.jit(lambda x: jax.lax.fori_loop(0, products, lambda _, y: y @ x, x))
    return products * 2 * n**3 / _median_seconds(chain, x)


def copy_bandwidth() -> float:
    """Return the bytes per second, read and written, of passes over an array that fits no cache."""
    size, passes = (2**30 if jax.default_backend() != "cpu" else 2**27), 8
    walk = jax.jit(lambda x: jax.lax.fori_loop(0, passes, lambda _, x: x + 1, x))
    return 2 * size * passes / _median_seconds(walk, jnp.ones(size // 4, jnp.float32))


def _free_play(
    world: World, config: FreePlay, features: Features, donate: bool = False
) -> tuple[PyTree, Callable[[PyTree], PyTree], Callable[[PyTree], PyTree]]:
    """Return the arrays of free play's first moment, and programs of so many rounds, and of so many updates alone."""
    arrays, static = eqx.partition(start(world, config, features, jax.random.key(0)), eqx.is_array)

    def play(arrays: PyTree) -> PyTree:
        training = eqx.combine(arrays, static)
        return eqx.filter(train(world, config, features, training, training.update + _ROUNDS)[0], eqx.is_array)

    def updates(arrays: PyTree) -> PyTree:
        def step(arrays: PyTree, key: PRNGKeyArray) -> tuple[PyTree, None]:
            return eqx.filter(learn(config, eqx.combine(arrays, static), key)[0], eqx.is_array), None

        return jax.lax.scan(step, arrays, jax.random.split(jax.random.key(1), _UPDATES))[0]

    return arrays, jax.jit(play, donate_argnums=0 if donate else ()), jax.jit(updates)


def _peer_rate(world: Spriteworld, image_size: int = 0) -> float:
    """Return the original's rate: steps that observe positions, or frames of one random scene after another."""
    environment = peers.environment(peers.load(), world, image_size)
    np.random.seed(0)  # noqa: NPY002  # the original draws from NumPy's global state
    environment.reset()
    if image_size:
        work, inputs = environment._renderers["frame"].render, [environment._init_sprites() for _ in range(100)]
    else:
        work, inputs = environment.step, [environment.action_space.sample() for _ in range(100)]
    done, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < _PEER_SECONDS:
        for item in inputs:
            work(item)
        done += len(inputs)
    return done / (time.perf_counter() - begun)


def _timed(work: Callable[..., Any], *args: Any) -> tuple[float, Any]:
    """Return the seconds that a call takes, and its result."""
    begun = time.perf_counter()
    result = jax.block_until_ready(work(*args))
    return time.perf_counter() - begun, result


def _median_seconds(work: Callable[..., PyTree], *args: PyTree) -> float:
    """Return the median time of a call, after one that compiles."""
    jax.block_until_ready(work(*args))
    return float(np.median([_timed(work, *args)[0] for _ in range(_REPEATS)]))


def _report(unit: str, ours: float, peer: float | None = None) -> Report:
    return {"unit": unit, "ours": ours, "peer": peer, "ratio": ours / peer if peer else None}


def _beside_memory(
    unit: str, number: int, peer: float | None, bytes_each: int, program: jax.stages.Wrapped, given: PyTree
) -> Report:
    """Measure a program that makes a number of something, each of which must move so many bytes."""
    compile_seconds, compiled = _timed(lambda: program.lower(given).compile())
    rate, bandwidth = number / _median_seconds(compiled, given), copy_bandwidth()
    return _report(unit, rate, peer) | {
        "device": jax.devices()[0].device_kind,
        "compile_s": compile_seconds,
        "bytes_each": bytes_each,
        "copy_bytes_per_s": bandwidth,
        "memory_limit": bandwidth / bytes_each,
        "share_of_limit": rate * bytes_each / bandwidth,
    }
