"""The paper's Lemma and Theorem, checked exactly in small tabular worlds, where Ψ solves a linear system."""

import itertools
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from cumulant.features.coordinates import true_features
from cumulant.transfer.commitment import committed_gpi
from cumulant.transfer.skills import disturbance
from cumulant.worlds.episodes import rollout

GAMMA = 0.9  # a discount that lets small worlds show what happens far away
_PATHS = 4  # times the number of states: the steps that an episode may take


class Tabular(NamedTuple):
    """A deterministic world of S states and A actions, whose k features have m values each."""

    name: str
    independent: bool  # whether each feature can be controlled without moving the others
    following: Int[np.ndarray, "s a"]
    features: Int[np.ndarray, "s k"]
    bins: int


def lattice(k: int, m: int) -> Tabular:
    """Return an independently controllable world: an action moves one feature by one; the first action stays."""

    def move(state: tuple[int, ...], action: int) -> tuple[int, ...]:
        moved = list(state)
        if action:
            feature, step = (action - 1) // 2, 1 - 2 * ((action - 1) % 2)
            moved[feature] = int(np.clip(moved[feature] + step, 0, m - 1))
        return tuple(moved)

    return _tabulate(f"lattice, k={k}, m={m}", True, k, m, 1 + 2 * k, move)


def dragging(m: int) -> Tabular:
    """Return Spriteworld's catch on a line: stay, walk, or drag. The object moves only together with the agent."""

    def move(state: tuple[int, ...], action: int) -> tuple[int, ...]:
        agent, thing = state
        step = (0, -1, 1, -1, 1)[action]
        after = int(np.clip(agent + step, 0, m - 1))
        carried = action >= 3 and agent == thing
        return after, (after if carried else thing)

    return _tabulate(f"dragging on a line, m={m}", False, 2, m, 5, move)


def coupled(m: int) -> Tabular:
    """Return a world where the first feature's every step pushes the second round; the second moves freely."""

    def move(state: tuple[int, ...], action: int) -> tuple[int, ...]:
        first, second = state
        if action in (1, 2):
            after = int(np.clip(first + (1 if action == 1 else -1), 0, m - 1))
            return after, ((second + 1) % m if after != first else second)
        if action in (3, 4):
            return first, int(np.clip(second + (1 if action == 3 else -1), 0, m - 1))
        return state

    return _tabulate(f"coupled, m={m}", False, 2, m, 5, move)


def _tabulate(name: str, independent: bool, k: int, m: int, actions: int, move: Callable) -> Tabular:
    states = list(itertools.product(range(m), repeat=k))
    index = {state: i for i, state in enumerate(states)}
    following = np.array([[index[move(state, a)] for a in range(actions)] for state in states])
    return Tabular(name, independent, following, np.array(states), m)


def cumulants(world: Tabular) -> Float[np.ndarray, "s k m"]:
    """Return φ of every state."""
    return np.eye(world.bins)[world.features]


def optimal_policy(world: Tabular, i: int, j: int, gamma: float) -> Int[np.ndarray, " s"]:
    """Return an optimal policy for φ_ij; of equally good actions it takes the first, so that it rests where it can."""
    reward = cumulants(world)[:, i, j]
    value = np.zeros(len(reward))
    for _ in range(int(np.log(1e-14) / np.log(gamma))):
        value = reward + gamma * value[world.following].max(axis=1)
    return np.argmax(np.round(value[world.following], 9), axis=1)


def successor_matrix(world: Tabular, gamma: float) -> tuple[Float[np.ndarray, "s a k m k m"], Int[np.ndarray, "s k m"]]:
    """Return the exact Ψ(s, a), with axes state, action, policy (i, j), cumulant (l, h), and the policies' actions."""
    states, actions = world.following.shape
    k, m = world.features.shape[1], world.bins
    phi = cumulants(world).reshape(states, k * m)
    psi = np.zeros((states, actions, k, m, k, m))
    policies = np.zeros((states, k, m), int)
    for i, j in itertools.product(range(k), range(m)):
        policies[:, i, j] = optimal_policy(world, i, j, gamma)
        step = np.zeros((states, states))
        step[np.arange(states), world.following[np.arange(states), policies[:, i, j]]] = 1
        under_policy = np.linalg.solve(np.eye(states) - gamma * step, phi)
        psi[:, :, i, j] = (phi[:, None] + gamma * under_policy[world.following]).reshape(states, actions, k, m)
    return psi, policies


def fill_off_diagonal(world: Tabular, psi: Float[np.ndarray, "s a k m k m"], gamma: float) -> np.ndarray:
    """Return Ψ with the Lemma's entries wherever policy and cumulant belong to different features."""
    same = np.eye(world.features.shape[1], dtype=bool)[:, None, :, None]
    return np.where(same, psi, cumulants(world)[:, None, None, None] / (1 - gamma))


def reaches(world: Tabular, psi: Float[np.ndarray, "s a k m k m"], goal: tuple[int, ...]) -> Bool[np.ndarray, " s"]:
    """Return the states from which plain GPI reaches a goal: a bin for each feature, or m where it does not matter."""
    m = world.bins
    w = np.eye(m + 1)[list(goal), :m]  # w^g, rows of zeros where anything goes
    q = np.einsum("saijlh,lh->saij", psi, w).max(axis=(2, 3))
    action = np.argmax(np.round(q, 9), axis=1)
    there = inside(world, goal)
    state, reached = np.arange(len(action)), there.copy()
    for _ in range(len(action)):  # longer than any path without a cycle
        state = world.following[state, action[state]]
        reached |= there[state]
    return reached


def inside(world: Tabular, goal: tuple[int, ...]) -> Bool[np.ndarray, " s"]:
    """Return the states that meet a goal: a bin for each feature, or m for one that does not matter."""
    return np.all([(g == world.bins) | (world.features[:, i] == g) for i, g in enumerate(goal)], axis=0)


def reachable(world: Tabular, goal: tuple[int, ...]) -> Bool[np.ndarray, " s"]:
    """Return the states from which any player at all can reach a goal."""
    found = inside(world, goal)
    for _ in range(len(found)):
        found = found | found[world.following].any(axis=1)
    return found


class _Played(eqx.Module):
    """A tabular world as every other part of the project sees worlds: what it shows are its features in [0, 1]."""

    following: Int[Array, "s a"]
    shown: Float[Array, "s k"]
    max_steps: int = eqx.field(static=True)
    shows_features: bool = eqx.field(static=True, default=True)

    @property
    def num_actions(self) -> int:
        return self.following.shape[1]

    @property
    def feature_names(self) -> tuple[str, ...]:
        return tuple(f"feature {i}" for i in range(self.shown.shape[1]))

    def reset(self, key: PRNGKeyArray) -> Int[Array, ""]:
        return jax.random.randint(key, (), 0, len(self.shown))

    def step(self, state: Int[Array, ""], action: Int[Array, ""]) -> Int[Array, ""]:
        return self.following[state, action]

    def observe(self, state: Int[Array, ""]) -> Float[Array, " k"]:
        return self.shown[state]

    def features(self, state: Int[Array, ""]) -> Float[Array, " k"]:
        return self.shown[state]


class _Table(eqx.Module):
    """Blocks of the exact Ψ in the place of a network."""

    blocks: Float[Array, "s k m m a"]  # scaled by 1 - γ

    def __call__(self, x: Float[Array, " k"]) -> Float[Array, "k m m a"]:
        k, m = self.blocks.shape[1:3]
        place = jnp.floor(x * m).astype(jnp.int32)
        return self.blocks[place @ m ** jnp.arange(k - 1, -1, -1)]


def reached_in_order(world: Tabular, psi: Float[np.ndarray, "s a k m k m"], gamma: float) -> Bool[np.ndarray, "g s"]:
    """Return whether committed GPI, which a library acts with, reaches every goal from every state: [g, s]."""
    states, k, m = len(world.features), world.features.shape[1], world.bins
    shown = jnp.asarray((world.features + 0.5) / m, jnp.float32)
    played = _Played(jnp.asarray(world.following), shown, _PATHS * states)
    network = _Table(jnp.asarray(np.einsum("saijih->sijha", psi) * (1 - gamma), jnp.float32))
    moved = disturbance(played, network, true_features, gamma, jax.random.key(0))
    goals = list(itertools.product(range(m + 1), repeat=k))
    w = jnp.asarray(np.eye(m + 1)[np.array(goals)][:, None, :, :m], jnp.float32)  # [g, 1, k, m]
    heres = jnp.asarray(np.stack([inside(world, goal) for goal in goals]))
    return np.asarray(_reached(played, network, moved, w, heres))


@eqx.filter_jit
def _reached(
    played: _Played,
    network: _Table,
    moved: Float[Array, "k k"],
    w: Float[Array, "g 1 k m"],
    heres: Bool[Array, "g s"],
) -> Bool[Array, "g s"]:
    """Play in one program for all worlds of the same shape."""

    def episode(w: Float[Array, "1 k m"], here: Bool[Array, " s"], start: Int[Array, ""]) -> Bool[Array, ""]:
        policy = committed_gpi(network, true_features, w, moved)
        return rollout(played, policy, lambda state: here[state], start, jax.random.key(0)).success

    from_every_state = jax.vmap(episode, (None, None, 0))
    return jax.vmap(from_every_state, (0, 0, None))(w, heres, jnp.arange(heres.shape[1]))


class Check(NamedTuple):
    """What the theory says and what holds, for one world."""

    world: str
    independent: bool
    goals: int  # (m + 1)^k
    error_on_policy: float  # the Lemma's greatest error where the first action is the policy's own, times 1 - γ
    error_any_action: float  # the same over all first actions
    solved_exact: float  # share of goals and starts that GPI over the exact Ψ reaches
    solved_trick: float  # the same with the off-diagonal entries that the Lemma gives
    solved_in_order: float  # the same by committed GPI, which pursues first what disturbs others
    solvable: float  # the same by the best of all players


def check(world: Tabular, gamma: float = GAMMA) -> Check:
    """Check the Lemma entry by entry, and GPI with w^g on all (m + 1)^k goals from every state."""
    psi, policies = successor_matrix(world, gamma)
    filled = fill_off_diagonal(world, psi, gamma)
    error = np.abs(psi - filled).max(axis=(4, 5)) * (1 - gamma)  # [s, a, k, m]
    on_policy = np.take_along_axis(error, policies[:, None], axis=1)
    goals = list(itertools.product(range(world.bins + 1), repeat=world.features.shape[1]))
    solved = [[reaches(world, matrix, goal).mean() for goal in goals] for matrix in (psi, filled)]
    return Check(
        world.name,
        world.independent,
        len(goals),
        float(on_policy.max()),
        float(error.max()),
        float(np.mean(solved[0])),
        float(np.mean(solved[1])),
        float(reached_in_order(world, psi, gamma).mean()),
        float(np.mean([reachable(world, goal) for goal in goals])),
    )


WORLDS = (lattice(2, 3), lattice(3, 3), lattice(2, 6), dragging(6), coupled(5))
EXAMPLES = (WORLDS[0], WORLDS[3])  # one where the Lemma holds, one where it does not
