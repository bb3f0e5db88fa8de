import hashlib
import json
from dataclasses import dataclass

import numpy as np
import pytest

from cumulant.goals.suites import CLASSES
from cumulant.storage import Unreadable, write_info
from cumulant.sweeps.run_folders import Row, agrees, is_finished, read_run, write_run
from cumulant.sweeps.statistics import Curve
from cumulant_paper.statistics import break_even, curve, ends, paybacks, steps_to_reach

CONFIG = {"settings": {"seeds": [0, 1]}, "seconds": {"total_s": 2.0}, "device": "cpu"}


def rows_of(line, points, tasks=("a", "b"), seeds=(0, 1)):
    return [Row(line, "easy", t, s, steps, rate, 10) for steps, rate in points for t in tasks for s in seeds]


def test_run_comes_back_from_its_folder(tmp_path):
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


def test_read_run_refuses_damaged_files(tmp_path):
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


def test_agrees_with_recordings_older_than_a_setting():
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


def test_curve_and_ends_average_tasks_and_seeds():
    points = [(100, 0.6), (10, 0.2)]
    rows = [row._replace(kind=kind) for kind in CLASSES for row in rows_of("x", points)]
    found = curve(rows + rows_of("y", [(10, 0.9)]), "x", CLASSES[0])
    np.testing.assert_allclose(found.steps, [10, 100])
    np.testing.assert_allclose(found.mean, [0.2, 0.6])
    (end,) = ends(rows).values()
    assert end.steps == 100
    assert end.classes == {kind: pytest.approx((0.6, 0.6, 0.6)) for kind in CLASSES}


def test_steps_to_reach_are_found_on_a_log_scale():
    found = Curve(np.array([10.0, 1000.0]), np.array([0.0, 1.0]), np.zeros(2), np.ones(2))
    assert steps_to_reach(found, 0.5) == pytest.approx(100)
    assert steps_to_reach(found, 0.0) == 10
    assert steps_to_reach(found, 1.1) == float("inf")


def test_break_even_of_the_paper_s_numbers():
    """After 23 tasks; never where scratch is faster."""
    few = rows_of("gpi", [(50_000, 1.0)])
    slow, fast = ([*few, *rows_of("dqn", [(1_000, low), (500_000, 0.98)])] for low in (0.0, 1.0))
    assert int(np.ceil(break_even(10_000_000, paybacks(slow, "gpi", "dqn", ["easy"])))) == 23
    assert break_even(10, paybacks(fast, "gpi", "dqn", ["easy"])) == float("inf")
