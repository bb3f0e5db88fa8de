"""A player that searches: the shortest way to any goal, in worlds whose states can be numbered. Exact, not learnt."""

from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PRNGKeyArray, PyTree

from cumulant.goals.plans import PlanTable
from cumulant.goals.tasks import GoalTable, reached
from cumulant.worlds.episodes import Policy, in_stages
from cumulant.worlds.protocol import World
from cumulant.worlds.seen import seen

_FAR = jnp.iinfo(jnp.int16).max  # steps: from there, no way leads to the goal


@runtime_checkable
class Numbered(World, Protocol):
    """A world of so few states that each has a number."""

    @property
    def num_states(self) -> int:
        """States are 0 .. num_states - 1; some may never come about."""

    def state_at(self, index: Int[Array, ""]) -> PyTree:
        """The state of a number."""

    def number_of(self, obs: PyTree) -> Int[Array, ""]:
        """The number of the state that is seen."""


def search_policy(world: Numbered, table: Bool[Array, "c k m"] | PlanTable) -> Policy:
    """A shortest way to the task that `Task.table` describes. Where none leads there, any action.

    Of a plan, `Plan.table`, it plays the stages in turn, and takes no heed of what is to be avoided on the way.
    """
    following = _successors(world)
    if not isinstance(table, PlanTable):
        return _downhill(world, following, _distances(world, following, table))
    if len(table.goal.allowed) == 1:
        only = jax.tree.map(lambda leaf: leaf[0, ...], table.goal)
        return _downhill(world, following, _distances(world, following, only))
    distances = jax.vmap(lambda goal: _distances(world, following, goal))(table.goal)
    return in_stages(
        lambda stage: _downhill(world, following, distances[stage]),
        lambda obs: distances[:, world.number_of(obs)] == 0,
        jnp.asarray(table.stages),
    )


def _downhill(world: Numbered, following: Int[Array, "a s"], distances: Int[Array, " s"]) -> Policy:
    """The policy that always goes where the goal is nearest."""

    def act(memory: tuple, obs: PyTree, key: PRNGKeyArray) -> tuple[tuple, Int[Array, ""]]:
        return memory, distances[following[:, world.number_of(obs)]].argmin()

    return Policy(lambda obs: (), act, about="the shortest ways")


def _successors(world: Numbered) -> Int[Array, "a s"]:
    """The number of the state that each action leads to."""

    def after(action: Int[Array, ""]) -> Int[Array, " s"]:
        def one(index: Int[Array, ""]) -> Int[Array, ""]:
            return world.number_of(world.observe(world.step(world.state_at(index), action)))

        return jax.vmap(one)(jnp.arange(world.num_states))

    return jax.lax.map(after, jnp.arange(world.num_actions))


def _distances(
    world: Numbered, following: Int[Array, "a s"], table: Bool[Array, "c k m"] | GoalTable
) -> Int[Array, " s"]:
    """Steps from every state to the goal, by breadth-first search backwards from it."""
    as_shares = seen(world)  # goals speak of features within [0, 1]
    goal = jax.vmap(lambda index: reached(table, as_shares.features(world.state_at(index))))(
        jnp.arange(world.num_states)
    )
    first = jnp.where(goal, 0, _FAR).astype(jnp.int16)

    def nearer(now: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        distance, step, _ = now
        new = (distance == _FAR) & (distance[following] == step).any(axis=0)
        return jnp.where(new, step + 1, distance), step + 1, new.any()

    def going_on(now: tuple[Array, Array, Array]) -> Bool[Array, ""]:
        return now[2]

    return jax.lax.while_loop(going_on, nearer, (first, jnp.int16(0), jnp.asarray(True)))[0]
