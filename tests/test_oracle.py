import jax
import jax.numpy as jnp
import pytest

from cumulant.goals.language import parse
from cumulant.goals.suites import CLASSES, suite
from cumulant.transfer.evaluation import evaluate
from cumulant.worlds.episodes import goal_of, random_policy, rollout
from cumulant.worlds.oracle import oracle_policy
from cumulant.worlds.spriteworld import Spriteworld, State

FOUR = ("square", "circle", "triangle", "star")


@pytest.mark.parametrize(("objects", "bins"), [(("square", "circle"), 3), (FOUR, 3), (("square", "circle"), 9)])
def test_the_oracle_solves_every_class(objects, bins):
    world = Spriteworld(objects)
    tasks = suite(world.feature_names, 10, seed=11, bins=bins)
    results = evaluate(world, oracle_policy, tasks, jax.random.key(12), episodes=20)
    assert tuple(results) == CLASSES
    for name, result in results.items():
        assert result.success >= 0.995, name


def test_random_play_is_far_below_the_oracle_on_conjunctions():
    world = Spriteworld()
    tasks = {"conjunction": suite(world.feature_names, 3)["conjunction"]}
    assert evaluate(world, random_policy, tasks, jax.random.key(0), episodes=200)["conjunction"].success < 0.2


PLACES = jnp.array([(0.5, 0.5), (0.0, 0.0), (1.0, 0.03), (0.02, 0.97)])


@jax.jit
def sorted_out(table):
    """Whether the oracle succeeds where both objects lie in one of the places."""
    world = Spriteworld()

    def success(place):
        start = State(jnp.array([0.33, 0.71]), jnp.stack([place, place]))
        policy = oracle_policy(world, table)
        return rollout(world, policy, goal_of(world, table), start, jax.random.key(0)).success

    return jax.vmap(success)(PLACES)


@pytest.mark.parametrize(
    "phrase",
    [
        "square left or circle top",
        "not (square left or circle top)",
        "square top left and circle top left and agent bottom right",  # both in one region, the agent elsewhere
        "circle x 9/9 y 9/9 and square x 1/9 y 1/9",  # corners
    ],
)
def test_objects_that_lie_exactly_upon_each_other_are_sorted_out(phrase):
    assert sorted_out(jnp.asarray(parse(phrase).table(clauses=2))).all()


def test_a_grid_finer_than_a_step_is_refused():
    with pytest.raises(ValueError, match="a step skips a bin"):
        oracle_policy(Spriteworld(), jnp.ones((1, 6, 11), bool))
