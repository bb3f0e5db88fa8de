"""Reports of sweeps: what is best, with which interval, and a page that needs nothing else."""

import base64
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from cumulant.commands.cli import main
from cumulant.experiments.engines import failed
from cumulant.experiments.reports import point_of, summarise_sweep
from cumulant.experiments.run_folders import Row, write_run
from cumulant.freeplay.checkpoints import write_metrics
from cumulant.transfer.evaluation import interval

WILD = "<script>alert(1)</script>$x_$"


def trial(folder, width, seed, success, kind="Room", task_seed=1000, few=()):
    """A finished trial, as a sweep would have left it."""
    rows = [Row("zero-shot", "one", f"task {i}", seed, 0, s, 8) for i, s in enumerate(success)]
    rows += [Row("few-shot", "one", "task", seed, steps, s, 8) for steps, s in few]
    what, evaluation = {"width": width, "learning_rate": 1e-3}, {"task_seed": task_seed, "episodes": 8}
    settings = {"method": "play", "world": {"kind": kind}, "seed": seed, "what": what, "evaluation": evaluation}
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


def test_the_best_is_told_with_its_interval_and_what_it_was_chosen_on(folder):
    report = summarise_sweep(folder)
    assert [(each.label, each.seeds) for each in report.settings] == [(f"width {w}", (0, 1, 2)) for w in (96, 64, 8)]
    (best,) = report.best
    assert (best.label, best.line) == ("width 96", "zero-shot")
    assert best.success.mean == pytest.approx((1 + 0.9375) / 2)
    assert best.not_told_apart == ("width 64",)
    assert best.chosen_on == "chosen on tasks of seed 1000 after training with the seeds 0, 1, 2"
    assert report.failed == {"room-ill": f"ValueError: {WILD}"}
    same = {"method": "play", "world.kind": "Room", "what.learning_rate": "0.001"}
    assert report.common == same | {"evaluation.task_seed": "1000", "evaluation.episodes": "8"}


def test_an_interval_is_over_seeds_and_of_one_seed_over_its_episodes():
    one = [Row("line", "kind", "task", 0, 0, 0.5, 8)]
    assert point_of(one)[1:] == interval(4, 8)
    same = [Row("line", "kind", "task", seed, 0, 0.5, 8) for seed in range(5)]
    assert point_of(same) == (0.5, 0.5, 0.5)
    many = [Row("line", "kind", "task", seed, 0, seed / 4, 8) for seed in range(5)]
    assert point_of(many).low < 0.5 < point_of(many).high


def test_what_was_judged_otherwise_is_not_compared(tmp_path):
    trial(tmp_path, 8, 0, (0.5,))
    trial(tmp_path, 64, 0, (1.0,), task_seed=0)
    assert not summarise_sweep(tmp_path).best
    trial(tmp_path, 96, 0, (0.25,), task_seed=0)
    (best,) = summarise_sweep(tmp_path).best
    assert best.label.endswith("width 64")
    assert "settings are to be chosen on tasks of seed 1000" in best.chosen_on


def test_seeds_judged_by_other_tasks_are_refused_in_one_line(tmp_path, capsys):
    trial(tmp_path, 8, 0, (0.5, 0.5))
    trial(tmp_path, 8, 1, (0.5,))
    assert main(["report", str(tmp_path)]) == 2
    assert "oom-8-0-1000 differ in their seeds alone, but were judged by other tasks" in capsys.readouterr().err
    assert not (tmp_path / "report.json").exists()


def test_a_task_of_two_classes_is_two_tasks():
    rows = [Row("line", kind, "task", seed, 0, float(kind == "one"), 8) for kind in ("one", "two") for seed in range(2)]
    assert point_of(rows).mean == 0.5


def test_learning_is_the_mean_over_seeds_with_their_range(folder):
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
        self.links += [value for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data):
        self.words += data


def test_the_page_holds_all_it_needs_and_escapes_what_it_shows(folder, capsys):
    trial(folder, 8, 0, (1.0,), kind=WILD)
    assert main(["report", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert "Best, zero-shot: " in printed
    page = Page()
    page.feed((folder / "report.html").read_text())
    assert "script" not in page.tags
    assert page.words.count(WILD) >= 2  # the failure, and a label
    assert "4 settings" in page.words  # that no trial varied: the world is not one of them
    assert len(page.links) == 5  # by class of two lines, labelled steps, and two on the way
    for link in page.links:
        head, _, data = link.partition(",")
        assert head == "data:image/svg+xml;base64"
        svg = base64.b64decode(data).decode()
        assert "<script" not in svg
        assert not re.findall(r'(?:href|src)="(?!#)', svg)
    told = json.loads((folder / "report.json").read_text())
    assert told["best"][0]["label"].startswith("width 96")
    assert main(["report", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == told


@pytest.mark.parametrize(("name", "said"), [("nowhere", "cannot be read"), ("", "there is no sweep in")])
def test_what_is_no_sweep_is_refused_in_one_line_and_nothing_is_written(name, said, tmp_path, capsys):
    assert main(["report", str(tmp_path / name)]) == 2
    printed = capsys.readouterr()
    assert said in printed.err
    assert printed.err.count("\n") == 1
    assert not list(tmp_path.rglob("*"))


def test_a_hostile_trial_moves_no_cursor_and_breaks_nothing(folder, capsys):
    trial(folder, 8, 0, (1.0,), kind="[/red]\x1b[2J")
    (folder / "oom-8-1-1000" / "library" / "metrics.jsonl").write_text(
        '[]\n{"update": 1, "env_steps": 4, "loss": NaN}\n'
    )
    assert main(["report", str(folder)]) == 0
    assert "\x1b" not in capsys.readouterr().out
    trial(folder, 8, 2, (1.5,))
    assert main(["report", str(folder)]) == 2
    assert "oom-8-2-1000/metrics.jsonl is no run's: expected `float` <= 1.0" in capsys.readouterr().err


def test_a_damaged_trial_is_named(folder, capsys):
    (folder / "oom-8-0-1000" / "metrics.jsonl").write_text("half a li")
    assert main(["report", str(folder)]) == 2
    assert "oom-8-0-1000" in capsys.readouterr().err
