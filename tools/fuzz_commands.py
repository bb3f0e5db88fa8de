"""The part `arguments` of `fuzz.py`: odd command lines; and what all parts share.

A wrong command line ends with status 2 and one line (or the parser's box) on stderr, before it computes, makes or
changes anything.
"""

import contextlib
import io
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

COMMAND = (sys.executable, "-m", "cumulant")
HANGS = 120.0  # seconds after which something has hung, however busy the machine is


class Fuzz:
    """Counts what one part tries and what is wrong, and says when to stop.

    Args:
        seed: Seed of all random choices.
        seconds: Time after which no other case is tried.
        count: Number of cases at most.

    """

    def __init__(self, seed: int = 0, seconds: float = float("inf"), count: float = float("inf")):
        self.rng, self.tried, self.violations = random.Random(seed), Counter[str](), list[str]()
        self._seconds, self._count = seconds, count

    def cases(self) -> Iterator[int]:
        """Yield the numbers of the cases until time or count is used up."""
        number, end = 0, time.monotonic() + self._seconds
        while number < self._count and time.monotonic() < end:
            yield number
            number += 1

    def check(self, holds: Any, what: str) -> None:
        """Record a violation if something that must hold does not."""
        if not holds:
            self.violations.append(what)


class Ending(NamedTuple):
    """How a command ended."""

    status: int
    out: str
    err: str


class Overdue(BaseException):
    """A command that hangs; no handler of the command's own may catch it."""


def run_here(*argv: str) -> Ending:
    """Run a command in this process."""

    def overdue(*_: object) -> None:
        raise Overdue

    out, err = io.StringIO(), io.StringIO()
    before = signal.signal(signal.SIGALRM, overdue)
    signal.setitimer(signal.ITIMER_REAL, HANGS)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            from cumulant.commands.cli import main

            status = main(argv)
        except SystemExit as stop:
            status = stop.code if isinstance(stop.code, int) else int(bool(stop.code))
        except (Exception, Overdue):
            traceback.print_exc()
            status = 1
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
    return Ending(status, out.getvalue(), err.getvalue())


def refusal(ending: Ending) -> str:
    """Return what is wrong with a refusal, or "": it is one line of ours, a pointed phrase, or the parser's box."""
    lines = ending.err.removesuffix("\n").split("\n")
    pointed = len(lines) == 3 and lines[2].strip(" ^") == ""  # the phrase, and marks below its culprit
    own = ending.err.startswith("cumulant: ") and (len(lines) == 1 or pointed)
    tidy = (own or lines[0].startswith(("╭", "+"))) and all(line.isprintable() for line in lines)
    if ending.status == 2 and not ending.out and tidy and "Traceback" not in ending.err:
        return ""
    return f"status {ending.status}, stdout {ending.out[-200:]!r}, stderr {ending.err[-600:]!r}"


# The least that each command needs; all else about it is right.
SMALL = {
    "demo": ["--out", "new"],
    "solve": ["square left"],
    "serve": ["--port", "0"],
    "explain": ["square left"],
    "represent": "--out new --objects square --size 16 --latents 8 --width 4 --pairs 64 --updates 4 --batch 4".split(),
    "pretrain": "--out new --width 8 --num-envs 4 --batch 8 --env-steps 160 --replay 160".split(),
    "evaluate": "--episodes 2 --tasks-per-class 1".split(),
    "inspect": ["--starts", "2"],
    "worlds": [],
    "check": ["--world", "room"],
    "reproduce": ["theorem"],
    "bench": "env --batch 4 --no-peer".split(),
    "sweep": "--grid seed=0 --engine ray --address 127.0.0.1:1 --out new".split(),
    "report": ["nowhere"],
}
# Numbers that no option takes, and those that only some take.
NO_INTEGER = ("", "x", "nan", "inf", "2.5", "1e11", "1e400", "-1", str(-(10**30)), str(10**11), str(10**30))
NO_FLOAT, TOO_LARGE = ("", "x", "nan", "-inf", "-1", "-1e400"), ("inf", "1e400", "1e30")
MAY_BE_0 = set("seed starts few-shot labelled switch-every port gamma gpus beta checkpoint-seconds".split())
MAY_BE_LARGE = {"beta", "checkpoint-seconds"}
LONG = "n" * 300
NOWHERE = ["", "/dev/null", "/dev/full", "/dev/null/x", "/sys/x", "/proc/x", "fifo", "file/x", "loop/x", "a\0b", LONG]
NO_FILE = [*NOWHERE, "empty", "/", "."]
OWN_WRONG = "fails leaves two text nothing matrix python strange empty nowhere number"
NO_FUNCTION = [
    *(f"own:{name}" for name in OWN_WRONG.split()),
    *"broken:f exits:f own own: :f ..own:f \x1b:f".split(" "),
]
NO_WORLD = [*(f"own:{name}" for name in "nobody Thing Step number".split()), "", ":", "a\0b", "json:loads", LONG]
WRONG: dict[str, list[str]] = {
    "out": [*NOWHERE, "file", "/dev", "/proc", "/sys"],
    "gif": NO_FILE,
    "trace": NO_FILE,
    "library": ["", *"nowhere file empty fifo loop garbage /dev/null".split(), "a\0b", "\x1b[2J", "a\nb", LONG],
    "features": [*NO_FUNCTION, "entangled:", "entangled:x", "entangled:-1", "learnt:", "learnt:nowhere", "learnt:file"],
    "reward": [*NO_FUNCTION, "own:nan", "own:infinite"],
    "world": [*NO_WORLD, "gymnasium:", "gymnasium:CartPole-v1", "room --world.nope 1", "room --world.max_steps -1"],
    "host": ["", "256.1.1.1", "192.0.2.1", "no such host", "a\0b", "\x1b[2J", "http://localhost", "é" * 80, "a" * 70],
    "objects": ["", "blob", "\0", "\x1b[2J", "square square"],
    "port": ["65536", "70000", "0.5"],
}
NO_PHRASE = ["", " ", "\0", "\x1b[2J", "\r\n", "\udcff", "💥", "left", "square", "(" * 2000, "square left\ncircle"]
NO_PHRASE += ["square above circle", "square \x1b]0;owned\x07 left", "a" * 10**5, "square left " * 10**4, "me left"]
NO_COMMAND = ["", "--nonsense", "-x", "solve solve", "--version solve", "explain", "evaluate --suite none", "\0"]
NO_COMMAND += ["pretrain --out taken", "pretrain --resume --out nowhere", "pretrain --resume --force", "SOLVE square"]
NO_COMMAND += ["solve x --gif same.gif --trace ./same.gif", "demo --out in-the-way", "evaluate --library taken nowhere"]
FINE = [["--version"], ["--help"], *([command, "--help"] for command in SMALL if command not in ("reproduce", "bench"))]
FINE += [["explain", goal] for goal in ("SQUARE LEFT", "\tsquare\u2003left.", "square x 1/99", "a to square in left")]
OWN = """
import sys
import jax.numpy as jnp
number = 3
def fails(obs): raise RuntimeError("no\\nfeatures\\nhere")
def leaves(obs): sys.exit(0)
def two(obs, more): return obs
def text(obs): return "text"
def nothing(obs): return None
def matrix(obs): return jnp.ones((3, 3))
def nan(obs): return jnp.nan * obs.sum()
def infinite(obs): return jnp.inf + obs.sum()
def python(obs): return 1.0 if obs[0] > 0.5 else 0.0
def strange(obs): return {"a": obs}
def empty(obs): return jnp.zeros(0)
def nobody(): return None
class Thing: pass
class Step:
    num_actions, max_steps, feature_names = 2, 3, ("dial",)
    def reset(self, key): return jnp.zeros(1)
    def observe(self, state): return state
    def features(self, state): return state
    def step(self, state, action): raise RuntimeError("no step")
"""


def furnish(place: Path) -> None:
    """Put into a folder what the odd command lines name."""
    for name in ("empty", "garbage", "in-the-way/demo.gif"):
        (place / name).mkdir(parents=True)
    os.mkfifo(place / "fifo")
    (place / "loop").symlink_to("loop")
    broken, leaves = "raise RuntimeError('first\\nsecond')", "import sys; sys.exit(0)"
    files = {"file": "plain", "garbage/config.json": '{"format": 2, "world": []}', "own.py": OWN}
    for name, text in (files | {"broken.py": broken, "exits.py": leaves}).items():
        (place / name).write_text(text)
    shutil.copytree(str(resources.files("cumulant") / "shipped"), place / "taken")


def looked(place: Path) -> dict[str, tuple[int, ...]]:
    """Return what every path below a folder is, and the devices that commands were given."""
    paths = [path for path in place.rglob("*") if "__pycache__" not in path.parts]
    stats = {str(path): path.lstat() for path in [*paths, Path("/dev/null"), Path("/dev/full")]}
    return {name: (s.st_mode, s.st_rdev, s.st_nlink, 0 if s.st_rdev else s.st_mtime_ns) for name, s in stats.items()}


def options() -> list[tuple[str, str, str]]:
    """Return (command, option, kind) of every option that the commands' own help shows."""
    shown = {command: run_here(command, "--help").out for command in SMALL}
    pattern = re.compile(r"^\W*--([a-z][a-z-]*),? (\S+)", re.MULTILINE)
    return [(command, *found) for command, text in shown.items() for found in pattern.findall(text)]


def _wrong_values(option: str, kind: str) -> list[str]:
    """Return values that an option of a kind, as the help shows it, never takes."""
    values = list(WRONG.get(option, []))
    if "INT" in kind:
        values += NO_INTEGER
    elif "FLOAT" in kind:
        values += NO_FLOAT + (() if option in MAY_BE_LARGE else TOO_LARGE)
    elif not values and kind.startswith("{") and "," in kind and "None" not in kind:
        values += ["none", ""]
    return values + ["0"] * (("INT" in kind or "FLOAT" in kind) and option not in MAY_BE_0)


def _wrong_line(rng: random.Random, known: list[tuple[str, str, str]]) -> list[str]:
    """Return a command line with something surely wrong, and perhaps more."""
    kind = rng.random()
    if kind < 0.1:
        return rng.choice(NO_COMMAND).split(" ")
    if kind < 0.2:
        return [rng.choice(("explain", "solve")), rng.choice(NO_PHRASE)]
    command, option, shape = rng.choice([each for each in known if _wrong_values(*each[1:])])
    judged = ("own:", "room --world.max") if (command, option) == ("check", "world") else ()  # told in a table
    value = rng.choice([each for each in _wrong_values(option, shape) if not each.startswith(judged)])
    odd = [f"--{option}", *(value.split(" ") if value.startswith(("room --", "square s")) else [value])]
    line = [command, *SMALL[command], *odd]
    if kind < 0.3:
        line += rng.choice((["--nonsense"], ["--nonsense", "1"], ["one", "too", "many"], ["--json=maybe"], ["-x"]))
    return line


def arguments(fuzz: Fuzz) -> None:
    """Run odd command lines: nearly all in this process, some in processes with odd streams, or stopped early."""
    here, path, bytecode = Path.cwd(), list(sys.path), sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        furnish(place := Path(name))
        os.chdir(place)
        sys.path.insert(0, str(place))
        try:
            known, before = options(), looked(place)
            fuzz.check(len(known) > 60, f"the help shows {len(known)} options only")
            for number in fuzz.cases():
                if number % 20 == 19:
                    fuzz.tried["processes"] += 1
                    _alone(fuzz)
                elif number % 20 == 9:
                    fuzz.tried["right lines"] += 1
                    ending = run_here(*(line := fuzz.rng.choice(FINE)))
                    fuzz.check(ending.status == 0 and not ending.err, f"{line}: {ending}")
                else:
                    fuzz.tried["wrong lines"] += 1
                    line = _wrong_line(fuzz.rng, known)
                    what = refusal(run_here(*line))
                    fuzz.check(not what, f"{[word[:60] for word in line]}: {what}")
                after = looked(place)
                changed = [each for each in {*before, *after} if before.get(each) != after.get(each)]
                fuzz.check(not changed, f"made, changed or removed {changed}")
                before = after
        finally:
            os.chdir(here)
            sys.path[:], sys.dont_write_bytecode = path, bytecode
            for module in ("own", "broken", "exits"):
                sys.modules.pop(module, None)


# Says when Python itself is up: before that nobody of ours answers a signal.
UP = "import sys, cumulant.__main__; print(flush=True); sys.exit(cumulant.__main__.main())"


RIGHT, WRONG_WORD, ASCII = ["--version"], ["explian", "square left"], {"PYTHONIOENCODING": "ascii"}
STREAMS: list[tuple[str, list[str], int, dict[str, str]]] = [  # where streams go, a command, its status, environment
    (">/dev/full", RIGHT, 2, {}),
    ("2>/dev/full", WRONG_WORD, 2, {}),
    (">&-", RIGHT, 0, {}),
    ("2>&-", WRONG_WORD, 2, {}),
    ("", ["--help"], 0, ASCII),
    ("", ["explain", "square γ"], 2, ASCII),
    ("", ["explain", "\udcff"], 2, ASCII),
]


def _alone(fuzz: Fuzz) -> None:
    """Run a command in a process of its own: its streams are full, closed or ASCII, or it is told to stop."""
    if fuzz.rng.random() < 0.4:
        return _stopped(fuzz)
    to, line, status, more = fuzz.rng.choice(STREAMS)
    typed = ["sh", "-c", f'exec "$@" {to}', "sh", *COMMAND, *line]
    done = subprocess.run(typed, check=False, capture_output=True, timeout=HANGS, env=os.environ | more)
    quiet = b"Traceback" not in done.stderr and b"Exception" not in done.stderr
    fuzz.check(done.returncode == status and quiet, f"{to} {done}")


def _stopped(fuzz: Fuzz) -> None:
    """Stop a command after a moment: it ends quietly, with the status of the signal unless it was done before."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    line = fuzz.rng.choice((["serve", "--port", "0"], ["solve", "square left", "--episodes", "2", "--json"]))
    number, after = fuzz.rng.choice((signal.SIGINT, signal.SIGTERM)), fuzz.rng.choice((0.05, 0.2, 0.5, 1, 2))
    env = os.environ | {"JAX_ENABLE_COMPILATION_CACHE": "false"}  # it compiles, and may be stopped while it does
    with subprocess.Popen([sys.executable, "-c", UP, *line], env=env, stdout=-1, stderr=-1, text=True) as process:
        assert process.stdout
        process.stdout.readline()
        time.sleep(after)
        process.send_signal(number)
        try:
            err = process.communicate(timeout=HANGS)[1]
        except subprocess.TimeoutExpired:
            process.kill()
            err = "did not stop"
    status = process.returncode if process.returncode >= 0 else 128 - process.returncode
    fuzz.check(
        status in (0, 128 + number) and not err, f"{line}, {number.name} after {after} s: {status}, {err[-600:]}"
    )
