"""The compiled half of the theatre, with behaviour and goal apart, so that few programs serve all goals.

An episode is always played to the time limit, and cut later where its goal was reached: behaviour depends on the goal's
weights alone, whose clauses are padded to two sizes.
"""

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray, UInt8

from cumulant import regression
from cumulant.cumulants import bin_index, phi
from cumulant.gpi import Gpi, Thought, weights
from cumulant.policy import Policy, play_from
from cumulant.renderer import render
from cumulant.spriteworld import Spriteworld
from cumulant.successor import own_value
from cumulant.tasks import met
from cumulant.world import never

_HORIZON = 4  # times 1 / (1 - γ) steps to see Ψ as played: what is cut off weighs e^-4
_FRAME = 320  # pixels of a film


goal_weights = jax.jit(weights, static_argnames="bins")


@eqx.filter_jit
def begin(world: Spriteworld, key: PRNGKeyArray) -> tuple[Float[Array, " k"], PRNGKeyArray]:
    """Where an episode begins, and the key of what follows."""
    key_start, key_act = jax.random.split(key)  # as `play` does
    return world.observe(world.reset(key_start)), key_act


@eqx.filter_jit
def play_one(
    world: Spriteworld, make: Any, guide: Array, first: Array, key: PRNGKeyArray, bins: int
) -> tuple[Float[Array, "states k"], Int[Array, "states k"], Int[Array, " t"], Thought | None]:
    """An episode to the time limit: what was seen, in which bins, what was done, and why (where GPI acts)."""
    played = play_from(world, make(world, guide), never, world.state_of(first), key)
    seen = jax.vmap(world.observe)(played.states)
    thoughts = None
    if isinstance(make, Gpi):
        thoughts = jax.vmap(partial(make.thought, guide))(seen[:-1], played.memories)
    features = make.features if isinstance(make, Gpi) else (lambda obs: obs)
    return seen, bin_index(jax.vmap(features)(seen), bins), played.actions, thoughts


@eqx.filter_jit
def play_many(world: Spriteworld, make: Any, guide: Array, keys: Key[Array, " n"]) -> Float[Array, "n states k"]:
    """What is seen in the episodes of many keys."""

    def one(key: PRNGKeyArray) -> Float[Array, "states k"]:
        key_start, key_act = jax.random.split(key)
        played = play_from(world, make(world, guide), never, world.reset(key_start), key_act)
        return jax.vmap(world.observe)(played.states)

    return jax.vmap(one)(keys)


@eqx.filter_jit
def step_once(
    world: Spriteworld, gpi: Gpi, obs: Float[Array, " k"], action: Int[Array, ""], bins: int
) -> tuple[Float[Array, " k"], Int[Array, "2 k"]]:
    """What one action leads to, and the bins before and after."""
    following = world.observe(world.step(world.state_of(obs), action))
    return following, bin_index(jax.vmap(gpi.features)(jnp.stack([obs, following])), bins)


@jax.jit
def met_along(table: Bool[Array, "c k b"], seen: Float[Array, "n k"]) -> Bool[Array, "n c k"]:
    """Which conditions hold in each of n states."""
    return jax.vmap(partial(met, table))(seen)


@eqx.filter_jit
def collect(
    world: Spriteworld, gpi: Gpi, table: Bool[Array, "c k b"], key: PRNGKeyArray, bins: int, budget: int
) -> regression.Labelled:
    """Steps labelled with a reward of 1 where the goal holds."""

    def reward(state: Any) -> Float[Array, ""]:
        return met(table, world.features(state)).all(axis=1).any().astype(float)

    return regression.collect_labelled(world, gpi, bins, reward, key, budget)


@partial(jax.jit, static_argnums=1)
def fit(labelled: regression.Labelled, bins: int) -> Float[Array, "k m"]:
    """Weights from labelled steps."""
    return regression.fit(labelled, bins)


@eqx.filter_jit
def psi_at(
    world: Spriteworld, gpi: Gpi, obs: Float[Array, " k"], action: Int[Array, ""], gamma: float
) -> tuple[Float[Array, "k m k m"], Float[Array, "k m k m"], Float[Array, "k m k m"]]:
    """Ψ as learnt, as the Lemma has it, and as played: NaN where the first two say nothing."""
    f = gpi.features(obs)
    blocks = gpi.network(f)[..., action]
    k, m = blocks.shape[:2]
    here, own = phi(f, m), jnp.eye(k, dtype=bool)[:, None, :, None]
    learnt = blocks if blocks.ndim == 4 else jnp.where(own, blocks[:, :, None, :], jnp.nan)
    lemma = jnp.broadcast_to(jnp.where(own, jnp.nan, here), (k, m, k, m))
    steps = int(_HORIZON / (1 - gamma))
    discount = (1 - gamma) * gamma ** jnp.arange(steps + 1)

    def policy(i: Int[Array, ""], j: Int[Array, ""]) -> Float[Array, "k m"]:
        def act(memory: tuple, obs: Array, key: PRNGKeyArray) -> tuple[tuple, Array]:
            return memory, own_value(gpi.network(gpi.features(obs)))[i, j].argmax()

        second = world.step(world.state_of(obs), action)
        played = play_from(world, Policy(lambda obs: (), act), never, second, jax.random.key(0), steps - 1)
        after = jax.vmap(lambda state: phi(gpi.features(world.observe(state)), m))(played.states)
        return jnp.einsum("t,tlh->lh", discount, jnp.concatenate([here[None], after]))

    over_bins = jax.vmap(policy, (None, 0))
    return learnt, lemma, jax.vmap(over_bins, (0, None))(jnp.arange(k), jnp.arange(m))


@eqx.filter_jit
def frames_of(world: Spriteworld, seen: Float[Array, "t k"]) -> UInt8[Array, "t size size 3"]:
    """Pictures of states, one after the other: all at once would need a lot of memory."""
    return jax.lax.map(lambda obs: render(world, world.state_of(obs), _FRAME), seen)
