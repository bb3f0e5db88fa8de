import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cumulant.features.grounding import Grounding, ground
from cumulant.goals.weights import weights

NAMES = ("agent_x", "agent_y", "square_x", "square_y")


def labelled(latents, n=64, k=4, seed=0):
    """Coordinates spread evenly, each on its own, as latents has them, and the thirds they lie in."""
    rng = np.random.default_rng(seed)
    coordinates = (np.stack([rng.permutation(n) for _ in range(k)], axis=1) + rng.random((n, k))) / n
    return latents(coordinates), np.floor(3 * coordinates).astype(int)


def bent(order, flip):
    """Latents that rise or fall with the coordinates, unevenly and in another order, beside one that is mere noise."""

    def latents(x):
        noise = np.random.default_rng(9).random((len(x), 1))
        bent = np.concatenate([x**1.3, noise], axis=1)[:, list(order)]
        return np.where(flip, 1 - bent, bent)

    return latents


@settings(max_examples=20)
@given(st.permutations(range(5)), st.lists(st.booleans(), min_size=5, max_size=5), st.integers(0, 9))
def test_ground_finds_directions_and_thirds_by_labels(order, flip, seed):
    grounding = ground(*labelled(bent(order, flip), seed=seed))
    assert [order[j] for j in grounding.latent] == [0, 1, 2, 3]
    for latent, edges in zip(grounding.latent.tolist(), np.asarray(grounding.edges), strict=True):
        truth = (np.arange(4) / 3) ** 1.3
        np.testing.assert_allclose(edges, 1 - truth if flip[latent] else truth, atol=0.05)
    assert grounding.falling == {j for j in range(5) if flip[j] and order[j] < 4}
    assert [grounding.names(NAMES)[j] for j in grounding.latent] == list(NAMES)
    assert f"latent {list(order).index(4)}" in grounding.names(NAMES)


def test_ground_bears_a_few_wrong_labels():
    f, thirds = labelled(lambda x: x, n=200)
    wrong = np.random.default_rng(1).random(thirds.shape) < 0.05
    grounding = ground(f, np.where(wrong, 1, thirds))
    np.testing.assert_allclose(grounding.edges, np.tile(np.arange(4) / 3, (4, 1)), atol=0.05)


def test_ground_refuses_too_few_latents_or_labels():
    f, thirds = labelled(lambda x: x)
    with pytest.raises(ValueError, match="4 coordinates cannot be read from 3 latents"):
        ground(f[:, :3], thirds)
    with pytest.raises(ValueError, match="coordinate 2 in its region 1"):
        ground(f, np.where((np.arange(4) == 2) & (thirds == 1), 0, thirds))


def test_ground_passes_over_constant_latents():
    f, thirds = labelled(lambda x: np.concatenate([np.full((len(x), 1), 0.5), x], axis=1))
    np.testing.assert_array_equal(ground(f, thirds).latent, [1, 2, 3, 4])


@settings(max_examples=30)
@given(st.data(), st.sampled_from([(3, 3), (7, 9)]))
def test_grounded_weights_of_coordinates_are_plain_weights(data, sizes):
    regions, bins = sizes
    bits = data.draw(st.lists(st.booleans(), min_size=2 * 3 * regions, max_size=2 * 3 * regions))
    table = jnp.array(bits).reshape(2, 3, regions)
    identity = Grounding(jnp.arange(3), jnp.tile(jnp.arange(4) / 3, (3, 1)), 3)
    np.testing.assert_allclose(identity.weights(table, bins), weights(table, bins), atol=1e-6)


def test_grounded_weights_ask_nothing_of_other_latents():
    flipped = Grounding(jnp.array([2, 0]), jnp.array([[1, 0.8, 0.4, 0], [0, 1 / 3, 2 / 3, 1]]), 4)
    table = jnp.array([[[1, 0, 0], [1, 1, 1]], [[1, 1, 1], [0, 0, 0]]], bool)  # the second never holds
    w = flipped.weights(table, 5)
    np.testing.assert_allclose(w[0, 2], [0, 0, 0, 0, 1], atol=1e-6)
    assert not np.asarray(w[0, [0, 1, 3]]).any()
    np.testing.assert_array_equal(w[1], -1)
