import contextlib
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cumulant.goals import plans
from cumulant.goals.clauses import TooComplex
from cumulant.goals.errors import LanguageError
from cumulant.goals.language import parse, parse_plan
from cumulant.goals.plans import Contradiction, Plan, Stage
from cumulant.goals.tasks import MAX_CLAUSES, Task
from cumulant.worlds.shapes import SHAPES
from test_language import MEANINGS, NOISE, WORDS
from test_tasks import NAMES, tasks

READ_ALIKE = {
    "square left then circle right": (
        "first square left, then circle right",
        "square left and then circle right",
        "(square left) then (circle right)",
        "(square left then circle right)",
        "First get the square to the left. Then move the circle to the right!",
    ),
    "square left then square right": ("square left then right", "((square left) then (right))"),
    "square top left without agent bottom": (
        "square top left, and without agent bottom",
        "square top left without (agent bottom)",
    ),
    "keep square left and circle right then agent top": (
        "keep (square left and circle right) then agent top",
        "keep square left and keep circle right and then agent top",
    ),
    "square left and keep circle top then agent left": ("square left and keep circle top then agent left",),
    "square left without agent bottom then circle right without agent bottom": (
        "(square left then circle right) without agent bottom",
    ),
    "square left without agent not middle": ("square left without agent bottom without agent top",),
    "keep square left without agent top": (
        "keep square left without agent top",
        "(keep square left) without agent top",
    ),
}


@pytest.mark.parametrize("phrase", READ_ALIKE)
def test_other_words_for_a_plan_read_the_same(phrase):
    for other in READ_ALIKE[phrase]:
        assert parse_plan(other) == parse_plan(phrase)
    assert str(parse_plan(phrase)) == phrase


@pytest.mark.parametrize("phrase", MEANINGS)
def test_a_plain_goal_is_a_plan_of_one_stage(phrase):
    task = parse(phrase)
    assert parse_plan(phrase) == Plan.of(task) == Plan.of(Plan.of(task))
    assert Plan.of(task).task == task
    assert str(Plan.of(task)) == str(task)


def test_what_is_kept_is_part_of_every_later_goal_and_what_is_avoided_of_none():
    plan = parse_plan("keep square left then agent top without agent right then circle right")
    assert plan.kept == (None, parse("square left"), parse("square left"))
    assert plan.goals == tuple(
        map(parse, ("square left", "square left and agent top and not agent right", "square left and circle right"))
    )
    assert plan.task is None
    assert str(plan.heedless()) == "keep square left then agent top then circle right"


@pytest.mark.parametrize(
    ("phrase", "message", "culprit"),
    [
        ("keep square left then square right", "the square cannot be right and left at once", "square right"),
        ("square left without square left", "inside what it avoids", "square left without square left"),
        ("agent top then square left without square left or right", "inside what it avoids", None),
        ("keep square left then agent top without square left", "inside what it avoids", None),
        ("square left and keep square right", "the square cannot be left and right at once", None),
        ("square left then then agent top", "did not expect 'then'", "then"),
        ("square left and (circle left then agent top)", "did not expect 'then'", "then"),
        ("without square left", "did not expect 'without'", "without"),
        ("square left thn circle right", "did you mean 'then'?", "thn"),
    ],
)
def test_a_plan_that_is_none_is_refused_with_the_reason(phrase, message, culprit):
    with pytest.raises(LanguageError, match=r"plan contradicts itself|did") as caught:
        parse_plan(phrase)
    assert message in str(caught.value)
    start, end = caught.value.span
    assert culprit in (None, phrase[start:end])
    assert "^" in caught.value.pointed


@pytest.mark.parametrize(
    "phrase", ["square left then circle right", "keep square left", "square left without agent top"]
)
def test_a_plan_is_no_plain_goal(phrase):
    with pytest.raises(LanguageError, match="is a plan, where a plain goal is asked for") as caught:
        parse(phrase)
    assert "^" in caught.value.pointed


@st.composite
def any_plans(draw):
    bins = draw(st.sampled_from([3, 3, 2, 7]))
    some = st.one_of(st.none(), tasks(bins))
    stage = st.builds(Stage, tasks(bins), some, some)
    try:
        return Plan(tuple(draw(st.lists(stage, min_size=1, max_size=4))))
    except (Contradiction, TooComplex):
        return Plan.of(draw(tasks(bins)))


@given(any_plans())
def test_the_canonical_phrase_parses_back_to_the_same_plan(plan):
    assert parse_plan(str(plan), NAMES) == plan


PLANNING = ["then", "then", "keep", "without", "first"]


@settings(max_examples=300)
@given(
    st.one_of(st.lists(st.sampled_from(WORDS + NOISE + PLANNING), max_size=150).map(" ".join), st.text(max_size=1000))
)
def test_any_text_ends_in_a_plan_or_a_clear_error(text):
    try:
        plan = parse_plan(text)
    except LanguageError as error:
        assert str(error)
        assert "\n" not in str(error)
        assert error.pointed.startswith(str(error))
    else:
        assert parse_plan(str(plan)) == plan


def test_a_long_plan_over_many_sprites_is_read_at_once():
    """Within 50 ms on an idle core; the bound is for a busy one."""
    sprites, rng = ("agent", *SHAPES), np.random.default_rng(0)
    names = tuple(f"{sprite}_{axis}" for sprite in sprites for axis in "xy")
    places = ["left", "not left", "top right", "not middle left", "bottom"]
    for _ in range(30):
        phrase = ""
        while len(phrase) < 1000:
            sprite, place = rng.choice(sprites), rng.choice(places)
            phrase += rng.choice([" then ", " then keep ", " without ", " or ", " and "]) if phrase else ""
            phrase += f"({sprite} {place})" if rng.random() < 0.5 else f"{sprite} {place}"
        before = time.process_time()
        with contextlib.suppress(LanguageError):
            parse_plan(phrase, names)
        assert time.process_time() - before < 0.5


def test_stages_on_different_grids_are_brought_to_one():
    left, far = Task.where(NAMES, {"agent_x": [0]}), Task.where(NAMES, {"agent_x": [6]}, 7)
    plan = Plan((Stage(left, avoid=Task.where(NAMES, {"agent_y": [1]}, 2)), Stage(far)))
    assert plan.bins == 42
    assert str(plan) == "agent left without agent y 2/2 then agent x 7/7"
    assert parse_plan(str(plan), NAMES) == plan


def test_a_plan_refuses_other_worlds_no_stages_and_too_much():
    left = Task.where(NAMES, {"agent_x": [0]})
    with pytest.raises(ValueError, match="same coordinates"):
        Plan((Stage(left), Stage(Task.where(NAMES[:2], {"agent_x": [0]}))))
    with pytest.raises(ValueError, match=r"grids of 997, 999 bins .* 996,003, and at most 1,000"):
        Plan((Stage(Task.where(NAMES, {}, 997)), Stage(Task.where(NAMES, {}, 999))))
    with pytest.raises(ValueError, match="at least one stage"):
        Plan(())
    with pytest.raises(TooComplex, match="alternatives in all"):
        Plan((Stage(left),) * (MAX_CLAUSES + 1))
    with pytest.raises(Contradiction, match="stage 1 contradicts itself"):
        Plan.of(left & ~left)


def at(**places):
    return jnp.array(
        [places.get(name, 0.5) for name in ("agent_x", "agent_y", "square_x", "square_y", "circle_x", "circle_y")]
    )


def walk(phrase, *moments):
    """The stage and whether the plan was violated, at the start and after every step."""
    table = parse_plan(phrase).table()
    progress = [plans.begin(table, moments[0])]
    for f in moments[1:]:
        progress.append(plans.follow(table, progress[-1], f))
    return [(int(p.stage), bool(p.violated)) for p in progress]


def test_stages_are_reached_in_order_and_several_at_once():
    there, square, both = at(agent_y=0.9), at(square_x=0.1), at(square_x=0.1, agent_y=0.9)
    phrase = "square left then agent top"
    assert walk(phrase, at(), there, square, there) == [(0, False), (0, False), (1, False), (2, False)]
    assert walk(phrase, both) == [(2, False)]
    assert walk(phrase, there, both, at()) == [(0, False), (2, False), (2, False)]


def test_what_is_avoided_must_not_be_entered_while_its_stage_is_current():
    low, left, low_left = at(agent_y=0.1), at(square_x=0.1), at(agent_y=0.1, square_x=0.1)
    phrase = "square left without agent bottom then circle right"
    assert walk(phrase, at(), low, left) == [(0, False), (0, True), (0, True)]
    assert walk(phrase, at(), low_left) == [(0, False), (0, True)]  # even at the moment of success
    assert walk(phrase, at(), left, low) == [(0, False), (1, False), (1, False)]  # the next stage does not mind
    assert walk(phrase, low, low_left, left) == [(0, False), (0, False), (1, False)]  # it began there, and had to leave
    assert walk(phrase, low, at(), low) == [(0, False), (0, False), (0, True)]


def test_what_is_kept_must_not_be_lost_before_the_end():
    left, gone, end = at(square_x=0.1), at(square_x=0.5), at(square_x=0.1, agent_y=0.9)
    assert walk("keep square left then agent top", at(), left, gone, end) == [
        (0, False),
        (1, False),
        (1, True),
        (1, True),
    ]
    assert walk("keep square left then agent top", at(), left, end, gone) == [
        (0, False),
        (1, False),
        (2, False),
        (2, False),
    ]
    assert walk("square left then agent top", at(), left, gone, end)[-1] == (2, False)


def test_plans_of_different_lengths_share_one_table():
    goals = [parse("square left"), parse_plan("square left then agent top without agent left")]
    table = plans.tables_of(goals)
    assert table.stages.tolist() == [1, 2]
    assert table.goal.allowed.shape == table.avoid.allowed.shape == (2, 8, 8, 6, 1000)
    for alone in (goals[0], Plan.of(goals[0]), parse("not (square x 2/9 or circle y 7/7)")):
        assert plans.tables_of([alone]).goal.allowed.shape == (1, 1, 8, 6, 1000)
    other = plans.tables_of([parse_plan("agent x 5/99 then agent left then square top")])
    assert jax.tree.map(np.shape, other) == jax.tree.map(np.shape, plans.tables_of(goals[1:]))
