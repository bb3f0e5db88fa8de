import itertools

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cumulant.goals.clauses import TooComplex
from cumulant.goals.feature import Feature
from cumulant.goals.language import parse
from cumulant.goals.suites import CLASSES, class_of, count, sample, suite
from cumulant.goals.tasks import Task, reached
from cumulant.worlds.spriteworld import Spriteworld

NAMES = ("agent_x", "agent_y", "square_x", "square_y")


@st.composite
def tasks(draw, bins=None):
    bins = bins or draw(st.sampled_from([3, 3, 3, 2, 7]))
    clause = st.tuples(*[st.integers(1, 2**bins - 1)] * len(NAMES))
    return Task(NAMES, tuple(draw(st.lists(clause, min_size=1, max_size=5))), bins)


def cells(task):
    """The truth of a task in every cell of its grid."""
    table = task.table()
    return {
        cell
        for cell in itertools.product(range(task.bins), repeat=len(NAMES))
        if any(all(row[i, b] for i, b in enumerate(cell)) for row in table)
    }


def all_cells(bins):
    return set(itertools.product(range(bins), repeat=len(NAMES)))


@given(tasks())
def test_the_canonical_phrase_parses_back_to_the_same_task(task):
    assert parse(str(task), NAMES) == task


@given(tasks(bins=3), tasks(bins=3))
def test_and_or_not_mean_what_they_say(first, second):
    assert cells(first & second) == cells(first) & cells(second)
    assert cells(first | second) == cells(first) | cells(second)
    assert cells(~first) == all_cells(3) - cells(first)


@given(tasks())
def test_the_normal_form_keeps_no_clause_that_another_contains(task):
    for a, b in itertools.permutations(task.clauses, 2):
        assert any(x & ~y for x, y in zip(a, b, strict=True))
        assert sum(x != y for x, y in zip(a, b, strict=True)) > 1
    assert Task(NAMES, task.clauses[::-1], task.bins) == task


@given(tasks(), st.lists(st.floats(0, 1, width=32), min_size=4, max_size=4))
def test_the_predicate_agrees_with_the_grid(task, f):
    cell = tuple(int(i) for i in np.minimum(np.floor(np.float32(f) * np.float32(task.bins)), task.bins - 1))
    assert bool(reached(jnp.asarray(task.table(7)), jnp.float32(f))) == (cell in cells(task))


def test_the_wall_belongs_to_the_last_third():
    task = parse("agent top right", NAMES)
    assert reached(jnp.asarray(task.table()), jnp.array([1.0, 1.0, 0.0, 0.0]))


def test_too_many_alternatives_are_refused():
    with pytest.raises(TooComplex, match="alternatives"):
        Task(
            tuple(f"s{i}_x" for i in range(80)), tuple(tuple(1 if i == j else 7 for i in range(80)) for j in range(80))
        )


@pytest.mark.parametrize("objects", [("square", "circle"), ("square", "circle", "triangle", "star")])
@pytest.mark.parametrize("bins", [3, 9])
def test_every_class_looks_as_in_the_paper_and_is_possible(objects, bins):
    names = Spriteworld(objects).feature_names
    # class → clauses, sprites named in each clause, coordinates named in each clause
    shapes = {
        "agent_easy": (1, 1, 1),
        "agent_hard": (1, 1, 2),
        "object_easy": (1, 1, 1),
        "object_hard": (1, 1, 2),
        "disjunction_easy": (2, 1, 1),
        "disjunction_hard": (2, 1, 2),
        "conjunction": (1, 2, 4),
    }
    drawn = suite(names, 30, seed=5, bins=bins)
    assert tuple(drawn) == CLASSES
    for name, group in drawn.items():
        clauses, sprites, coordinates = shapes[name]
        assert len(set(group)) == len(group) == min(30, count(name, len(objects), bins))
        for task in group:
            assert task.possible
            assert len(task.clauses) == clauses
            for conditions in task.conditions():
                named = {coordinate.split("_")[0] for coordinate, _ in conditions}
                assert (len(named), len(conditions)) == (sprites, coordinates)
                assert all(len(allowed) == 1 for _, allowed in conditions)
                assert ("agent" in named) <= (not name.startswith(("object", "conjunction")))


def test_sampling_depends_on_the_seed_alone():
    names = Spriteworld().feature_names
    assert suite(names, seed=1) == suite(names, seed=1)
    assert suite(names, seed=1) != suite(names, seed=2)


def test_a_conjunction_needs_two_objects():
    names = Spriteworld(("star",)).feature_names
    assert "conjunction" not in suite(names)
    with pytest.raises(ValueError, match="more objects"):
        sample("conjunction", names, np.random.default_rng(0))


@pytest.mark.parametrize("bins", [2, 3, 7])
@pytest.mark.parametrize("objects", [1, 2, 4])
def test_a_sampled_task_is_of_its_class(objects, bins):
    names = Spriteworld(("square", "circle", "triangle", "star")[:objects]).feature_names
    for name, drawn in suite(names, 40, seed=3, bins=bins).items():
        assert {class_of(task, bins) for task in drawn} == {name}
        assert {class_of(task.on(4 * bins), bins) for task in drawn} == {name}  # told on a finer grid, it is the same
        assert {class_of(task, bins + 1) for task in drawn} == {""}


@pytest.mark.parametrize(
    "phrase",
    [
        "square not left",
        "square top and circle left",
        "square top left and circle left",
        "square left or circle left",
        "agent top left or square left",
        "agent left or square left or circle left",
        "agent top left and square top left",
        "square x 1/9",
        "agent anywhere",
        "not (agent left or square top)",
    ],
)
def test_most_goals_are_of_no_class(phrase):
    assert class_of(parse(phrase)) == ""


def test_of_all_goals_of_the_theorem_those_of_a_class_are_the_ones_that_it_holds():
    names = Spriteworld().feature_names
    found = [class_of(Task(names, (clause,))) for clause in itertools.product((1, 2, 4, 7), repeat=6)]
    for name in CLASSES:
        if "disjunction" not in name:
            assert found.count(name) == count(name, 2)
    assert "disjunction_easy" not in found


def test_a_class_needs_an_agent_and_objects():
    assert class_of(parse("room warm", (Feature("temperature", of="room", words=("cold", "mild", "warm")),))) == ""
