import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from conftest import Sliders
from cumulant.experiments.baselines import diayn, dqn
from cumulant.features.coordinates import true_features
from cumulant.freeplay.in_step import InStep
from cumulant.goals.tasks import Task, tables_of
from cumulant.goals.weights import weights
from cumulant.transfer.evaluation import evaluate
from cumulant.transfer.gpi import Gpi

WORLD = Sliders()
CORNER = Task.where(WORLD.feature_names, {"first_x": [3], "first_y": [0]}, 4)


def first(tree):
    return jax.tree.map(lambda leaf: leaf[0] if eqx.is_array(leaf) else leaf, tree)


def trained_dqn(config, tasks):
    def train(table, learning, until):
        return dqn.train(WORLD, config, table, learning, until), None

    runs = [dqn.start(WORLD, config, jax.random.key(i)) for i in range(len(tasks))]
    together = InStep(train, list(tables_of(tasks)), runs)
    runs.advance(config.updates)
    return runs.runs.network


def test_dqn_learns_the_discounted_distance_to_the_goal():
    """Sliders move a notch at a time, so n notches from the goal the value is γ^(n-1)."""
    config = dqn.Dqn(width=32, batch=64, env_steps=20_000, replay=3_000, epsilon=0.3, epsilon_steps=5_000)
    network = first(trained_dqn(config, [CORNER]))
    for notches, place in ((1, (0.625, 0.125)), (2, (0.625, 0.375)), (4, (0.375, 0.625))):
        assert abs(float(network(jnp.array(place)).max()) - config.gamma ** (notches - 1)) < 0.05
    result = evaluate(WORLD, dqn.EpsilonGreedy(network, 0.0), {"corner": [CORNER]}, jax.random.key(0), 50)["corner"]
    assert result.success == 1.0


def test_runs_together_learn_as_they_would_alone():
    config = dqn.Dqn(width=16, batch=16, env_steps=2_000, replay=300)
    other = Task.where(WORLD.feature_names, {"first_x": [0]}, 4)
    network = trained_dqn(config, [CORNER, other])
    alone = dqn.train(
        WORLD, config, tables_of([CORNER])[0], dqn.start(WORLD, config, jax.random.key(0)), jnp.int32(config.updates)
    ).network
    x = jnp.array([0.375, 0.625])
    np.testing.assert_allclose(first(network)(x), alone(x), atol=1e-3)
    assert not np.allclose(first(network)(x), jax.tree.map(lambda leaf: leaf[1], network)(x), atol=1e-3)


def test_diayns_skills_are_told_apart_by_their_states_in_an_empty_world():
    config = diayn.Diayn(
        skills=4, bins=4, width=64, env_steps=64 * 3_000, num_envs=64, batch=128, replay=20_000, temperature=0.05
    )
    learning = diayn.start(WORLD, config, jax.random.key(0))
    learning = jax.jit(
        lambda run: eqx.filter(diayn.train(WORLD, config, run, jnp.int32(config.updates)), eqx.is_array)
    )(learning)
    held = learning.replay.rings
    told = jax.vmap(learning.networks.told_apart)(held.next_f.reshape(-1, 2)).argmax(axis=1)
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
