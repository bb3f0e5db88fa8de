"""Two parts of `fuzz.py`: folders that nobody should trust, and runs that are killed or find the disk full.

A hostile folder runs no code, takes little time and memory, and is refused in one line; a damaged one is refused, or
gives the very values that were written. A killed run goes on from what it saved, and ends with the same bytes.
"""

import contextlib
import errno
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import numpy as np
import safetensors.numpy

import cumulant
from fuzz_commands import COMMAND, Fuzz, refusal, run_here

TINY = "--world room --width 8 --depth 1 --num-envs 4 --batch 8 --env-steps 12 --replay 16 --checkpoint-seconds 0"
SWEEP = "world=room width=8 depth=1 num_envs=4 batch=8 env_steps=12 replay=16 tasks_per_class=1 episodes=2"
ENCODER = "--objects square --size 16 --labelled 0 --latents 8 --width 4 --pairs 64 --updates 4 --batch 4 --restarts 1"
# Commands that fill a folder, which is named last.
PRETRAIN = ("pretrain", *TINY.split(), "--out")
REPRESENT = ("represent", *ENCODER.split(), "--out")
SWEEPING = ("sweep", "--in-step", "1", "--grid", "seed=0:2", *SWEEP.split(), "--out")
SECONDS, BYTES = 5.0, 100e6  # that reading a hostile folder may take, beside what a good one takes

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


# Folders

ODD: list[Any] = [
    None,
    True,
    0,
    -1,
    2.5,
    -0.0,
    1e308,
    10**30,
    "",
    "x",
    "\x1b[2J",
    "\n",
    "../..",
    [],
    [[]],
    {},
    {"a": 1},
]
ODD += ["evil:f", "os:system", "learnt:..", "learnt:/", "entangled:1e9", "a|b`<script>", ["square"] * 3, 16_384]


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(50 * 2**30)


ODD_FILES: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: None,
    "empty": lambda path: path.write_bytes(b""),
    "a pipe": os.mkfifo,
    "a link to /dev/zero": lambda path: path.symlink_to("/dev/zero"),
    "a link to itself": lambda path: path.symlink_to(path),
    "a folder": lambda path: path.mkdir(),
    "50 GB of nothing": _sparse,
    "noise": lambda path: path.write_bytes(random.Random(0).randbytes(5000)),
    "a header of 2^63 bytes": lambda path: path.write_bytes((2**63).to_bytes(8, "little") + b"{}"),
    "a header of 10^9 bytes": lambda path: path.write_bytes((10**9).to_bytes(8, "little") + b"{}"),
    "deep JSON": lambda path: path.write_text("[" * 100_000),
    "deep JSON, closed": lambda path: path.write_text('{"a":' * 50_000 + "1" + "}" * 50_000),
    "a JSON of NaN": lambda path: path.write_text('{"format": NaN}'),
    "a huge number": lambda path: path.write_text('{"format": ' + "9" * 100_000 + "}"),
    "many lists": lambda path: path.write_text(f'{{"a": [{"[]," * 300_000}[]]}}'),
    "no text": lambda path: path.write_bytes(b"{\xff\xfe}"),
}
ODD_ARRAYS: dict[str, Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]] = {
    "NaN": lambda s: {n: np.full_like(a, np.nan) for n, a in s.items()},
    "float64": lambda s: {n: a.astype(np.float64) for n, a in s.items()},
    "one more": lambda s: s | {"more": np.zeros(3, np.float32)},
    "one less": lambda s: {n: s[n] for n in list(s)[1:]},
    "other names": lambda s: {f"x.{n}": a for n, a in s.items()},
    "other shapes": lambda s: {n: a[None] for n, a in s.items()},
}


def _sealed(info: dict[str, Any]) -> bytes:
    """Return a JSON file with the checksum that it should have, as somebody would make it who knows how."""
    bare = {name: value for name, value in info.items() if name != "seal"}
    return json.dumps(bare | {"seal": hashlib.sha256(json.dumps(bare, sort_keys=True).encode()).hexdigest()}).encode()


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, each in inside:
        yield (*path, step)
        yield from _paths(each, (*path, step))


def _mutated(data: bytes, rng: random.Random) -> tuple[dict[str, Any], str]:
    """Return a JSON object with one of its values, at any depth, odd, gone or doubled; and what was done."""
    info = json.loads(data)
    path = rng.choice([each for each in _paths(info) if each != ("seal",)])
    inner, value = info, rng.choice(ODD)
    for step in path[:-1]:
        inner = inner[step]
    kind = rng.randrange(8)
    if kind == 0:
        del inner[path[-1]]
    elif kind == 1:
        info["\x1b[31mred"] = value
    elif kind == 2 and isinstance(inner, list):
        inner *= 500
    else:
        inner[path[-1]] = value
    return info, f"{path} {('gone', 'and a new field', 'doubled')[kind] if kind < 3 else '='} {value!r}"


def make_hostile(folder: Path, good: Files, rng: random.Random) -> str:
    """Change a good folder as somebody would who knows how it is vouched for; return what was done."""
    fill(folder, good)
    weights = rng.choice([name for name in good if name.endswith("weights.safetensors")])
    settings, kind = [name for name in good if name.endswith(".json")], rng.random()
    if kind < 0.7:
        name = rng.choice(settings)
        info, what = _mutated(good[name], rng)
        (folder / name).write_bytes(_sealed(info))
        return f"{name}: {what}"
    if kind < 0.85:
        name, what = rng.choice([*settings, weights, "README.md"]), rng.choice(list(ODD_FILES))
        (folder / name).unlink(missing_ok=True)
        ODD_FILES[what](folder / name)
        return f"{name} is {what}"
    if kind < 0.97:
        what = rng.choice(list(ODD_ARRAYS))
        data = safetensors.numpy.save(ODD_ARRAYS[what](safetensors.numpy.load(good[weights])))
        (folder / weights).write_bytes(data)
        config = (folder / weights).with_name("config.json")
        config.write_bytes(_sealed(json.loads(config.read_bytes()) | {"sha256": hashlib.sha256(data).hexdigest()}))
        return f"{weights}: {what}"
    away = folder.with_name("away")
    shutil.rmtree(away, ignore_errors=True)
    (folder / weights).parent.rename(away) if "/" in weights else shutil.rmtree(folder)
    (folder / weights).parent.symlink_to(away) if "/" in weights else folder.write_text("x")
    return "a link, or a file, in the place of a folder"


def damage(folder: Path, good: Files, another: Files, rng: random.Random) -> str:
    """Do to a good folder what a disk or a careless hand does; return what was done."""
    fill(folder, good)
    other = dict(zip(good, another.values(), strict=True))  # whose folders may have other names
    name = rng.choice([name for name in good if good[name] and not name.endswith("README.md")])
    data, kind = good[name], rng.randrange(7)
    i = rng.randrange(len(data))
    if kind == 6:
        (folder / name).unlink()
        ODD_FILES[what := rng.choice(list(ODD_FILES))](folder / name)
        return f"{name} is {what}"
    changed = (
        data[:i] + bytes([data[i] ^ 1 << rng.randrange(8)]) + data[i + 1 :],
        data[:i] + data[i + rng.randrange(1, 9) :],
        data[:i],
        data + rng.choice((rng.randbytes(20), bytes(512), b"\n \n", data[:i])),
        other[name],
        json.dumps(_mutated(data, rng)[0]).encode()
        if name.endswith(".json")
        else data[::-1],  # the seal is the old one
    )[kind]
    (folder / name).write_bytes(changed)
    return f"{name}: {('a bit', 'a cut', 'an end', 'more', 'of another folder', 'edited')[kind]} at {i}"


def _values(*trees: Any) -> tuple[Any, ...]:
    """Return every value of some trees, arrays by their bytes."""
    leaves = jax.tree.leaves(trees)
    return tuple((str(x.dtype), x.shape, np.asarray(x).tobytes()) if hasattr(x, "dtype") else repr(x) for x in leaves)


def read_library(folder: Path) -> tuple[Any, ...]:
    """Return all that a library holds; last its record, which it may lose."""
    library = cumulant.Library.load(folder)
    known, nothing = library.record, type(library.record)(library.record.weights)
    told = "" if known == nothing else repr(known)
    return *_values(library.network, library.features, repr(library.world), repr(library.config)), told


def read_encoder(folder: Path) -> tuple[Any, ...]:
    """Return all that an encoder holds."""
    return _values(cumulant.Encoder.load(folder))


def read_sweep(folder: Path) -> tuple[Any, ...]:
    """Return what the report of a sweep says."""
    return _told("report", str(folder), "--json")


def resume(folder: Path) -> tuple[Any, ...]:
    """Return the bytes of the library that an interrupted run ends with."""
    _told(*PRETRAIN, str(folder), "--resume")
    return tuple((folder / name).read_bytes() for name in ("weights.safetensors", "config.json"))


def _told(*argv: str) -> tuple[Any, ...]:
    ending = run_here(*argv)
    if ending.status == 2 and not refusal(ending):
        raise cumulant.Unreadable(ending.err.strip())
    assert ending.status == 0, ending
    return (ending.out.strip().partition('"seconds"')[0],)


KINDS: dict[str, tuple[tuple[str, ...], Callable[[Path], tuple[Any, ...]]]] = {
    "library": (PRETRAIN, read_library),
    "encoder": (REPRESENT, read_encoder),
    "sweep": (SWEEPING, read_sweep),
    "run": (PRETRAIN, resume),
}


def _checkpoints(files: Files) -> int:
    return sum(name.startswith("checkpoints/") and name.endswith("/config.json") for name in files)


def _good(place: Path, kind: str) -> tuple[Files, Files]:
    """Return a good folder of a kind, and another one, of another seed."""
    command, found = KINDS[kind][0], list[Files]()
    for seed in ("0", "7"):
        line = [word.replace("seed=0:2", f"seed={seed}") for word in command] + [str(place / f"{kind}-{seed}")]
        line += [] if kind == "sweep" else ["--seed", seed]
        states = Watched(place / f"{kind}-{seed}")
        with states:
            ending = run_here(*line)
        assert ending.status == 0, ending
        saved = [each for each in states.seen if _checkpoints(each) == 2 and "config.json" not in each]
        found.append(saved[-1] if kind == "run" else files_of(place / f"{kind}-{seed}"))
    return found[0], found[1]


def folders(fuzz: Fuzz) -> None:
    """Read hostile libraries and encoders, and damaged folders of every kind."""
    here, path = Path.cwd(), list(sys.path)
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        place = Path(name).resolve()
        (place / "evil.py").write_text("from pathlib import Path\nPath('it-ran').touch()\ndef f(obs): return obs\n")
        good = {kind: _good(place, kind) for kind in KINDS}
        whole, folder = {}, place / "tried"
        for kind, (first, _) in good.items():
            fill(folder, first | {each: _sealed(json.loads(first[each])) for each in first if each == "config.json"})
            whole[kind] = KINDS[kind][1](folder)  # that the seal is still made so is checked here
        os.chdir(place)
        sys.path.insert(0, str(place))
        try:
            for number in fuzz.cases():
                hostile = number % 2 == 0
                kind = fuzz.rng.choices(list(KINDS), (6, 4, 0, 0) if hostile else (6, 4, 2, 1))[0]
                first, other = good[kind]
                what = make_hostile(folder, first, fuzz.rng) if hostile else damage(folder, first, other, fuzz.rng)
                what, before, begun = f"{kind}, {what}", _peak(forget=True), time.perf_counter()
                try:
                    found = KINDS[kind][1](folder)
                    ended, same = "read", found in (whole[kind], (*whole[kind][:-1], ""))
                    fuzz.check(hostile or same, f"other values came back: {what}")
                except cumulant.Unreadable as error:
                    ended = "refused"
                    fuzz.check(str(error).isprintable(), f"refused in more than one line: {what}: {str(error)!r}")
                except Exception as error:
                    ended = "raised"
                    fuzz.check(False, f"raised {error!r}: {what}")
                fuzz.tried[f"{'hostile' if hostile else 'damaged'} {ended}"] += 1
                if hostile:
                    seconds, size = time.perf_counter() - begun, _peak() - before
                    fuzz.check(seconds < SECONDS and size < BYTES, f"took {seconds:.1f} s, {size / 1e6:.0f} MB: {what}")
                    if ended == "refused" and number % 8 == 0:
                        words = refusal(run_here("solve", "nonsense", "--library", str(folder)))
                        fuzz.check(not words or kind != "library", f"{what}: {words}")
                fuzz.check(not (place / "it-ran").exists(), f"code ran: {what}")
        finally:
            os.chdir(here)
            sys.path[:] = path


def _peak(forget: bool = False) -> float:
    """Return the most bytes that this process had, or those that it has if its peak is forgotten first; 0 elsewhere."""
    status = Path("/proc/self/status")
    if not status.exists():
        return 0.0
    if forget:
        Path("/proc/self/clear_refs").write_text("5")
    words = status.read_text().split()
    return 1024 * float(words[words.index("VmHWM:") + 1])


# Runs

_SPACE = ("open", "os.mkdir")  # of the file steps, those that take space; syncing does too, where room is found so late
_STEPS = {"os.rename": 2, "os.remove": 1, "os.rmdir": 1, "os.mkdir": 2, "os.chmod": 2, "os.truncate": 9, "open": 9}
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
            if data != before.get(name, b"") and data.startswith(before.get(name, b"")) and _hidden(name, before)
        ]
        return [*self.seen, *half]


def _hidden(name: str, before: Files) -> bool:
    """Whether a file is being written where it is, and was not renamed to where it is."""
    return name in before or Path(name).name.startswith(".")


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
