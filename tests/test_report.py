"""Reports of sweeps: what is best, with which interval, and a page that needs nothing else."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cumulant.commands.cli import main
from cumulant.freeplay.checkpoints import write_metrics
from cumulant.sweeps.experiments import failed
from cumulant.sweeps.reports import summarise_sweep
from cumulant.sweeps.run_folders import Row, write_run
from cumulant.sweeps.statistics import interval_over_seeds, point_of
from cumulant.transfer.evaluation import interval

WILD = "<script>alert(1)</script>$x_$"


def trial(folder, width, seed, success, kind="Room", task_seed=1000, few=()):
    """A finished trial, as a sweep would have left it."""
    rows = [Row("zero-shot", "one", f"task {i}", seed, 0, s, 8) for i, s in enumerate(success)]
    rows += [Row("few-shot", "one", "task", seed, steps, s, 8) for steps, s in few]
    what, evaluation = {"width": width, "learning_rate": 1e-3}, {"task_seed": task_seed, "episodes": 8}
    settings = {"world": {"kind": kind}, "seed": seed, "what": what, "evaluation": evaluation}
    path = folder / f"{kind[1:5]}-{width}-{seed}-{task_seed}"
    lines = [{"update": i, "env_steps": 4 * i, "loss": 1 / i, "success": i / 10, "seconds": i} for i in (1, 2)]
    write_run(path, {"settings": settings, "seconds": {"train_s": 2.0}, "device": "cpu"}, rows)
    write_metrics(path / "library", [json.dumps(line) for line in lines])


@pytest.fixture
def folder(tmp_path):
    for seed in range(3):
        trial(tmp_path, 8, seed, (0.25, 0.5))
        trial(tmp_path, 64, seed, (1.0, 0.75 + seed / 8), few=((500, 0.5), (2000, 1.0)))
        trial(tmp_path, 96, seed, (1.0, 0.875 + seed / 16))
    failed("room-ill", f"ValueError: {WILD}", tmp_path)
    return tmp_path


def test_best_is_told_with_interval_and_seeds(folder):
    report = summarise_sweep(folder)
    assert [(each.label, each.seeds) for each in report.settings] == [(f"width {w}", (0, 1, 2)) for w in (96, 64, 8)]
    (best,) = report.best
    assert (best.label, best.line) == ("width 96", "zero-shot")
    assert best.success.mean == pytest.approx((1 + 0.9375) / 2)
    assert best.not_told_apart == ("width 64",)
    assert best.chosen_on == "chosen on tasks of seed 1000 after training with the seeds 0, 1, 2"
    assert report.failed == {"room-ill": f"ValueError: {WILD}"}
    same = {"world.kind": "Room", "what.learning_rate": "0.001"}
    assert report.common == same | {"evaluation.task_seed": "1000", "evaluation.episodes": "8"}


def test_interval_is_over_seeds_or_over_episodes():
    one = [Row("line", "kind", "task", 0, 0, 0.5, 8)]
    assert point_of(one)[1:] == interval(4, 8)
    same = [Row("line", "kind", "task", seed, 0, 0.5, 8) for seed in range(5)]
    assert point_of(same) == (0.5, 0.5, 0.5)
    many = [Row("line", "kind", "task", seed, 0, seed / 4, 8) for seed in range(5)]
    assert point_of(many).low < 0.5 < point_of(many).high


@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 2**31))
def test_interval_holds_the_mean_within_the_values(seeds, tasks, seed):
    success = np.random.default_rng(seed).uniform(size=(seeds, tasks))
    low, high = interval_over_seeds(success)
    assert success.min() - 1e-9 <= low <= success.mean() + 1e-9
    assert success.mean() - 1e-9 <= high <= success.max() + 1e-9


def test_seeds_widen_the_interval_and_tasks_do_not():
    assert interval_over_seeds(np.array([[0.0, 1.0], [0.0, 1.0]])) == (0.5, 0.5)
    assert interval_over_seeds(np.array([[0.0, 0.0], [1.0, 1.0]])) == (0, 1)
    # However many tasks there are: else a seed that is good at all would seem to be many good seeds.
    one = np.array([[0.2], [0.5], [0.8]])
    assert interval_over_seeds(one) == pytest.approx(interval_over_seeds(np.repeat(one, 21, axis=1)))


def test_what_was_judged_otherwise_is_not_compared(tmp_path):
    trial(tmp_path, 8, 0, (0.5,))
    trial(tmp_path, 64, 0, (1.0,), task_seed=0)
    assert not summarise_sweep(tmp_path).best
    trial(tmp_path, 96, 0, (0.25,), task_seed=0)
    (best,) = summarise_sweep(tmp_path).best
    assert best.label.endswith("width 64")
    assert "settings are to be chosen on tasks of seed 1000" in best.chosen_on


def test_seeds_judged_by_other_tasks_are_refused(tmp_path, capsys):
    trial(tmp_path, 8, 0, (0.5, 0.5))
    trial(tmp_path, 8, 1, (0.5,))
    assert main(["report", str(tmp_path)]) == 2
    assert "oom-8-0-1000 differ in their seeds alone, but were judged by other tasks" in capsys.readouterr().err
    assert not (tmp_path / "report.json").exists()


def test_task_of_two_classes_is_two_tasks():
    rows = [Row("line", kind, "task", seed, 0, float(kind == "one"), 8) for kind in ("one", "two") for seed in range(2)]
    assert point_of(rows).mean == 0.5


def test_learning_is_the_mean_over_seeds(folder):
    learning = summarise_sweep(folder).settings[0].learning
    assert np.array_equal(learning["loss"].steps, [4, 8])
    assert np.array_equal(learning["loss"].mean, [1, 0.5])
    assert np.array_equal(learning["success"].high, [0.1, 0.2])


class Page(HTMLParser):
    """The tags of a page, and where they lead."""

    def __init__(self):
        super().__init__()
        self.tags, self.links, self.words = [], [], ""

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href", "xlink:href")]

    def handle_data(self, data):
        self.words += data


def test_page_needs_nothing_else_and_escapes_words(folder, capsys):
    trial(folder, 8, 0, (1.0,), kind=WILD)
    assert main(["report", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert "Best, zero-shot: " in printed
    text, page = (folder / "report.html").read_text(), Page()
    page.feed(text)
    assert "script" not in page.tags
    assert page.words.count(WILD) >= 2  # the failure, and a label
    assert "3 settings" in page.words  # that no trial varied: the world is not one of them
    assert page.tags.count("svg") == 1
    for title in ("by class, zero-shot", "by class, few-shot", "labelled steps", "held-out goals", "learning: loss"):
        assert re.search(f"<!-- .*{title} -->|>[^<]*{title}</text>", text), title
    assert all(link.startswith("#") for link in page.links)
    assert "#010203" not in text  # the picture takes the page's colours, light or dark
    told = json.loads((folder / "report.json").read_text())
    assert told["best"][0]["label"].startswith("width 96")
    assert main(["report", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == told


@pytest.mark.parametrize(("name", "said"), [("nowhere", "cannot be read"), ("", "there is no sweep in")])
def test_what_is_no_sweep_is_refused(name, said, tmp_path, capsys):
    assert main(["report", str(tmp_path / name)]) == 2
    printed = capsys.readouterr()
    assert said in printed.err
    assert printed.err.count("\n") == 1
    assert not list(tmp_path.rglob("*"))


def test_hostile_trial_moves_no_cursor(folder, capsys):
    trial(folder, 8, 0, (1.0,), kind="[/red]\x1b[2J")
    (folder / "oom-8-1-1000" / "library" / "metrics.jsonl").write_text(
        '[]\n{"update": 1, "env_steps": 4, "loss": NaN}\n'
    )
    assert main(["report", str(folder)]) == 0
    assert "\x1b" not in capsys.readouterr().out
    trial(folder, 8, 2, (1.5,))
    assert main(["report", str(folder)]) == 2
    assert "oom-8-2-1000/metrics.jsonl is no run's: expected `float` <= 1.0" in capsys.readouterr().err


def test_damaged_trial_is_named(folder, capsys):
    (folder / "oom-8-0-1000" / "metrics.jsonl").write_text("half a li")
    assert main(["report", str(folder)]) == 2
    assert "oom-8-0-1000" in capsys.readouterr().err
