"""Each baseline in a world where what it should come to is known in closed form."""

from dataclasses import dataclass
from functools import cache
from itertools import combinations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import Sliders

from cumulant.features.coordinates import true_features
from cumulant.freeplay.in_step import InStep
from cumulant.goals.bins import phi
from cumulant.goals.tasks import Task, reached, tables_of
from cumulant.goals.weights import weights
from cumulant.transfer.evaluation import evaluate
from cumulant.transfer.gpi import Gpi
from cumulant_paper.baselines import clauses, diayn, dqn, dusdi, fb, her, metra, usfa, visr
from cumulant_paper.baselines.playing import Step

SLIDERS = Sliders()
GRID = 3
WALLS = {(0, 1), (1, 1)}  # the way from the lower left to the upper left leads round them
ROOMS = [(x, y) for x in range(GRID) for y in range(GRID) if (x, y) not in WALLS]


class Tiny:
    """A world that shows its features."""

    def features(self, state):
        return self.observe(state)


@dataclass(frozen=True)
class Maze(Tiny):
    """A grid of rooms, some of them walled up; a step leads to a neighbour, or nowhere."""

    max_steps: int = 20
    num_actions: int = 4
    feature_names: tuple[str, ...] = ("here_x", "here_y")

    def reset(self, key):
        return jax.random.choice(key, jnp.array(ROOMS))

    def step(self, state, action):
        after = jnp.clip(state + jnp.array([(1, 0), (-1, 0), (0, 1), (0, -1)])[action], 0, GRID - 1)
        walled = jnp.array([jnp.array_equal(after, jnp.array(wall)) for wall in sorted(WALLS)]).any()
        return jnp.where(walled, state, after)

    def observe(self, state):
        return (state + 0.5) / GRID


@dataclass(frozen=True)
class Clock(Tiny):
    """Time goes by whatever is done."""

    max_steps: int
    num_actions: int = 2
    feature_names: tuple[str, ...] = ("time",)

    def reset(self, key):
        return jnp.zeros(1)

    def step(self, state, action):
        return state + 1 / self.max_steps

    def observe(self, state):
        return state


@dataclass(frozen=True)
class Ring(Tiny):
    """Five states on a ring, each seen as a feature of its own: stay, or go one on."""

    num_actions: int = 2
    max_steps: int = 10
    feature_names: tuple[str, ...] = tuple(f"place_{i}" for i in range(5))

    def reset(self, key):
        return jax.random.randint(key, (), 0, 5)

    def step(self, state, action):
        return (state + action) % 5

    def observe(self, state):
        return jax.nn.one_hot(state, 5)


@cache
def steps_between():
    """Return how many steps each room is from each other one."""
    distance = np.where(np.eye(len(ROOMS), dtype=bool), 0, len(ROOMS))
    near = np.array([[abs(a - c) + abs(b - d) == 1 for c, d in ROOMS] for a, b in ROOMS])
    for _ in ROOMS:
        distance = np.minimum(distance, 1 + np.where(near[:, :, None], distance[None], len(ROOMS)).min(axis=1))
    return distance


def run(method, world, config):
    """Return what a whole training comes to."""

    @eqx.filter_jit
    def trained(key):
        return method.train(world, config, method.start(world, config, key), jnp.int32(config.updates))

    return trained(jax.random.key(0))


def held(learning):
    """Return all transitions that a run remembers."""
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), learning.replay.rings)


def test_dqn_learns_discounted_distances():
    """Sliders move a notch at a time, so n notches from the goal the value is γ^(n-1). In step it learns as alone."""
    config = dqn.Dqn(width=32, batch=64, env_steps=20_000, replay=3_000, epsilon=0.3, epsilon_steps=5_000)
    corner = Task.where(SLIDERS.feature_names, {"first_x": [3], "first_y": [0]}, 4)
    tables = list(tables_of([corner, Task.where(SLIDERS.feature_names, {"first_x": [0]}, 4)]))

    def train(table, learning, until):
        return dqn.train(SLIDERS, config, table, learning, until), None

    begun, early = [dqn.start(SLIDERS, config, jax.random.key(i)) for i in range(2)], 500  # later, rounding would tell
    alone = eqx.filter_jit(lambda run: train(tables[0], run, jnp.int32(early))[0].networks)(begun[0])
    runs, x = InStep(train, tables, begun), jnp.array([0.375, 0.625])
    runs.advance(early)
    first, second = (runs.run(i).networks(x) for i in range(2))
    np.testing.assert_allclose(first, alone(x), atol=1e-3)
    assert not np.allclose(first, second, atol=1e-3)
    runs.advance(config.updates)
    network = runs.run(0).networks
    for notches, place in ((1, (0.625, 0.125)), (2, (0.625, 0.375)), (4, (0.375, 0.625))):
        assert abs(float(network(jnp.array(place)).max()) - config.gamma ** (notches - 1)) < 0.05
    result = evaluate(SLIDERS, dqn.EpsilonGreedy(network, 0.0), {"corner": [corner]}, jax.random.key(0), 50)
    assert result["corner"].success == 1.0


def test_diayn_skills_are_told_apart_by_states():
    config = diayn.Diayn(
        skills=4, bins=4, width=64, env_steps=64 * 3_000, num_envs=64, batch=128, replay=20_000, temperature=0.05
    )
    learning = run(diayn, SLIDERS, config)
    steps = held(learning)
    told = jax.vmap(learning.networks.told_apart)(steps.next_x).argmax(axis=1)
    assert float((told == steps.extra).mean()) > 0.6  # chance is 0.25; and skills need a few steps to part
    # Over their successor features GPI solves what a skill does: be where it is.
    gpi = Gpi(learning.networks.psi, true_features, committed=False)
    ends = [{"first_x": [x], "first_y": [y]} for x in (0, 3) for y in (0, 3)]
    corners = {str(end): [Task.where(SLIDERS.feature_names, end, 4)] for end in ends}
    guides = jax.vmap(lambda table: weights(table, 4))(tables_of([task for (task,) in corners.values()]))
    results = evaluate(SLIDERS, gpi, corners, jax.random.key(1), 50, guides)
    assert max(result.success for result in results.values()) > 0.9


def test_her_solves_a_maze_exactly():
    """Every room from every other one: a goal n steps away is worth γ^(n-1), and so is the nearest of several."""
    size = {"width": 64, "batch": 256, "num_envs": 64, "env_steps": 64 * 2_500, "replay": 9_000}
    config = her.Her(**size, bins=GRID, horizon=10, learning_rate=3e-3, gamma=0.9)
    learning, rooms, distance = run(her, Maze(), config), np.array(ROOMS), steps_between()
    seen, cells = jnp.asarray((rooms + 0.5) / GRID), jax.nn.one_hot(rooms, GRID, dtype=bool)
    q = jax.vmap(lambda x: jax.vmap(lambda goal: her.values(learning.networks, x, goal))(cells))(seen)
    np.testing.assert_allclose(q.max(axis=2), config.gamma ** np.maximum(distance - 1, 0), atol=0.05)
    for here, there in zip(*np.nonzero(distance), strict=True):
        led_to = ROOMS.index(tuple(Maze().step(rooms[here], q[here, there].argmax()).tolist()))
        assert distance[led_to, there] == distance[here, there] - 1


@pytest.mark.parametrize("max_steps", [3, 8])
def test_hindsight_sees_the_rest_of_the_episode(max_steps):
    """All of the next steps up to the horizon or the episode's end, and no further."""
    config = her.Her(width=8, batch=4, num_envs=8, env_steps=8 * 60, replay=400, bins=2, horizon=5)
    steps = held(run(her, Clock(max_steps), config))
    ahead = np.asarray(jnp.round((steps.extra.later - steps.next_x[:, None]) * max_steps))[..., 0]
    time = np.asarray(jnp.round(steps.next_x[:, 0] * max_steps))
    written = time > 0
    assert (ahead[written] >= 0).all()  # a later episode's clock would stand lower
    assert ahead[written].max() == min(max_steps, config.horizon) - 1
    assert (time + ahead.max(axis=1) <= max_steps)[written].all()


@pytest.mark.parametrize("bins", [2, 3])
def test_clause_around_draws_every_box_of_the_cell(bins):
    cell = jnp.array([0, bins - 1])
    drawn = jax.vmap(lambda key: clauses.clause_around(cell, bins, key))(jax.random.split(jax.random.key(0), 2_000))
    assert drawn[:, jnp.arange(2), cell].all()
    found = {tuple(clause.ravel().tolist()) for clause in np.asarray(drawn)}
    assert len(found) == 2 ** (2 * (bins - 1))  # every set of bins that has the cell's


def test_to_go_leads_to_the_nearest_allowed_bin():
    goal = jnp.array([[True, False, False], [True, False, True], [True, True, True], [False, True, False]])
    way = clauses.to_go(jnp.array([0.7, 0.6, 0.1, 0.5]), goal)
    np.testing.assert_allclose(way, [1 / 3 - 0.7, 2 / 3 - 0.6, 0, 0], atol=1e-6)


def test_within_changes_only_what_breaks_the_clause():
    states = jax.random.uniform(jax.random.key(0), (200, 2))
    clause = jnp.array([[True, False, True], [True, True, True]])
    meeting = clauses.within(clause, states, jax.random.key(1))
    assert jax.vmap(lambda x: reached(clause[None], x))(meeting).all()
    kept = meeting == states
    np.testing.assert_array_equal(kept[:, 0], np.abs(states[:, 0] - 0.5) > 1 / 6)
    assert kept[:, 1].all()
    assert len(np.unique(np.floor(meeting[:, 0] * 3))) == 2


def test_fb_draws_means_of_b_over_clauses():
    config = fb.Fb(dimensions=3, width=8, from_states=1.0, from_clauses=1.0, bins=2)
    networks = fb.Networks(2, 2, config, jax.random.key(0))
    states = jnp.array([[0.2, 0.1], [0.9, 0.2], [0.3, 0.8], [0.8, 0.9]])  # one in each quarter
    b = jax.vmap(networks.b)(states)
    means = [b[np.array(chosen)].mean(axis=0) for size in range(1, 5) for chosen in combinations(range(4), size)]
    z = jnp.concatenate([fb.draw(config, networks, states, jax.random.key(i)) for i in range(9)])
    off = jnp.abs(z[:, None] - fb.z_of(jnp.stack(means))).max(axis=2)
    assert (off.min(axis=1) < 1e-4).all()
    assert len({*off.argmin(axis=1).tolist()} & {4, 5, 8, 9}) > 1  # halves, not only single states


def test_fb_recovers_the_successor_measure():
    """On a ring, F(s, a, z)·B(s') times the states' shares is how often, discounted, policy z comes by s'."""
    size = {"width": 64, "batch": 256, "num_envs": 32, "env_steps": 32 * 3_000, "replay": 6_000}
    n, config = 5, fb.Fb(**size, dimensions=5, gamma=0.7, learning_rate=2e-3, switch_every=5)
    player = fb.player(config, run(fb, Ring(), config), jax.random.key(1))
    share, states = np.asarray(player.seen).mean(axis=0), jnp.eye(n)
    following = (np.arange(n)[:, None] + np.arange(2)) % n
    for goal in range(n):
        z = player.from_labels(player.seen, player.seen[:, goal], jnp.ones(len(player.seen), bool))
        f = jax.vmap(lambda x, z=z: player.networks.f(x, z))(states)  # [s, d, a]
        measure = jnp.einsum("sda,gd->sag", f, jax.vmap(player.networks.b)(states)) * share
        action = np.asarray(jax.vmap(lambda x, z=z: player.networks.values(x, z))(states)).argmax(axis=1)
        step = np.eye(n)[following[np.arange(n), action]]
        visits = np.linalg.solve(np.eye(n) - config.gamma * step, step) * (1 - config.gamma)
        after = np.eye(n)[following] * (1 - config.gamma) + config.gamma * visits[following]
        np.testing.assert_allclose(measure, after, atol=0.1)
        assert (action == (np.arange(n) != goal)).all()  # stay at the goal, go on elsewhere


def successor():
    """Return USFA's network, all of ψ well within [0, 1], and its settings."""
    config = usfa.Usfa(bins=2, width=16)
    psi = usfa.Successor(2, 4, 3, config, jax.random.key(0), trunks=2)
    return config, eqx.tree_at(lambda psi: psi.trunks.head.value.bias, psi, jnp.full((2, 2), 0.5))


def test_usfa_with_one_w_is_q_learning():
    """What ψ is taught, weighed by w, is r + γ max Q where the network and its target agree."""
    config, psi = successor()
    w = jnp.array([1.0, 0.0, 0.5, 2.0]) / jnp.sqrt(5.25)
    step = Step(jnp.array([0.2, 0.9]), jnp.int32(1), jnp.array([0.3, 0.7]))
    taught = psi.taught(config, psi, step, w, phi(step.x, 2).ravel())
    reward = w[0] + w[3]  # of the bins that x lies in
    after = (psi(step.next_x, w).T @ w).max()
    np.testing.assert_allclose(taught @ w, (1 - config.gamma) * reward + config.gamma * after, rtol=1e-5)


def test_usfa_gpi_asks_the_given_policies():
    """With none it acts for w alone; with others, as the best of all of them."""
    (config, psi), x = successor(), jnp.array([0.2, 0.9])
    w = jnp.array([[[0.0, 1.0], [1.0, 0.0]]])
    others = usfa.random_weights(config, 2, 5, jax.random.key(1))
    for policies in (others[:0], others):
        policy = usfa.Universal(config, psi, policies)(Maze(), w)
        asked = jnp.concatenate([w.reshape(1, 4) / 2**0.5, policies])
        q = jnp.stack([w.ravel() @ psi(x, each) for each in asked])
        assert policy.act((), x, jax.random.key(2))[1] == q.max(axis=0).argmax()


def test_dusdi_discriminators_see_their_factor_alone():
    """What one says changes with its feature, and with nothing else."""
    networks = dusdi.Networks(3, 2, dusdi.Dusdi(width=16), jax.random.key(0))
    slopes = np.abs(jax.jacobian(networks.told)(jnp.array([0.2, 0.5, 0.8]))).sum(axis=1)  # [factor, feature]
    np.testing.assert_array_equal(slopes > 0, np.eye(3, dtype=bool))


def test_dusdi_choices_are_told_apart():
    """On two sliders a choice for each is soon read off its slider: chance is a half."""
    size = {"width": 32, "batch": 64, "num_envs": 32, "env_steps": 32 * 1_500, "replay": 9_000}
    learning = run(dusdi, SLIDERS, dusdi.Dusdi(**size, skills=2, bins=4, temperature=0.03))
    steps = held(learning)
    told = jax.vmap(learning.networks.told)(steps.next_x).argmax(axis=2)
    assert ((told == steps.extra).mean(axis=0) > 0.7).all()


def test_visr_regression_finds_the_w_of_a_reward():
    """Over features of unit length; a constant is no task, and what was not taken does not count."""
    config = visr.Visr(width=16, dimensions=3, num_envs=4, replay=20)
    networks = visr.start(SLIDERS, config, jax.random.key(0)).networks
    phi = jax.vmap(networks.phi)(jax.random.uniform(jax.random.key(1), (200, 2)))
    np.testing.assert_allclose(jnp.linalg.norm(phi, axis=1), 1, rtol=1e-5)
    w, taken = jnp.array([0.5, -1.0, 2.0]), jnp.arange(200) < 150
    off = phi[:150] @ (visr.regressed(phi, jnp.where(taken, phi @ w + 3, 99.0), taken) - w)
    np.testing.assert_allclose(off - off.mean(), 0, atol=0.1)


def test_metra_respects_its_constraint():
    """In the end no step is much longer than one, and as many steps as there are take one that far apart."""
    size = {"width": 32, "batch": 64, "num_envs": 32, "env_steps": 32 * 2_000, "replay": 6_000}
    networks = run(metra, SLIDERS, metra.Metra(**size, dimensions=2, learning_rate=3e-3)).networks
    place = jnp.array([0.125, 0.375, 0.625, 0.875])
    grid = jax.vmap(jax.vmap(networks.phi))(jnp.stack(jnp.meshgrid(place, place, indexing="ij"), axis=-1))
    steps = jnp.concatenate([jnp.linalg.norm(jnp.diff(grid, axis=axis), axis=-1).ravel() for axis in (0, 1)])
    assert 0.7 < float(steps.mean()) < 1.2
    assert float(steps.max()) < 1.5
