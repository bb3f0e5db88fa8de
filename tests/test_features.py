import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import unit
from hypothesis import given
from hypothesis import strategies as st

from cumulant.commands.inputs import BadInput, features_named
from cumulant.features.coordinates import entangled_features, true_features
from cumulant.goals.bins import bin_index, phi
from cumulant.worlds.spriteworld import Spriteworld


@given(st.lists(unit, min_size=1, max_size=6), st.integers(1, 12))
def test_phi_puts_each_feature_into_one_bin(f, bins):
    indicators = np.asarray(phi(jnp.float32(f), bins))
    assert indicators.shape == (len(f), bins)
    np.testing.assert_array_equal(indicators.sum(axis=1), 1)
    np.testing.assert_array_equal(indicators.argmax(axis=1), np.asarray(bin_index(jnp.float32(f), bins)))


def test_bin_index_closes_the_last_bin():
    np.testing.assert_array_equal(bin_index(jnp.array([0.0, 1.0]), 9), [0, 8])


@pytest.mark.parametrize("k", [2, 6, 10])
def test_entangled_features_rotate_and_fill_unit_interval(k):
    f = entangled_features(k, seed=3)
    assert not np.allclose(f(jnp.linspace(0, 1, k)), entangled_features(k, seed=4)(jnp.linspace(0, 1, k)))
    np.testing.assert_allclose(f(jnp.full(k, 0.5)), 0.5, atol=1e-6)
    scaled = np.stack([np.asarray(f(0.5 + jnp.eye(k)[i] * 0.1) - 0.5) / 0.1 for i in range(k)], axis=1)
    rotation = scaled / np.linalg.norm(scaled, axis=1, keepdims=True)
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(k), atol=1e-5)
    assert np.linalg.det(rotation) == pytest.approx(1, abs=1e-4)
    corners = jnp.asarray((rotation > 0) * 1.0)  # the corner of the cube that lies furthest along each row
    np.testing.assert_allclose([f(corner)[i] for i, corner in enumerate(corners)], 1.0, atol=1e-5)


def test_features_named_reads_or_refuses_a_name():
    world = Spriteworld()
    assert features_named("true", world) is true_features
    assert eqx.tree_equal(features_named("entangled:4", world), entangled_features(6, 4))
    assert features_named("jax.numpy:sin", world) is jnp.sin
    refused = {"nonsense": "form", "nowhere:f": "no module", "math:nothing": "has no", "math:pi": "no fu"}
    for name, message in refused.items():
        with pytest.raises(BadInput, match=message):
            features_named(name, world)
