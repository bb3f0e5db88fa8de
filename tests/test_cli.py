import io
import json
import os
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import THIRDS
from PIL import Image

import cumulant
from cumulant.commands import cli, output
from cumulant.commands.cli import main
from cumulant.commands.output import doing
from cumulant.commands.progress import Reporter
from cumulant.config import PRESETS, OutOfBounds, check_memory
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


def ran(*args):
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
    done = ran("explain", "square left", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {"canonical": "square left", "dnf": [[["square", "x", ["left"]]]]}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["explain", "get the sqare left"], "unknown word 'sqare'; did you mean 'square'?\n  get the sqare left\n"),
        (["explain", "star left", "--objects", "square"], "unknown word 'star': this world has agent, square"),
        (["explain", "square left", "--objects", "blob"], "unknown object 'blob'"),
        (["bench", "env", "--batch", "0"], "--batch must be at least 1"),
        (["evaluate", "--episodes", "0"], "--episodes must be at least 1"),
        (["evaluate", "--seed", "-1"], "a seed lies between"),
        (["evaluate", "--library", "a", "--library", "b"], "--library is given more than once: write it once"),
        (["evaluate", "--suite", "aligned", "--bins", "1001"], "--bins must lie between 2 and 1,000, but is 1001"),
        (["evaluate", "--suite", "rewards"], "rewards have to be learnt: give --few-shot N"),
        (["evaluate", "--suite", "aligned", "--bins", "0"], "--bins must lie between 2 and 1,000, but is 0"),
        (["evaluate", "--objects", "square", "--few-shot", "5"], "few-shot learning needs a library"),
        (["solve", "square left", "--gif", "/"], "cannot write /: it is a folder"),
        (["solve", "square left", "--gif", "a.png"], "let the name end in .gif, which a.png does not"),
        (["explain", "square left", "--objects"], "--objects is empty"),
        (["pretrain", "--out", ""], "--out is empty"),
        (["evaluate", "--world", "room", "--objects", "square"], "--objects are spriteworld's"),
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
        (["serve", "--port", "65536"], "a port lies between 0 and 65535, but is 65536"),
        (["serve", "--host", "192.0.2.1", "--port", "0"], "cannot listen on 192.0.2.1"),
        (["serve", "--port", "0", "--library", "/nowhere"], "there is no folder /nowhere"),
        (["demo", "--out", "/dev/null/folder"], "cannot write /dev/null/folder/demo.gif"),
    ],
)
def test_bad_input_is_one_line_and_status_2(args, message, capsys):
    assert main(args) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("cumulant: ")
    assert message in captured.err
    lines = 3 if "^" in captured.err else 1
    assert len(captured.err.strip().split("\n")) == lines


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("", "Expected one of"),
        ("explain", "PHRASE"),
        ("explian left", "Unrecognized options: explian"),
        ("bench everything", "invalid choice 'everything'"),
        ("evaluate --episodes many", "invalid literal for int() with base 10: 'many'"),
        ("pretrain --gamma near", "could not convert string to float: 'near'"),
        ("pretrain --batch None", "'None'"),
        ("solve left --sed 1", "--seed INT"),
        ("explain left --library a", "in cumulant solve --help"),
        ("solve square left", "Unrecognized options: left"),
    ],
)
def test_mistyped_options_are_told_with_status_2(args, message, capsys):
    with pytest.raises(SystemExit) as ended:
        main(args.split())
    said = capsys.readouterr()
    assert (ended.value.code, said.out) == (2, "")
    assert message in said.err


def shown_by_help(monkeypatch, *command):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "stdout", terminal := io.TextIOWrapper(io.BytesIO(), "utf-8"))  # which can draw boxes
    with pytest.raises(SystemExit) as ended:
        main([*command, "--help"])
    assert ended.value.code == 0
    terminal.seek(0)
    return terminal.read().splitlines()


OWN = "demo solve serve explain represent pretrain evaluate sweep report inspect worlds check".split()


def test_help_lists_each_command_in_one_line(monkeypatch):
    lines = shown_by_help(monkeypatch)
    listed = lines[next(i for i, line in enumerate(lines) if "(required)" in line) + 1 : -1]
    assert [line.split()[2] for line in listed] == [*OWN, "bench", "reproduce"]


@pytest.mark.parametrize("command", OWN)
def test_help_of_a_command_fits_a_screen(command, monkeypatch):
    lines = shown_by_help(monkeypatch, command)
    height = sum(max(1, -(-len(line) // 80)) for line in lines)
    assert height <= {"pretrain": 56, "represent": 36, "evaluate": 28, "sweep": 36}.get(command, 26)
    assert not [line for line in lines if re.search(r"None|\(default: (''|False)?\)", line)]


def test_help_of_pretrain_shows_the_presets_values(monkeypatch):
    shown = " ".join(shown_by_help(monkeypatch, "pretrain"))
    hints = [f"({value})" for value in vars(PRESETS["cpu"]).values()]
    assert all(shown.count(hint) >= hints.count(hint) for hint in hints)


def test_version_tells_versions_and_device(capsys):
    assert main(["--version"]) == main(["--version", "--json"]) == 0
    line, told = capsys.readouterr().out.splitlines()
    assert line == f"cumulant {cumulant.__version__}, jax {jax.__version__} on {jax.devices()[0].device_kind}"
    assert list(json.loads(told).values()) == [cumulant.__version__, jax.__version__, jax.devices()[0].device_kind]


def test_commands_of_the_paper_say_where_they_are(monkeypatch, capsys):
    monkeypatch.setattr(cli, "_added_commands", lambda: iter(()))
    assert main(["bench", "env"]) == 2
    assert capsys.readouterr().err == (
        "cumulant: bench comes with the package cumulant-paper: pip install ./paper, in a checkout\n"
    )


def test_demo_writes_pictures_and_a_table(tmp_path):
    done = ran("demo", "--out", str(tmp_path / "pictures"), "--episodes", "20")
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


def test_memory_that_is_not_there_is_refused(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(os, "sysconf", lambda name: 2**10)  # a machine of one megabyte
    with pytest.raises(OutOfBounds, match="a house of cards needs more memory than this machine has"):
        check_memory("a house of cards", 2**20 + 1)
    out = tmp_path / "out"
    for command in (
        *(f"{name} --out {out}" for name in ("pretrain", "represent", "inspect")),
        "bench render --no-peer",
    ):
        assert main(command.split()) == 2
        assert "needs more memory than this machine has" in capsys.readouterr().err
    assert not out.exists()


def test_unwritable_folders_are_refused_before_anything_is_computed(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(os, "access", lambda place, mode: not str(place).startswith(str(tmp_path)))  # root may all
    for option in ("--gif", "--trace"):
        assert main(["solve", "square left", option, str(tmp_path / "new" / "a.gif")]) == 2
        assert f"you may not write to {tmp_path}" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_tensorboard_on_a_full_disk_is_told_once(tmp_path, monkeypatch, capsys):
    reporter = Reporter(3, True, tmp_path / "board")
    with reporter:
        report = {"event": "progress", "seconds": 1.0, "loss": 0.5}
        reporter(report | {"update": 1})

        def full(writer, event):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("tensorboardX.event_file_writer.EventsWriter.write_event", full)
        reporter(report | {"update": 2})
        reporter(report | {"update": 3})
    folder = tmp_path / "board"
    said = f"cumulant: cannot write {folder}: No space left on device; going on without TensorBoard\n"
    assert capsys.readouterr().err == said
    assert next(folder.iterdir()).stat().st_size > 0


def test_tensorboard_that_cannot_begin_is_one_line(tmp_path, monkeypatch, capsys):
    (tmp_path / "tensorboard").write_text("in the way")
    command = ["pretrain", "--out", str(tmp_path), "--tensorboard"]
    assert main(command) == 2
    assert capsys.readouterr().err == f"cumulant: cannot write {tmp_path / 'tensorboard'}: File exists\n"
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    for name in [name for name in sys.modules if name.startswith("tensorboardX.")]:
        monkeypatch.delitem(sys.modules, name)
    assert main(command) == 2
    assert capsys.readouterr().err == "cumulant: TensorBoard events need pip install 'cumulant[tensorboard]'\n"


COMPILING = """
import os, signal, sys, threading, time
import jax, jax.numpy as jnp
from cumulant import __main__ as command

def long(x):
    for i in range(300):  # for a second or more
        x = jnp.sort(jnp.sin(x) + i)
    return x

def run():
    lowered = jax.jit(long).lower(jnp.ones(1000))
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    lowered.compile()
    time.sleep(60)

command._run = run
sys.exit(command.main())
"""


def test_ctrl_c_is_quiet_while_jax_compiles():
    ended = subprocess.run([sys.executable, "-c", COMPILING], check=False, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


@pytest.mark.parametrize(
    ("to", "args", "status", "encoding"),
    [
        (">/dev/full", ["--version"], 2, "utf-8"),
        ("2>/dev/full", ["explian", "square left"], 2, "utf-8"),
        (">&-", ["--version"], 0, "utf-8"),
        ("2>&-", ["explian", "square left"], 2, "utf-8"),
        ("", ["--help"], 0, "ascii"),
        ("", ["explain", "square \udcff"], 2, "ascii"),
    ],
)
def test_full_closed_and_ascii_streams_end_quietly(to, args, status, encoding):
    typed = ["sh", "-c", f'exec "$@" {to}', "sh", sys.executable, "-m", "cumulant", *args]
    env = os.environ | {"PYTHONIOENCODING": encoding}
    ended = subprocess.run(typed, check=False, capture_output=True, timeout=120, env=env)
    assert ended.returncode == status
    assert b"Traceback" not in ended.stderr
    assert b"Exception" not in ended.stderr


def test_features_that_are_no_numbers_are_refused(tmp_path, monkeypatch, capsys):
    (tmp_path / "own_nan.py").write_text("import jax.numpy as jnp\ndef features(obs): return jnp.nan * obs\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    assert main(["pretrain", "--out", "new", "--features", "own_nan:features"]) == 2
    assert "returns NaN, an infinity, or what is no number" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
