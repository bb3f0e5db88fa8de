"""Clauses as goals: random ones, what meets them, and how far it is to them."""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from cumulant.goals.tasks import met, reached


def clause_around(cell: Int[Array, " k"], bins: int, key: PRNGKeyArray, fewer: float = 2.0) -> Bool[Array, "k m"]:
    """Draw a clause that allows the cell: rather few features matter, and half of these only in the cell's bin.

    Every clause has a chance: all of the (m + 1)^k boxes, and unions of bins.
    """
    key_share, key_matters, key_one, key_single, key_more = jax.random.split(key, 5)
    own, k = jax.nn.one_hot(cell, bins, dtype=bool), len(cell)
    matters = jax.random.uniform(key_matters, (k, 1)) < jax.random.uniform(key_share) ** fewer
    matters = matters.at[jax.random.randint(key_one, (), 0, k)].set(True)  # what nothing matters to is no goal
    more = jax.random.bernoulli(key_more, shape=(k, bins)) & jax.random.bernoulli(key_single, shape=(k, 1))
    return own | (more & matters) | ~matters


def in_goal(goal: Bool[Array, "k m"], x: Float[Array, " k"]) -> Bool[Array, ""]:
    """Return whether a state is where the clause wants it."""
    return reached(goal[None], x)


def to_go(x: Float[Array, " k"], goal: Bool[Array, "k m"]) -> Float[Array, " k"]:
    """Return the signed way from each feature to the nearest bin that is allowed; 0 where it lies in one."""
    m = goal.shape[1]
    low, high = jnp.arange(m) / m, (jnp.arange(m) + 1) / m
    way = jnp.clip(x[:, None], low, high) - x[:, None]  # [k, m]
    nearest = jnp.where(goal, jnp.abs(way), jnp.inf).argmin(axis=1)
    return jnp.take_along_axis(way, nearest[:, None], axis=1)[:, 0]


def within(clause: Bool[Array, "k m"], states: Float[Array, "n k"], key: PRNGKeyArray) -> Float[Array, "n k"]:
    """Return the states, with each feature that the clause rules out put anywhere that is allowed.

    So states that meet a phrase are found even where none of those replayed does; it takes what is seen to be features.
    """
    key_bin, key_place = jax.random.split(key)
    m = clause.shape[1]
    allowed = jax.random.categorical(key_bin, jnp.where(clause, 0.0, -jnp.inf), shape=states.shape)
    place = (allowed + jax.random.uniform(key_place, states.shape)) / m
    return jnp.where(jax.vmap(partial(met, clause[None]))(states)[:, 0], states, place)
