"""The part `arguments` of `fuzz.py`: odd command lines; and what all parts share.

A wrong command line ends with status 2 and one line (or the parser's box) on stderr, before it computes, makes or
changes anything.
"""

import contextlib
import io
import os
import random
import re
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any
from unittest import mock

COMMAND = (sys.executable, "-m", "cumulant")
HANGS = 120  # seconds after which something has hung, however busy the machine is


class Tried:
    """Record of one part: what it tried, how often, and the violations that it found."""

    def __init__(self, name: str, seed: int = 0, seconds: float = float("inf"), most: float = float("inf")):
        self.name, self.rng, self.count, self.violations = name, random.Random(seed), Counter[str](), list[str]()
        self._seconds, self._most = seconds, most

    def cases(self) -> Iterator[int]:
        """Yield the numbers of the cases until time or their number is used up."""
        number, end = 0, time.monotonic() + self._seconds
        while number < self._most and time.monotonic() < end:
            yield number
            number += 1

    def check(self, holds: Any, what: str) -> None:
        """Record a violation if something that must hold does not."""
        if not holds:
            self.violations.append(what)

    def __str__(self) -> str:
        counts = ", ".join(f"{count:,} {what}" for what, count in sorted(self.count.items()))
        found = "".join(f"\n    {each[:1000]}" for each in self.violations[:20])
        return f"{self.name}: {counts}; violations {len(self.violations)}{found}"


def run_here(*argv: str) -> CompletedProcess[str]:
    """Run a command in this process; one that hangs ends as Ctrl+C would end it, with status 130."""
    from cumulant.commands.cli import main

    out, err = io.StringIO(), io.StringIO()
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.alarm(HANGS)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main(argv)
        except SystemExit as stop:
            status = stop.code if isinstance(stop.code, int) else int(bool(stop.code))
        except (Exception, KeyboardInterrupt) as error:
            traceback.print_exc()
            status = 130 if isinstance(error, KeyboardInterrupt) else 1
        finally:
            signal.alarm(0)
    return CompletedProcess(argv, status, out.getvalue(), err.getvalue())


def refusal(ending: CompletedProcess[str]) -> str:
    """Return what is wrong with a refusal, or "": status 2, and one line of ours or the parser's box on stderr."""
    lines = ending.stderr.removesuffix("\n").split("\n")
    tidy = (len(lines) == 1 and lines[0].startswith("cumulant: ")) or lines[0].startswith(("╭", " "))
    good = ending.returncode == 2 and not ending.stdout and tidy and all(line.isprintable() for line in lines)
    return "" if good else f"status {ending.returncode}, {ending.stdout[-200:]!r}, {ending.stderr[-600:]!r}"


@contextlib.contextmanager
def working_folder() -> Iterator[Path]:
    """Work in a temporary folder, from which Python imports modules too."""
    with (
        tempfile.TemporaryDirectory(prefix="fuzz-") as name,
        contextlib.chdir(name),
        mock.patch.object(sys, "path", [name, *sys.path]),
        mock.patch.object(sys, "dont_write_bytecode", True),
    ):
        yield Path(name).resolve()


# What each command needs; all else about it is right.
NEEDED = {
    **dict.fromkeys(("demo", "serve", "pretrain", "evaluate", "inspect", "check"), ""),
    **dict.fromkeys(("solve", "explain"), "agent-left"),
    "represent": "--out new",
    "sweep": "--grid seed=0 --engine ray --address 127.0.0.1:1",
    "reproduce": "theorem",
    "bench": "gpi",
}
# Values that no option takes, by the kind of value that the help shows; any other kind is text.
NO_FLOAT = ["", "x", "nan", "-inf", "-1", "-1e400"]
NO_INTEGER = [*NO_FLOAT, "inf", "2.5", "1e11", str(10**30), str(-(10**30))]
NO_TEXT = ["", "a\0b", "\x1b[2J", "n" * 300, "/dev/null", "/dev/full", "/dev/null/x", "/sys/x", "/proc/x"]
NO_TEXT += ["file/x", "loop/x", "fifo"]
ODD = {"INT": NO_INTEGER, "N": NO_INTEGER, "FLOAT": NO_FLOAT, "X": NO_FLOAT}
MAY_BE_0 = set("seed starts few-shot labelled switch-every port gamma gpus beta checkpoint-seconds".split())
NO_FUNCTION = "own:fails own:leaves own:text own:infinite own:nowhere own : ..own:f".split(" ")
MORE = {
    "reward": NO_FUNCTION,
    "features": [*NO_FUNCTION, "entangled:-1", "learnt:nowhere", "learnt:file"],
    "world": [*NO_FUNCTION, "json:loads", "gymnasium:CartPole-v1"],
    "port": ["65536"],
    "host": ["256.1.1.1", "192.0.2.1", "http://localhost", "é" * 80],
}
OWN = """
def fails(obs): raise RuntimeError("no\\nfeatures\\nhere")
def leaves(obs): raise SystemExit(0)
def text(obs): return "text"
def infinite(obs): return obs.sum() / 0.0
"""


def looked(place: Path) -> set[tuple[Any, ...]]:
    """Return what every path below a folder is, and the devices that commands were given."""
    paths = [*place.rglob("*"), Path("/dev/null"), Path("/dev/full")]
    stats = [(path, path.lstat()) for path in paths]
    return {(path, s.st_mode, s.st_rdev, s.st_nlink, 0 if s.st_rdev else s.st_mtime_ns) for path, s in stats}


def options() -> list[tuple[str, str, list[str]]]:
    """Return (command, option, odd values) for every option with a value that the commands' own help shows."""
    pattern, found = re.compile(r"^\W*--([a-z][a-z-]*) (\[?[A-Z]+|\{\S+\})( |$)", re.MULTILINE), []
    for command in NEEDED:
        for option, kind, _ in pattern.findall(run_here(command, "--help").stdout):
            if option == "environment":  # of one benchmark alone: the others pass over it
                continue
            values = ODD.get(kind, NO_TEXT) + MORE.get(option, [])
            found.append((command, option, values + ["0"] * (kind in ODD and option not in MAY_BE_0)))
    return found


def arguments(tried: Tried) -> None:
    """Run command lines with one thing that is surely wrong, and perhaps more."""
    with working_folder() as place:
        os.mkfifo("fifo")
        Path("loop").symlink_to("loop")
        Path("file").write_text("plain")
        Path("own.py").write_text(OWN)
        known, before, rng = options(), looked(place), tried.rng
        tried.check(len(known) > 90, f"the help shows {len(known)} options only")
        for _ in tried.cases():
            command, option, values = rng.choice(known)
            line = [command, *NEEDED[command].split(), f"--{option}", rng.choice(values)]
            line += rng.choice(([], [], [], ["--nonsense"], ["one", "too", "many"]))
            what = refusal(run_here(*line))
            tried.count[command] += 1
            tried.check(not what, f"{[word[:60] for word in line]}: {what}")
            changed = before ^ (before := looked(place))
            tried.check(not changed, f"made, changed or removed {changed}")
        sys.modules.pop("own", None)
