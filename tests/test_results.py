import hashlib
import json
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cumulant.experiments.run_folders import Row, agrees, is_finished, read_run, write_run
from cumulant.experiments.statistics import (
    Curve,
    break_even,
    curve,
    ends,
    interval_over_seeds,
    paybacks,
    steps_to_reach,
)
from cumulant.goals.suites import CLASSES
from cumulant.storage import Unreadable, write_info

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


def refused(folder):
    with pytest.raises(Unreadable) as caught:
        read_run(folder)
    return str(caught.value)


def test_a_run_vouches_for_every_file_and_for_what_it_says_of_itself(tmp_path):
    one, other = (tmp_path / name for name in ("one", "other"))
    write_run(one, CONFIG, rows_of("dqn", [(0, 0.5)]), [{"seed": 0, "disentanglement": 0.5}])
    write_run(other, CONFIG, rows_of("dqn", [(0, 1.0)]), [{"seed": 0, "disentanglement": 1.0}])
    for name in ("metrics.jsonl", "measures.json"):
        before = (one / name).read_bytes()
        (one / name).write_bytes((other / name).read_bytes())
        assert refused(one) == f"{one / name} is damaged: its checksum is not the one in config.json"
        (one / name).unlink()
        assert refused(one) == f"{one} holds no {name}"
        (one / name).symlink_to(other / name)
        assert refused(one) == f"{one / name} cannot be read: it is a link"
        (one / name).unlink()
        (one / name).write_bytes(before)
    text = (one / "config.json").read_text()
    for damaged in (text.replace("2.0", "3.0"), text.replace('"seal"', '"sea"'), text.replace('"format": 2,', "")):
        assert damaged != text
        (one / "config.json").write_text(damaged)
        assert refused(one).startswith(f"{one / 'config.json'} is damaged")
    write_info(other, CONFIG | {"format": 3})
    assert refused(other) == f"{other} is not a run that this version reads"
    (other / "config.json").write_text(json.dumps(CONFIG))
    assert "of version 0.1: it has no checksum of its own; make it anew" in refused(other)


def test_read_run_refuses_sealed_nonsense_by_name(tmp_path):
    def written(config, metrics="", measures=None):
        texts = {"metrics.jsonl": metrics} | ({} if measures is None else {"measures.json": measures})
        for name, text in texts.items():
            (tmp_path / name).write_text(text)
        checksums = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}
        write_info(tmp_path, config | {"format": 2, "files": checksums})
        return tmp_path

    assert read_run(written(CONFIG)).rows == []
    assert refused(written({"settings": {}})).endswith(
        "config.json is no run's: object missing required field `seconds`"
    )
    assert refused(written(CONFIG | {"seconds": {"total_s": "2"}})).endswith(
        "is no run's: expected `float`, got `str` - at `$.seconds[...]`"
    )
    good = json.dumps(rows_of("dqn", [(0, 0.5)])[0]._asdict())
    assert len(read_run(written(CONFIG, f"{good}\n{good}")).rows) == 2
    truth, infinite = good.replace("0.5", "true"), good.replace("0.5", "Infinity")
    for line in ('{"line": "x"}', "3", "NaN", "[" * 99_999, truth, infinite):
        assert refused(written(CONFIG, f"{good}\n{line}")).startswith(str(tmp_path / "metrics.jsonl"))
    for text in ("half a li", "[1]", "3", '[{"seed": 0}]', '[{"seed": 0, "disentanglement": 1, "rho": {"x": "y"}}]'):
        assert refused(written(CONFIG, good, text)).startswith(str(tmp_path / "measures.json"))


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
    low, high = interval_over_seeds(success)
    assert success.min() - 1e-9 <= low <= success.mean() + 1e-9
    assert success.mean() - 1e-9 <= high <= success.max() + 1e-9


def test_tasks_that_differ_do_not_widen_the_interval_but_seeds_that_differ_do():
    assert interval_over_seeds(np.array([[0.0, 1.0], [0.0, 1.0]])) == (0.5, 0.5)
    low, high = interval_over_seeds(np.array([[0.0, 0.0], [1.0, 1.0]]))
    assert (low, high) == (0, 1)


def test_tasks_of_one_training_are_not_taken_for_trainings_of_their_own():
    """However many there are: else a seed that is good at all would seem to be many good seeds."""
    one = np.array([[0.2], [0.5], [0.8]])
    assert interval_over_seeds(one) == pytest.approx(interval_over_seeds(np.repeat(one, 21, axis=1)))


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
