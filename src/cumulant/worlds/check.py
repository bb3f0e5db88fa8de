"""A look at a new world before anything is learnt in it: what is wrong, and how to mend it, in one line each."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PRNGKeyArray, PyTree

from cumulant.goals.feature import Feature, described
from cumulant.worlds.failures import plainly
from cumulant.worlds.protocol import World, at_once, done_in, step_unless

_COPIES = 64  # of the world that are played at random
_STEPS = 200  # of each, at most
_EVEN_SO = 1e-4  # of a range: what rounding may lead outside
_FAR, _ASTRAY = 0.1, 0.05  # of a range, and of all states: a feature so far outside so often has the wrong range
_UNUSED = 0.05  # of a range: what moves by less in all uses too little of it
_SMALL = 0.05  # of a feature's largest change: what is smaller is a tremble
_OFTEN = 0.2  # of all steps: a tremble that is seen less often does no harm
_LOUD = 10.0  # numbers beyond which a network hears little else
_MARGIN = 1.5  # above all but the largest trembles: one that is taken for a move does more harm than a move overlooked
_DIGITS = 4  # of a tremble, as folders keep it
_MEMBERS = ("num_actions", "max_steps", "feature_names", "reset", "step", "observe", "features")


class Finding(NamedTuple):
    """Something that is wrong with a world, or may be."""

    kind: Literal["error", "warning"]
    about: str  # a function of the world, or a feature
    message: str


class _Walks(NamedTuple):
    """Random play: n walks of t steps."""

    features: Float[np.ndarray, "n t+1 k"]
    observations: list[np.ndarray]  # leaves, [n, t + 1, ...] each
    inputs: list[np.ndarray]  # the same of what the network sees beside the features; none by default
    done: np.ndarray  # [n, t + 1]


def check(world: Any) -> list[Finding]:
    """Play at random in a world, and say what is wrong with it; nothing, if all is well.

    An `error` makes learning impossible or meaningless. A `warning` is worth a look.

    >>> import cumulant
    >>> cumulant.check(cumulant.Spriteworld())
    []
    """
    errors = list(structure(world))
    if errors:
        return errors
    try:
        errors = list(_purity(world))
        walks = _walks(world) if not errors else None
    except Exception as error:  # whatever somebody's own world does
        return [Finding("error", "step", f"random play fails: {_first_line(error)}")]
    if walks is None:
        return errors
    errors = list(_numbers(walks))
    if errors:
        return errors
    features = described(world.feature_names)
    found = [finding for i, each in enumerate(features) for finding in _feature(each, walks, i)]
    return [*found, *_loudness(walks), *_actions(world)]


def structure(world: Any) -> Iterator[Finding]:
    """Whether it has what worlds have, and whether its functions fit together: errors, found without playing."""
    try:
        missing = [name for name in _MEMBERS if not hasattr(world, name)]
    except Exception as error:  # whatever somebody's own world does
        yield Finding("error", "world", f"it fails: {_first_line(error)}")
        return
    if missing:
        yield Finding("error", missing[0], f"a world has `{missing[0]}`, and {type(world).__name__} has none")
        return
    try:
        hash(world)
    except TypeError:
        yield Finding("error", "world", "it must be hashable: make it a frozen dataclass with tuples instead of lists")
    for name in ("num_actions", "max_steps"):
        if not isinstance(getattr(world, name), int) or getattr(world, name) < 1:
            yield Finding("error", name, f"it must be a whole number, 1 or more, but is {getattr(world, name)!r}")
            return
    try:
        names = [feature.full_name for feature in described(world.feature_names)]
    except (TypeError, ValueError, AttributeError) as error:
        yield Finding("error", "feature_names", _first_line(error))
        return
    if not names or len(set(names)) < len(names):
        yield Finding("error", "feature_names", f"each feature has a name of its own, but they are {', '.join(names)}")
        return
    yield from _shapes(world, len(names))


def _shapes(world: World, k: int) -> Iterator[Finding]:
    """Whether the functions are written in JAX, and what one gives is what the next takes."""
    given: dict[str, PyTree] = {}
    functions: dict[str, Callable[..., PyTree]] = {
        "reset": world.reset,
        "step": world.step,
        "observe": world.observe,
        "features": world.features,
        "done": partial(done_in, world),
        "inputs": partial(_inputs, world),
    }
    for name, function in functions.items():
        inputs = {"reset": (jax.random.key(0),), "step": (given.get("reset"), jnp.int32(0))}
        try:
            given[name] = jax.eval_shape(function, *inputs.get(name, (given.get("reset"),)))
        except Exception as error:  # whatever somebody's own world does
            yield Finding("error", name, f"it fails, or is not written in JAX: {_first_line(error)}")
            return
    before, after, features, done = (_described(given[name]) for name in ("reset", "step", "features", "done"))
    if after != before:
        yield Finding("error", "step", f"it makes of a state {before} one {after}: keep shapes and dtypes")
    if getattr(given["features"], "shape", None) != (k,):
        yield Finding("error", "features", f"they are {features}, but there are {k} feature_names")
    if done != "bool[]":
        yield Finding("error", "done", f"it must be one truth value, but is {done}")


def _inputs(world: World, state: PyTree) -> PyTree:
    """What the network sees beside the features: what the world makes of its observation, if anything."""
    return world.inputs(world.observe(state)) if hasattr(world, "inputs") else ()


def _described(tree: PyTree) -> str:
    return ", ".join(f"{leaf.dtype}{list(leaf.shape)}" for leaf in jax.tree.leaves(tree)) or "of nothing"


def _purity(world: World) -> Iterator[Finding]:
    """Whether the same state and action always lead to the same, and the same key to the same start."""
    if at_once(world) is not None:  # on the host, where a state is a ticket, good for one step
        return
    key, action = jax.random.key(1), jnp.int32(world.num_actions - 1)
    state = world.reset(key)
    pairs = {"reset": (lambda: world.reset(key)), "step": (lambda: world.step(state, action))}
    for name, function in pairs.items():
        same = [np.asarray(leaf) for leaf in jax.tree.leaves(jax.tree.map(_data, function()))]
        again = [np.asarray(leaf) for leaf in jax.tree.leaves(jax.tree.map(_data, function()))]
        if not all(np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in zip(same, again, strict=True)):
            yield Finding(
                "error", name, "the same input gave two results: draw at random from a key in the state alone"
            )


def _data(leaf: Array) -> Array:
    return jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf


def _walks(world: World) -> _Walks:
    """Random play from random starts."""
    copies = min(_COPIES, at_once(world) or _COPIES)
    with plainly():
        walked = jax.block_until_ready(_walked(world, jax.random.split(jax.random.key(0), copies)))
    features, shown, inputs, done = jax.device_get(walked)
    return _Walks(features, jax.tree.leaves(shown), jax.tree.leaves(inputs), done)


@eqx.filter_jit
def _walked(world: World, keys: Key[Array, " n"]) -> tuple:
    """Features, observation, inputs, and whether all is over, at every step of random walks."""

    def look(state: PyTree) -> tuple:
        features = jnp.asarray(world.features(state), jnp.float32)
        return features, world.observe(state), _inputs(world, state), done_in(world, state)

    def step(state: PyTree, key: PRNGKeyArray) -> tuple[PyTree, tuple]:
        action = jax.random.randint(key, (), 0, world.num_actions)
        following = step_unless(world, done_in(world, state), state, action)
        return following, look(following)

    def walk(key: PRNGKeyArray) -> tuple:
        key_start, key_steps = jax.random.split(key)
        start = world.reset(key_start)
        seen: tuple
        _, seen = jax.lax.scan(step, start, jax.random.split(key_steps, min(world.max_steps, _STEPS)))
        return jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), look(start), seen)

    return jax.vmap(walk)(keys)


def _numbers(walks: _Walks) -> Iterator[Finding]:
    seen = {"features": [walks.features], "observe": walks.observations, "inputs": walks.inputs}
    for name, values in seen.items():
        if any(leaf.dtype.kind == "f" and not np.isfinite(leaf).all() for leaf in values):
            yield Finding("error", name, "random play meets NaN or an infinity: find the step that makes it")


def _feature(feature: Feature, walks: _Walks, i: int) -> Iterator[Finding]:
    """Whether a feature stays in its range, moves, and does more than tremble."""
    name, values = feature.full_name, walks.features[:, :, i]
    low, high, extent = values.min(), values.max(), feature.high - feature.low
    beyond = np.maximum(feature.low - values, values - feature.high)[~walks.done]
    if (beyond > _FAR * extent).mean() > _ASTRAY:
        found = f"it goes from {low:.4g} to {high:.4g}, and its range is {feature.low:g} to {feature.high:g}"
        yield Finding("error", name, f"{found}: describe it as Feature({feature.name!r}, low=…, high=…)")
        return
    outside = float((beyond > max(_EVEN_SO * extent, feature.resolution)).mean())
    if outside > _ASTRAY:
        often = f"it is outside of its range in {outside:.0%} of steps, by up to {beyond.max():.2g}"
        yield Finding("warning", name, f"{often}, and counts as being at the end: widen the range, or build a fence")
    changes = np.abs(np.diff(values, axis=1))
    moved = changes > max(feature.resolution, 1e-6 * extent)
    if not moved.any():
        yield Finding("warning", name, "random play never moves it: no policy will learn to")
        return
    if high - low < _UNUSED * extent:
        yield Finding("warning", name, f"random play sees only {low:.4g} to {high:.4g} of its range: narrow the range")
    tremble = resolution_seen(changes / extent) * extent
    if tremble > feature.resolution:
        yield Finding("warning", name, f"it trembles by up to {tremble:.2g}: give it resolution={tremble:.2g}")


def _loudness(walks: _Walks) -> Iterator[Finding]:
    """Whether a network can listen to its inputs."""
    loudest = max((float(np.abs(leaf).max()) for leaf in walks.inputs if leaf.size), default=0.0)
    if loudest > _LOUD:
        yield Finding("warning", "inputs", f"they go up to {loudest:.2g}, and a network likes [-1, 1]: scale them")


def resolution_seen(changes: Float[np.ndarray, "..."]) -> float:
    """How far a feature trembles, from how far it changed from step to step; 0 if its changes are of one kind.

    Measured against the largest change: random play may really move a feature in few steps of a hundred.
    """
    moving = changes[changes > 1e-6]
    if not len(moving):
        return 0.0
    small = moving[moving < _SMALL * moving.max()]
    return _MARGIN * float(np.quantile(small, 0.99)) if len(small) > _OFTEN * changes.size else 0.0


def tremble_of(world: World) -> tuple[float, ...]:
    """How far each feature trembles in random play, as a share of its range; nothing where none does."""
    features = described(world.feature_names)
    changes = np.abs(np.diff(_walks(world).features, axis=1)) / [each.high - each.low for each in features]
    found = tuple(round(resolution_seen(changes[:, :, i]), _DIGITS) for i in range(len(features)))
    return found if any(found) else ()


def _actions(world: World) -> Iterator[Finding]:
    """Whether the last action does something of its own: JAX reads past the end of a table without a word."""
    if world.num_actions < 2 or at_once(world) is not None:
        return
    states = _here_and_there(world)
    last, before = (
        jax.tree.map(_data, jax.vmap(lambda state, a=a: world.step(state, a))(states))
        for a in (jnp.int32(world.num_actions - 1), jnp.int32(world.num_actions - 2))
    )
    alike = jax.tree.map(np.array_equal, last, before)
    if all(jax.tree.leaves(alike)):
        numbers = f"{world.num_actions - 2} and {world.num_actions - 1}"
        yield Finding("warning", "num_actions", f"the actions {numbers} do the same everywhere: are there so many?")


@eqx.filter_jit
def _here_and_there(world: World) -> PyTree:
    """Where random play has come to: at the start, a key can be put down as little as a door opened."""

    def step(state: PyTree, key: PRNGKeyArray) -> tuple[PyTree, None]:
        return step_unless(world, done_in(world, state), state, jax.random.randint(key, (), 0, world.num_actions)), None

    def walk(key: PRNGKeyArray) -> PyTree:
        key_start, key_steps = jax.random.split(key)
        return jax.lax.scan(step, world.reset(key_start), jax.random.split(key_steps, min(world.max_steps, _STEPS)))[0]

    return jax.vmap(walk)(jax.random.split(jax.random.key(2), _COPIES))


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
