from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import Sliders

from cumulant.features.coordinates import true_features
from cumulant.freeplay.in_step import InStep
from cumulant.goals.tasks import Task, tables_of
from cumulant.goals.weights import weights
from cumulant.transfer.evaluation import evaluate
from cumulant.transfer.gpi import Gpi
from cumulant_paper.baselines import diayn, dqn

WORLD = Sliders()
CORNER = Task.where(WORLD.feature_names, {"first_x": [3], "first_y": [0]}, 4)
EARLY = 500  # updates: longer, rounding would tell


def pick(tree, i):
    """One of several runs."""
    return jax.tree.map(lambda leaf: leaf[i] if eqx.is_array(leaf) else leaf, tree)


class Trained(NamedTuple):
    config: Any
    early: Any  # networks of the two runs, in step, after a few updates
    alone: Any  # the network of the first one's task, learnt as long by itself
    late: Any  # the networks in the end


@pytest.fixture(scope="module")
def trained():
    """DQN on two tasks in step, and for a while on the first of them alone."""
    config = dqn.Dqn(width=32, batch=64, env_steps=20_000, replay=3_000, epsilon=0.3, epsilon_steps=5_000)
    tables = list(tables_of([CORNER, Task.where(WORLD.feature_names, {"first_x": [0]}, 4)]))

    def train(table, learning, until):
        return dqn.train(WORLD, config, table, learning, until), None

    begun = [dqn.start(WORLD, config, jax.random.key(i)) for i in range(2)]
    alone, _ = jax.jit(lambda table, run: eqx.filter(train(table, run, jnp.int32(EARLY)), eqx.is_array))(
        tables[0], begun[0]
    )
    runs = InStep(train, tables, begun)
    runs.advance(EARLY)
    early = jax.tree.map(lambda leaf: leaf.copy() if eqx.is_array(leaf) else leaf, runs.runs.network)
    runs.advance(config.updates)
    return Trained(config, early, alone.network, runs.runs.network)


def test_dqn_learns_the_discounted_distance_to_the_goal(trained):
    """Sliders move a notch at a time, so n notches from the goal the value is γ^(n-1)."""
    network = pick(trained.late, 0)
    for notches, place in ((1, (0.625, 0.125)), (2, (0.625, 0.375)), (4, (0.375, 0.625))):
        assert abs(float(network(jnp.array(place)).max()) - trained.config.gamma ** (notches - 1)) < 0.05
    result = evaluate(WORLD, dqn.EpsilonGreedy(network, 0.0), {"corner": [CORNER]}, jax.random.key(0), 50)["corner"]
    assert result.success == 1.0


def test_runs_in_step_learn_as_they_would_alone(trained):
    x = jnp.array([0.375, 0.625])
    np.testing.assert_allclose(pick(trained.early, 0)(x), trained.alone(x), atol=1e-3)
    assert not np.allclose(pick(trained.early, 0)(x), pick(trained.early, 1)(x), atol=1e-3)


def test_diayns_skills_are_told_apart_by_their_states_in_an_empty_world():
    config = diayn.Diayn(
        skills=4, bins=4, width=64, env_steps=64 * 3_000, num_envs=64, batch=128, replay=20_000, temperature=0.05
    )

    @eqx.filter_jit
    def run(key):
        return diayn.train(WORLD, config, diayn.start(WORLD, config, key), jnp.int32(config.updates))

    learning = run(jax.random.key(0))
    held = learning.replay.rings
    told = jax.vmap(learning.networks.told_apart)(held.next_x.reshape(-1, 2)).argmax(axis=1)
    right = float((told == held.skill.reshape(-1)).mean())
    assert right > 0.6  # chance is 0.25; and skills need a few steps to part
    # Over their successor features GPI solves what a skill does: be where it is.
    gpi = Gpi(learning.networks.psi, true_features, committed=False)
    corners = {
        f"{x}{y}": [Task.where(WORLD.feature_names, {"first_x": [x], "first_y": [y]}, 4)]
        for x in (0, 3)
        for y in (0, 3)
    }
    guides = jax.vmap(lambda table: weights(table, 4))(tables_of([task for (task,) in corners.values()]))
    results = evaluate(WORLD, gpi, corners, jax.random.key(1), 50, guides)
    assert max(result.success for result in results.values()) > 0.9
