"""The part `runs` of `fuzz.py`: runs that are killed, at every file step and at random moments, or find the disk full.

A run goes on from what it saved, and ends with the same bytes as one that nothing disturbed.
"""

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

from fuzz_commands import COMMAND, Fuzz, run_here

TINY = "--world room --width 8 --depth 1 --num-envs 4 --batch 8 --env-steps 12 --replay 16 --checkpoint-seconds 0"
SWEEP = "world=room width=8 depth=1 num_envs=4 batch=8 env_steps=12 replay=16 tasks_per_class=1 episodes=2"
ENCODER = "--objects square --size 16 --labelled 0 --latents 8 --width 4 --pairs 64 --updates 4 --batch 4 --restarts 1"
# Commands that fill a folder, which is named last.
PRETRAIN = ("pretrain", *TINY.split(), "--out")
REPRESENT = ("represent", *ENCODER.split(), "--out")
SWEEPING = ("sweep", "--in-step", "1", "--grid", "seed=0:2", *SWEEP.split(), "--out")

Files = dict[str, bytes]  # below a folder, by their paths; a folder ends in "/" and has no bytes


def files_of(folder: Path) -> Files:
    """Return all that is below a folder."""
    paths = sorted(folder.rglob("*"))
    return {f"{p.relative_to(folder)}{'/' * p.is_dir()}": b"" if p.is_dir() else p.read_bytes() for p in paths}


def fill(folder: Path, files: Files) -> None:
    """Make a folder hold just these files."""
    shutil.rmtree(folder, ignore_errors=True) if folder.is_dir() and not folder.is_symlink() else folder.unlink(True)
    folder.mkdir(parents=True)
    for name, data in files.items():
        path = folder / name
        (path if name.endswith("/") else path.parent).mkdir(parents=True, exist_ok=True)
        if not name.endswith("/"):
            path.write_bytes(data)


# File steps, by Python's audit events, with the place of the folder that a path is relative to among the arguments.
_STEPS = {"os.rename": 2, "os.remove": 1, "os.rmdir": 1, "os.mkdir": 2, "os.chmod": 2, "os.truncate": 9, "open": 9}
_SPACE = ("open", "os.mkdir")  # of them, those that take space; syncing does too: some systems find room so late
_watching: list["Watched"] = []  # Python never forgets an audit hook: there is one, which looks here


class Watched:
    """Notes what a folder holds before every file step below it: just what SIGKILL at that step leaves.

    A step opens a file for writing, makes, renames, changes or removes something, or syncs it. From step `full_from`
    on of those that take space, `full_for` of them fail as on a full disk.
    """

    _hooked = False

    def __init__(self, folder: Path, full_from: float = float("inf"), full_for: float = 1):
        self.folder, self.seen, self.taking, self.failed = folder, list[Files](), 0, 0
        self._full = full_from, full_from + full_for

    def __enter__(self) -> "Watched":
        """Begin to watch; one at a time."""
        if not Watched._hooked:
            sys.addaudithook(_audit)
            Watched._hooked = True
        self._patch = mock.patch.object(os, "fsync", self._fsync)
        self._patch.start()
        _watching[:] = [self]
        return self

    def __exit__(self, *exception: object) -> None:
        _watching.clear()
        self._patch.stop()
        self.note()

    def _fsync(self, handle: int) -> None:
        path = _of_handle(handle)
        self.step(path, not os.path.isdir(path))  # and is not done: no power is cut

    def step(self, path: str, takes_space: bool) -> None:
        """Note what there is before a step, and have the disk full if it is."""
        if not f"{path}/".startswith(f"{self.folder}/"):
            return
        self.note()
        if takes_space:
            number, self.taking = self.taking, self.taking + 1
            if self._full[0] <= number < self._full[1]:
                self.failed += 1
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def note(self) -> None:
        """Note what the folder holds now, if that is new."""
        now = files_of(self.folder) if self.folder.exists() else {}
        if now not in self.seen[-1:]:
            self.seen.append(now)

    def deaths(self) -> list[Files]:
        """Return what a kill may leave: all that was seen, and each file that appeared or grew half there."""
        half = [
            before | {name: data[: (len(before.get(name, b"")) + len(data)) // 2]}
            for before, after in pairwise(self.seen)
            for name, data in after.items()
            if data != before.get(name, b"") and data.startswith(before.get(name, b""))
            if name in before or any(part.startswith(".") for part in Path(name).parts)  # else it was renamed to there
        ]
        return [*self.seen, *half]


def _audit(event: str, args: tuple[Any, ...]) -> None:
    if not _watching or event not in _STEPS or not isinstance(args[0], str | os.PathLike):
        return
    if event == "open" and not args[2] & (os.O_WRONLY | os.O_RDWR):
        return
    handle = args[_STEPS[event]] if len(args) > _STEPS[event] else -1
    path = os.path.join(_of_handle(handle) if handle >= 0 else os.getcwd(), args[0])
    _watching[0].step(path, event in _SPACE and not os.path.lexists(path))


def _of_handle(handle: int) -> str:
    with contextlib.suppress(OSError):  # where the system does not tell
        return os.readlink(f"/proc/self/fd/{handle}")
    return ""


def mixed(files: Files) -> list[str]:
    """Return the folders that claim to be whole, by a checksum in their config.json, and are not."""
    found = []
    for name in files:
        if Path(name).name == "config.json" and not any(part.startswith(".") for part in Path(name).parts):
            told = json.loads(files[name]).get("sha256")
            weights = files.get(name.replace("config.json", "weights.safetensors"), b"")
            found += [name] if told and told != hashlib.sha256(weights).hexdigest() else []
    return found


def saved(files: Files, old: Files) -> float:
    """Return how much is safe: checkpoints or trials that are whole, infinity if all is. It must never shrink."""
    if "config.json" in files and not mixed(files):
        return float("inf") if files["weights.safetensors"] != old.get("weights.safetensors") else -1
    whole = [Path(name).parts for name in files if name.endswith("/config.json")]
    steps = [int(parts[1]) for parts in whole if parts[0] == "checkpoints" and parts[1].isdigit()]
    return max(steps, default=sum(len(parts) == 2 and parts[0] != "checkpoints" for parts in whole))


def results(files: Files) -> dict[str, Any]:
    """Return what a finished folder holds, without how long it took."""

    def timeless(data: bytes) -> list[Any]:
        lines = [data] if data.startswith(b"{\n") else data.splitlines()
        return [{k: v for k, v in json.loads(line).items() if k not in ("seconds", "seal")} for line in lines]

    names = [name for name in files if Path(name).name in ("weights.safetensors", "config.json", "metrics.jsonl")]
    return {name: files[name] if name.endswith("s") else timeless(files[name]) for name in names}


class Run:
    """A command that fills a folder, what it fills it with, and what its death leaves at every file step.

    Args:
        command: The command, which the folder follows.
        ways: Options with which a user goes on after a death, in the order in which they are tried.
        out: The folder.
        seed: Seed of a finished run that the folder holds before; none if negative.

    """

    def __init__(self, command: tuple[str, ...], ways: tuple[str, ...], out: Path, seed: int = -1):
        self.out, self.old, self._ways = out, Files(), ways
        self.line = [*command, str(out)] + ["--force"] * (seed >= 0)
        if seed >= 0:
            assert run_here(*self.line, "--seed", str(seed)).status == 0
            self.old = files_of(out)
        fill(out, self.old)
        with Watched(out) as watched:
            ending = run_here(*self.line)
        assert ending.status == 0, ending
        self.expected, self.deaths, self.taking = results(files_of(out)), watched.deaths(), watched.taking
        self.mixed = [name for files in self.deaths for name in mixed(files)]
        safe = [saved(files, self.old) for files in watched.seen]
        self.lost = safe != sorted(safe)

    def go_on(self) -> str:
        """Go on from what the folder holds, as a user would; return what is wrong with the end, or ""."""
        line = [word for word in self.line if word != "--force"]
        for way in self._ways:
            ending = run_here(*line, *filter(None, [way]))
            if ending.status == 0:
                break
        files = files_of(self.out)
        left = [name for name in files if "checkpoints" in name or re.fullmatch(r"\.(?!lock).*", Path(name).name)]
        same = results(files) == self.expected
        return "" if same and not left else f"the end is {'the same' if same else 'another'}, left are {left}; {ending}"

    def fill_disk(self, write: int, times: float) -> str:
        """Run with the disk full from a write on, then go on without; return what is wrong, or ""."""
        fill(self.out, self.old)
        with Watched(self.out, write, times) as watched:
            ending = run_here(*self.line)
        last = ending.err.strip().splitlines()[-1:] or [""]
        told = ending.status in (0, 1) or (ending.status == 2 and last[0].startswith("cumulant: cannot write "))
        if not told or "Traceback" in ending.err or not watched.failed or any(map(mixed, watched.seen)):
            return f"{ending}, {watched.failed} writes failed"
        return self.go_on()

    def kill(self, after: float) -> str:
        """Kill a process of its own some seconds after it began its work; return what is wrong, or ""."""
        fill(self.out, self.old)
        with subprocess.Popen([*COMMAND, *self.line], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stderr
            process.stderr.readline()  # it has begun
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=after)
            process.kill()
        return " ".join(mixed(files_of(self.out))) or self.go_on()


def runs(fuzz: Fuzz) -> None:
    """Kill runs at every file step and at random moments, again and again, and fill the disk; then go on with them."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        place = Path(name).resolve()
        tried = {
            "pretrain": Run(PRETRAIN, ("--resume", ""), place / "a"),
            "pretrain --force": Run(PRETRAIN, ("--resume", "--force"), place / "b", seed=1),
            "represent --force": Run(REPRESENT, ("--force",), place / "c", seed=1),
            "sweep": Run(SWEEPING, ("",), place / "d"),
        }
        for what, run in tried.items():
            fuzz.check(not run.mixed, f"{what}: killed, {run.mixed} claim to be whole")
            fuzz.check(not run.lost, f"{what}: something that was saved is lost")
            fuzz.tried[f"states of {what}"] += len(run.deaths)
        todo = [(what, files) for what, run in tried.items() for files in run.deaths]
        fuzz.rng.shuffle(todo)
        for number in fuzz.cases():
            what = fuzz.rng.choice(list(tried))
            if number % 10 == 4:
                kind, wrong = "real kills", tried[what].kill(fuzz.rng.uniform(0, 4))
            elif number % 10 in (1, 7):
                writes = fuzz.rng.randrange(tried[what].taking), fuzz.rng.choice((1, 5, float("inf")))
                kind, wrong = "full disks", tried[what].fill_disk(*writes)
            elif todo:
                kind, (what, files) = "kills at a step", todo.pop()
                fill(tried[what].out, files)
                with Watched(tried[what].out) as watched:
                    wrong = tried[what].go_on()
                if fuzz.rng.random() < 0.2:  # it is killed again, while it goes on
                    todo.append((what, fuzz.rng.choice(watched.deaths())))
            else:
                break
            fuzz.tried[kind] += 1
            fuzz.check(not wrong, f"{what}, {kind}: {wrong}")
