import itertools

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cumulant.goals import plans
from cumulant.goals.clauses import TooComplex
from cumulant.goals.feature import Feature, described
from cumulant.goals.language import parse, parse_plan
from cumulant.goals.suites import CLASSES, class_of, count, sample, suite
from cumulant.goals.tasks import Task, reached, tables_of
from cumulant.worlds.spriteworld import Spriteworld

NAMES = ("agent_x", "agent_y", "square_x", "square_y")


@st.composite
def tasks(draw, features, bins=None):
    """Draw a task: regions as people name them, made of few pieces, beside any at all."""
    bins = bins or draw(st.sampled_from([3, 3, 3, 1, 2, 4, 6, 7, 12, 20, 21, 100, 300]))
    cuts = st.lists(st.integers(0, bins), min_size=2, max_size=4).map(sorted)
    piece = cuts.map(lambda ends: sum((1 << b) - (1 << a) for a, b in zip(ends[::2], ends[1::2], strict=False)))
    mask = st.one_of(st.just(2**bins - 1), piece.filter(bool), st.integers(1, 2**bins - 1))
    clause = st.lists(mask, min_size=len(features), max_size=len(features)).map(tuple)
    return Task(features, tuple(draw(st.lists(clause, min_size=1, max_size=5))), bins)


small = st.sampled_from([3, 3, 3, 2, 7]).flatmap(lambda bins: tasks(NAMES, bins))  # whose cells can be listed


def cells(task):
    """The truth of a task in every cell of its grid."""
    table = task.table()
    return {
        cell
        for cell in itertools.product(range(task.bins), repeat=len(NAMES))
        if any(all(row[i, b] for i, b in enumerate(cell)) for row in table)
    }


@given(tasks(NAMES, 3), tasks(NAMES, 3))
def test_task_operators_combine_cells(first, second):
    assert cells(first & second) == cells(first) & cells(second)
    assert cells(first | second) == cells(first) | cells(second)
    assert cells(~first) == set(itertools.product(range(3), repeat=len(NAMES))) - cells(first)


@given(small)
def test_task_keeps_no_clause_that_another_contains(task):
    for a, b in itertools.permutations(task.clauses, 2):
        assert any(x & ~y for x, y in zip(a, b, strict=True))
        assert sum(x != y for x, y in zip(a, b, strict=True)) > 1
    assert Task(NAMES, task.clauses[::-1], task.bins) == task


@given(small, st.lists(st.floats(0, 1, width=32), min_size=4, max_size=4))
def test_reached_agrees_with_the_grid(task, f):
    cell = tuple(int(i) for i in np.minimum(np.floor(np.float32(f) * np.float32(task.bins)), task.bins - 1))
    assert bool(reached(jnp.asarray(task.table(7)), jnp.float32(f))) == (cell in cells(task))


def test_reached_counts_the_wall_to_the_last_third():
    task = parse("agent top right", NAMES)
    assert reached(jnp.asarray(task.table()), jnp.array([1.0, 1.0, 0.0, 0.0]))


def test_task_refuses_too_many_alternatives():
    clauses = tuple(tuple(1 if i == j else 7 for i in range(80)) for j in range(80))
    with pytest.raises(TooComplex, match="alternatives"):
        Task(tuple(f"s{i}_x" for i in range(80)), clauses)


def test_tasks_compare_alike_named_or_described():
    bare = Spriteworld().feature_names
    named, told = parse("square left", bare), parse("square left", described(bare))
    assert named == told
    assert hash(named) == hash(told)
    assert named.coordinates == bare
    assert told.names == bare
    room = (Feature("temperature", of="room", low=10, high=30, unit="°C", words=("cold", "mild", "warm")),)
    assert Task.where(room, {"room_temperature": [2]}) == parse("temperature warm", room)


def test_tables_of_tasks_share_one_grid():
    left, far = parse("square left"), parse("square x 7/7")
    assert (left | far) == parse("square left or square x 7/7")
    assert not (left & far).possible
    goals = [left, far, parse("agent top and circle x 1/7")]
    tables = tables_of(goals)
    assert tables.shape == (3, 1, 6, 21)
    rng = np.random.default_rng(0)
    for f in jnp.asarray(rng.random((50, 6), np.float32)):
        for goal, table in zip(goals, tables, strict=True):
            assert bool(reached(jnp.asarray(goal.table()), f)) == bool(reached(table, f))
    both = plans.tables_of([parse_plan("agent left then agent right"), far])
    assert both.goal.bins[:, 0].tolist() == [3, 7]


@pytest.mark.parametrize("objects", [("square", "circle"), ("square", "circle", "triangle", "star")])
@pytest.mark.parametrize("bins", [3, 9])
def test_suite_draws_classes_as_in_the_paper(objects, bins):
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


def test_suite_depends_on_its_seed_alone():
    names = Spriteworld().feature_names
    assert suite(names, seed=1) == suite(names, seed=1)
    assert suite(names, seed=1) != suite(names, seed=2)


def test_sample_refuses_conjunctions_of_one_object():
    names = Spriteworld(("star",)).feature_names
    assert "conjunction" not in suite(names)
    with pytest.raises(ValueError, match="more objects"):
        sample("conjunction", names, np.random.default_rng(0))


@pytest.mark.parametrize("bins", [2, 3, 7])
@pytest.mark.parametrize("objects", [1, 2, 4])
def test_class_of_a_sampled_task_is_its_own(objects, bins):
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
def test_class_of_most_goals_is_none(phrase):
    assert class_of(parse(phrase)) == ""


def test_class_of_needs_an_agent():
    assert class_of(parse("room warm", (Feature("temperature", of="room", words=("cold", "mild", "warm")),))) == ""


def test_class_of_agrees_with_count_over_theorem_goals():
    names = Spriteworld().feature_names
    found = [class_of(Task(names, (clause,))) for clause in itertools.product((1, 2, 4, 7), repeat=6)]
    for name in CLASSES:
        if "disjunction" not in name:
            assert found.count(name) == count(name, 2)
    assert "disjunction_easy" not in found
