"""The parts `folders` and `runs` of `fuzz.py`: folders that nobody should trust, and runs that come to a sudden end.

A hostile folder runs no code, takes little time and memory, and is refused in one line; a damaged one is refused, or
gives the very values that were written. A run that is killed, finds the disk full or its folder damaged goes on from
what it saved, and ends with the same bytes as one that nothing disturbed.
"""

import contextlib
import errno
import hashlib
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import numpy as np
import safetensors.numpy

import cumulant
from fuzz_commands import COMMAND, Tried, run_here, working_folder

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
    folder.mkdir()
    for name, data in files.items():
        path = folder / name
        (path if name.endswith("/") else path.parent).mkdir(parents=True, exist_ok=True)
        if not name.endswith("/"):
            path.write_bytes(data)


_watching: list["Watched"] = []  # Python never forgets an audit hook: there is one, which looks here


class Watched:
    """Notes what a folder holds before every file step: just what SIGKILL at that step leaves.

    A step opens a file for writing, makes, renames or removes something, or syncs it. From step `full_from` on of those
    that take space, `full_for` of them fail as on a full disk.
    """

    def __init__(self, folder: Path, full_from: float = float("inf"), full_for: float = 1):
        self.folder, self.seen, self.taking, self.failed = folder, list[Files](), 0, 0
        self._full = full_from, full_from + full_for

    def __enter__(self) -> "Watched":
        """Begin to watch; one at a time."""
        self._patch = mock.patch.object(os, "fsync", self._fsync)
        self._patch.start()
        _watching.append(self)
        return self

    def __exit__(self, *exception: object) -> None:
        _watching.clear()
        self._patch.stop()
        self.step("")

    def _fsync(self, handle: int) -> None:
        path = os.readlink(f"/proc/self/fd/{handle}")  # it is not synced: no power is cut
        self.step("" if os.path.isdir(path) else path)  # some systems find room for a file only now

    def step(self, takes_space: str) -> None:
        """Note what there is; and if something in the folder would take space, have the disk full if it is."""
        now = files_of(self.folder) if self.folder.exists() else {}
        if now not in self.seen[-1:]:
            self.seen.append(now)
        if f"{takes_space}/".startswith(f"{self.folder}/"):
            number, self.taking = self.taking, self.taking + 1
            if self._full[0] <= number < self._full[1]:
                self.failed += 1
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), takes_space)

    def deaths(self) -> list[Files]:
        """Return what a kill may leave: all that was seen, and each file that appeared or grew half there."""
        half = [
            before | {name: data[: (len(before.get(name, b"")) + len(data)) // 2]}
            for before, after in pairwise(self.seen)
            for name, data in after.items()
            if data != before.get(name, b"") and data.startswith(before.get(name, b""))
            if name in before or data not in before.values()  # else it was renamed to there
        ]
        return [*self.seen, *half]


def _audit(event: str, args: tuple[Any, ...]) -> None:
    if _watching and event in ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate"):
        writes = event != "open" or args[2] & (os.O_WRONLY | os.O_RDWR)
        if writes and not isinstance(args[0], int):
            path = os.path.abspath(os.fsdecode(args[0]))
            _watching[0].step(path if event in ("open", "os.mkdir") and not os.path.lexists(path) else "")


sys.addaudithook(_audit)


def mixed(files: Files) -> list[str]:
    """Return the folders that claim to be whole, by a checksum in their config.json, and are not."""
    found = []
    for name in files:
        if Path(name).name == "config.json" and not any(part.startswith(".") for part in Path(name).parts):
            told = "unreadable"
            with contextlib.suppress(ValueError):  # half a file
                told = json.loads(files[name]).get("sha256")
            weights = files.get(name.replace("config.json", "weights.safetensors"), b"")
            found += [name] if told and told != hashlib.sha256(weights).hexdigest() else []
    return found


def results(files: Files) -> dict[str, Any]:
    """Return what a finished folder holds, without how long it took."""

    def timeless(data: bytes) -> list[Any]:
        lines = [data] if data.startswith(b"{\n") else data.splitlines()
        return [{k: v for k, v in json.loads(line).items() if k not in ("seconds", "seal")} for line in lines]

    names = [name for name in files if Path(name).name in ("weights.safetensors", "config.json", "metrics.jsonl")]
    return {name: files[name] if name.endswith("s") else timeless(files[name]) for name in names}


class Run:
    """A command that fills a folder, what it fills it with, and what its death leaves at every file step.

    `ways` are the options with which a user goes on after a death, in order; `replaces`, whether the folder held a
    finished run of another seed before.
    """

    def __init__(self, command: tuple[str, ...], ways: tuple[str, ...], out: Path, replaces: bool = False):
        self.out, self._ways, self.old = out, ways, Files()
        self.line = [*command, str(out)] + ["--force"] * replaces
        if replaces:
            assert run_here(*self.line, "--seed", "1").returncode == 0
            self.old = files_of(out)
        fill(out, self.old)
        with Watched(out) as watched:
            ending = run_here(*self.line)
        assert ending.returncode == 0, ending
        self.files, self.deaths, self.taking = files_of(out), watched.deaths(), watched.taking

    def go_on(self) -> str:
        """Go on from what the folder holds, as a user would; return what is wrong with the end, or ""."""
        line = [word for word in self.line if word != "--force"]
        for way in self._ways:
            ending = run_here(*line, *filter(None, [way]))
            if ending.returncode == 0:
                break
        files = files_of(self.out)
        left = [name for name in files if "checkpoints" in name or re.fullmatch(r"\.(?!lock).*", Path(name).name)]
        same = results(files) == results(self.files)
        return "" if same and not left else f"the end is {'the same' if same else 'another'}, left are {left}; {ending}"

    def fill_disk(self, rng: random.Random) -> str:
        """Run with the disk full from a random write on, then go on without; return what is wrong, or ""."""
        fill(self.out, self.old)
        with Watched(self.out, rng.randrange(self.taking), rng.choice((1, 5, float("inf")))) as watched:
            ending = run_here(*self.line)
        last = ending.stderr.strip().splitlines()[-1:] or [""]
        told = ending.returncode in (0, 1) or (ending.returncode == 2 and last[0].startswith("cumulant: cannot write "))
        if not told or "Traceback" in ending.stderr or not watched.failed or any(map(mixed, watched.seen)):
            return f"{ending}, {watched.failed} writes failed"
        return self.go_on()

    def kill(self, rng: random.Random) -> str:
        """Kill a process of its own at a random moment after it began its work; return what is wrong, or ""."""
        fill(self.out, self.old)
        with subprocess.Popen([*COMMAND, *self.line], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stderr
            process.stderr.readline()  # it has begun
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=rng.uniform(0, 4))
            process.kill()
        return " ".join(mixed(files_of(self.out))) or self.go_on()


def runs(tried: Tried) -> None:
    """Kill runs at every file step and at random moments, again and again, and fill the disk; then go on with them."""
    rng = tried.rng
    with working_folder() as place:
        commands = {
            "pretrain": Run(PRETRAIN, ("--resume", ""), place / "a"),
            "pretrain --force": Run(PRETRAIN, ("--resume", "--force"), place / "b", replaces=True),
            "represent --force": Run(REPRESENT, ("--force",), place / "c", replaces=True),
            "sweep": Run(SWEEPING, ("",), place / "d"),
        }
        todo = [(what, files) for what, run in commands.items() for files in run.deaths]
        rng.shuffle(todo)
        for what, files in todo:
            tried.count[f"states of {what}"] += 1
            tried.check(not mixed(files), f"{what}: killed, {mixed(files)} claim to be whole")
        for number in tried.cases():
            what = rng.choice(list(commands))
            if number % 10 == 4:
                kind, wrong = "real kills", commands[what].kill(rng)
            elif number % 10 in (1, 7) or not todo:
                kind, wrong = "full disks", commands[what].fill_disk(rng)
            else:
                kind, (what, files) = "kills at a step", todo.pop()
                fill(commands[what].out, files)
                with Watched(commands[what].out) as watched:
                    wrong = commands[what].go_on()
                if rng.random() < 0.2:  # it is killed again, while it goes on
                    todo.append((what, rng.choice(watched.deaths())))
            tried.count[kind] += 1
            tried.check(not wrong, f"{what}, {kind}: {wrong}")


LOST = "no record"
SECONDS, BYTES = 5.0, 100e6  # of a processor, and of memory, that a hostile folder may take
ODD: list[Any] = [None, True, 0, -1, 2.5, 1e308, float("nan"), 10**30, 16_384, "", "x", "\x1b[2J", [], {}, {"a": 1}]
ODD += ["../..", "evil:f", "learnt:..", "entangled:1e9", "a|b`<script>", ["square"] * 500, [[]] * 300_000]
ODD_FILES: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: None,
    "a pipe": os.mkfifo,
    "a link to /dev/zero": lambda path: path.symlink_to("/dev/zero"),
    "50 GB of nothing": lambda path: subprocess.run(["truncate", "--size", "50G", path], check=True),
    "a header of 10^9 bytes": lambda path: path.write_bytes((10**9).to_bytes(8, "little") + b"{}"),
    "deep JSON": lambda path: path.write_text('{"a":' * 50_000 + "1" + "}" * 50_000),
    "a huge number": lambda path: path.write_text('{"format": ' + "9" * 100_000 + "}"),
}


def _edited(data: bytes, rng: random.Random) -> tuple[bytes, str]:
    """Return a JSON object with one of its values, at any depth, odd or gone; and which."""
    info = json.loads(data)
    inner, key = info, rng.choice(list(info))
    while isinstance(inner[key], dict | list) and inner[key] and rng.random() < 0.8:
        inner = inner[key]
        key = rng.choice(list(inner)) if isinstance(inner, dict) else rng.randrange(len(inner))
    value = inner.pop(key)
    if rng.random() < 0.85:
        value = value + 1 if isinstance(value, int | float) and rng.random() < 0.5 else rng.choice(ODD)
        inner.insert(key, value) if isinstance(inner, list) else inner.update({key: value})
    return json.dumps(info).encode(), f"edited at {key}: {str(value)[:99]!r}"


def _rearranged(data: bytes, rng: random.Random) -> tuple[bytes, str]:
    """Return arrays of which one is odd, gone or new; and which."""
    arrays = safetensors.numpy.load(data)
    name = rng.choice(list(arrays))
    array = arrays.pop(name)
    odd = ({name: array * np.nan}, {name: array.astype(float)}, {name: array[None]})
    arrays |= rng.choice((*odd, {f"x.{name}": array}, {name: array, "x": array}, {}))
    return safetensors.numpy.save(arrays), f"{name} is odd"


def spoil(folder: Path, good: Files, other: Files, rng: random.Random) -> str:
    """Do to a good folder what a disk, a careless hand or an attacker does; return what was done."""
    name = rng.choice([name for name in good if name.endswith((".json", ".safetensors"))])
    data, i, what = (
        good[name],
        rng.randrange(len(good[name])),
        rng.choice(("odd", "odd", "odd", "bytes", "bytes", "a file")),
    )
    if what == "a file":
        (folder / name).unlink()
        ODD_FILES[what := rng.choice(list(ODD_FILES))](folder / name)
        return f"{name} is {what}"
    if what == "odd":
        data, what = (_edited if name.endswith(".json") else _rearranged)(data, rng)
    else:
        flipped, more = bytes([data[i] ^ 1 << rng.randrange(8)]), rng.choice((bytes(512), b"\n \n", data[:i]))
        data = rng.choice((data[:i] + flipped + data[i + 1 :], data[:i], data + more, other[name]))
    (folder / name).write_bytes(data)
    return f"{name}: {what}, at {i}"


def vouch(folder: Path) -> None:
    """Give all settings the checksums that they should have, as an attacker would who knows how."""
    for config in folder.rglob("config.json"):
        weights = config.with_name("weights.safetensors")
        if all(path.is_file() and path.stat().st_size < BYTES for path in (config, weights)):
            with contextlib.suppress(ValueError, AttributeError, RecursionError):  # of what is no JSON object
                info = json.loads(config.read_bytes())
                info.pop("seal", None)
                info["sha256"] = hashlib.sha256(weights.read_bytes()).hexdigest()
                seal = hashlib.sha256(json.dumps(info, sort_keys=True).encode()).hexdigest()
                config.write_text(json.dumps(info | {"seal": seal}))


def read_library(folder: Path) -> tuple[Any, ...]:
    """Return all that a library holds, last its record, which it may lose."""
    library = cumulant.Library.load(folder)
    lost = library.record == type(library.record)(library.record.weights)
    return (
        library.network,
        library.features,
        repr(library.world),
        repr(library.config),
        LOST if lost else repr(library.record),
    )


READERS: dict[str, Callable[[Path], Any]] = {"library": read_library, "encoder": cumulant.Encoder.load}


def values(read: Any) -> list[Any]:
    """Return every value of what was read, arrays by their bytes."""
    leaves = jax.tree.leaves(read)
    return [(str(x.dtype), x.shape, np.asarray(x).tobytes()) if hasattr(x, "dtype") else repr(x) for x in leaves]


def folders(tried: Tried) -> None:
    """Read libraries and encoders from hostile and from damaged folders."""
    rng = tried.rng
    with working_folder() as place:
        Path("evil.py").write_text("from pathlib import Path\nPath('it-ran').touch()\ndef f(obs): return obs\n")
        good, folder = dict[tuple[str, str], Files](), place / "tried"
        for kind, command in (("library", PRETRAIN), ("encoder", REPRESENT)):
            for seed in "07":
                assert run_here(*command, f"{kind}-{seed}", "--seed", seed).returncode == 0
                good[kind, seed] = files_of(Path(f"{kind}-{seed}"))
        whole = {kind: values(READERS[kind](place / f"{kind}-0")) for kind in READERS}
        for number in tried.cases():
            kind, how = rng.choice(list(READERS)), ("hostile", "damaged")[number % 2]
            fill(folder, first := good[kind, "0"])
            what = spoil(folder, first, good[kind, "7"], rng)
            if how == "hostile":
                vouch(folder)
            what, before = f"{kind}, {what}", resource.getrusage(resource.RUSAGE_SELF)
            try:
                found, ended = values(READERS[kind](folder)), "read"
                same = found in (whole[kind], [*whole[kind][:-1], repr(LOST)])
                tried.check(how == "hostile" or same, f"other values came back: {what}")
            except cumulant.Unreadable as error:
                ended = "refused"
                tried.check(str(error).isprintable(), f"refused in more than one line: {what}: {str(error)!r}")
            except Exception as error:
                ended = "raised"
                tried.check(False, f"raised {error!r}: {what}")
            tried.count[f"{how} {ended}"] += 1
            after = resource.getrusage(resource.RUSAGE_SELF)
            seconds, size = after.ru_utime - before.ru_utime, 1024 * (after.ru_maxrss - before.ru_maxrss)
            tried.check(seconds < SECONDS and size < BYTES, f"took {seconds:.1f} s, {size / 1e6:.0f} MB: {what}")
            tried.check(not Path("it-ran").exists(), f"code ran: {what}")
