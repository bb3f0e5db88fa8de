"""What is known of a library beside its weights: how it was made, and what was measured of it. Its measures.json.

Seconds and hardware stand here, and nothing that a run must repeat bit for bit. A record names the weights that it
speaks of by their checksum; beside others it counts as none.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import jax
import msgspec
import numpy as np
from jaxtyping import Array, Float
from msgspec import Meta, Struct
from msgspec.structs import replace

from cumulant import storage
from cumulant.config import OutOfBounds, Seed, Share, restored
from cumulant.storage import Unreadable
from cumulant.transfer.evaluation import Success

MEASURES = "measures.json"
FORMAT = 1
MOST = 16  # evaluations of a library
_TEXT = r"[\w .,:()+/@-]{0,80}"  # what a card says as it stands: no markup, no line ends
Plain = Annotated[str, Meta(pattern=rf"(?a)\A{_TEXT}\Z")]
Seconds = Annotated[float, Meta(ge=0, le=1e9)]
Number = Annotated[int, Meta(ge=1, le=10**12)]
Steps = Annotated[int, Meta(ge=0, le=10**12)]
_BY_CLASS = Meta(min_length=1, max_length=64)
ByMethod = Mapping[str, Mapping[str, Success]]  # success by method and class, as `cumulant evaluate` has it


class Made(Struct, frozen=True, forbid_unknown_fields=True):
    """How a library was made. What is not known is None."""

    seed: Seed
    hardware: Plain = ""
    compile_s: Seconds | None = None
    train_s: Seconds | None = None
    since: Steps = 0  # the update from which these seconds count: a run that was resumed does not know what was before
    version: Plain = ""  # of Cumulant
    held_out: Success | None = None  # on goals that no evaluation uses, at the end


class Evaluation(Struct, frozen=True, forbid_unknown_fields=True):
    """What `cumulant evaluate` measured, and how."""

    suite: Literal["paper", "aligned", "coverage", "plans", "rewards"]
    bins: Number
    gpi: Literal["committed", "plain"]
    seed: Seed
    tasks_per_class: Number
    episodes: Number  # of a task
    few_shot: Steps  # labelled; 0: none
    results: Annotated[Mapping[Plain, Annotated[Mapping[Plain, Success], _BY_CLASS]], Meta(min_length=1, max_length=8)]

    @property
    def asked(self) -> tuple[object, ...]:
        """What was measured: another evaluation of the same takes its place."""
        return self.suite, self.bins, self.gpi, self.few_shot


class Audited(Struct, frozen=True, forbid_unknown_fields=True):
    """What `cumulant inspect` measured."""

    starts: Number
    seed: Seed
    learnt_error: Annotated[float, Meta(ge=0, le=1e6)]  # of Ψ on each skill's own feature, against Ψ as played
    moved: tuple[tuple[Share, ...], ...]  # [i, l]: how far the policies of feature i move feature l

    def __post_init__(self) -> None:
        """Refuse what is no square."""
        if any(len(row) != len(self.moved) for row in self.moved):
            raise OutOfBounds("moved has a row and a column for each feature")


class Record(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """All that is known of some weights. Nothing is known of those that nobody has measured."""

    weights: str = ""  # their checksum
    training: Made | None = None
    evaluations: Annotated[tuple[Evaluation, ...], Meta(max_length=MOST)] = ()
    audited: Audited | None = None

    def __add__(self, found: Evaluation | Audited) -> "Record":
        """With something that was measured, in the place of what was measured before in the same way."""
        if isinstance(found, Audited):
            return replace(self, audited=found)
        others = [each for each in self.evaluations if each.asked != found.asked]
        return replace(self, evaluations=(*others, found)[-MOST:])


UNKNOWN = Record()


def hardware() -> str:
    """Return what a run computes on: "one NVIDIA H200", "2 CPU cores"."""
    first = jax.devices()[0]
    if first.platform != "cpu":
        return f"one {_plainly(first.device_kind)}"
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{cores} CPU core{'s' * (cores != 1)}"


def as_json(record: Record) -> dict[str, Any]:
    """Return a record as measures.json holds it."""
    return {"format": FORMAT, "weights": record.weights} | msgspec.to_builtins(record)


def write(folder: Path, record: Record) -> None:
    """Write measures.json; OutOfBounds for what could not be read back."""
    stored = as_json(record)
    restored(Record, {name: value for name, value in stored.items() if name != "format"})
    storage.write_sealed(folder / MEASURES, stored)


def read(folder: Path, weights: str, features: int) -> Record:
    """Read what a folder knows of weights with a checksum, over so many features. Unreadable if anything is wrong."""
    path = folder / MEASURES
    if not os.path.lexists(path):
        return Record(weights)
    stored = storage.read_sealed(path)
    if stored.pop("format", None) != FORMAT:
        raise Unreadable(f"{path} is not a record that this version reads")
    try:
        record = restored(Record, stored)
    except OutOfBounds as error:
        raise Unreadable(f"{path} is not valid: {error}") from None
    if record.audited and len(record.audited.moved) != features:
        raise Unreadable(f"{path} is not valid: it holds an audit of another number of features")
    return record if record.weights == weights else Record(weights)


def _plainly(text: str) -> str:
    return "".join(c for c in text if re.fullmatch(_TEXT, c, re.ASCII))[:60]


def audited(moved: Float[Array | np.ndarray, "d d"], learnt_error: float, starts: int, seed: int) -> Audited:
    """The record of an audit."""
    rows = np.asarray(moved, float).round(4).tolist()
    return Audited(starts, seed, learnt_error, tuple(tuple(row) for row in rows))
