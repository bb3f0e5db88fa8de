import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cumulant.freeplay import replay as module
from cumulant.freeplay.replay import Transition, empty

add = jax.jit(module.add, static_argnames=("stratified", "resolution"))
sample = jax.jit(module.sample, static_argnums=2)


def transitions(changed):
    """One transition a row; `changed` says which features changed."""
    changed = np.asarray(changed, np.float32)
    n, k = changed.shape
    f = np.repeat(np.arange(n, dtype=np.float32)[:, None] / n, k, axis=1)
    return jax.tree.map(jnp.asarray, Transition(f, np.arange(n), f + 0.1 * changed, np.zeros((n, 2), np.int32)))


def example(k):
    return Transition(jnp.zeros(k), jnp.int32(0), jnp.zeros(k), jnp.zeros(2, jnp.int32))


def test_a_transition_goes_to_the_ring_of_the_rarest_feature_it_changed():
    replay = add(empty(example(2), 30, 2), transitions([(1, 0)] * 6 + [(1, 1)] * 2 + [(0, 0)]), stratified=True)
    np.testing.assert_array_equal(replay.added, [6, 2, 1])
    np.testing.assert_array_equal(replay.changes, [8, 2])
    np.testing.assert_array_equal(np.sort(replay.rings.action[1])[-2:], [6, 7])


def test_what_changes_less_than_the_resolution_has_not_changed():
    trembling = transitions([(1, 0.05)] * 3 + [(0.01, 0.02)] * 2)  # by a tenth of these
    replay = add(empty(example(2), 30, 2), trembling, stratified=True, resolution=0.01)
    np.testing.assert_array_equal(replay.added, [3, 0, 2])
    exact = add(empty(example(2), 30, 2), trembling, stratified=True)
    assert int(exact.added[-1]) == 0


@given(st.sampled_from([1, 6, 40]), st.integers(0, 2**31), st.booleans())
def test_nothing_is_lost_while_there_is_room(n, seed, stratified):
    changed = np.random.default_rng(seed).integers(2, size=(n, 2))
    replay = add(empty(example(2), 300, 2), transitions(changed), stratified=stratified)
    assert int(replay.added.sum()) == len(changed)
    held = [np.asarray(replay.rings.action[i, : int(n)]) for i, n in enumerate(replay.added)]
    assert sorted(np.concatenate(held)) == list(range(len(changed)))


def test_the_oldest_are_forgotten_first():
    replay = empty(example(1), 8, 1)  # two rings of four
    for _ in range(3):
        replay = add(replay, transitions([(1,)] * 3), stratified=True)
    np.testing.assert_array_equal(np.sort(replay.rings.action[0]), [0, 1, 2, 2])
    assert int(replay.added[0]) == 9


def test_a_batch_draws_from_rings_by_the_root_of_what_they_hold():
    replay = add(empty(example(3), 400, 3), transitions([(1, 0, 0)] * 90 + [(0, 1, 0)] * 3), stratified=True)
    batch = sample(replay, jax.random.key(0), 4000)
    rare = np.asarray(batch.action >= 90).mean()
    assert abs(rare - 3**0.5 / (3**0.5 + 90**0.5)) < 0.02  # two rings of four hold something
    np.testing.assert_allclose(np.abs(batch.next_x - batch.x).max(axis=1), 0.1, atol=1e-6)


def test_a_batch_draws_alike_from_full_rings():
    replay = add(empty(example(2), 30, 2), transitions([(1, 0)] * 90 + [(0, 1)] * 10 + [(0, 0)] * 12), stratified=True)
    batch = sample(replay, jax.random.key(0), 4000)
    changed = np.abs(batch.next_x - batch.x) > 0.05
    np.testing.assert_allclose(changed.mean(axis=0), 1 / 3, atol=0.03)
