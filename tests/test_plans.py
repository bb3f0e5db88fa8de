import jax
import jax.numpy as jnp
import pytest

from cumulant.goals import plans
from cumulant.goals.clauses import TooComplex
from cumulant.goals.language import parse, parse_plan
from cumulant.goals.plans import Contradiction, Plan, Stage
from cumulant.goals.tasks import MAX_CLAUSES, Task
from cumulant.worlds.spriteworld import Spriteworld

NAMES = ("agent_x", "agent_y", "square_x", "square_y")


def test_plan_adds_what_is_kept_to_later_goals():
    plan = parse_plan("keep square left then agent top without agent right then circle right")
    assert plan.kept == (None, parse("square left"), parse("square left"))
    assert plan.goals == tuple(
        map(parse, ("square left", "square left and agent top and not agent right", "square left and circle right"))
    )
    assert plan.task is None
    assert str(plan.heedless()) == "keep square left then agent top then circle right"


def test_plan_brings_stages_to_one_grid():
    left, far = Task.where(NAMES, {"agent_x": [0]}), Task.where(NAMES, {"agent_x": [6]}, 7)
    plan = Plan((Stage(left, avoid=Task.where(NAMES, {"agent_y": [1]}, 2)), Stage(far)))
    assert plan.bins == 42
    assert str(plan) == "agent left without agent y 2/2 then agent x 7/7"
    assert parse_plan(str(plan), NAMES) == plan


def test_plan_refuses_other_worlds_and_too_much():
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
    return jnp.array([places.get(name, 0.5) for name in Spriteworld().feature_names])


def walk(phrase, *moments):
    """The stage and whether the plan was violated, at the start and after every step."""
    table = parse_plan(phrase).table()
    progress = [plans.begin(table, moments[0])]
    for f in moments[1:]:
        progress.append(plans.follow(table, progress[-1], f))
    return [(int(p.stage), bool(p.violated)) for p in progress]


def test_follow_reaches_stages_in_order():
    there, square, both = at(agent_y=0.9), at(square_x=0.1), at(square_x=0.1, agent_y=0.9)
    phrase = "square left then agent top"
    assert walk(phrase, at(), there, square, there) == [(0, False), (0, False), (1, False), (2, False)]
    assert walk(phrase, both) == [(2, False)]
    assert walk(phrase, there, both, at()) == [(0, False), (2, False), (2, False)]


def test_follow_minds_what_the_current_stage_avoids():
    low, left, low_left = at(agent_y=0.1), at(square_x=0.1), at(agent_y=0.1, square_x=0.1)
    phrase = "square left without agent bottom then circle right"
    assert walk(phrase, at(), low, left) == [(0, False), (0, True), (0, True)]
    assert walk(phrase, at(), low_left) == [(0, False), (0, True)]  # even at the moment of success
    assert walk(phrase, at(), left, low) == [(0, False), (1, False), (1, False)]  # the next stage does not mind
    assert walk(phrase, low, low_left, left) == [(0, False), (0, False), (1, False)]  # it began there, and had to leave
    assert walk(phrase, low, at(), low) == [(0, False), (0, False), (0, True)]


def test_follow_minds_what_is_kept_until_the_end():
    left, gone, end = at(square_x=0.1), at(square_x=0.5), at(square_x=0.1, agent_y=0.9)
    keeping = "keep square left then agent top"
    assert walk(keeping, at(), left, gone, end) == [(0, False), (1, False), (1, True), (1, True)]
    assert walk(keeping, at(), left, end, gone) == [(0, False), (1, False), (2, False), (2, False)]
    assert walk("square left then agent top", at(), left, gone, end)[-1] == (2, False)


def test_tables_of_plans_share_one_shape():
    goals = [parse("square left"), parse_plan("square left then agent top without agent left")]
    table = plans.tables_of(goals)
    assert table.stages.tolist() == [1, 2]
    assert table.goal.allowed.shape == table.avoid.allowed.shape == (2, 8, 8, 6, 16)
    for alone in (goals[0], Plan.of(goals[0]), parse("not (square x 2/9 or circle y 3/3)")):
        assert plans.tables_of([alone]).goal.allowed.shape == (1, 1, 8, 6, 16)
    other = plans.tables_of([parse_plan("agent x 5/9 then agent left then square top")])
    assert jax.tree.map(jnp.shape, other) == jax.tree.map(jnp.shape, plans.tables_of(goals[1:]))
    for fine in ("not (square x 2/9 or circle y 7/7)", "agent x 5/99"):
        assert plans.tables_of([parse(fine)]).goal.allowed.shape == (1, 1, 8, 6, 1000)
