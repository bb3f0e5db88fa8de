"""Attack what is read from disk: hostile folders, and damage to good ones.

    python tools/attack_folders.py --hostile 10000 --processes 100 --flips 5000

A hostile folder must be refused in one line within two seconds, run no code and take little memory: a process that
refuses one stays below 500 MB, and one that finds nothing wrong takes what a good folder does, mostly to compile. A
damaged folder must be refused, or give the very bits that were written. Exit status 1 if anything is wrong.
"""

import argparse
import contextlib
import io
import itertools
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import cumulant
from cumulant.commands.cli import main as command
from damaged_folders import attack_damage
from hostile_folders import hostile_folders

SECONDS = 2.0  # to read or refuse a folder in a process that is running
PROCESS_SECONDS = 60.0  # for a process from its start, compiling where there is something to solve
BYTES = 500e6  # of a process that refuses a folder, in all
GROWTH = 50e6  # that a folder may take beside what a good one does
OURS = {"PYTHONPATH": str(Path(cumulant.__file__).resolve().parents[1])}  # the code that is attacked, not another copy
# Runs a command, and prints its exit status and the kilobytes of its peak. It is small: to Linux, the memory of whoever
# starts a process is that process's own until it begins, and counts.
LAUNCHER = """
import os, sys
nowhere = os.open(os.devnull, os.O_WRONLY)
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, nowhere, 1)])
_, status, used = os.wait4(child, 0)
print(os.waitstatus_to_exitcode(status), used.ru_maxrss)
"""


class Tried(NamedTuple):
    """What became of a folder."""

    result: str  # "refused", "read", or what is wrong
    seconds: float
    bytes: float  # that it took beside what the process had, or all of a process of its own


def try_folder(folder: Path) -> Tried:
    """What the command makes of a folder, in this process."""
    said, before, begun = io.StringIO(), _forget_peak(), time.perf_counter()
    status: int | str
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        try:
            status = command(["solve", "nonsense", "--library", str(folder)])  # refused once the library was read
        except BaseException:
            status = f"raised {traceback.format_exc(limit=-1).strip().splitlines()[-1]}"
    seconds, words = time.perf_counter() - begun, said.getvalue()
    read = "unknown word 'nonsense'" in words or "give --reward" in words
    return Tried("read" if read else _refusal(status, words), seconds, _memory("VmHWM") - before)


def try_process(folder: Path) -> Tried:
    """What the command makes of a folder, as anybody would give it."""
    asked = [sys.executable, "-m", "cumulant", "solve", "square left", "--library", str(folder)]
    begun = time.perf_counter()
    launch = [sys.executable, "-c", LAUNCHER, *asked]
    told = subprocess.run(launch, capture_output=True, text=True, check=True, env=os.environ | OURS)
    code, kilobytes = map(int, told.stdout.split())
    result = "read" if code == 0 else _refusal(code, told.stderr)
    return Tried(result, time.perf_counter() - begun, 1024 * kilobytes)


def _refusal(status: int | str, words: str) -> str:
    tidy = words.count("\n") == 1 and all(c.isprintable() or c == "\n" for c in words)
    return "refused" if tidy and status == 2 else f"status {status}, said {words!r}"


def _memory(name: str) -> float:
    """Bytes of this process: VmRSS, what it has, or VmHWM, the most it had since its peak was forgotten."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(f"{name}:"))
    return 1024 * float(line.split()[1])


def _forget_peak() -> float:
    """Have the peak of memory counted from now on; the bytes that there are now."""
    Path("/proc/self/clear_refs").write_text("5")
    return _memory("VmRSS")


def attack_hostile(root: Path, most: int, processes: int) -> bool:
    """Try hostile folders in this process, and one of each kind in a process of its own; whether all is well."""
    (root / "evil.py").write_text("from pathlib import Path\nPath('it-ran').touch()\ndef f(obs): return obs\n")
    here, folders = Path.cwd(), list(itertools.islice(hostile_folders(root), most))
    os.chdir(root)
    try_folder(root / "plain")  # so that what any library takes is not counted as a hostile one's
    print(f"this process has {_forget_peak() / 1e6:.0f} MB before it is given a hostile folder")
    inside = {name: try_folder(folder) for _, name, folder in folders}
    kinds = {kind: folder for kind, _, folder in reversed(folders)}
    good = try_process(root / "plain")
    print(f"a good folder in a process of its own: {_size(good)}")
    outside = {kind: try_process(folder) for kind, folder in itertools.islice(kinds.items(), processes)}
    os.chdir(here)
    ran = (root / "it-ran").exists()
    print(f"code ran: {ran}")
    limits = {"refused": BYTES, "read": good.bytes + GROWTH}
    told = _told("in one process", inside, SECONDS, dict.fromkeys(limits, GROWTH))
    return _told("in processes of their own", outside, PROCESS_SECONDS, limits) and told and not ran


def _told(where: str, tried: dict[str, Tried], seconds: float, most: dict[str, float]) -> bool:
    """Print what became of hostile folders; whether it is one of what may be, and took no more bytes than that may."""
    counts = Counter(each.result if each.result in most else "wrong" for each in tried.values())
    print(f"hostile folders {where}: {len(tried)}, {dict(counts)}")
    for result in most:
        found = {name: each for name, each in tried.items() if each.result == result}
        for what, field in (("slowest", "seconds"), ("largest", "bytes")) if found else ():
            name = max(found, key=lambda name: getattr(found[name], field))
            print(f"    {what}: {_size(found[name])}: {name}")
    wrong = {
        name: each
        for name, each in tried.items()
        if each.result not in most or each.seconds > seconds or each.bytes > most[each.result]
    }
    print("".join(f"    WRONG: {name}: {each}\n" for name, each in wrong.items()), end="")
    return not wrong


def _size(tried: Tried) -> str:
    return f"{tried.result} after {tried.seconds:.2f} s with {tried.bytes / 1e6:.0f} MB"


def main() -> int:
    """Attack as the options say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hostile", type=int, default=10_000, metavar="N", help="hostile folders at most")
    parser.add_argument("--processes", type=int, default=100, metavar="N", help="kinds of them in processes, at most")
    parser.add_argument("--flips", type=int, default=5_000, metavar="N", help="damaged files")
    parser.add_argument("--seed", type=int, default=0, help="of the damage")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve()
        good = attack_hostile(root, given.hostile, given.processes)
        return 0 if attack_damage(root / "damaged", given.flips, given.seed) and good else 1


if __name__ == "__main__":
    sys.exit(main())
