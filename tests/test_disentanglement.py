import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import entropy, spearmanr
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.metrics import mutual_info_score, r2_score

from cumulant.commands.drawings import draw_correlations
from cumulant.features.disentanglement import assignment, dci, independence, mig, rank_correlations

shifts = arrays(np.float32, (3, 3), elements=st.just(0.0) | st.floats(2**-20, 1, width=32))


def uniform(n, k, seed=0):
    return np.random.default_rng(seed).uniform(size=(n, k))


def disguised(factors):
    """The factors in another order, each bent by a monotone function, one upside down."""
    return np.stack([-np.exp(3 * factors[:, 2]), factors[:, 0] ** 3, np.log(factors[:, 1] + 0.1)], axis=1)


def test_scores_of_the_factors_themselves_are_one():
    factors = uniform(800, 3)
    scores = dci(factors, factors)
    assert min(scores.disentanglement, scores.completeness, scores.informativeness) > 0.99
    np.testing.assert_allclose(scores.importance, np.eye(3), atol=0.01)
    grid = np.stack(np.meshgrid(*[np.arange(20.0)] * 3), axis=-1).reshape(-1, 3)  # independent in the sample too
    assert mig(grid, grid) == pytest.approx(1)
    assert mig(grid[:, ::-1].copy(), -grid) == pytest.approx(1)


def test_dci_minds_no_order_sign_or_bend():
    factors = uniform(800, 3)
    scores = dci(disguised(factors), factors)
    assert min(scores.disentanglement, scores.completeness, scores.informativeness) > 0.99
    index, strength = assignment(disguised(factors), factors)
    assert index.tolist() == [1, 2, 0]
    np.testing.assert_allclose(strength, 1)


def test_scores_fall_at_a_turn_by_45_degrees():
    factors = uniform(1500, 2)
    turned = factors @ np.array([[1.0, -1.0], [1.0, 1.0]]) / np.sqrt(2)
    scores = dci(turned, factors)
    assert scores.disentanglement < 0.02
    assert scores.completeness < 0.02
    assert scores.informativeness > 0.95  # nothing is lost
    assert mig(turned, factors) < 0.05
    np.testing.assert_allclose(rank_correlations(turned, factors), 1 / np.sqrt(2), atol=0.05)


def test_scores_of_a_doubled_latent_lose_completeness():
    factors = uniform(800, 2)
    twice = factors[:, [0, 1, 0]]
    scores = dci(twice, factors)
    assert scores.disentanglement > 0.99
    half = 1 - np.log(2) / np.log(3)  # the first factor's importance lies evenly on two latents of three
    assert scores.completeness == pytest.approx((half + 1) / 2, abs=0.03)
    assert mig(twice[:, [0, 2]], factors[:, :1]) == 0
    assert mig(twice, factors) == pytest.approx(mig(factors, factors) / 2, abs=0.02)


def test_scores_mind_no_noise_or_constants():
    factors = uniform(800, 2)
    latents = np.concatenate([factors, uniform(800, 1, seed=1), np.ones((800, 1))], axis=1)
    scores = dci(latents, factors)
    assert min(scores.disentanglement, scores.completeness, scores.informativeness) > 0.99
    assert rank_correlations(latents, factors)[3].tolist() == [0, 0]
    assert assignment(latents, factors)[0].tolist() == [0, 1]
    nothing = dci(latents[:, 2:], factors)
    assert nothing.informativeness == 0
    assert mig(latents[:, 3:], factors) == pytest.approx(0, abs=1e-12)


def test_scores_of_one_latent_or_factor_exist():
    factors = uniform(400, 2)
    one_latent, one_factor = dci(factors[:, :1], factors), dci(factors, factors[:, :1])
    assert one_latent.completeness == pytest.approx(1)  # no other latent to share with
    assert one_factor.disentanglement == pytest.approx(1)
    index, strength = assignment(factors[:, :1], factors)
    assert index.tolist() == [0, -1]
    assert strength.tolist() == pytest.approx([1, 0])
    assert mig(factors[:, :1], factors[:, :1]) == pytest.approx(1)
    constant = np.ones((400, 1))
    assert dci(constant, constant)[:3] == (0, 0, 0)
    assert mig(constant, constant) == 0


@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 5), st.integers(3, 40))
def test_rank_correlations_are_spearmans(seed, d, k, n):
    rng = np.random.default_rng(seed)
    latents, factors = rng.integers(0, 5, (n, d)).astype(float), rng.normal(size=(n, k))  # with ties
    latents[0], latents[1] = 0, 1
    expected = [[abs(spearmanr(latent, factor).statistic) for factor in factors.T] for latent in latents.T]
    np.testing.assert_allclose(rank_correlations(latents, factors), expected, atol=1e-9)
    index, strength = assignment(latents, factors)
    given_out = index[index >= 0]
    assert len(set(given_out)) == len(given_out) == min(d, k)
    assert 0 <= mig(latents, factors) < 1 + 1e-9


def reference_dci(latents, factors, seed):
    """The formulas as disentanglement_lib has them, entropies smoothed, on the same halves of the samples as ours."""
    seen, unseen = np.split(np.random.default_rng(seed).permutation(len(latents)), 2)
    importance, told = [], []
    for factor in factors.T:
        model = GradientBoostingRegressor(random_state=seed).fit(latents[seen], factor[seen])
        importance.append(model.feature_importances_)
        told.append(r2_score(factor[unseen], model.predict(latents[unseen])))
    importance = np.array(importance).T + 1e-11
    d, k = importance.shape
    by_latent, by_factor = 1 - entropy(importance, base=k, axis=1), 1 - entropy(importance, base=d, axis=0)
    share = importance / importance.sum()
    return (by_latent * share.sum(axis=1)).sum(), (by_factor * share.sum(axis=0)).sum(), np.mean(told)


def reference_mig(latents, factors, bins=20):
    def cut(column):
        return np.digitize(column, np.histogram_bin_edges(column, bins)[:-1])

    gaps = []
    for factor in factors.T:
        told = sorted(mutual_info_score(cut(latent), cut(factor)) for latent in latents.T)
        gaps.append((told[-1] - told[-2]) / entropy(np.bincount(cut(factor))))
    return np.mean(gaps)


@pytest.mark.parametrize(("mixing", "seed"), [(0.3, 0), (1.0, 1)])
def test_dci_and_mig_agree_with_a_reference(mixing, seed):
    factors = uniform(600, 6, seed)
    latents = factors @ (np.eye(6, 8) + mixing * np.random.default_rng(seed).normal(size=(6, 8)))
    ours, reference = dci(latents, factors, seed), reference_dci(latents, factors, seed)
    np.testing.assert_allclose(ours[:3], reference, atol=1e-6)
    assert 0.1 < ours.disentanglement < 0.9  # neither end, where much would agree
    assert mig(latents, factors) == pytest.approx(reference_mig(latents, factors), abs=1e-6)


def test_independence_of_matrices_worked_by_hand():
    assert independence(np.diag([0.3, 0.2, 0.5])) == 1
    assert independence(np.ones((4, 4))) == 0
    assert independence(np.array([[0.4, 0.1], [0.0, 0.2]])) == pytest.approx(0.75)  # the first drags the second half
    assert independence(np.array([[0.4, 0.9], [0.0, 0.2]])) == pytest.approx(0.5)  # more than all counts as all
    assert independence(np.array([[0.4, 0.0], [0.0, 0.0]])) == pytest.approx(0.5)  # nothing moves the second
    assert independence(np.array([[0.4]])) == 1


@given(shifts, st.permutations(range(3)))
def test_independence_minds_no_order_or_units(moved, order):
    value = independence(moved)
    assert 0 <= value <= 1
    assert independence(moved[np.ix_(order, order)]) == pytest.approx(value, abs=1e-6)
    assert independence(moved * np.array([1, 2, 0.25], np.float32)) == pytest.approx(value, abs=1e-6)


def test_draw_correlations_writes_a_png(tmp_path):
    matrix = rank_correlations(uniform(50, 3), uniform(50, 2))
    draw_correlations(tmp_path / "rho.png", matrix, ["z0", "z1", "z2"], ["agent_x", "agent_y"], "|ρ|")
    assert (tmp_path / "rho.png").read_bytes().startswith(b"\x89PNG")
