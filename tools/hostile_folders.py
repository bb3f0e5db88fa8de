"""Folders that nobody should trust, for `attack_folders.py`: odd settings, odd files, odd arrays."""

import hashlib
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import safetensors.numpy
from msgspec.structs import replace

from cumulant.config import FreePlay, Represent
from cumulant.features.coordinates import Inputs
from cumulant.features.encoder import Encoder, make_autoencoder
from cumulant.freeplay.learning import make_network
from cumulant.storage import checksum, seal_of
from cumulant.transfer.evaluation import Success
from cumulant.transfer.library import Library
from cumulant.transfer.records import Audited, Evaluation, Made, Record
from cumulant.worlds.pixels import PixelSpriteworld
from cumulant.worlds.spriteworld import Spriteworld

ODD: tuple[Any, ...] = (None, True, False, 0, -1, 1, 2.5, -0.0, 1e308, 10**30, "", "x", "\x1b[2J", "\n", "../..")
ODD += ([], [[]], ["square"] * 3, {}, {"a": 1})
ODD_RECORDS: tuple[Any, ...] = (-1, 1e308, [[]], "a|b`<script>", "\x1b[2J", {"\x1b[2J": {"\x1b[2J": 1}})
SIZES = ("width", "depth", "bins", "objects", "latents", "size", "max_steps")  # what memory and time depend on
FEATURES = ("evil:f", "os:system", "learnt:..", "learnt:/", "learnt:encoder/../..", "entangled:1e9", "\x1b]0;x\x07")
HUGE: dict[str, tuple[str, dict[str, Any]]] = {  # in which folder inside, and what it says
    "settings of a huge network": ("", {"free_play": {"width": 16_384, "depth": 64, "bins": 99, "full_matrix": True}}),
    "settings of a huge encoder": ("encoder", {"represent": {"latents": 1024, "width": 1024}, "kept": 1024}),
}
SMALL = PixelSpriteworld(("square",), size=16)
Change = Callable[[Path], Any]  # of a folder, or of a file


class Hostile(NamedTuple):
    """A folder that somebody sent."""

    kind: str  # of what is wrong with it: some kinds have hundreds of folders
    name: str  # what is wrong with it
    folder: Path


def good_library(folder: Path, seed: int = 0) -> None:
    """A small library with an encoder of its own."""
    config = FreePlay(width=8, depth=1)
    network = make_network(config, Inputs(5), 8, jax.random.key(seed))
    Library(SMALL, config, network, _encoder(seed), record=good_record(checksum(network), 5)).save(folder)


def good_record(weights: str, features: int) -> Record:
    """A record of everything there is to know."""
    success = Success(0.75, (0.5, 0.9), 12.5, 1, 20, steps_or_limit=30.0)
    made = Made(0, "2 CPU cores", 10.5, 60.25, 0, "0.2.0", success)
    results = {
        "zero_shot": {"agent_easy": success},
        "random": {"agent_easy": replace(success, mean_steps=None, steps_or_limit=None)},
    }
    evaluation = Evaluation("paper", 3, "committed", 0, 1, 20, 0, results)
    moved = tuple(tuple(0.5 if i == j else 0.125 for j in range(features)) for i in range(features))
    return Record(weights, made, (evaluation,), Audited(10, 0, 0.03, moved))


def good_encoder(folder: Path, seed: int = 0) -> None:
    """A small encoder."""
    _encoder(seed).save(folder)


def _encoder(seed: int) -> Encoder:
    settings = Represent(latents=6, width=4)
    autoencoder = make_autoencoder(SMALL, settings, jax.random.key(seed))
    kept, unfold = jnp.arange(5, dtype=jnp.int32), jnp.zeros((6, 6))
    return Encoder(autoencoder, kept, jnp.zeros(5), jnp.ones(5), unfold, None, SMALL, settings)


def hostile_folders(root: Path) -> Iterator[Hostile]:
    """Copies of good libraries, each with something wrong."""
    plain, learnt = root / "plain", root / "learnt"
    config = FreePlay(width=8, depth=1)
    network = make_network(config, Inputs(6), 8, jax.random.key(0))
    Library(Spriteworld(), config, network, record=good_record(checksum(network), 6)).save(plain)
    good_library(learnt)
    changes = [*_settings(plain, learnt), *_files(plain, learnt)]
    random.Random(0).shuffle(changes)  # so that some of them are some of all kinds
    for number, (kind, name, good, change) in enumerate(changes):
        folder = root / f"hostile-{number}"
        shutil.copytree(good, folder)
        change(folder)
        yield Hostile(kind, name, folder)


def _settings(plain: Path, learnt: Path) -> Iterator[tuple[str, str, Path, Change]]:
    for name, value in _changed_configs(json.loads((plain / "config.json").read_text())):
        for sealed, kind in ((True, "a setting, sealed"), (False, "a setting, not sealed")):
            yield kind, f"{name}, {kind}", plain, partial(_write_config, config=value, sealed=sealed)
    for name, value in _changed_configs(json.loads((learnt / "encoder" / "config.json").read_text())):
        change = partial(_write_config, config=value, sealed=True, inside="encoder")
        yield "an encoder's setting", f"encoder: {name}", learnt, change
    for name, value in _changed_records(json.loads((plain / "measures.json").read_text())):
        yield "a record", f"measures.json: {name}", plain, partial(_write_sealed, value=value)
    for feature in FEATURES:
        yield "features", f"features {feature!r}", plain, partial(_edit_config, change={"features": feature})
    for name, (inside, huge) in HUGE.items():
        yield name, name, learnt if inside else plain, partial(_edit_config, change=huge, inside=inside)


def _files(plain: Path, learnt: Path) -> Iterator[tuple[str, str, Path, Change]]:
    named = {
        f"{file} is {kind}": partial(_replaced, name=file, make=make)
        for kind, make in ODD_FILES.items()
        for file in ("config.json", "weights.safetensors", "measures.json", "README.md")
    }
    for name, change in (named | _odd_weights()).items():
        yield name, name, plain, change
        if not name.startswith(("measures.json", "README.md")):
            yield name, f"encoder: {name}", learnt, partial(_inside_encoder, change)
    yield "encoder is a link", "encoder is a link", learnt, lambda folder: _as_link(folder / "encoder")
    yield "the folder is a file", "the folder is a file", plain, _as_file


def _inside_encoder(change: Change, folder: Path) -> None:
    change(folder / "encoder")


def _as_file(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("x")


def _changed_configs(config: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The config with each of its fields, at any depth, odd, gone or doubled."""
    paths = [(key,) for key in config] + [(k, i) for k, v in config.items() if isinstance(v, dict) for i in v]
    for path in paths:
        odd = ODD if len(path) == 1 or path[-1] in SIZES else ODD[::4]
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


def _changed_records(record: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The record with each of its values, at any depth, odd or gone; and with more of what there may be several of."""
    for path in _paths({name: value for name, value in record.items() if name != "seal"}):
        for value in (*ODD_RECORDS, ...):
            changed = json.loads(json.dumps(record))
            inner = changed
            for step in path[:-1]:
                inner = inner[step]
            if value is ...:
                del inner[path[-1]]
            else:
                inner[path[-1]] = value
            yield f"{'.'.join(map(str, path))} = {value!r}", changed
    yield "an unknown field", record | {"\x1b[31mred": 1}
    yield "many evaluations", record | {"evaluations": record["evaluations"] * 99}
    classes = {f"class {i}": record["evaluations"][0]["results"]["zero_shot"]["agent_easy"] for i in range(999)}
    many = record["evaluations"][0] | {"results": {"zero_shot": classes}}
    yield "many classes", record | {"evaluations": [many]}


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all values in a JSON value; of lists, the first alone."""
    inside = value.items() if isinstance(value, dict) else list(enumerate(value))[:1] if isinstance(value, list) else ()
    for step, each in inside:
        yield (*path, step)
        yield from _paths(each, (*path, step))


def _write_sealed(folder: Path, value: Any) -> None:
    bare = {name: each for name, each in value.items() if name != "seal"}
    (folder / "measures.json").write_text(json.dumps(bare | {"seal": seal_of(bare)}))


def _write_config(folder: Path, config: Any, sealed: bool, inside: str = "") -> None:
    """As somebody would who knows how a config is sealed, or does not care."""
    bare = {name: value for name, value in config.items() if name != "seal"}
    (folder / inside / "config.json").write_text(json.dumps(bare | {"seal": seal_of(bare)} if sealed else config))


def _edit_config(folder: Path, change: dict[str, Any], inside: str = "") -> None:
    _write_config(folder, json.loads((folder / inside / "config.json").read_text()) | change, True, inside)


def _as_link(path: Path) -> None:
    away = path.with_name(f"{path.name}-away")
    path.rename(away)
    path.symlink_to(away)


def _with_weights(change: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]) -> Callable[[Path], None]:
    """Weights that are changed by somebody who knows how they are vouched for."""

    def apply(folder: Path) -> None:
        path = folder / "weights.safetensors"
        data = safetensors.numpy.save(change(safetensors.numpy.load_file(path)))
        path.write_bytes(data)
        _edit_config(folder, {"sha256": hashlib.sha256(data).hexdigest()})

    return apply


def _replaced(folder: Path, name: str, make: Change) -> None:
    (folder / name).unlink()
    make(folder / name)


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(50 * 2**30)


def _header(path: Path, length: int) -> None:
    path.write_bytes(length.to_bytes(8, "little") + b"{}")


ODD_FILES: dict[str, Change] = {
    "missing": lambda path: None,
    "empty": lambda path: path.write_bytes(b""),
    "a pipe": os.mkfifo,
    "a link to /dev/zero": lambda path: path.symlink_to("/dev/zero"),
    "a link to /etc/passwd": lambda path: path.symlink_to("/etc/passwd"),
    "a link to itself": lambda path: path.symlink_to(path),
    "a folder": lambda path: path.mkdir(),
    "50 GB of nothing": _sparse,
    "noise": lambda path: path.write_bytes(random.Random(0).randbytes(5000)),
    "a header of 2^63 bytes": partial(_header, length=2**63),
    "a header of 10^9 bytes": partial(_header, length=10**9),
    "deep JSON": lambda path: path.write_text("[" * 100_000),
    "deep JSON, closed": lambda path: path.write_text('{"a":' * 50_000 + "1" + "}" * 50_000),
    "a JSON of NaN": lambda path: path.write_text('{"format": NaN}'),
    "a huge number": lambda path: path.write_text('{"format": ' + "9" * 100_000 + "}"),
    "as many lists as fit": lambda path: path.write_text(f'{{"a": [{"[]," * 300_000}[]]}}'),
    "bytes that are no text": lambda path: path.write_bytes(b"{\xff\xfe}"),
}


def _odd_weights() -> dict[str, Change]:
    first = lambda stored: next(iter(stored))  # noqa: E731
    return {
        "NaN weights": _with_weights(lambda s: s | {first(s): np.full_like(s[first(s)], np.nan)}),
        "infinite weights": _with_weights(lambda s: s | {first(s): np.full_like(s[first(s)], np.inf)}),
        "bfloat16 weights": _with_weights(lambda s: {n: a.astype(ml_dtypes.bfloat16) for n, a in s.items()}),
        "float64 weights": _with_weights(lambda s: {n: a.astype(np.float64) for n, a in s.items()}),
        "one array more": _with_weights(lambda s: s | {"more": np.zeros(3, np.float32)}),
        "one array less": _with_weights(lambda s: {n: s[n] for n in list(s)[1:]}),
        "other names": _with_weights(lambda s: {f"x.{n}": a for n, a in s.items()}),
        "counted names": _with_weights(lambda s: {str(i): a for i, a in enumerate(reversed(s.values()))}),
    }
