"""The compiled half of the theatre, with behaviour and goal apart, so that few programs serve all goals.

An episode is always played to the time limit, and cut later where its goal was reached: behaviour depends on the goal's
weights alone, whose clauses are padded to two sizes.
"""

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray, UInt8

from cumulant import regression
from cumulant.cumulants import bin_index, phi
from cumulant.features import Features
from cumulant.gpi import Gpi, Thought
from cumulant.policy import Policy, play_from
from cumulant.renderer import render
from cumulant.spriteworld import Spriteworld
from cumulant.successor import own_value
from cumulant.tasks import met
from cumulant.world import never

_HORIZON = 4  # times 1 / (1 - γ) steps to see Ψ as played: what is cut off weighs e^-4
_FRAME = 320  # pixels of a film


class Actor(NamedTuple):
    """Who acts, on what, and as what the world shows itself to it."""

    world: Spriteworld
    make: Any
    guide: Array

    @property
    def policy(self) -> Policy:
        """What it does."""
        return self.make(self.world, self.guide)


@eqx.filter_jit
def begin(world: Spriteworld, key: PRNGKeyArray) -> tuple[Float[Array, " k"], PRNGKeyArray]:
    """Where an episode begins, and the key of what follows."""
    key_start, key_act = jax.random.split(key)  # as `play` does
    return world.features(world.reset(key_start)), key_act


@eqx.filter_jit
def play_one(
    world: Spriteworld, features: Features, actor: Actor, first: Float[Array, " k"], key: PRNGKeyArray, bins: int
) -> tuple[Float[Array, "states k"], Int[Array, "states d"], Int[Array, " t"], Thought | None]:
    """An episode to the time limit: where all was, in which bins, what was done, and why (where GPI acts)."""
    played = play_from(actor.world, actor.policy, never, world.state_of(first), key)
    seen = jax.vmap(world.observe)(played.states)
    thoughts = None
    if isinstance(actor.make, Gpi):
        thoughts = jax.vmap(partial(actor.make.thought, actor.guide))(seen[:-1], played.memories)
    places = jax.vmap(world.features)(played.states)
    return places, bin_index(jax.vmap(features)(seen), bins), played.actions, thoughts


@eqx.filter_jit
def play_many(actor: Actor, keys: Key[Array, " n"]) -> Float[Array, "n states k"]:
    """Where all is in the episodes of many keys."""
    world = actor.world

    def one(key: PRNGKeyArray) -> Float[Array, "states k"]:
        key_start, key_act = jax.random.split(key)
        played = play_from(world, actor.policy, never, world.reset(key_start), key_act)
        return jax.vmap(world.features)(played.states)

    return jax.vmap(one)(keys)


@eqx.filter_jit
def step_once(
    world: Spriteworld, features: Features, place: Float[Array, " k"], action: Int[Array, ""], bins: int
) -> tuple[Float[Array, " k"], Int[Array, "2 d"]]:
    """What one action leads to, and the bins before and after."""
    state = world.state_of(place)
    following = world.step(state, action)
    f = jnp.stack([features(world.observe(each)) for each in (state, following)])
    return world.features(following), bin_index(f, bins)


@jax.jit
def met_along(table: Bool[Array, "c k b"], places: Float[Array, "n k"]) -> Bool[Array, "n c k"]:
    """Which conditions hold in each of n states."""
    return jax.vmap(partial(met, table))(places)


@eqx.filter_jit
def collect(
    world: Spriteworld, gpi: Gpi, table: Bool[Array, "c k b"], key: PRNGKeyArray, bins: int, budget: int
) -> regression.Labelled:
    """Steps labelled with a reward of 1 where the goal holds."""

    def reward(state: Any) -> Float[Array, ""]:
        return met(table, world.features(state)).all(axis=1).any().astype(float)

    return regression.collect_labelled(world, gpi, bins, reward, key, budget)


@partial(jax.jit, static_argnums=1)
def fit(labelled: regression.Labelled, bins: int) -> Float[Array, "d m"]:
    """Weights from labelled steps."""
    return regression.fit(labelled, bins)


@eqx.filter_jit
def psi_at(
    world: Spriteworld, gpi: Gpi, place: Float[Array, " k"], action: Int[Array, ""], gamma: float
) -> tuple[Float[Array, "d m d m"], Float[Array, "d m d m"], Float[Array, "d m d m"]]:
    """Ψ as learnt, as the Lemma has it, and as played: NaN where the first two say nothing."""
    state = world.state_of(place)
    f = gpi.features(world.observe(state))
    blocks = gpi.network(f)[..., action]
    d, m = blocks.shape[:2]
    here, own = phi(f, m), jnp.eye(d, dtype=bool)[:, None, :, None]
    learnt = blocks if blocks.ndim == 4 else jnp.where(own, blocks[:, :, None, :], jnp.nan)
    lemma = jnp.broadcast_to(jnp.where(own, jnp.nan, here), (d, m, d, m))
    steps = int(_HORIZON / (1 - gamma))
    discount = (1 - gamma) * gamma ** jnp.arange(steps + 1)

    def policy(i: Int[Array, ""], j: Int[Array, ""]) -> Float[Array, "d m"]:
        def act(memory: tuple, obs: Array, key: PRNGKeyArray) -> tuple[tuple, Array]:
            return memory, own_value(gpi.network(gpi.features(obs)))[i, j].argmax()

        second = world.step(state, action)
        played = play_from(world, Policy(lambda obs: (), act), never, second, jax.random.key(0), steps - 1)
        after = jax.vmap(lambda state: phi(gpi.features(world.observe(state)), m))(played.states)
        return jnp.einsum("t,tlh->lh", discount, jnp.concatenate([here[None], after]))

    over_bins = jax.vmap(policy, (None, 0))
    return learnt, lemma, jax.vmap(over_bins, (0, None))(jnp.arange(d), jnp.arange(m))


@eqx.filter_jit
def frames_of(world: Spriteworld, places: Float[Array, "t k"]) -> UInt8[Array, "t size size 3"]:
    """Pictures of states, one after the other: all at once would need a lot of memory."""
    return jax.lax.map(lambda place: render(world, world.state_of(place), _FRAME), places)
