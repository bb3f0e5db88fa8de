"""Good folders of every kind, and what a disk or a careless hand may do to them, for `attack_folders.py`.

Whatever happens, a folder must be refused, or give the very bits that were written; a run of free play may go on from
an older checkpoint. Free play's metrics alone have no checksum: of them it is only asked that nothing else is raised.
"""

import hashlib
import itertools
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from cumulant.config import FreePlay
from cumulant.experiments.run_folders import Row, read_run, write_run
from cumulant.features.coordinates import true_features
from cumulant.features.encoder import Encoder
from cumulant.freeplay import checkpoints
from cumulant.freeplay.learning import start
from cumulant.storage import Unreadable
from cumulant.transfer.library import Library
from cumulant.transfer.library_folders import describe
from cumulant.transfer.records import Record
from cumulant.worlds.spriteworld import Spriteworld
from hostile_folders import ODD_FILES, good_encoder, good_library

WORLD, BRIEF = Spriteworld(), FreePlay(width=8, depth=1, num_envs=2, batch=2, replay=8)
ABOUT = describe(WORLD, BRIEF, true_features) | {"seed": 0}
UPDATES = range(1, 9)  # of free play's metrics


class Subject(NamedTuple):
    """A kind of folder that is damaged: how it is written from a seed, and read back as a value to compare."""

    write: Callable[[Path, int], Any]
    read: Callable[[Path], object]
    judge: Callable[[Any, Any], str] = lambda found, whole: "WRONG: it is another"  # of what is not the very same


def fingerprint(*values: Any) -> str:
    """A checksum of every bit of some trees: arrays by their bytes, all else by how it is written."""
    leaves, structure = jax.tree.flatten(values)
    told = hashlib.sha256(str(structure).encode())
    for leaf in leaves:
        if eqx.is_array(leaf):
            array = np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)
            told.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
        else:
            told.update(repr(leaf).encode())
    return told.hexdigest()


def _is_key(leaf: Any) -> bool:
    return jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def read_library(folder: Path) -> tuple[str, Record]:
    """All of a library, with its encoder; and what is known of it, which a folder may lack."""
    library = Library.load(folder)
    return fingerprint(library.network, library.features, library.world, library.config), library.record


def judge_library(found: tuple[str, Record], whole: tuple[str, Record]) -> str:
    """A library whose record is gone, or is another's, is the same, with nothing known of it."""
    same = found[0] == whole[0] and found[1] == Record(whole[1].weights)
    return "without its record" if same else "WRONG: it is another"


def write_checkpoints(folder: Path, seed: int) -> None:
    """Two checkpoints of a run."""
    for update in (1, 2):
        checkpoints.save(folder, update, _training(seed + update), ABOUT)


@cache
def _training(seed: int) -> Any:
    return eqx.filter(start(WORLD, BRIEF, true_features, jax.random.key(seed)), eqx.is_array)


def read_checkpoint(folder: Path) -> str:
    """What a run would go on from."""
    return fingerprint(checkpoints.latest(folder, _training(0), ABOUT, lambda event: None))


def judge_checkpoint(found: str, whole: str) -> str:
    """A run may go on from its older checkpoint."""
    return "an older one" if found == fingerprint(_training(1)) else "WRONG: it is another"


def write_metrics(folder: Path, seed: int) -> None:
    """The metrics of a run."""
    lines = [checkpoints.line_of({"update": update, "loss": seed + 1 / update}) for update in UPDATES]
    checkpoints.write_metrics(folder, lines)


def read_metrics(folder: Path) -> list[str]:
    """The lines that a run would go on with."""
    return checkpoints.read_metrics(folder, UPDATES[-1])


def judge_metrics(found: list[str], whole: list[str]) -> str:
    """Free play's metrics have no checksum: lines may be lost, or say something else."""
    return "fewer lines" if set(found) <= set(whole) else "changed lines"


def write_experiment(folder: Path, seed: int) -> None:
    """A run folder, with measures."""
    rows = [Row("ours", "easy", "square left", seed, steps, 1 / (seed + steps), 16) for steps in (1, 2, 3)]
    config = {"settings": {"seeds": [seed]}, "seconds": {"total_s": 2.5}, "device": "cpu"}
    write_run(folder, config, rows, [{"seed": seed, "disentanglement": 0.5 + seed / 100}])


SUBJECTS = {
    "library": Subject(good_library, read_library, judge_library),
    "encoder": Subject(good_encoder, lambda folder: fingerprint(Encoder.load(folder))),
    "checkpoints": Subject(write_checkpoints, read_checkpoint, judge_checkpoint),
    "run folder": Subject(write_experiment, lambda folder: repr(read_run(folder))),
    "metrics": Subject(write_metrics, read_metrics, judge_metrics),
}


def flipped_bit(data: bytes, place: int, rng: random.Random) -> bytes:
    """One bit is another."""
    return data[:place] + bytes([data[place] ^ 1 << rng.randrange(8)]) + data[place + 1 :]


def changed_byte(data: bytes, place: int, rng: random.Random) -> bytes:
    """One byte is another."""
    return data[:place] + bytes([(data[place] + rng.randrange(1, 256)) % 256]) + data[place + 1 :]


def cut_out(data: bytes, place: int, rng: random.Random) -> bytes:
    """Some bytes are gone."""
    return data[:place] + data[place + rng.randrange(1, 9) :]


def cut_off(data: bytes, place: int, rng: random.Random) -> bytes:
    """The end is gone."""
    return data[:place]


def appended(data: bytes, place: int, rng: random.Random) -> bytes:
    """There is more at the end: noise, zeros, white space, or the beginning again."""
    return data + rng.choice([rng.randbytes(place % 99 + 1), bytes(512), b"\n \n", data[: place + 1]])


BYTES = {"a bit": flipped_bit, "a byte": changed_byte, "a cut": cut_out, "an end": cut_off, "more": appended}
DAMAGES = (*BYTES, "swapped", "another's", "odd file")


class Patient:
    """A good folder, which is damaged and healed again and again, and another of its kind."""

    def __init__(self, subject: Subject, place: Path):
        """Writes both."""
        self._subject, self.folder, other = subject, place / "good", place / "other"
        for folder, seed in ((self.folder, 0), (other, 7)):
            subject.write(folder, seed)
        self._files = {path: path.read_bytes() for path in sorted(self.folder.rglob("*")) if path.is_file()}
        self._others = {path: (other / path.relative_to(self.folder)).read_bytes() for path in self._files}
        self._whole = subject.read(self.folder)

    def suffer(self, damage: str, rng: random.Random) -> str:
        """Damage a file, or two; what reading the folder then gives, in words, of which "WRONG" is one."""
        path = rng.choice(list(self._files))
        self._damage(path, damage, rng)
        try:
            found = self._subject.read(self.folder)
            return "the very same" if found == self._whole else self._subject.judge(found, self._whole)
        except Unreadable as error:
            return "refused" if str(error).isprintable() else f"WRONG: it said {str(error)!r}"
        except Exception as error:
            return f"WRONG: {path.name} raised {error!r}"
        finally:
            self._heal()

    def _damage(self, path: Path, damage: str, rng: random.Random) -> None:
        data = self._files[path]
        if damage in BYTES:
            path.write_bytes(BYTES[damage](data, rng.randrange(len(data)), rng))
        elif damage == "swapped":
            second = rng.choice([other for other in self._files if other != path] or [path])
            path.write_bytes(self._files[second])
            second.write_bytes(data)
        elif damage == "another's":
            path.write_bytes(self._others[path])
        else:
            path.unlink()
            rng.choice(list(ODD_FILES.values()))(path)

    def _heal(self) -> None:
        for path, data in self._files.items():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            path.unlink(missing_ok=True)
            path.write_bytes(data)


def attack_damage(root: Path, times: int, seed: int) -> bool:
    """Damage folders of every kind in every way, in turn; print what became of them, and whether all is well."""
    rng, counts = random.Random(seed), {name: Counter[str]() for name in SUBJECTS}
    patients = {name: Patient(subject, root / name) for name, subject in SUBJECTS.items()}
    wrong: list[str] = []
    for name, damage in itertools.islice(_in_turn(), times):
        result = patients[name].suffer(damage, rng)
        counts[name][f"{damage}: {result.partition(':')[0]}"] += 1
        wrong += [f"{name}, {damage}: {result}"] if result.startswith("WRONG") else []
    for name, count in counts.items():
        told = Counter[str]()
        for key, number in count.items():
            told[key.partition(": ")[2]] += number
        print(f"damaged {name}: {count.total()} times, {dict(told)}")
        print("".join(f"    {key}: {count[key]}\n" for key in sorted(count)), end="")
    print("\n".join(wrong[:20]) or "nothing came back that may not")
    return not wrong


def _in_turn() -> Iterator[tuple[str, str]]:
    return itertools.cycle(itertools.product(SUBJECTS, DAMAGES))
