"""Skills: the policies of single features, played by themselves, and how far they move what they do not care for."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from cumulant.features.coordinates import Features, feature_count, world_of
from cumulant.freeplay.networks import Network, own_value
from cumulant.worlds.episodes import Policy, Rollout, over_episodes, rollout
from cumulant.worlds.protocol import World, at_once, never
from cumulant.worlds.seen import observation_rank

_STARTS = {"vector": 512, "dear": 16}  # of every feature's skills: frames are dear, and so are steps on the host
_HORIZON = 2  # times 1 / (1 - γ) steps: by then a skill has done what it can


def play_skill(
    world: World,
    network: Network,
    features: Features,
    policy: tuple[Int[Array, ""], Int[Array, ""]],
    start: PyTree,
    steps: int,
) -> Rollout:
    """The policy (i, j), which brings feature i into bin j, by itself."""

    def act(memory: tuple, obs: Array, key: PRNGKeyArray) -> tuple[tuple, Array]:
        return memory, own_value(network(features(obs)))[policy].argmax()

    return rollout(world, Policy(lambda obs: (), act), never, start, jax.random.key(0), steps)


def features_along(world: World, features: Features, states: PyTree) -> Float[Array, "t d"]:
    """The features of every state of an episode."""
    d = feature_count(features, world)
    return jax.vmap(lambda state: features(world.observe(state))[:d])(states)


@eqx.filter_jit
def disturbance(
    world: World, network: Network, features: Features, gamma: float, key: PRNGKeyArray
) -> Float[Array, "d d"]:
    """How far the skills of feature i move feature l, on average over bins and starts: [i, l].

    It takes no reward, and tells GPI what to pursue first and what to be careful with.
    """
    world = world_of(features, world)
    seen = jax.eval_shape(lambda key: features(world.observe(world.reset(key))), key)
    d, m = jax.eval_shape(network, seen).shape[:2]
    dear = observation_rank(world) > 1 or at_once(world) is not None
    starts, steps = _STARTS["dear" if dear else "vector"], max(1, int(_HORIZON / (1 - gamma)))

    def moved(i: Int[Array, ""], key: PRNGKeyArray) -> Float[Array, " d"]:
        key_bin, key_start = jax.random.split(key)
        start = world.reset(key_start)
        played = play_skill(world, network, features, (i, jax.random.randint(key_bin, (), 0, m)), start, steps)
        ends = jax.tree.map(lambda leaf: leaf[jnp.array([0, -1])], played.states)
        before, after = features_along(world, features, ends)
        return jnp.abs(after - before)

    return over_episodes(world, moved, (jnp.arange(d),), jax.random.split(key, (d, starts))).mean(axis=1)
