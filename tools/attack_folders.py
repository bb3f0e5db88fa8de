"""Attack what is read from disk: hostile folders, and damage to good ones.

    python tools/attack_folders.py --hostile --flips 5000

A hostile folder must be refused in one line within two seconds, run no code and take little memory. A damaged one must
be refused, or give the very arrays that were written. Exit status 1 if anything is wrong.
"""

import argparse
import contextlib
import io
import itertools
import json
import os
import random
import resource
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import safetensors.numpy

from cumulant.commands.cli import main as command
from cumulant.features.encoder import Encoder, make_autoencoder
from cumulant.features.settings import Represent
from cumulant.freeplay.learning import make_network
from cumulant.freeplay.settings import FreePlay
from cumulant.storage import Unreadable, seal_of
from cumulant.transfer.library import Library
from cumulant.worlds.pixels import PixelSpriteworld
from cumulant.worlds.spriteworld import Spriteworld

SECONDS, BYTES = 2.0, 500e6
ODD: tuple[Any, ...] = (None, True, False, 0, -1, 1, 2.5, -0.0, 1e308, 10**30, "", "x", "\x1b[2J", "\n", "../..")
ODD += ([], [[]], ["square"] * 3, {}, {"a": 1})
SIZES = ("width", "depth", "bins", "objects", "latents", "size", "max_steps")  # what memory and time depend on
FEATURES = ("evil:f", "os:system", "learnt:..", "learnt:/", "learnt:encoder/../..", "entangled:1e9", "\x1b]0;x\x07")
SMALL = PixelSpriteworld(("square",), size=16)


def good_library(folder: Path) -> Library:
    """A small library with an encoder of its own."""
    settings, config = Represent(latents=6, width=4), FreePlay(width=8, depth=1)
    autoencoder = make_autoencoder(SMALL, settings, jax.random.key(0))
    kept, unfold = jnp.arange(5, dtype=jnp.int32), jnp.zeros((6, 6))
    encoder = Encoder(autoencoder, kept, jnp.zeros(5), jnp.ones(5), unfold, None, SMALL, settings)
    library = Library(SMALL, config, make_network(config, 5, 8, jax.random.key(1)), encoder)
    library.save(folder)
    return library


def hostile_folders(root: Path) -> Iterator[tuple[str, Path]]:
    """Folders that nobody should trust, each with what is wrong with it."""
    plain, learnt, number = root / "plain", root / "learnt", itertools.count()
    config = FreePlay(width=8, depth=1)
    Library(Spriteworld(), config, make_network(config, 6, 8, jax.random.key(0))).save(plain)
    good_library(learnt)

    def copy(of: Path, change: Callable[[Path], None]) -> Path:
        folder = root / f"hostile-{next(number)}"
        shutil.copytree(of, folder)
        change(folder)
        return folder

    changes: list[tuple[str, Path, Callable[[Path], Any]]] = []
    for name, value in _changed_configs(json.loads((plain / "config.json").read_text())):
        for sealed in (True, False):
            changes.append((f"{name}, sealed: {sealed}", plain, partial(_write_config, config=value, sealed=sealed)))
    for name, value in _changed_configs(json.loads((learnt / "encoder" / "config.json").read_text())):
        changes.append(
            (f"encoder: {name}", learnt, partial(_write_config, config=value, sealed=True, inside="encoder"))
        )
    for name, change in _odd_files().items():
        changes += [(name, plain, change), (f"encoder: {name}", learnt, partial(_inside_encoder, change))]
    for feature in FEATURES:
        changes.append((f"features {feature!r}", plain, partial(_edit_config, change={"features": feature})))
    changes.append(("encoder is a link", learnt, lambda folder: _as_link(folder / "encoder")))
    changes.append(("the folder is a file", plain, _as_file))
    random.Random(0).shuffle(changes)  # so that some of them are some of all kinds
    for name, of, change in changes:
        yield name, copy(of, change)


def _inside_encoder(change: Callable[[Path], Any], folder: Path) -> None:
    change(folder / "encoder")


def _as_file(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("x")


def _changed_configs(config: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The config with each of its fields, at any depth, odd, gone or doubled."""
    paths = [(key,) for key in config] + [(k, i) for k, v in config.items() if isinstance(v, dict) for i in v]
    for path in paths:
        odd = (
            ODD
            if len(path) == 1 or path[-1] in ("width", "depth", "bins", "objects", "latents", "size", "max_steps")
            else ODD[::4]
        )
        for value in (*odd, ...):
            changed = json.loads(json.dumps(config))
            inner = changed if len(path) == 1 else changed[path[0]]
            if value is ...:
                del inner[path[-1]]
            else:
                inner[path[-1]] = value
            if changed != config:
                yield f"{'.'.join(path)} = {value!r}", changed
    yield "an unknown field", config | {"free_play": {"\x1b[31mred": 1}}


def _write_config(folder: Path, config: Any, sealed: bool, inside: str = "") -> None:
    """As somebody would who knows how a config is sealed, or does not care."""
    bare = {name: value for name, value in config.items() if name != "seal"}
    (folder / inside / "config.json").write_text(json.dumps(bare | {"seal": seal_of(bare)} if sealed else config))


def _edit_config(folder: Path, change: dict[str, Any]) -> None:
    _write_config(folder, json.loads((folder / "config.json").read_text()) | change, True)


def _as_link(path: Path) -> None:
    away = path.with_name(f"{path.name}-away")
    path.rename(away)
    path.symlink_to(away)


def _with_weights(change: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]) -> Callable[[Path], None]:
    """Weights that are changed by somebody who knows how they are vouched for."""

    def apply(folder: Path) -> None:
        import hashlib

        path = folder / "weights.safetensors"
        data = safetensors.numpy.save(change(safetensors.numpy.load_file(path)))
        path.write_bytes(data)
        _edit_config(folder, {"sha256": hashlib.sha256(data).hexdigest()})

    return apply


def _odd_files() -> dict[str, Callable[[Path], None]]:
    def replaced(name: str, make: Callable[[Path], Any]) -> Callable[[Path], None]:
        def apply(folder: Path) -> None:
            (folder / name).unlink()
            make(folder / name)

        return apply

    def sparse(path: Path) -> None:
        with path.open("wb") as file:
            file.truncate(50 * 2**30)

    def header(length: int) -> Callable[[Path], Any]:
        return lambda path: path.write_bytes(length.to_bytes(8, "little") + b"{}")

    first = lambda stored: next(iter(stored))  # noqa: E731
    kinds: dict[str, Callable[[Path], Any]] = {
        "missing": lambda path: None,
        "empty": lambda path: path.write_bytes(b""),
        "a pipe": os.mkfifo,
        "a link to /dev/zero": lambda path: path.symlink_to("/dev/zero"),
        "a link to /etc/passwd": lambda path: path.symlink_to("/etc/passwd"),
        "a link to itself": lambda path: path.symlink_to(path),
        "a folder": lambda path: path.mkdir(),
        "50 GB of nothing": sparse,
        "noise": lambda path: path.write_bytes(random.Random(0).randbytes(5000)),
        "a header of 2^63 bytes": header(2**63),
        "a header of 10^9 bytes": header(10**9),
        "deep JSON": lambda path: path.write_text("[" * 100_000),
        "deep JSON, closed": lambda path: path.write_text('{"a":' * 50_000 + "1" + "}" * 50_000),
        "a JSON of NaN": lambda path: path.write_text('{"format": NaN}'),
        "a huge number": lambda path: path.write_text('{"format": ' + "9" * 100_000 + "}"),
        "bytes that are no text": lambda path: path.write_bytes(b"{\xff\xfe}"),
    }
    odd = {
        f"{file} is {kind}": replaced(file, make)
        for kind, make in kinds.items()
        for file in ("config.json", "weights.safetensors")
    }
    return odd | {
        "NaN weights": _with_weights(lambda s: s | {first(s): np.full_like(s[first(s)], np.nan)}),
        "infinite weights": _with_weights(lambda s: {n: np.full_like(a, np.inf) for n, a in s.items()}),
        "bfloat16 weights": _with_weights(lambda s: {n: a.astype(ml_dtypes.bfloat16) for n, a in s.items()}),
        "float64 weights": _with_weights(lambda s: {n: a.astype(np.float64) for n, a in s.items()}),
        "one array more": _with_weights(lambda s: s | {"more": np.zeros(3, np.float32)}),
        "one array less": _with_weights(lambda s: {n: s[n] for n in list(s)[1:]}),
        "other names": _with_weights(lambda s: {f"x.{n}": a for n, a in s.items()}),
        "counted names": _with_weights(lambda s: {str(i): a for i, a in enumerate(reversed(s.values()))}),
    }


def try_folder(folder: Path) -> tuple[str, float]:
    """What the command makes of a folder: "refused", "read", or what is wrong; and the seconds it took."""
    said, begun = io.StringIO(), time.perf_counter()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        try:
            status = command(["solve", "nonsense", "--library", str(folder)])  # refused once the library was read
        except BaseException:
            return f"raised {traceback.format_exc(limit=-1).strip().splitlines()[-1]}", time.perf_counter() - begun
    words, seconds = said.getvalue(), time.perf_counter() - begun
    if "unknown word 'nonsense'" in words or "give --reward" in words:
        return "read", seconds
    tidy = words.count("\n") == 1 and all(c.isprintable() or c == "\n" for c in words)
    return ("refused" if tidy and status == 2 else f"status {status}, said {words!r}"), seconds


def attack_hostile(root: Path, most: int) -> bool:
    """Try every hostile folder; tell what became of them."""
    (root / "evil.py").write_text("from pathlib import Path\nPath('it-ran').touch()\ndef f(obs): return obs\n")
    os.chdir(root)
    counts, worst, wrong = Counter[str](), 0.0, []
    for name, folder in itertools.islice(hostile_folders(root), most):
        result, seconds = try_folder(folder)
        counts["refused" if result == "refused" else "read" if result == "read" else "wrong"] += 1
        worst = max(worst, seconds)
        if result not in ("refused", "read") or seconds > SECONDS:
            wrong.append(f"{name}: {result} after {seconds:.1f} s")
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ran = (root / "it-ran").exists()
    print(f"hostile folders: {dict(counts)}, slowest {worst:.2f} s, peak {peak / 1e6:.0f} MB, code ran: {ran}")
    print("\n".join(wrong))
    return not wrong and not ran and peak < BYTES


def attack_flips(root: Path, flips: int, seed: int) -> bool:
    """Flip or cut files of a library and its encoder at random: refused, or the very same."""
    rng, good = random.Random(seed), root / "good"
    library = good_library(good)
    files = [path for path in sorted(good.rglob("*")) if path.is_file()]
    before = {path: path.read_bytes() for path in files}
    counts, wrong = Counter[str](), []
    for _ in range(flips):
        path = rng.choice(files)
        path.write_bytes(damaged(before[path], rng))
        try:
            same = _same(Library.load(good), library)
            counts["the very same" if same else "WRONG"] += 1
            wrong += [] if same else [path.name]
        except Unreadable:
            counts["refused"] += 1
        except Exception as error:
            counts["WRONG"] += 1
            wrong.append(f"{path.name}: {error!r}")
        path.write_bytes(before[path])
    print(f"damage: {dict(counts)}")
    print("\n".join(wrong[:20]))
    return not wrong


def damaged(data: bytes, rng: random.Random) -> bytes:
    """The same with a bit flipped, a byte changed, a part cut out, or the end missing."""
    place = rng.randrange(len(data))
    match rng.randrange(4):
        case 0:
            return data[:place] + bytes([data[place] ^ 1 << rng.randrange(8)]) + data[place + 1 :]
        case 1:
            return data[:place] + bytes([rng.randrange(256)]) + data[place + 1 :]
        case 2:
            return data[:place] + data[place + rng.randrange(1, 9) :]
        case _:
            return data[:place]


def _same(one: Library, other: Library) -> bool:
    trees = ((library.network, library.features) for library in (one, other))
    return (one.world, one.config) == (other.world, other.config) and bool(eqx.tree_equal(*trees))


def main() -> int:
    """Attack as the options say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hostile", type=int, default=10_000, metavar="N", help="hostile folders at most")
    parser.add_argument("--flips", type=int, default=5_000, metavar="N", help="damaged files")
    parser.add_argument("--seed", type=int, default=0, help="of the damage")
    given = parser.parse_args()
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve()
        good = attack_hostile(root, given.hostile)
        os.chdir(here)
        return 0 if attack_flips(root, given.flips, given.seed) and good else 1


if __name__ == "__main__":
    sys.exit(main())
