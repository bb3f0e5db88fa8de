"""What is known of a library beside its weights: how it was made, and what was measured of it. Its measures.json.

Seconds and hardware stand here, and nothing that a run must repeat bit for bit. A record names the weights that it
speaks of by their checksum; beside others it counts as none.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np
from jaxtyping import Array, Float

from cumulant import storage
from cumulant.bounds import MOST_SEED, OutOfBounds, check_settings
from cumulant.storage import Unreadable
from cumulant.transfer.evaluation import Success

MEASURES = "measures.json"
FORMAT = 1
MOST = 16  # evaluations of a library
_CLASSES = 64  # of an evaluation, at most, and as many methods
_SECONDS, _COUNT = 1e9, 1e12  # at most
_PLAIN = re.compile(r"[\w .,:()+/@-]{0,80}", re.ASCII)  # of what a card says as it stands: no markup, no line ends
ByMethod = Mapping[str, Mapping[str, Success]]  # success by method and class, as `cumulant evaluate` has it


@dataclass(frozen=True)
class Made:
    """How a library was made. What is not known is None."""

    seed: int
    hardware: str = ""
    compile_s: float | None = None
    train_s: float | None = None
    since: int = 0  # the update from which these seconds count: a run that was resumed does not know what was before
    version: str = ""  # of Cumulant
    held_out: Success | None = None  # on goals that no evaluation uses, at the end

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        seconds = dict.fromkeys(("compile_s", "train_s"), (0, _SECONDS))
        check_settings(self, seed=(0, MOST_SEED), since=(0, _COUNT), **seconds)
        _check_plain(self.hardware, self.version)


@dataclass(frozen=True)
class Evaluation:
    """What `cumulant evaluate` measured, and how."""

    suite: Literal["paper", "aligned", "coverage", "plans", "rewards"]
    bins: int
    gpi: Literal["committed", "plain"]
    seed: int
    tasks_per_class: int
    episodes: int  # of a task
    few_shot: int  # labelled steps; 0: none
    results: ByMethod

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        counts = dict.fromkeys(("tasks_per_class", "episodes", "bins"), (1, _COUNT))
        check_settings(self, seed=(0, MOST_SEED), few_shot=(0, _COUNT), **counts)
        classes = [name for by_class in self.results.values() for name in by_class]
        _check_plain(*self.results, *classes)
        if not 0 < len(classes) <= _CLASSES:
            raise OutOfBounds(f"an evaluation has results of 1 to {_CLASSES} classes, but got {len(classes)}")

    @property
    def asked(self) -> tuple[object, ...]:
        """What was measured: another evaluation of the same takes its place."""
        return self.suite, self.bins, self.gpi, self.few_shot


@dataclass(frozen=True)
class Audited:
    """What `cumulant inspect` measured."""

    starts: int
    seed: int
    learnt_error: float  # of Ψ on each skill's own feature, against Ψ as played
    moved: tuple[tuple[float, ...], ...]  # [i, l]: how far the policies of feature i move feature l

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        check_settings(self, starts=(1, _COUNT), seed=(0, MOST_SEED), learnt_error=(0, 1e6))
        if any(len(row) != len(self.moved) or not all(0 <= share <= 1 for share in row) for row in self.moved):
            raise OutOfBounds("moved holds no shares of 1, a row and a column for each feature")


@dataclass(frozen=True)
class Record:
    """All that is known of some weights. Nothing is known of those that nobody has measured."""

    weights: str = ""  # their checksum
    training: Made | None = None
    evaluations: tuple[Evaluation, ...] = ()
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
    """A record as measures.json holds it."""
    found = {
        "training": record.training and _fields(record.training) | {"held_out": _said(record.training.held_out)},
        "evaluations": [
            _fields(each)
            | {"results": {name: {c: _said(s) for c, s in by.items()} for name, by in each.results.items()}}
            for each in record.evaluations
        ],
        "audited": record.audited and asdict(record.audited),
    }
    return {"format": FORMAT, "weights": record.weights} | {name: value for name, value in found.items() if value}


def write(folder: Path, record: Record) -> None:
    """Write measures.json."""
    storage.write_sealed(folder / MEASURES, as_json(record))


def read(folder: Path, weights: str, features: int) -> Record:
    """What a folder knows of weights with a checksum, over so many features. Unreadable if anything is wrong."""
    path = folder / MEASURES
    if not os.path.lexists(path):
        return Record(weights)
    stored = storage.read_sealed(path)
    if stored.get("format") != FORMAT:
        raise Unreadable(f"{path} is not a record that this version reads")
    try:
        record = _restored(stored)
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
        raise Unreadable(f"{path} is not valid: {error}") from None
    if record.audited and len(record.audited.moved) != features:
        raise Unreadable(f"{path} is not valid: it holds an audit of another number of features")
    return record if record.weights == weights else Record(weights)


def _restored(stored: dict[str, Any]) -> Record:
    kinds = {"format": int, "weights": str, "training": dict, "evaluations": list, "audited": dict}
    odd = [name for name, value in stored.items() if not isinstance(value, kinds.get(name, ()))]
    if odd:
        raise OutOfBounds(f"it holds an odd {odd[0]!r}")
    training, audited, listed = (stored.get(name) for name in ("training", "audited", "evaluations"))
    if len(listed or []) > MOST:
        raise OutOfBounds(f"it holds more than {MOST} evaluations")
    return Record(
        stored["weights"],
        Made(**training | {"held_out": _success(training.get("held_out"))}) if training else None,
        tuple(Evaluation(**each | {"results": _results(each["results"])}) for each in listed or []),
        _audit(audited) if audited else None,
    )


def _audit(stored: dict[str, Any]) -> Audited:
    return Audited(**stored | {"moved": tuple(tuple(map(_number, row)) for row in stored["moved"])})


def _results(stored: dict[str, dict[str, Any]]) -> ByMethod:
    found = {name: {c: _success(s) for c, s in by.items()} for name, by in stored.items()}
    return {name: {c: s for c, s in by.items() if s is not None} for name, by in found.items()}


def _success(stored: dict[str, Any] | None) -> Success | None:
    """Success from JSON."""
    if stored is None:
        return None
    found = Success(**stored | {"ci95": tuple(map(_number, stored["ci95"]))})
    shares = [found.success, *found.ci95, *([] if found.violated is None else [found.violated])]
    low, high = found.ci95
    counts = all(isinstance(n, int) and not isinstance(n, bool) for n in (found.tasks, found.episodes))
    if not (counts and 1 <= found.tasks <= found.episodes <= _COUNT):
        raise OutOfBounds(f"success over {found.episodes!r} episodes of {found.tasks!r} tasks")
    if not (all(0 <= _number(share) <= 1 for share in shares) and low <= found.success <= high):
        raise OutOfBounds(f"a success rate of {found.success!r} between {low} and {high}")
    for steps in (found.mean_steps, found.steps_or_limit):
        if steps is not None and not 0 <= _number(steps) <= _COUNT:
            raise OutOfBounds(f"{steps!r} steps")
    return found


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise OutOfBounds(f"{value!r} is no number")
    return float(value)


def _fields(thing: Made | Evaluation) -> dict[str, Any]:
    return {field.name: getattr(thing, field.name) for field in fields(thing)}


def _said(success: Success | None) -> dict[str, Any] | None:
    return None if success is None else success._asdict()


def _check_plain(*texts: str) -> None:
    for text in texts:
        if not isinstance(text, str) or not _PLAIN.fullmatch(text):
            raise OutOfBounds(f"{text!r} is no plain text")


def _plainly(text: str) -> str:
    return "".join(c for c in text if _PLAIN.fullmatch(c))[:60]


def audited(moved: Float[Array | np.ndarray, "d d"], learnt_error: float, starts: int, seed: int) -> Audited:
    """The record of an audit."""
    rows = np.asarray(moved, float).round(4).tolist()
    return Audited(starts, seed, learnt_error, tuple(tuple(row) for row in rows))
