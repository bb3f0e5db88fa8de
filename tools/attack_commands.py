"""Attack the command line: odd arguments end in one clear line and status 2, before anything is computed or touched.

Every numeric option of every command gets numbers that cannot be; paths are devices, pipes, folders and names that are
too long; libraries, features and rewards are not what they should be; words hold what no terminal should see (all in
`odd_commands.py`). Most run in one process, which imports everything once; some, and all that are signalled, or whose
streams are closed, full or of few letters, in processes of their own. Prints how many there were, the slowest, and
whatever is wrong; exits with 1 if anything is.
"""

import argparse
import contextlib
import hashlib
import json
import os
import select
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

from odd_commands import Case, cases, furnish

REFUSED_SECONDS = 3.0  # that a refusal may take, once all is imported
FINE_SECONDS = 10.0
IMPORT_SECONDS = 3.0  # that a process of its own may take for importing, on a busy machine
OVERDUE_SECONDS = 60.0
IMPORTED_SECONDS = 300.0  # in which a worker imports everything, however busy the machine is
DEVICES = ("/dev/null", "/dev/full")
COMMAND = (sys.executable, "-m", "cumulant")
ALONE = 25  # of the cases, spread evenly, that are tried again in processes of their own
MOMENTS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8, 1.2, 2.0)  # seconds after which a command is told to stop


class Ending(NamedTuple):
    """How a command ended."""

    status: int
    out: str
    err: str
    seconds: float


def snapshot(place: Path) -> dict[str, str]:
    """Every name below a folder, with what it is and what it holds; and the devices, which must stay what they are."""
    names = [path for path in place.rglob("*") if "__pycache__" not in path.parts]
    return {str(path): _told(path) for path in [*names, *map(Path, DEVICES)]}


def _told(path: Path) -> str:
    status = path.lstat()
    if stat.S_ISREG(status.st_mode):
        return hashlib.sha256(path.read_bytes()).hexdigest()
    return f"{stat.filemode(status.st_mode)} {status.st_rdev}"


def others() -> float:
    """How much longer all takes since others use the machine too: 1 where nobody does."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def violations(case: Case, ending: Ending, before: dict[str, str], after: dict[str, str]) -> list[str]:
    """All that is wrong with how a command ended."""
    wrong = [] if case.fine else refusal_violations(ending)
    if case.fine and ending.status != 0:
        wrong.append(f"fine, but the status is {ending.status}: {ending.err[-300:]}")
    if ending.seconds > (FINE_SECONDS if case.fine else REFUSED_SECONDS) * others():
        wrong.append(f"took {ending.seconds:.1f} s")
    if "Traceback" in ending.err or "Error:" in ending.err:
        wrong.append(f"shows a traceback: {ending.err[-600:]}")
    changed = [name for name in {*before, *after} if before.get(name) != after.get(name)]
    return wrong + [f"made, changed or removed {name}" for name in changed]


def refusal_violations(ending: Ending) -> list[str]:
    """What is wrong with a refusal: it is status 2 and one line, below which a phrase may be pointed at."""
    wrong = []
    if ending.status != 2:
        wrong.append(f"the status is {ending.status}, not 2")
    lines = ending.err.removesuffix("\n").split("\n")
    pointed = len(lines) == 3 and lines[2].strip(" ^") == ""  # a phrase's culprit is pointed at
    by_tyro = "For full helptext" in ending.err  # in a box of its own
    if not by_tyro and ((len(lines) != 1 and not pointed) or not ending.err.startswith("cumulant: ")):
        wrong.append(f"stderr is not one line: {ending.err[-400:]!r}")
    if any(not c.isprintable() for line in lines for c in line):
        wrong.append(f"stderr holds what is not printable: {ending.err[-400:]!r}")
    if ending.out:
        wrong.append(f"stdout is not empty: {ending.out[-200:]!r}")
    return wrong


class Worker:
    """A process that has imported everything, and runs one command after the other."""

    def __init__(self, place: Path):
        """Starts it."""
        self._place = place
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self._place,
        )
        if self._answer(IMPORTED_SECONDS) is None:
            raise TimeoutError(f"the worker has not imported everything in {IMPORTED_SECONDS:.0f} s")

    def run(self, case: Case) -> Ending:
        """A command's end; one that takes too long, or crashes, takes the process along."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps([case.args, case.without]).encode() + b"\n")
        self._process.stdin.flush()
        begun = time.monotonic()
        answer = self._answer(OVERDUE_SECONDS)
        if answer is None:
            self._process.kill()
            status = self._process.wait()
            self._start()
            return Ending(status, "", "the process was ended, or ended itself", time.monotonic() - begun)
        return Ending(*json.loads(answer))

    def _answer(self, seconds: float) -> bytes | None:
        assert self._process.stdout
        ready, _, _ = select.select([self._process.stdout], [], [], seconds)
        return (self._process.stdout.readline() or None) if ready else None

    def stop(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()


def work() -> None:
    """What the worker does: read a command, run it with streams of its own, tell how it ended."""
    import cumulant.commands.progress
    import cumulant.features.representation
    import cumulant.transfer.pretraining
    import cumulant.web.server  # noqa: F401
    from cumulant.transfer.library import Library

    Library.load()
    answers = os.fdopen(os.dup(1), "w")
    print(file=answers, flush=True)
    for line in sys.stdin:
        args, without = json.loads(line)
        print(json.dumps(run_here(args, without)), file=answers, flush=True)


def run_here(args: list[str], without: str = "") -> Ending:
    """Run a command in this process; what is written to the streams, by whomever, is read back from files."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, _redirected(out, err), _hidden(without):
        begun = time.monotonic()
        try:
            from cumulant.commands.cli import main

            status = main(args)
        except SystemExit as stop:
            status = stop.code if isinstance(stop.code, int) else int(bool(stop.code))
        except BaseException:
            traceback.print_exc()
            status = 1
        seconds = time.monotonic() - begun
        sys.stdout.flush()
        sys.stderr.flush()
        return Ending(status, _whole(out), _whole(err), seconds)


@contextlib.contextmanager
def _redirected(out: IO[bytes], err: IO[bytes]) -> Iterator[None]:
    kept = [os.dup(1), os.dup(2)]
    os.dup2(out.fileno(), 1)
    os.dup2(err.fileno(), 2)
    try:
        yield
    finally:
        for number, handle in zip((1, 2), kept, strict=True):
            os.dup2(handle, number)
            os.close(handle)


@contextlib.contextmanager
def _hidden(module: str) -> Iterator[None]:
    """Have a module, and what of ours was imported with it, as if it were not installed."""
    names = [
        name for name in sys.modules if module and (name.split(".")[0] == module or name.startswith("cumulant.web"))
    ]
    kept = {name: sys.modules.pop(name) for name in names}
    if module:
        sys.modules[module] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        if module:
            del sys.modules[module]
        sys.modules.update(kept)


def _whole(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


# Processes of their own


def run_alone(args: tuple[str, ...], place: Path, by: tuple[str, ...] = (), **more: Any) -> Ending:
    """Run a command as a person does, perhaps `by` a program that sets the stage."""
    begun = time.monotonic()
    how: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "errors": "replace"}
    done = subprocess.run([*by, *COMMAND, *args], cwd=place, check=False, timeout=OVERDUE_SECONDS, **how | more)
    return Ending(done.returncode, done.stdout or "", done.stderr or "", time.monotonic() - begun)


def processes(place: Path) -> Iterator[tuple[str, list[str]]]:
    """Some of the cases again, as a person would type them."""
    typed = [case for case in cases() if not case.without and all(_can_be_typed(word) for word in case.args)]
    for case in typed[:: len(typed) // ALONE]:
        before = snapshot(place)
        ending = run_alone(case.args, place)
        ending = ending._replace(seconds=ending.seconds - IMPORT_SECONDS)
        yield shown(case.args), violations(case, ending, before, snapshot(place))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        yield "serve on a port in use", refusal_violations(run_alone(("serve", "--port", port), place))


def _can_be_typed(word: str) -> bool:
    return "\0" not in word and len(word) < 1000


def streams(place: Path) -> Iterator[tuple[str, list[str]]]:
    """Streams that are full, closed, or know few letters."""
    right, wrong = ("--version",), ("explian", "square left")
    with open("/dev/full", "wb") as full:
        yield "stdout full", refusal_violations(run_alone(right, place, stdout=full))
        yield "stderr full", _status_violations(run_alone(wrong, place, stderr=full), 2)
    for stream, args, status in ((">&-", right, 0), ("2>&-", wrong, 2)):
        closing = ("sh", "-c", f'exec "$@" {stream}', "sh")
        yield f"closed: {stream}", _status_violations(run_alone(args, place, by=closing), status)
    few = dict(os.environ, PYTHONIOENCODING="ascii")
    for args, status in ((("--help",), 0), (right, 0), (("explain", "square γ"), 2), (("explain", "\udcff"), 2)):
        yield f"ascii: {shown(args)}", _status_violations(run_alone(args, place, env=few), status)


def _status_violations(ending: Ending, status: int) -> list[str]:
    wrong = [f"the status is {ending.status}, not {status}"] if ending.status != status else []
    return wrong + ([f"stderr: {ending.err[-400:]}"] if "Traceback" in ending.err or "Exception" in ending.err else [])


def signals(place: Path) -> Iterator[tuple[str, list[str]]]:
    """Early signals to some commands."""
    for args in (
        ("serve", "--port", "0"),
        ("solve", "square left", "--episodes", "2", "--json"),
        ("explain", "square left"),
    ):
        for number in (signal.SIGINT, signal.SIGTERM):
            for after in MOMENTS:
                yield f"{shown(args)}, {number.name} after {after} s", signal_violations(args, number, after, place)


# Says when Python itself is up: until then nobody else answers a signal, which takes a while on a busy machine.
_UP = "import sys, cumulant.__main__; print(flush=True); sys.exit(cumulant.__main__.main())"


def signal_violations(args: tuple[str, ...], number: int, after: float, place: Path) -> list[str]:
    """What is wrong with how a command ends that is told to stop after some seconds; its status as a shell sees it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it, and so would ours
    command = [sys.executable, "-c", _UP, *args]
    own = os.environ | {"JAX_ENABLE_COMPILATION_CACHE": "false"}  # so that it compiles, and may be stopped doing it
    with subprocess.Popen(command, cwd=place, env=own, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(after)
        process.send_signal(number)
        try:
            err = process.communicate(timeout=20)[1].decode(errors="replace")
        except subprocess.TimeoutExpired:
            process.kill()
            return ["did not stop"]
    status = process.returncode if process.returncode >= 0 else 128 - process.returncode
    wrong = [] if status in (0, 128 + number) else [f"the status is {status}"]  # 0: it was done, or up, before
    return wrong + ([f"stderr: {err[-400:]!r}"] if err else [])


# All together


def attack_in_one_process(place: Path, only: str) -> list[str]:
    """All cases, one after the other; prints counts and times, and returns what is wrong."""
    worker, before = Worker(place), snapshot(place)
    wrong: list[str] = []
    times, statuses = [], Counter[int]()
    for case in [case for case in cases() if only in shown(case.args)]:
        ending = worker.run(case)
        after = snapshot(place)
        wrong += [f"{shown(case.args)}: {words}" for words in violations(case, ending, before, after)]
        times.append((ending.seconds, shown(case.args)))
        statuses[ending.status] += 1
        before = after
    worker.stop()
    print(f"in one process: {len(times)} command lines, by status {dict(statuses)}")
    took = sorted(seconds for seconds, _ in times)
    print(f"seconds in all: {sum(took):.0f}; half of them took up to {took[len(took) // 2]:.2f} s, ", end="")
    print(f"95 % up to {took[len(took) * 95 // 100]:.2f} s, all up to {took[-1]:.2f} s")
    print("slowest: " + "; ".join(f"{seconds:.2f} s {words}" for seconds, words in sorted(times)[:-9:-1]))
    return wrong


def shown(args: tuple[str, ...]) -> str:
    """Arguments in one short line."""
    return " ".join(repr(word)[1:-1] if len(word) < 60 else repr(word[:57])[1:-1] + "..." for word in args)


def main() -> int:
    """Attack, and tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--only", help="just the cases whose arguments hold this text, in one process")
    given = parser.parse_args()
    if given.worker:
        work()
        return 0
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    with tempfile.TemporaryDirectory(prefix="attack-commands-") as name:
        furnish(place := Path(name))
        wrong = attack_in_one_process(place, given.only or "")
        if given.only is None:
            for what, attack in (("alone", processes), ("streams", streams), ("early signals", signals)):
                ended = list(attack(place))
                wrong += [f"{words}: {each}" for words, found in ended for each in found]
                print(f"{what}: {len(ended)} processes")
    print(f"violations: {len(wrong)}", *wrong, sep="\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
