"""Goal-conditioned DQN with hindsight: one network for all goals (Schaul et al., 2015), taught with what was reached.

A goal is a clause: for each feature, the bins that it may lie in. Play pursues random clauses. A transition is learnt
from with the clause that was pursued or, in hindsight, with one that holds a state to which its episode came later
(Andrychowicz et al., 2017). Double, dueling, Huber, as our DQN; reaching the goal gives reward 1 and is the end.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from cumulant.features.coordinates import Inputs
from cumulant.freeplay.networks import Trunk
from cumulant.freeplay.replay import add
from cumulant.goals.bins import bin_index
from cumulant.worlds.episodes import Policy
from cumulant.worlds.protocol import World, advance
from cumulant_paper.baselines.clauses import clause_around, in_goal, to_go
from cumulant_paper.baselines.playing import Exploring, Learning, Step, explored, first_moment, greedy, rounds, teach

_LATER = 4  # states that an episode came to later, kept with each transition: hindsight's k


@dataclass(frozen=True)
class Her(Exploring):
    """Settings."""

    bins: int = 3  # Bins of a feature that goals are made of.
    goals: int = 2  # That a transition is learnt from with, in an update.
    hindsight: float = 0.3  # Share of goals in an update that are made from what was reached.
    horizon: int = 50  # Steps, at most, after which a state counts as reached later.
    gaps: bool = True  # Show how far each feature is from where the goal wants it, beside both.
    fewer: float = 2.0  # Power by which clauses tend to be about few features; with 1, each number is as likely.

    @property
    def updates(self) -> int:
        """Updates in all; the first steps of play only fill what hindsight looks back on."""
        return max(1, self.env_steps // self.num_envs - self.horizon)


class Hindsight(NamedTuple):
    """The goal that a transition was made for, and states that its episode came to later."""

    goal: Bool[Array, "*batch k m"]
    later: Float[Array, "*batch later k"]


class Recent(NamedTuple):
    """The last steps of each copy of the world, a ring of them: what hindsight looks back on."""

    step: Step  # [h, n, ...], with the goal
    time: Int[Array, "h n"]  # of the step in its episode


class Aim(NamedTuple):
    """What guides the copies of the world."""

    goal: Bool[Array, "n k m"]
    recent: Recent


class Pursuit(eqx.Module):
    """A policy maker for `evaluate`: the guide is the task's own table, and the best clause's best action is taken."""

    network: Trunk
    config: Her = eqx.field(static=True)

    def __call__(self, world: World, guide: Bool[Array, "c k m"]) -> Policy:
        """Return the policy; it remembers nothing."""
        possible = guide.any(axis=2).all(axis=1)[:, None]  # others only fill the table up

        def q(obs: Float[Array, " k"]) -> Float[Array, " a"]:
            each = jax.vmap(lambda clause: values(self.network, obs, clause))(guide)
            return jnp.where(possible, each, -jnp.inf).max(axis=0)

        return greedy(world, q, self.config.epsilon)

    def from_words(self, table: Bool[Array, "c k m"]) -> Bool[Array, "c k m"]:
        """Return the table: it says all."""
        return table


def player(config: Her, learning: Learning, key: PRNGKeyArray) -> Pursuit:
    """Return what a run has learnt."""
    return Pursuit(learning.networks, config)


def values(network: Trunk, x: Float[Array, " k"], goal: Bool[Array, "k m"]) -> Float[Array, " a"]:
    """Return what each action is worth for a goal: [a]."""
    return network(shown(x, goal, network.inputs.others > goal.size))


def shown(x: Float[Array, " k"], goal: Bool[Array, "k m"], gaps: bool) -> Float[Array, " n"]:
    """Return what the network sees: the state, the bins that are ruled out, and the way of each feature to the goal.

    Where all bins are allowed, the latter say nothing.
    """
    seen = jnp.concatenate([x, 1.0 - goal.ravel()])
    return jnp.concatenate([seen, to_go(x, goal)]) if gaps else seen


@eqx.filter_jit
def start(world: World, config: Her, key: PRNGKeyArray) -> Learning:
    """Return the first moment of a run, after as many steps of play as hindsight looks back on."""
    key_network, key_worlds, key_goal, key_fill, key_learn = jax.random.split(key, 5)
    k, n, m, h = len(world.feature_names), config.num_envs, config.bins, config.horizon
    inputs = Inputs(k, k * m + k * config.gaps)
    network = Trunk(inputs, (), world.num_actions, config.width, config.depth, True, key_network)
    x, zeros, goal = jnp.zeros((h, n, k)), jnp.zeros((h, n), jnp.int32), jnp.ones((h, n, k, m), bool)
    aim = Aim(_goals(world, config, key_goal), Recent(Step(x, zeros, x, goal), zeros))
    extra = Hindsight(goal[0, 0], jnp.zeros((_LATER, k)))
    learning = first_moment(world, config, network, jnp.stack([key_worlds, key_learn]), aim, extra)
    return jax.lax.fori_loop(
        0, h, lambda row, run: play(world, config, row, run, jax.random.fold_in(key_fill, row)), learning
    )


def train(world: World, config: Her, learning: Learning, until: Int[Array, ""]) -> Learning:
    """Play, look back and learn, up to update `until`."""

    def look_back(learning: Learning, key: PRNGKeyArray) -> Learning:
        return remember(world, config, learning.update % config.horizon, learning, key)

    def step(learning: Learning, key: PRNGKeyArray) -> Learning:
        return play(world, config, learning.update % config.horizon, learning, key)

    def draw(batch: Step, key: PRNGKeyArray) -> Bool[Array, "n goals k m"]:
        keys = jax.random.split(key, (config.batch, config.goals))
        return jax.vmap(lambda step, keys: jax.vmap(partial(in_hindsight, config, step))(keys))(batch, keys)

    def losses(network: Trunk, target: Trunk, step: Step, goals: Bool[Array, "goals k m"]) -> Float[Array, " goals"]:
        return jax.vmap(partial(loss, config, network, target, step))(goals)

    return rounds(learning, until, look_back, step, teach(config, draw, losses))


def play(world: World, config: Her, row: Int[Array, ""], learning: Learning, key: PRNGKeyArray) -> Learning:
    """Take one step in every copy towards its goal, and put it into a row of the recent steps.

    A copy that has reached its goal, or begins a new episode, gets another goal.
    """
    key_explore, key_reset, key_goal = jax.random.split(key, 3)
    aim, x = learning.guide, jax.vmap(world.observe)(learning.episodes.state)
    best = jax.vmap(values, (None, 0, 0))(learning.networks, x, aim.goal).argmax(axis=1)
    action = explored(world, config, best, key_explore)
    episodes, timestep = advance(world, learning.episodes, action, key_reset)
    new = Recent(Step(x, action, timestep.final_obs, aim.goal), learning.episodes.time)
    recent = jax.tree.map(lambda ring, values: ring.at[row].set(values), aim.recent, new)
    over = timestep.ended | jax.vmap(in_goal)(aim.goal, timestep.final_obs)
    goal = jnp.where(over[:, None, None], _goals(world, config, key_goal), aim.goal)
    return learning._replace(guide=Aim(goal, recent), episodes=episodes)


def remember(world: World, config: Her, row: Int[Array, ""], learning: Learning, key: PRNGKeyArray) -> Learning:
    """Put the oldest of the recent steps into the replay, with states that their episodes came to later."""
    recent = learning.guide.recent
    oldest, time = jax.tree.map(lambda ring: ring[row], recent)
    left = jnp.minimum(config.horizon, world.max_steps - time)  # steps that the episode has, this one too
    turn = jax.random.uniform(key, (_LATER, len(left)))
    ahead = jnp.floor(turn * left).astype(jnp.int32)
    rows, copies = (row + ahead) % config.horizon, jnp.arange(len(left))
    same = recent.time[rows, copies] == time + ahead  # an episode ends early where the world cannot go on
    later = recent.step.next_x[jnp.where(same, rows, row), copies].swapaxes(0, 1)
    new = oldest._replace(extra=Hindsight(oldest.extra, later))
    return learning._replace(replay=add(learning.replay, new, stratified=True))


def in_hindsight(config: Her, step: Step, key: PRNGKeyArray) -> Bool[Array, "k m"]:
    """Return the goal to learn from: the one pursued, or one that a later state of the episode has reached."""
    key_which, key_state, key_clause = jax.random.split(key, 3)
    state = step.extra.later[jax.random.randint(key_state, (), 0, _LATER)]
    told = clause_around(bin_index(state, config.bins), config.bins, key_clause, config.fewer)
    return jnp.where(jax.random.uniform(key_which) < config.hindsight, told, step.extra.goal)


def loss(config: Her, network: Trunk, target: Trunk, step: Step, goal: Bool[Array, "k m"]) -> Float[Array, ""]:
    """Return the Huber loss against γ^(steps to the goal): the network chooses, the target values in [0, 1]."""
    success = in_goal(goal, step.next_x) | in_goal(goal, step.x)  # a start in the goal is a success, too
    choice = values(network, step.next_x, goal).argmax()
    following = jnp.clip(values(target, step.next_x, goal)[choice], 0, 1)
    worth = jax.lax.stop_gradient(jnp.where(success, 1.0, config.gamma * following))
    return optax.losses.huber_loss(values(network, step.x, goal)[step.action], worth)


def _goals(world: World, config: Her, key: PRNGKeyArray) -> Bool[Array, "n k m"]:
    """Draw a random clause for every copy of the world."""
    key_cells, key_clauses = jax.random.split(key)
    cells = jax.random.randint(key_cells, (config.num_envs, len(world.feature_names)), 0, config.bins)
    keys = jax.random.split(key_clauses, config.num_envs)
    return jax.vmap(lambda cell, key: clause_around(cell, config.bins, key, config.fewer))(cells, keys)
