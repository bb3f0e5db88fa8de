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
from cumulant.freeplay.replay import Replay, add, empty, sample
from cumulant.goals.bins import bin_index
from cumulant.worlds.episodes import Policy
from cumulant.worlds.protocol import Episodes, World, advance, begin
from cumulant_paper.baselines.clauses import clause_around, in_goal, to_go
from cumulant_paper.baselines.playing import Play, begun, descended, explored, restless

_LATER = 4  # states that an episode came to later, kept with each transition: hindsight's k


@dataclass(frozen=True)
class Her(Play):
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


class Pursued(NamedTuple):
    """A transition, the goal that it was made for, and states that its episode came to later."""

    x: Float[Array, "*batch k"]
    action: Int[Array, "*batch"]
    next_x: Float[Array, "*batch k"]
    goal: Bool[Array, "*batch k m"]
    later: Float[Array, "*batch later k"]


class Recent(NamedTuple):
    """The last steps of each copy of the world, a ring of them: what hindsight looks back on."""

    x: Float[Array, "h n k"]
    action: Int[Array, "h n"]
    next_x: Float[Array, "h n k"]
    goal: Bool[Array, "h n k m"]
    time: Int[Array, "h n"]  # of the step in its episode


class Learning(NamedTuple):
    """All that one run carries from update to update."""

    networks: Trunk
    target: Trunk
    optimiser: optax.OptState
    recent: Recent
    steps: Int[Array, ""]  # taken by each copy of the world
    replay: Replay
    episodes: Episodes
    goal: Bool[Array, "n k m"]  # of each copy of the world
    key: PRNGKeyArray
    update: Int[Array, ""]


class Pursuit(eqx.Module):
    """A policy maker for `evaluate`: the guide is the task's own table, and the best clause's best action is taken."""

    network: Trunk
    config: Her = eqx.field(static=True)

    def __call__(self, world: World, guide: Bool[Array, "c k m"]) -> Policy:
        """The policy; it remembers nothing."""
        possible = guide.any(axis=2).all(axis=1)[:, None]  # others only fill the table up

        def act(memory: tuple, obs: Float[Array, " k"], key: PRNGKeyArray) -> tuple[tuple, Int[Array, ""]]:
            q = jax.vmap(lambda clause: values(self.network, obs, clause))(guide)
            return memory, jnp.where(possible, q, -jnp.inf).max(axis=0).argmax()

        return restless(world, Policy(lambda obs: (), act), self.config.epsilon)

    def from_words(self, table: Bool[Array, "c k m"]) -> Bool[Array, "c k m"]:
        """The table says it all."""
        return table


def player(config: Her, learning: Learning, key: PRNGKeyArray) -> Pursuit:
    """What a run has learnt."""
    return Pursuit(learning.networks, config)


def values(network: Trunk, x: Float[Array, " k"], goal: Bool[Array, "k m"]) -> Float[Array, " a"]:
    """What each action is worth for a goal."""
    return network(shown(x, goal, network.inputs.others > goal.size))


def shown(x: Float[Array, " k"], goal: Bool[Array, "k m"], gaps: bool) -> Float[Array, " n"]:
    """What the network sees: the state, which bins are ruled out, and how far each feature is from where it may be.

    Where all bins are allowed, both say nothing.
    """
    seen = jnp.concatenate([x, 1.0 - goal.ravel()])
    return jnp.concatenate([seen, to_go(x, goal)]) if gaps else seen


@eqx.filter_jit
def start(world: World, config: Her, key: PRNGKeyArray) -> Learning:
    """The first moment of a run: as many steps of play as hindsight looks back on."""
    key_network, key_worlds, key_goal, key_fill, key_learn = jax.random.split(key, 5)
    k, n, m, h = len(world.feature_names), config.num_envs, config.bins, config.horizon
    network = Trunk(
        Inputs(k, k * m + k * config.gaps), (), world.num_actions, config.width, config.depth, True, key_network
    )
    x, action = jnp.zeros((h, n, k)), jnp.zeros((h, n), jnp.int32)
    goal = jnp.ones((h, n, k, m), bool)
    example = Pursued(x[0, 0], action[0, 0], x[0, 0], goal[0, 0], jnp.zeros((_LATER, k)))
    learning = Learning(
        networks=network,
        target=network,
        optimiser=begun(config, network),
        recent=Recent(x, action, x, goal, action),
        steps=jnp.zeros((), jnp.int32),
        replay=empty(example, config.replay, k),
        episodes=begin(world, key_worlds, n),
        goal=_goals(world, config, key_goal),
        key=key_learn,
        update=jnp.zeros((), jnp.int32),
    )
    return jax.lax.fori_loop(0, h, lambda i, run: play(world, config, run, jax.random.fold_in(key_fill, i)), learning)


def train(world: World, config: Her, learning: Learning, until: Int[Array, ""]) -> Learning:
    """Rounds of a step in every copy of the world and an update, up to update `until`."""

    def step(_: object, learning: Learning) -> Learning:
        key, key_look, key_play, key_learn = jax.random.split(learning.key, 4)
        learning = play(world, config, remember(world, config, learning._replace(key=key), key_look), key_play)
        return learn(config, learning, key_learn)

    return jax.lax.fori_loop(learning.update, until, step, learning)


def play(world: World, config: Her, learning: Learning, key: PRNGKeyArray) -> Learning:
    """One step of every copy towards its goal. Who has reached it, or begins a new episode, gets another one."""
    key_explore, key_reset, key_goal = jax.random.split(key, 3)
    x = jax.vmap(world.observe)(learning.episodes.state)
    greedy = jax.vmap(values, (None, 0, 0))(learning.networks, x, learning.goal).argmax(axis=1)
    action = explored(world, config, greedy, key_explore)
    episodes, timestep = advance(world, learning.episodes, action, key_reset)
    new = Recent(x, action, timestep.final_obs, learning.goal, learning.episodes.time)
    row = learning.steps % config.horizon
    recent = jax.tree.map(lambda ring, values: ring.at[row].set(values), learning.recent, new)
    over = timestep.ended | jax.vmap(in_goal)(learning.goal, timestep.final_obs)
    goal = jnp.where(over[:, None, None], _goals(world, config, key_goal), learning.goal)
    return learning._replace(recent=recent, steps=learning.steps + 1, episodes=episodes, goal=goal)


def remember(world: World, config: Her, learning: Learning, key: PRNGKeyArray) -> Learning:
    """Put the oldest of the recent steps into the replay, with states that their episodes came to later."""
    recent, row = learning.recent, learning.steps % config.horizon
    oldest = jax.tree.map(lambda ring: ring[row], recent)
    left = jnp.minimum(config.horizon, world.max_steps - oldest.time)  # steps that the episode has, this one too
    turn = jax.random.uniform(key, (_LATER, len(left)))
    ahead = jnp.floor(turn * left).astype(jnp.int32)
    rows, copies = (row + ahead) % config.horizon, jnp.arange(len(left))
    same = recent.time[rows, copies] == oldest.time + ahead  # an episode ends early where the world cannot go on
    later = recent.next_x[jnp.where(same, rows, row), copies].swapaxes(0, 1)
    new = Pursued(oldest.x, oldest.action, oldest.next_x, oldest.goal, later)
    return learning._replace(replay=add(learning.replay, new, stratified=True))


def learn(config: Her, learning: Learning, key: PRNGKeyArray) -> Learning:
    """One update of the network, and of the target that follows it, in hindsight."""
    key_batch, key_goals = jax.random.split(key)
    batch = sample(learning.replay, key_batch, config.batch)
    keys = jax.random.split(key_goals, (config.batch, config.goals))
    goals = jax.vmap(lambda step, keys: jax.vmap(partial(in_hindsight, config, step))(keys))(batch, keys)

    def mean_loss(network: Trunk) -> Float[Array, ""]:
        each = jax.vmap(partial(loss, config, network, learning.target), (None, 0))
        return jax.vmap(each)(batch, goals).mean()

    network, target, optimiser = descended(config, mean_loss, learning.networks, learning.target, learning.optimiser)
    return learning._replace(networks=network, target=target, optimiser=optimiser, update=learning.update + 1)


def in_hindsight(config: Her, step: Pursued, key: PRNGKeyArray) -> Bool[Array, "k m"]:
    """The goal to learn from: the one pursued, or one that a later state of the episode has reached."""
    key_which, key_state, key_clause = jax.random.split(key, 3)
    state = step.later[jax.random.randint(key_state, (), 0, _LATER)]
    told = clause_around(bin_index(state, config.bins), config.bins, key_clause, config.fewer)
    return jnp.where(jax.random.uniform(key_which) < config.hindsight, told, step.goal)


def loss(config: Her, network: Trunk, target: Trunk, step: Pursued, goal: Bool[Array, "k m"]) -> Float[Array, ""]:
    """Huber loss against γ^(steps to the goal): the network chooses, the target values. No value leaves [0, 1]."""
    success = in_goal(goal, step.next_x) | in_goal(goal, step.x)  # a start in the goal is a success, too
    choice = values(network, step.next_x, goal).argmax()
    following = jnp.clip(values(target, step.next_x, goal)[choice], 0, 1)
    worth = jax.lax.stop_gradient(jnp.where(success, 1.0, config.gamma * following))
    return optax.losses.huber_loss(values(network, step.x, goal)[step.action], worth)


def _goals(world: World, config: Her, key: PRNGKeyArray) -> Bool[Array, "n k m"]:
    """A random clause for every copy of the world."""
    key_cells, key_clauses = jax.random.split(key)
    cells = jax.random.randint(key_cells, (config.num_envs, len(world.feature_names)), 0, config.bins)
    keys = jax.random.split(key_clauses, config.num_envs)
    return jax.vmap(lambda cell, key: clause_around(cell, config.bins, key, config.fewer))(cells, keys)
