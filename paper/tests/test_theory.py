import contextlib
import io
import json

import numpy as np
import pytest

from cumulant.commands.cli import main
from cumulant_paper.theory import WORLDS, Check, cumulants, lattice, optimal_policy, successor_matrix


@pytest.fixture(scope="module")
def checks(tmp_path_factory):
    """Every world's, as the command writes, draws and tells them."""
    out, said = tmp_path_factory.mktemp("theorem"), io.StringIO()
    with contextlib.redirect_stdout(said):
        assert main(["reproduce", "theorem", "--out", str(out)]) == 0
    assert "dragging on a line" in said.getvalue()
    assert (out / "theorem.png").exists()
    found = json.loads((out / "theorem.json").read_text())["worlds"]
    assert [each["world"] for each in found] == [world.name for world in WORLDS]
    return {each["world"]: Check(**each) for each in found}


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_lemma_and_theorem_hold_in_independent_worlds(world, checks):
    """Exactly, under independent control; where features move together, what disturbs others goes first."""
    result = checks[world.name]
    assert result.independent == world.independent
    assert result.goals == (world.bins + 1) ** world.features.shape[1]
    assert result.solved_in_order == result.solvable == 1.0
    if world.independent:
        assert result.error_on_policy < 1e-12
        assert result.solved_exact == result.solved_trick == 1.0
    else:
        assert result.error_on_policy > 0.5
        assert result.solved_trick < 1


def test_lemma_speaks_of_the_policy_s_own_actions(checks):
    """An action that moves another feature first breaks it by γ, a step after the start, even in such a world."""
    assert checks[lattice(2, 3).name].error_any_action == pytest.approx(0.9)


def test_resting_in_a_bin_is_worth_the_geometric_sum():
    world, gamma = lattice(2, 3), 0.9
    psi, policies = successor_matrix(world, gamma)
    for i, j in ((0, 1), (1, 2)):
        inside = np.flatnonzero(cumulants(world)[:, i, j])
        assert (policies[inside, i, j] == 0).all()  # it rests
        np.testing.assert_allclose(psi[inside, 0, i, j, i, j], 1 / (1 - gamma))


def test_optimal_policy_walks_straight_to_its_bin():
    world = lattice(2, 4)
    action = optimal_policy(world, 0, 3, 0.9)
    below = world.features[:, 0] < 3
    assert (action[below] == 1).all()
    assert (action[~below] == 0).all()
