import json
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cumulant.experiments.run_folders import Row, agrees, is_finished, read_measures, read_rows, read_run, write_run
from cumulant.experiments.statistics import (
    Curve,
    break_even,
    curve,
    ends,
    paybacks,
    steps_to_reach,
    stratified_interval,
)
from cumulant.goals.suites import CLASSES
from cumulant.storage import Unreadable

CONFIG = {"settings": {"seeds": [0, 1]}, "seconds": {"total_s": 2.0}, "device": "cpu"}


def rows_of(line, points, tasks=("a", "b"), seeds=(0, 1)):
    return [Row(line, "easy", t, s, steps, rate, 10) for steps, rate in points for t in tasks for s in seeds]


def test_a_run_comes_back_from_its_folder(tmp_path):
    rows, measures = rows_of("dqn", [(0, 0.5), (10, 1.0)]), [{"seed": 0, "disentanglement": 0.5}]
    write_run(tmp_path / "run", CONFIG, rows, measures)
    assert read_run(tmp_path / "run") == ("run", *CONFIG.values(), rows, measures)
    assert is_finished(tmp_path / "run", {"seeds": (0, 1)})
    with pytest.raises(ValueError, match="other settings"):
        is_finished(tmp_path / "run", {"seeds": (0,)})
    assert not is_finished(tmp_path / "other", {})
    write_run(tmp_path / "unmeasured", CONFIG, rows)
    assert read_run(tmp_path / "unmeasured").measures is None


def test_damaged_runs_are_refused_by_name(tmp_path):
    write_run(tmp_path, {"settings": {}}, [])
    with pytest.raises(Unreadable, match=r"config\.json is no run's: it lacks device, seconds"):
        read_run(tmp_path)
    (tmp_path / "metrics.jsonl").write_text(json.dumps({"line": "x"}) + "\n")
    with pytest.raises(Unreadable, match=r"metrics\.jsonl"):
        read_rows(tmp_path)
    for text in ("half a li", "[1]", "3", '[{"seed": 0}]'):
        (tmp_path / "measures.json").write_text(text)
        with pytest.raises(Unreadable, match=r"measures\.json cannot be read"):
            read_measures(tmp_path)


@dataclass(frozen=True)
class Inner:
    width: int
    shapes: tuple[str, ...] = ("square",)


@dataclass(frozen=True)
class Outer:
    inner: Inner | None
    newer: float = 0.5


def test_settings_agree_with_a_recording_that_is_older_than_some_of_them():
    assert agrees({"inner": {"width": 3}}, Outer(Inner(3)))
    assert agrees({"inner": {"width": 3, "shapes": ["square"]}, "newer": 0.5}, Outer(Inner(3)))
    assert agrees({"what": {"inner": None}}, {"what": Outer(None)})
    for other in (
        {"inner": {"width": 4}},
        {"inner": {"width": 3}, "newer": 0.6},
        {"inner": {"width": 3}, "gone": 1},  # what is no longer a choice may have been another
        {"newer": 0.5},  # what has no default must be said
        {"inner": None},
        None,
    ):
        assert not agrees(other, Outer(Inner(3)))
    assert not agrees({"inner": {"width": 3}}, Outer(Inner(3), newer=0.6))
    assert not agrees({"inner": {"width": 3}}, Outer(Inner(3, ("circle",))))


@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 2**31))
def test_the_interval_holds_the_mean_and_stays_within_the_values(seeds, tasks, seed):
    success = np.random.default_rng(seed).uniform(size=(seeds, tasks))
    low, high = stratified_interval(success)
    assert success.min() - 1e-9 <= low <= success.mean() + 1e-9
    assert success.mean() - 1e-9 <= high <= success.max() + 1e-9


def test_tasks_that_differ_do_not_widen_the_interval_but_seeds_that_differ_do():
    assert stratified_interval(np.array([[0.0, 1.0], [0.0, 1.0]])) == (0.5, 0.5)
    low, high = stratified_interval(np.array([[0.0, 0.0], [1.0, 1.0]]))
    assert (low, high) == (0, 1)


def test_a_curve_averages_tasks_and_seeds():
    rows = rows_of("x", [(10, 0.2), (100, 0.6)]) + rows_of("y", [(10, 0.9)])
    found = curve(rows, "x", "easy")
    np.testing.assert_allclose(found.steps, [10, 100])
    np.testing.assert_allclose(found.mean, [0.2, 0.6])


def test_a_line_ends_where_its_last_steps_are():
    rows = [row._replace(kind=kind) for kind in CLASSES for row in rows_of("x", [(100, 0.6), (10, 0.2)])]
    (end,) = ends(rows).values()
    assert end.steps == 100
    assert end.classes == {kind: pytest.approx((0.6, 0.6, 0.6)) for kind in CLASSES}


def test_steps_between_points_are_found_on_a_log_scale():
    found = Curve(np.array([10.0, 1000.0]), np.array([0.0, 1.0]), np.zeros(2), np.ones(2))
    assert steps_to_reach(found, 0.5) == pytest.approx(100)
    assert steps_to_reach(found, 0.0) == 10
    assert steps_to_reach(found, 1.1) == float("inf")


def test_the_papers_own_numbers_break_even_after_23_tasks():
    rows = rows_of("gpi", [(50_000, 1.0)]) + rows_of("dqn", [(1_000, 0.0), (500_000, 0.98)])
    found = paybacks(rows, "gpi", "dqn", ["easy"])
    assert int(np.ceil(break_even(10_000_000, found))) == 23


def test_free_play_never_pays_where_scratch_is_faster():
    rows = rows_of("gpi", [(50_000, 1.0)]) + rows_of("dqn", [(1_000, 1.0)])
    assert break_even(10, paybacks(rows, "gpi", "dqn", ["easy"])) == float("inf")
