"""Measure how long each command leaves somebody at a terminal alone: until its first sign of life, and until its end.

Each command runs on a terminal of its own, twice in a row: cold, with an empty folder for compiled programs, and warm,
with what the first run left there. A sign of life is anything printable; a silence is the longest time without one.
`serve` is done when its page is up; what learns for minutes is told to stop as soon as it has begun to count. Prints a
Markdown table, and exits with 1 if a first sign took longer than two seconds or a command failed.

    python tools/measure_start.py --only evaluate
"""

import argparse
import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

SOON = 2.0  # seconds to the first sign of life
OVERDUE = 600.0
_ESCAPES = re.compile(rb"\x1b(?:\[[0-9;?]*[a-zA-Z]|[^\[])|[\s\x00-\x1f]")
_REWARD = "def corner(obs): return ((obs[2] < 1 / 3) & (obs[3] > 2 / 3)) * 1.0"


class Timed(NamedTuple):
    """A command, and what it prints once it is up, if it does not end by itself: then it is told to stop."""

    line: str
    until: str = ""


COMMANDS = (
    Timed("demo"),
    Timed('solve "circle top left and square not left"'),
    Timed('solve "circle top left and square not left" --gif mine.gif'),
    Timed("solve --reward own:corner"),
    Timed('solve "keep square left then agent top without agent right"'),
    Timed("serve --port 0", "Cumulant is at"),
    Timed('explain "get the square to the centre left"'),
    Timed('explain --world room "lamp on and temperature above 21"'),
    Timed("worlds"),
    Timed("check"),
    Timed("check --world room"),
    Timed("evaluate"),
    Timed("evaluate --few-shot 2000"),
    Timed("evaluate --suite aligned"),
    Timed("evaluate --suite coverage --tasks-per-class 100"),
    Timed("evaluate --suite plans"),
    Timed("evaluate --suite rewards --few-shot 2000"),
    Timed("evaluate --objects square star"),
    Timed("inspect"),
    Timed("pretrain --out library", "loss"),
    Timed("represent --out encoder --size 32", "updates of"),
    Timed("sweep --grid seed=0:2 width=8 num_envs=4 env_steps=400 replay=400 episodes=2 --out sweep"),
    Timed("reproduce theorem"),
    Timed("reproduce fig4 --smoke --out runs", "updates"),
    Timed("bench env --no-peer"),
    Timed("bench render --no-peer"),
    Timed("bench parse"),
    Timed("bench gpi"),
)


class Watched(NamedTuple):
    """What somebody at the terminal saw of a command."""

    first: float  # seconds to the first sign of life
    silence: float  # the longest without one
    end: float
    well: bool
    text: str


def watch(timed: Timed, place: Path, cache: Path) -> Watched:
    """Run a command on a terminal of its own."""
    ours, theirs = pty.openpty()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_COMPILATION", "JAX_ENABLE"))}
    shown = {"XDG_CACHE_HOME": str(cache), "TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40"}
    command = [sys.executable, "-m", "cumulant", *shlex.split(timed.line)]
    begun = latest = time.monotonic()
    with subprocess.Popen(command, cwd=place, env=kept | shown, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        first = silence = 0.0
        text, stopped = b"", False
        while time.monotonic() < begun + OVERDUE:
            try:
                part = os.read(ours, 2**16) if select.select([ours], [], [], 0.01)[0] else None
            except OSError:  # nobody writes any more
                break
            if part is None or not _ESCAPES.sub(b"", part):
                continue
            now, text = time.monotonic(), text + part
            first = first or now - begun
            latest, silence = now, max(silence, now - latest)
            if timed.until and not stopped and timed.until in _ESCAPES.sub(b" ", text).decode(errors="replace"):
                process.send_signal(signal.SIGINT)
                end, stopped = now - begun, True
        else:
            process.kill()
        os.close(ours)
        status = process.wait()
    if not stopped:
        silence, end = max(silence, time.monotonic() - latest), time.monotonic() - begun
    return Watched(first, silence, end, stopped or status == 0, text.decode(errors="replace"))


def watch_afresh(timed: Timed, cache: Path) -> Watched:
    """The same in a folder of its own, in which nothing lies but a reward."""
    with tempfile.TemporaryDirectory(prefix="measure-start-") as place:
        (Path(place) / "own.py").write_text(_REWARD)
        return watch(timed, Path(place), cache)


def main() -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="just the commands that hold this text")
    parser.add_argument("--show", action="store_true", help="what they wrote, too, on stderr")
    given = parser.parse_args()
    # A shell has its background jobs ignore Ctrl+C, and what they start would, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    wrong = 0
    print("| command | first sign, cold | warm | longest silence, cold | warm | done, cold | warm |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for timed in (timed for timed in COMMANDS if given.only in timed.line):
        with tempfile.TemporaryDirectory(prefix="measure-start-") as cache:
            cold, warm = (watch_afresh(timed, Path(cache)) for _ in range(2))
        cells = [
            f"{seconds:.1f} s"
            for name in ("first", "silence", "end")
            for seconds in (getattr(cold, name), getattr(warm, name))
        ]
        done = "" if cold.well and warm.well else " (failed)"
        wrong += bool(done) or max(cold.first, warm.first) > SOON
        print(f"| `{timed.line}`{done} | {' | '.join(cells)} |", flush=True)
        if given.show:
            print(cold.text, file=sys.stderr)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
