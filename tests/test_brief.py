"""Goals in few words: a phrase for what was painted holds exactly there, and is what a person would write."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cumulant.goals.brief import briefly
from cumulant.goals.language import parse
from cumulant.goals.regions import common
from cumulant.goals.tasks import Task
from cumulant.worlds.room import Room
from cumulant.worlds.spriteworld import Spriteworld


def states_of(task, bins):
    """Whether the goal holds in each cell of the square's two coordinates: [bins, bins]."""
    table = task.on(bins).table()
    assert table[:, [0, 1, 4, 5]].all()  # of the others nothing is asked
    return (table[:, 2, :, None] & table[:, 3, None, :]).any(axis=0)


@st.composite
def paintings(draw):
    """Some cells of a grid: a few strokes, each a rectangle, and single cells that were added or wiped."""
    bins = draw(st.sampled_from([1, 2, 3, 4, 6, 9, 12, 14]))
    cells, at = np.zeros((bins, bins), bool), st.integers(0, bins - 1)
    for _ in range(draw(st.integers(1, 4))):
        (left, right), (low, high) = (sorted(draw(st.tuples(at, at))) for _ in "xy")
        cells[left : right + 1, low : high + 1] = True
    for _ in range(draw(st.integers(0, 6))):
        cells[draw(at), draw(at)] ^= True
    return cells


def painted(cells):
    """The phrase that the page sends: bins, row by row."""
    bins = len(cells)
    rows = [(y + 1, ",".join(str(x + 1) for x in np.flatnonzero(cells[:, y]))) for y in range(bins)]
    return " or ".join(f"square x {row}/{bins} y {y}/{bins}" for y, row in rows if row)


@settings(max_examples=200)
@given(cells=paintings().filter(np.any))
def test_briefly_says_what_was_painted(cells):
    task = parse(painted(cells))
    said = parse(briefly(task))
    grid = common([task.bins, said.bins, len(cells)])
    finer = np.ones((grid // len(cells),) * 2, bool)
    np.testing.assert_array_equal(states_of(said, grid), np.kron(cells, finer))
    assert briefly(said) == briefly(task)


@pytest.mark.parametrize(
    ("phrase", "said"),
    [
        ("temperature 7,8,9/9 and lamp 2/2 and blind 1,2/3", "temperature warm and lamp on and blind not open"),
        ("temperature 6,7/9 or temperature 8,9/9", "temperature 6,7,8,9/9"),
        ("square x 1,2,3/9 y 7,8,9/9", "square top left"),
        ("square x 1,2,3,4,5,6/9 y 7,8,9/9", "square top and not right"),
        ("square x 1,2,3/9 y 1,2,3,4,5,6,7,8,9/9", "square left"),
        ("square x 1,2,3/3 y 1/3 or square x 1/3 y 2,3/3", "square left or bottom"),
        ("square x 1/3 y 1/3 or square x 3/3 y 3/3", "square bottom left or top right"),
        ("square x 1,3/3 y 2/3 or square y 1,3/3", "square not middle centre"),
        ("square x 1,2,3,4,6,7,8,9/9", "square not x 5/9"),
        ("square x 1,2/9 y 7,8,9/9", "square top x 1,2/9"),
        ("square x 1,2/9 y 9/9", "square x 1,2/9 y 9/9"),
        ("square x 1,2,3/3 y 1,2,3/3", "agent anywhere"),
        ("agent left or square left", "agent left or square left"),
        ("not (square left or circle top)", "square not left and circle not top"),
    ],
)
def test_briefly_reads_as_people_write(phrase, said):
    world = Room() if "temperature" in phrase else Spriteworld()
    assert briefly(parse(phrase, world.feature_names)) == said


@settings(max_examples=50)
@given(st.lists(st.tuples(*[st.integers(0, 7)] * 6), min_size=1, max_size=6))
def test_briefly_means_what_any_task_does(clauses):
    names = parse("agent left").coordinates
    task = Task(names, tuple(clauses))
    if task.possible:
        cells = np.stack(np.meshgrid(*[np.arange(3)] * 6, indexing="ij"), axis=-1).reshape(-1, 6)
        said = parse(briefly(task))
        said = said.on(common([said.bins, 3]))
        holds = [
            np.stack([each.table()[:, i, cells[:, i] * each.bins // 3] for i in range(6)]).all(axis=0).any(axis=0)
            for each in (task, said)
        ]
        np.testing.assert_array_equal(*holds)
