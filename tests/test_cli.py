import json
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

import cumulant
from cumulant.cli import main


def cli(*args):
    """The real command in a process of its own."""
    return subprocess.run([sys.executable, "-m", "cumulant.cli", *args], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("phrase", "dnf"),
    [
        ("get the square to the centre left", [[["square", "x", ["left"]], ["square", "y", ["middle"]]]]),
        (
            "agent to the top left OR square to the top right",
            [
                [["agent", "x", ["left"]], ["agent", "y", ["top"]]],
                [["square", "x", ["right"]], ["square", "y", ["top"]]],
            ],
        ),
        (
            "not (square left or circle top)",
            [[["square", "x", ["centre", "right"]], ["circle", "y", ["bottom", "middle"]]]],
        ),
    ],
)
def test_explain(phrase, dnf, capsys):
    assert main(["explain", phrase, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["dnf"] == dnf
    assert main(["explain", phrase]) == 0
    assert "understood as" in capsys.readouterr().out


def test_explain_in_a_process_of_its_own():
    done = cli("explain", "square left", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {"canonical": "square left", "dnf": [[["square", "x", ["left"]]]]}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["explain", "get the sqare left"], "unknown word 'sqare'; did you mean 'square'?\n  get the sqare left\n"),
        (["explain", "star left", "--objects", "square"], "this world has no 'star'"),
        (["explain", "square left", "--objects", "blob"], "unknown object 'blob'"),
        (["explain"], "Missing"),
        (["explian", "square left"], "explian"),
        (["bench", "everything"], "invalid choice 'everything'"),
        (["bench", "env", "--batch", "0"], "--batch must be at least 1"),
        (["evaluate", "--episodes", "0"], "--episodes must be at least 1"),
        (["evaluate", "--episodes", "many"], "many"),
        (["evaluate", "--seed", "-1"], "a seed lies between"),
        (["evaluate", "--suite", "aligned", "--bins", "11"], "a step skips a bin"),
        (["demo", "--out", "/dev/null/folder"], "cannot write to /dev/null/folder"),
    ],
)
def test_bad_input_is_one_clear_line_and_status_2(args, message, capsys):
    assert main(args) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("cumulant: ")
    assert message in captured.err
    lines = 3 if "^" in captured.err else 1
    assert len(captured.err.strip().split("\n")) == lines


def test_help_teaches_every_command():
    done = cli("--help")
    assert done.returncode == 0
    assert all(command in done.stdout for command in ("demo", "explain", "evaluate", "bench"))


def test_demo_writes_pictures_and_a_table(tmp_path):
    done = cli("demo", "--out", str(tmp_path / "pictures"), "--episodes", "20")
    assert done.returncode == 0, done.stderr
    assert "random play" in done.stdout
    with Image.open(tmp_path / "pictures" / "demo.gif") as gif, Image.open(tmp_path / "pictures" / "demo.png") as sheet:
        assert gif.n_frames > 5  # type: ignore[attr-defined]
        assert np.asarray(sheet).std() > 10
    assert sorted(path.name for path in (tmp_path / "pictures").iterdir()) == ["demo.gif", "demo.png"]


def test_evaluate_reports_every_class(capsys):
    assert main(["evaluate", "--episodes", "20", "--tasks-per-class", "1", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert set(report) == {"oracle", "random"}
    assert len(report["oracle"]) == 7
    for result in report["oracle"].values():
        assert set(result) == {"success", "ci95", "mean_steps", "tasks", "episodes"}
        assert result["ci95"][0] <= result["success"] <= result["ci95"][1]


@pytest.mark.parametrize("what", ["env", "render"])
def test_bench_measures_ours_and_the_original_in_one_run(what):
    done = cli("bench", what, "--batch", "64", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["ratio"] == pytest.approx(report["ours"] / report["peer"])
    assert report["memory_limit"] > 0


def test_bench_parse(capsys):
    assert main(["bench", "parse", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ours"] > 0


def test_every_public_name_is_there_and_documented():
    for name in cumulant.__all__:
        assert getattr(cumulant, name).__doc__, name
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = cumulant.nonsense
