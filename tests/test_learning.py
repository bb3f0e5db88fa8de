import dataclasses
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import Sliders

from cumulant.config import PRESETS, FreePlay
from cumulant.features.coordinates import Inputs, true_features
from cumulant.freeplay.learning import loss, make_network, start, train
from cumulant.freeplay.networks import merged, own_value, own_values, relations
from cumulant.transfer.library import Library
from cumulant.worlds.episodes import rollout
from cumulant.worlds.spriteworld import Spriteworld

SMALL = FreePlay(
    bins=4, gamma=0.8, width=32, num_envs=16, batch=128, env_steps=16 * 2000, replay=10_000, learning_rate=3e-3
)
VARIANTS = {
    "ours": SMALL,
    "full": dataclasses.replace(SMALL, full_matrix=True),
    "paper": dataclasses.replace(
        SMALL, network="goal_conditioned", acting_policy_only=True, stratified=False, relational=False, switch_every=0
    ),
}


@cache
def trained(name):
    """All of free play as one program."""
    world, config = Sliders(), VARIANTS[name]

    @eqx.filter_jit
    def network(key):
        begun = start(world, config, true_features, key)
        return train(world, config, true_features, begun, jnp.int32(config.updates))[0].network

    return Library(world, config, network(jax.random.key(0)))


def place(*notches):
    return jnp.array([(n + 0.5) / 4 for n in notches])


@pytest.mark.parametrize("name", VARIANTS)
def test_values_are_discounted_distances(name):
    """From d notches away the goal is held after d steps: (1-γ) Σ_{t≥d} γ^t = γ^d, and 1 for resting in it."""
    library = trained(name)
    values = own_value(library.network(place(0, 2))).max(axis=-1)
    np.testing.assert_allclose(values[0], 0.8 ** np.array([0, 1, 2, 3]), atol=0.08)
    np.testing.assert_allclose(values[1], 0.8 ** np.array([2, 1, 0, 1]), atol=0.08)


# Plain GPI over the full matrix is missing: a policy that rests in its bin may as well wander in the other feature,
# which its full successor features show, and then the theorem's assumption fails.
@pytest.mark.parametrize(
    ("name", "committed"), [("ours", True), ("ours", False), ("paper", True), ("paper", False), ("full", True)]
)
def test_gpi_reaches_every_corner(name, committed):
    library, world = trained(name), Sliders()

    @jax.jit
    @jax.vmap
    def reached(goal):
        policy = library.gpi(committed)(world, jnp.eye(4)[goal][None])
        start_state = world.reset(jax.random.key(1))
        there = lambda state: (jnp.abs(state.place - place(*goal)) < 0.1).all()  # noqa: E731
        return rollout(world, policy, there, start_state, jax.random.key(0)).success

    assert reached(jnp.array([(0, 0), (0, 3), (3, 0), (3, 3), (1, 2)])).all()


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("name", ["trunk_per_feature", "all_policies", "goal_conditioned"])
def test_networks_give_every_policy_and_action(name, full):
    config = FreePlay(network=name, full_matrix=full, width=16, bins=5)
    psi = jax.eval_shape(lambda key, f: make_network(config, Inputs(6), 8, key)(f), jax.random.key(0), jnp.full(6, 0.3))
    assert psi.shape == ((6, 5, 6, 5, 8) if full else (6, 5, 5, 8))


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("name", ["trunk_per_feature", "all_policies", "goal_conditioned"])
def test_a_merged_network_is_the_same_function(name, full):
    """And its own values are those on the diagonal."""
    config = FreePlay(network=name, full_matrix=full, width=16, bins=5)

    @jax.jit
    def outputs(key, x):
        network = make_network(config, Inputs(6), 8, key)
        one_layer = merged(network)
        return network(x), one_layer(x), own_values(one_layer)(x)

    psi, same, own = outputs(jax.random.key(0), jax.random.uniform(jax.random.key(1), (6,)))
    np.testing.assert_allclose(same, psi, atol=1e-5)
    np.testing.assert_allclose(own, own_value(psi), atol=1e-5)


def test_different_seeds_give_different_networks():
    first, second = (make_network(SMALL, Inputs(2), 5, jax.random.key(s)) for s in (0, 1))
    assert not eqx.tree_equal(first, second)


def test_relations_are_features_and_differences():
    np.testing.assert_allclose(
        relations(jnp.array([0.5, 0.7, 0.1]), Inputs(3)), [0, 0.4, -0.8, -0.2, 0.4, 0.6], atol=1e-6
    )


def test_the_acting_policy_alone_is_updated_where_asked():
    """The paper's rule leaves other policies' outputs without a gradient."""
    config = dataclasses.replace(SMALL, acting_policy_only=True)
    network = make_network(config, Inputs(2), 5, jax.random.key(0))
    training = start(Sliders(), config, true_features, jax.random.key(0))
    batch = jax.tree.map(lambda leaf: leaf[0, :4], training.replay.rings)
    batch = batch._replace(policy=jnp.array([[1, 2]] * 4), x=batch.x + 0.3, next_x=batch.next_x + 0.6)
    gradients = eqx.filter_jit(eqx.filter_grad(lambda n: loss(config, n, n, batch)))(network)
    gradient = gradients.trunks.head.value.bias.reshape(2, 4, 4)
    touched = np.abs(np.asarray(gradient)).sum(axis=2) > 0
    np.testing.assert_array_equal(np.argwhere(touched), [[1, 2]])


def test_half_precision_agrees_roughly_with_single():
    config = FreePlay(num_envs=8, width=32, batch=64, replay=1000)

    @eqx.filter_jit
    def losses(key):
        begun = start(Spriteworld(), config, true_features, key)
        training, _ = train(Spriteworld(), config, true_features, begun, jnp.int32(20))
        batch = jax.tree.map(lambda leaf: leaf[0, :64], training.replay.rings)
        half = dataclasses.replace(config, half_precision=True)
        return [loss(each, training.network, training.target, batch) for each in (config, half)]

    single, half = losses(jax.random.key(0))
    assert 0 < abs(float(single - half)) < 0.1 * float(single)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bins": 0}, "bins"),
        ({"gamma": 1.0}, "gamma: 1.0 does not fit; give a number from 0 below 1"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"batch": -1}, "batch"),
    ],
)
def test_impossible_settings_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(PRESETS["cpu"], **change)
