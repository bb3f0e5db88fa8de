"""Plans in action: what an episode of one is, and how GPI and the oracle play it."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import THIRDS

from cumulant.commands.cli import main
from cumulant.goals.language import parse, parse_plan
from cumulant.goals.plans import Plan, Progress, tables_of
from cumulant.goals.suites import PLANS, plans
from cumulant.transfer.commitment import committed_gpi, hindrance
from cumulant.transfer.evaluation import evaluate
from cumulant.transfer.gpi import certainly
from cumulant.transfer.library import Library
from cumulant.worlds.episodes import Policy, play_many, rollout, tracker_of
from cumulant.worlds.spriteworld import Spriteworld, State

NAMES = Spriteworld().feature_names


@pytest.fixture(scope="module")
def library():
    return Library.load(THIRDS)


def playing(*actions):
    """Actions one after the other, the last one for ever."""
    listed = jnp.array(actions)
    return Policy(lambda obs: jnp.int32(0), lambda t, obs, key: (t + 1, listed[jnp.minimum(t, len(actions) - 1)]))


def play_all(world, policy, table, keys):
    """Episodes of many keys, as one program."""
    return jax.jit(lambda keys: play_many(world, policy, tracker_of(world, table), keys))(keys)


def episode(phrase, *actions, world=Spriteworld(max_steps=10)):  # noqa: B008
    start = State(jnp.array([0.5, 0.5]), jnp.array([[0.9, 0.9], [0.9, 0.1]]))
    return rollout(world, playing(*actions), parse_plan(phrase), start, jax.random.key(0))


UP, DOWN, LEFT, RIGHT = range(4)


def test_an_episode_of_a_plan_ends_with_its_last_stage():
    played = episode("agent left then agent right", *[LEFT] * 2, RIGHT)
    assert (bool(played.success), int(played.steps), int(played.progress.stage)) == (True, 6, 2)
    assert not episode("agent right then agent left", *[LEFT] * 2, RIGHT).success


def test_time_stands_still_after_a_violation():
    played = episode("agent left then agent right without agent top", *[LEFT] * 2, *[UP] * 2, RIGHT)
    assert (bool(played.success), bool(played.progress.violated), int(played.steps)) == (False, True, 4)
    assert (np.asarray(played.states.agent)[4:] == np.asarray(played.states.agent)[4]).all()


def test_each_stage_has_the_time_limit_of_the_world():
    played = episode("agent left then agent right", LEFT)
    assert (bool(played.success), int(played.steps)) == (False, 20)


def test_a_shorter_plan_beside_a_longer_one_has_its_own_time():
    world = Spriteworld(max_steps=10)
    goals = {"all": [parse("agent left"), parse_plan("agent left then agent right then agent top")]}

    def still(world, table):
        return Policy(lambda obs: (), lambda memory, obs, key: (memory, jnp.int32(RIGHT)))

    alone = evaluate(world, still, {"one": goals["all"][:1]}, jax.random.key(0), 200)["one"]
    assert alone.violated is None
    both = evaluate(world, still, goals, jax.random.key(0), 200)["all"]
    assert (both.tasks, both.violated) == (2, 0.0)


def test_a_task_in_a_plans_clothes_is_played_like_the_task(library):
    """Not only as well: the same actions, beside a longer plan in the same program."""
    world, task = library.world, parse("square top left and circle right")
    keys = jax.random.split(jax.random.key(0), 16)
    tables = tables_of([task, parse_plan("agent left then agent right")])
    table, guide = jax.tree.map(lambda leaf: leaf[0], (tables, library.guides_of(tables)))
    planned = play_all(world, library.gpi()(world, guide), table, keys)
    plain = play_all(world, library.policy(task), jnp.asarray(task.table()), keys)
    assert planned.success.all()
    np.testing.assert_array_equal(planned.steps, plain.steps)
    for one, other, steps in zip(planned.actions, plain.actions, plain.steps, strict=True):
        np.testing.assert_array_equal(one[: int(steps)], other[: int(steps)])


def test_an_action_that_enters_what_is_avoided_is_barred_and_a_way_around_is_known():
    """Two features with two bins; actions: stay, first up, second up. Avoided: both in their upper bins."""
    stay, up = jnp.array([1.0, 0.0]), jnp.array([0.0, 1.0])
    psi = jnp.zeros((2, 2, 2, 3))  # policy (i, j), bin h, action
    for i in (0, 1):
        psi = psi.at[i, 0].set(jnp.stack([stay, up if i == 0 else stay, up if i == 1 else stay], axis=1))
    avoid = jnp.array([[[0.0, 1.0], [0.0, 1.0]]])
    assert hindrance(lambda f: psi, jnp.array([0.1, 0.1]), avoid, 0.0).barred.tolist() == [False, False, False]
    above = psi.at[1].set(jnp.array([[[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]] * 2))  # the second is up, and stays there
    near = hindrance(lambda f: above, jnp.array([0.1, 0.9]), avoid, 0.0)
    assert near.barred.tolist() == [False, True, False]
    assert near.around.tolist() == [False, True, False]
    policy = committed_gpi(lambda f: above, lambda obs: obs, jnp.array([[[0.0, 1.0], [0.0, 0.0]]]), avoid=avoid)
    obs = jnp.array([0.1, 0.9])
    assert int(policy.act(policy.begin(obs), obs, jax.random.key(0))[1]) != 1


def test_plans_are_drawn_by_the_seed_and_look_as_they_should():
    drawn = plans(NAMES, 20, seed=3)
    assert drawn == plans(NAMES, 20, seed=3) != plans(NAMES, 20, seed=4)
    assert tuple(drawn) == PLANS
    for name, group in drawn.items():
        assert len(set(group)) == 20
        assert {len(plan.stages) for plan in group} == {2, 3, 4}
        for plan in group:
            assert parse_plan(str(plan)) == plan
            assert any(stage.keep for stage in plan.stages) == (name == "keep")
            assert all(bool(stage.avoid) == name.startswith("without") for stage in plan.stages)


def test_a_library_plays_plans_and_avoids_what_a_heedless_one_enters(library):
    some = plans(NAMES, 4, seed=7)
    played = library.evaluate(some, jax.random.key(0), 8)
    assert played["then"].success > 0.9
    assert played["without"].success > 0.9
    assert max(played[name].violated for name in ("then", "without", "without_agent")) < 0.02


def test_phrases_tasks_and_plans_mean_the_same_to_a_library(library):
    phrase = "keep square left then agent top"
    assert library.plan(phrase) == library.goal(phrase) == parse_plan(phrase)
    assert library.goal("square left") == library.goal(Plan.of(parse("square left"))) == parse("square left")
    policy, world = library.policy(phrase), library.world
    played = play_all(world, policy, library.plan(phrase).table(), jax.random.split(jax.random.key(1), 8))
    assert isinstance(played.progress, Progress)
    assert played.success.mean() > 0.8


def test_a_library_with_other_bins_than_the_plans_regions_knows_when_a_stage_is_reached(library):
    plan = parse_plan("agent x 2/7 then agent x 6/7")
    goal = jax.tree.map(lambda leaf: leaf[0], library.guide(plan).goal)
    places = [[x, *[0.5] * 5] for x in np.linspace(0, 1, 50, dtype=np.float32)]
    assert [bool(certainly(goal, jnp.array(f), 0.0)) for f in places] == [1 / 7 <= f[0] < 2 / 7 for f in places]


def test_edges_that_words_have_nearly_where_bins_have_theirs_are_the_same():
    """Else GPI would stop a hair short of where it believes a stage to be reached, and not know when it is outside."""
    library = Library.load(Path(__file__).parents[1] / "paper/results/runs/keypoints/library-0")
    circle_y = library.grounding.latent[5]
    assert 0.35 < library.grounding.edges[5, 1] < 0.37  # learnt from a few frames: it should be a third
    plan = parse_plan("circle middle centre without circle bottom then agent left")
    guide = library.guide(plan)
    assert guide.goal.bins[0] == 24
    assert guide.goal.allowed[0, 0, circle_y, :24].tolist() == [8 <= b < 16 for b in range(24)]
    assert guide.avoid[0, 0, circle_y].tolist() == [1, 0, 0]


def told(capsys, *args):
    assert main([*args]) == 0
    return capsys.readouterr().out


def test_the_commands_say_the_stages(capsys, tmp_path):
    phrase, gif = "keep square left, then agent top without agent right", tmp_path / "plan.gif"
    said = told(capsys, "solve", phrase, "--episodes", "4", "--gif", str(gif))
    assert "1. keep square left: reached in 1.000" in said
    assert "violated in 0.000" in said
    assert gif.stat().st_size > 1000
    report = json.loads(told(capsys, "solve", phrase, "--episodes", "4", "--json"))
    assert [stage["reach"] for stage in report["stages"]] == ["square left", "agent top"]
    assert [stage["keep"] for stage in report["stages"]] == ["square left", None]
    assert report["stages"][1]["avoid"] == "agent right"
    assert "stage 2: without entering, on the way" in told(capsys, "explain", phrase)
    stages = json.loads(told(capsys, "explain", phrase, "--json"))["stages"]
    assert stages[1]["avoid"]["dnf"] == [[["agent", "x", ["right"]]]]


def test_evaluate_plays_plans_and_the_same_without_heed(capsys):
    args = ("evaluate", "--library", str(THIRDS), "--suite", "plans", "--tasks-per-class", "1", "--episodes", "4")
    report = json.loads(told(capsys, *args, "--json"))
    assert set(report) == {"zero_shot", "heedless", "oracle", "random"}
    assert tuple(report["zero_shot"]) == PLANS
    assert all(0 <= result["violated"] <= 1 for row in report.values() for result in row.values())
    assert main([*args, "--few-shot", "10"]) == 2
    assert "no reward that could be learnt" in capsys.readouterr().err
