import io
import json
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from conftest import THIRDS
from cumulant.commands import output
from cumulant.commands.cli import main
from cumulant.commands.output import doing
from measure_start import Timed, watch


def corner(obs):
    return ((obs[2] < 1 / 3) & (obs[3] > 2 / 3)).astype(float)


def never(obs):
    return 0 * obs[0]


def not_a_number(obs):
    return jnp.log(-1 - obs[0])


def a_vector(obs):
    return obs


def plain_python(obs):
    return 1.0 if obs[0] > 0.5 else 0.0


def cli(*args):
    """The real command in a process of its own."""
    return subprocess.run([sys.executable, "-m", "cumulant", *args], capture_output=True, text=True, check=False)


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
        (["explain", "star left", "--objects", "square"], "unknown word 'star': this world has agent, square"),
        (["explain", "square left", "--objects", "blob"], "unknown object 'blob'"),
        (["explain"], "Missing"),
        (["explian", "square left"], "explian"),
        (["bench", "everything"], "invalid choice 'everything'"),
        (["bench", "env", "--batch", "0"], "--batch must be at least 1"),
        (["evaluate", "--episodes", "0"], "--episodes must be at least 1"),
        (
            ["evaluate", "--episodes", "many"],
            "--episodes must be a whole number, but is 'many' (see cumulant evaluate ",
        ),
        (["pretrain", "--gamma", "near one"], "--gamma must be a number, but is 'near one'"),
        (
            ["solve", "square left", "--sed", "1"],
            "Unrecognized options: --sed, 1; did you mean --seed? (see cumulant",
        ),
        (
            ["explain", "square left", "--library", "a"],
            "Unrecognized options: --library a (see cumulant explain --he",
        ),
        (["check", "room"], "room stands alone: did you mean cumulant check --world room?"),
        (["evaluate", "--seed", "-1"], "a seed lies between"),
        (["evaluate", "--library", "a", "--library", "b"], "--library is given more than once: write it once"),
        (["evaluate", "--suite", "aligned", "--bins", "1001"], "--bins must lie between 2 and 1,000, but is 1001"),
        (["evaluate", "--suite", "rewards"], "rewards have to be learnt: give --few-shot N"),
        (["evaluate", "--suite", "aligned", "--bins", "0"], "--bins must lie between 2 and 1,000, but is 0"),
        (["evaluate", "--objects", "square", "--few-shot", "5"], "few-shot learning needs a library"),
        (["solve", "square left", "--gif", "/"], "cannot write /: it is a folder"),
        (["solve", "square left", "--gif", "a.png"], "let the name end in .gif, which a.png does not"),
        (["solve", "square", "left", "--json"], 'put the phrase in quotes: cumulant solve "square left"'),
        (["sovle", "square left"], "there is no command sovle: did you mean solve?"),
        (["xyzzy"], "there is no command xyzzy: demo, solve, serve"),
        (["explain", "square left", "--objects"], "--objects is empty"),
        (["solve", "square left", "--gif", "/dev/null"], "cannot write /dev/null: it is not a plain file"),
        (["solve", "square left", "--trace", "/proc/x.json"], "cannot write /proc/x.json: it is not on a disk"),
        (["solve", "square left", "--features", "math:sin"], "brings its own features, 'true': give none"),
        (["pretrain", "--out", "/dev/null/x", "--features", "json:dumps"], "the features fail on an observation"),
        (["pretrain", "--out", "/dev/null/x", "--features", "jax.numpy:sum"], "a vector of numbers [d], but these are"),
        (["reproduce", "fig4", "--redraw", "--only", "dqn"], "give one of the two"),
        (["evaluate", "--library", "/nowhere"], "there is no folder /nowhere"),
        (["evaluate", "--library", "/nowhere", "--objects", "square"], "not both"),
        (["evaluate", "--few-shot", "-5"], "--few-shot must be at least 0"),
        (["pretrain", "--out", "/dev/null/x", "--bins", "0"], "bins: 0 does not fit; give a whole number from 1 to 99"),
        (["pretrain", "--out", "/dev/null/x", "--gamma", "1"], "gamma: 1.0 does not fit; give a number from 0 below 1"),
        (["pretrain", "--out", "/dev/null/x", "--features", "nowhere:f"], "no module 'nowhere'"),
        (["pretrain", "--out", "/dev/null/x"], "cannot write to /dev/null/x"),
        (["solve"], "give a phrase or --reward"),
        (["solve", "square left", "--reward", "a:b"], "one of the two"),
        (["solve", "squar left"], "did you mean 'square'"),
        (["solve", "--reward", "nowhere:f"], "there is no module 'nowhere'"),
        (["solve", "--reward", "math:nothing"], "has no 'nothing'"),
        (["solve", "--reward", "test_cli:not_a_number"], "returns NaN"),
        (["solve", "--reward", "test_cli:a_vector"], "returns the shape (6,)"),
        (["solve", "--reward", "test_cli:plain_python"], "is not written in JAX"),
        (["solve", "--reward", "test_cli:corner", "--budget", "-1"], "--budget must be at least 1"),
        (["inspect", "--library", "/nowhere"], "there is no folder /nowhere"),
        (["reproduce", "nothing"], "invalid choice 'nothing'"),
        (["serve", "--port", "65536"], "a port lies between 0 and 65535, but is 65536"),
        (["serve", "--host", "192.0.2.1", "--port", "0"], "cannot listen on 192.0.2.1"),
        (["serve", "--port", "0", "--library", "/nowhere"], "there is no folder /nowhere"),
        (["demo", "--out", "/dev/null/folder"], "cannot write /dev/null/folder/demo.gif"),
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
    commands = "demo solve serve explain represent pretrain evaluate sweep report inspect reproduce bench".split()
    assert all(command in done.stdout for command in commands)


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
    assert set(report) == {"zero_shot", "oracle", "random"}
    assert len(report["oracle"]) == 7
    for result in (*report["oracle"].values(), *report["zero_shot"].values()):
        assert set(result) == {"success", "ci95", "mean_steps", "steps_or_limit", "tasks", "episodes"}
        assert result["ci95"][0] <= result["success"] <= result["ci95"][1]


def test_evaluate_few_shot_and_coverage(capsys):
    size = "--tasks-per-class 3 --episodes 4 --few-shot 300 --json".split()
    args = ["evaluate", "--library", str(THIRDS), "--suite", "coverage", *size]
    assert main([*args, "--gpi", "plain"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert set(report) == {"zero_shot", "few_shot", "oracle", "random"}
    assert report["zero_shot"]["coverage"]["episodes"] == 12
    assert report["oracle"]["coverage"]["success"] > 0.9


def test_solve_a_phrase(tmp_path, capsys):
    args = ["solve", "circle top left and square not left", "--episodes", "40"]
    assert main([*args, "--json"]) == 0
    said = capsys.readouterr()
    report = json.loads(said.out)
    assert not said.err
    assert set(report) == {"task", "canonical", "success", "ci95", "mean_steps", "steps_or_limit", "episodes"}
    assert report["success"] > 0.9
    assert main([*args, "--gif", str(tmp_path / "new" / "a.gif")]) == 0
    said = capsys.readouterr()
    assert said.err == "playing 40 episodes ...\n"
    assert "understood as: circle top left and square not left" in said.out
    assert (tmp_path / "new" / "a.gif").stat().st_size > 1000


def test_solve_a_reward(capsys):
    assert main(["solve", "--reward", "test_cli:corner", "--budget", "1000", "--episodes", "40", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["canonical"] == "square top left"
    assert report["success"] > 0.9
    assert (report["model"], report["explained"]) == ("conjunction", pytest.approx(1, abs=1e-3))
    assert report["sure"] > 0.5


def test_a_reward_that_is_never_paid_is_not_acted_on(capsys):
    assert main(["solve", "--reward", "test_cli:never", "--budget", "1000"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "1,000 labelled steps taught nothing of test_cli:never" in captured.err.splitlines()[-1]


def test_inspect_shows_who_moves_whom(tmp_path, capsys):
    assert main(["inspect", "--library", str(THIRDS), "--out", str(tmp_path), "--starts", "30", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    pairs = {(v["policies_of"], v["move"]) for v in report["violations"]}
    assert ("square_x", "agent_x") in pairs
    assert ("agent_x", "square_x") not in pairs
    assert 0.5 < report["independence"] < 1
    assert {path.name for path in tmp_path.iterdir()} == {"audit.png", "audit.json"}


@pytest.mark.parametrize("what", ["env", "render"])
def test_bench_measures_ours_and_the_original_in_one_run(what, capsys):
    assert main(["bench", what, "--batch", "64", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["ratio"] == pytest.approx(report["ours"] / report["peer"])
    assert report["memory_limit"] > 0


def test_bench_parse(capsys):
    assert main(["bench", "parse", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ours"] > 0


@pytest.mark.parametrize("room", [60, 80, 120])
def test_tables_fit_and_no_two_rows_look_alike(room, monkeypatch, capsys):
    monkeypatch.setattr(output, "_LOG_WIDTH", room)
    rate, names = "0.996 [0.987, 0.999]", ("zero-shot", "few-shot", "oracle", "random")
    classes = ("object_easy", "object_hard", "negation_of_a_conjunction", "negation_of_a_disjunction")
    rows = [[name, *[f"{rate[:-1]}{i}]", "19.5"] * 4] for i, name in enumerate(classes)]
    output.print_table("Success", ["class", *(part for name in names for part in (name, "steps"))], rows, 2)
    phrases = [f"get the square to the top left and the circle to the {x}" for x in ("left", "right")]
    output.print_table("Goals", ["phrase", "understood as", "success"], [[p, p[8:], rate] for p in phrases])
    output.print_table("Numbers", ["", *map(str, range(18))], [[f"feature_{i}", *["0.123"] * 18] for i in range(3)])
    long = ["n" * 200 + end for end in "ab"]
    output.print_table("Long", ["a", "b"], [[word, word] for word in long])
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= room
    assert shown.count("19.5") == 16
    assert [shown.count(name) for name in names] == [1] * 4
    assert all(shown.count(name) == shown.count(classes[0]) for name in classes)
    assert shown.count("0.123") == 54
    letters = "".join(c for c in shown if c.isalpha())
    assert [letters.count(end) for end in ("na", "nb")] == [letters.count("na")] * 2
    assert shown.count("n") > 800


@pytest.mark.parametrize(
    ("terminal", "hushed", "told"), [(False, False, "busy ...\n"), (False, True, ""), (True, True, "")]
)
def test_what_takes_a_while_is_told_but_not_to_programs(terminal, hushed, told, monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    with doing("busy", hushed):
        pass
    assert capsys.readouterr().err == told


def test_at_a_terminal_a_command_shows_what_it_does_before_anything_heavy_is_imported(tmp_path):
    told = watch(Timed('explain "square left"'), tmp_path, tmp_path / "cache")
    assert told.well
    assert 0 < told.text.index("reading") < told.text.index("understood as: square left")
    told = watch(Timed("worlds --json"), tmp_path, tmp_path / "cache")
    assert json.loads(told.text)["room"]["extra"] == "-"


def test_on_a_terminal_it_is_told_until_it_is_done(monkeypatch):
    monkeypatch.setattr(sys, "stderr", terminal := io.StringIO())
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    with doing("busy", False):
        pass
    assert "busy" in terminal.getvalue()
    assert terminal.getvalue().endswith("\x1b[2K")  # its line is cleared
