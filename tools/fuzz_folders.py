"""The part `folders` of `fuzz.py`: folders that nobody should trust.

A hostile folder runs no code, takes little time and memory, and is refused in one line; a damaged one is refused, or
gives the very values that were written.
"""

import hashlib
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import safetensors.numpy

import cumulant
from fuzz_commands import Fuzz, refusal, run_here
from fuzz_runs import PRETRAIN, REPRESENT, SWEEPING, Files, Watched, files_of, fill

SECONDS, BYTES = 5.0, 100e6  # of a processor, and of memory, that a hostile folder may take
ODD: list[Any] = [None, True, 0, -1, 2.5, -0.0, 1e308, 10**30, 16_384, [], [[]], ["square"] * 3, {}, {"a": 1}]
ODD += [
    "",
    "x",
    "\x1b[2J",
    "\n",
    "../..",
    "evil:f",
    "os:system",
    "learnt:..",
    "learnt:/",
    "entangled:1e9",
    "a|b`<script>",
]


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
    "NaN": lambda s: {n: np.full_like(a, np.nan) if a.dtype.kind == "f" else a for n, a in s.items()},
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
                what, before, begun = f"{kind}, {what}", _peak(forget=True), time.process_time()
                try:
                    found = KINDS[kind][1](folder)
                    ended, same = "read", found in (whole[kind], (*whole[kind][:-1], ""))
                    unsealed = "library/metrics.jsonl" in what  # which alone has no checksum, as SECURITY.md says
                    fuzz.check(hostile or same or unsealed, f"other values came back: {what}")
                except cumulant.Unreadable as error:
                    ended = "refused"
                    fuzz.check(str(error).isprintable(), f"refused in more than one line: {what}: {str(error)!r}")
                except Exception as error:
                    ended = "raised"
                    fuzz.check(False, f"raised {error!r}: {what}")
                fuzz.tried[f"{'hostile' if hostile else 'damaged'} {ended}"] += 1
                if hostile:
                    seconds, size = time.process_time() - begun, _peak() - before
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
