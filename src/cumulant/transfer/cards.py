"""The card of a library: its README.md, for people, and the same facts as data. All of it comes from the library."""

import errno
import json
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from cumulant import storage
from cumulant.features.disentanglement import independence
from cumulant.goals.suites import example
from cumulant.storage import Unwritable, locked
from cumulant.transfer import records
from cumulant.transfer.evaluation import Success
from cumulant.transfer.library import Library
from cumulant.transfer.library_folders import CARD, features_name, owns_card, write_card
from cumulant.transfer.records import Audited, Evaluation
from cumulant.worlds import shipped

MOVES = 0.05  # a feature that moves further under another's policies is told of
_GOOD = 0.95  # a class is told of as a failure if its rate is surely lower
_UNKNOWN = "not known"
_LONGEST = 100  # characters of a parameter's value
_STEPS = "Steps are means over all episodes, of which a failure counts as the whole time limit."
_METHODS = {"zero_shot": "zero-shot", "heedless": "heedless", "few_shot": "few-shot", "random": "random play"}


def card(library: Library) -> str:
    """A library's card, in Markdown."""
    d, m = len(library.feature_names), library.config.bins
    kind = type(library.world).__name__
    parts = [
        f"# Skills for {_safe(kind)}",
        f"{d * m} skills, one for each of {m} bins of {d} features, learnt in free play without any reward. Give this "
        "library a goal, in words or as a reward, and it acts at once.",
        _table(["", ""], [[name, value] for name, value in _making(library)]),
        "## Success by class",
        *_measured(library, [each for each in library.record.evaluations if each.suite != "coverage"], "evaluate"),
        "## Coverage",
        *_measured(
            library,
            [each for each in library.record.evaluations if each.suite == "coverage"],
            "evaluate --suite coverage --tasks-per-class 200",
        ),
        "## Independence",
        *_independence(library),
        "## Known failures",
        "\n".join(f"- {_safe(line)}" for line in failures(library)),
        "## How to load it",
        _loading(library),
    ]
    text = "\n\n".join(part for part in parts if part) + "\n"
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text)


def facts(library: Library) -> dict[str, Any]:
    """What the card says, as JSON holds it."""
    known = records.as_json(library.record)
    return {
        "world": shipped.describe(library.world),
        "features": list(library.feature_names),
        "kind_of_features": features_name(library.features),
        "k": len(library.feature_names),
        "m": library.config.bins,
        "gamma": library.config.gamma,
        "free_play": asdict(library.config),
        "updates": library.config.updates,
        "training": known.get("training"),
        "evaluations": known.get("evaluations", []),
        "audited": known.get("audited"),
        "independence": None if (moved := moved_by(library)) is None else independence(moved),
        "known_failures": failures(library),
    }


def complete(folder: Path, found: Evaluation | Audited, library: Library) -> Library:
    """Add to a folder what was measured of its library, and write its card anew: the library that knows it."""
    check_completable(folder)
    with locked(folder):
        info = storage.read_info(folder)
        weights = info.get("sha256")
        if weights != storage.checksum(library.network):
            raise Unwritable(f"cannot write on the card of {folder}: it was trained anew while it was measured")
        known = records.read(folder, str(weights), len(library.feature_names))
        complete = replace(library, record=known + found)
        records.write(folder, complete.record)
        write_card(folder, card(complete))
    return complete


def check_completable(folder: Path) -> None:
    """Unwritable for a folder whose card or record cannot be written, before anything is measured."""
    for name in (records.MEASURES, CARD):
        storage.check_writable(folder / name)
    if not owns_card(folder):
        raise Unwritable(f"cannot write {folder / CARD}: it is no card of a library")
    if not os.access(folder, os.W_OK):
        raise Unwritable(f"cannot write {folder}: {os.strerror(errno.EACCES)}")


def failures(library: Library) -> list[str]:
    """What is known to go wrong, a line each."""
    lines = [] if library.knows_words else [f"It understands no words: {library.why_no_words}."]
    for each in library.record.evaluations:
        for method in ("zero_shot", "few_shot"):
            for name, success in each.results.get(method, {}).items():
                if success.ci95[1] < _GOOD:
                    lines.append(f"{name}, {_METHODS[method]} ({_asked(each)}): {_rate(success)}.")
    moved, names = moved_by(library), library.feature_names
    for i, row in enumerate([] if moved is None else moved):
        others = [f"{names[j]} by {share:.2f}" for j, share in enumerate(row) if share > MOVES and j != i]
        if others:
            lines.append(f"Policies of {names[i]} also move {', '.join(others)}, on average.")
    if library.tremble:
        shares = ", ".join(f"{name} by {share:.3f}" for name, share in zip(names, library.tremble, strict=False))
        lines.append(f"Its features tremble, as shares of their ranges: {shares}.")
    m = library.config.bins
    lines.append(f"A goal finer than {m} equal parts of a feature is played only as well as {m} bins allow.")
    if not library.record.evaluations:
        lines.append("Success was not measured, so nothing is known of classes of goals.")
    return lines


def moved_by(library: Library) -> Float[np.ndarray, "d d"] | None:
    """How far each feature's policies move every other: as audited, or else as measured at the end of the run."""
    if library.record.audited:
        return np.asarray(library.record.audited.moved, float)
    return None if library.moved is None else np.asarray(library.moved, float)


def _making(library: Library) -> list[tuple[str, str]]:
    config, training = library.config, library.record.training
    world = shipped.describe(library.world)
    parameters = [f"{name} {_value(value)}" for name, value in world.items() if name != "kind"]
    d, own = len(library.feature_names), {"true": "as the world has them"}
    name = features_name(library.features)
    layers = f"{config.depth} layers of {config.width} units"
    copies = f"{config.env_steps:,} steps, in {config.num_envs:,} copies of the world"
    return [
        ("world", "; ".join([str(world["kind"]), *parameters])),
        (f"features (k = {d})", f"{', '.join(library.feature_names)}: {own.get(name, name)}"),
        ("bins (m)", str(config.bins)),
        ("discount (γ)", f"{config.gamma:g}"),
        ("network", f"{config.network}, {layers}"),
        ("free play", copies),
        ("updates", f"{config.updates:,}, each of {config.batch:,} transitions"),
        ("seed", str(training.seed) if training else _UNKNOWN),
        *([("compiling", _seconds(training.compile_s))] if training and training.compile_s is not None else []),
        ("training", _training(library) if training else _UNKNOWN),
        ("hardware", training.hardware or _UNKNOWN if training else _UNKNOWN),
        ("written by", f"Cumulant {training.version}" if training and training.version else _UNKNOWN),
    ]


def _training(library: Library) -> str:
    training = library.record.training
    assert training is not None
    told = _seconds(training.train_s)
    return f"{told}, since update {training.since:,}, from which it was resumed" if training.since else told


def _seconds(seconds: float | None) -> str:
    return _UNKNOWN if seconds is None else f"{seconds:.1f} s"


def _measured(library: Library, evaluations: list[Evaluation], command: str) -> list[str]:
    """Tables of what was measured, or how to measure it."""
    parts = [part for each in evaluations for part in (f"{_capital(_asked(each))}. {_STEPS}", _by_class(each))]
    training = library.record.training
    if not evaluations and command == "evaluate" and training and training.held_out:
        held = training.held_out
        parts = [f"On {held.tasks} goals that were held out, at the end of training: {_rate(held)}."]
    if not evaluations:
        parts.append(f"Not measured. `cumulant {command} --library DIR --card` measures it, and writes it here.")
    return parts


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _asked(each: Evaluation) -> str:
    tasks = {"paper": "the paper's classes", "aligned": f"classes in {each.bins} bins", "coverage": "any goals"}
    learnt = f", few-shot from {each.few_shot:,} labelled steps" if each.few_shot else ""
    how = f"{each.tasks_per_class:,} tasks a class" if each.suite != "coverage" else f"{each.tasks_per_class:,} goals"
    return (
        f"{tasks.get(each.suite, each.suite)}{learnt}: {how}, {each.episodes:,} episodes a task, {each.gpi} GPI, "
        f"seed {each.seed}"
    )


def _by_class(each: Evaluation) -> str:
    names = [_METHODS.get(name, name) for name in each.results]
    classes = dict.fromkeys(c for by_class in each.results.values() for c in by_class)
    rows = [[c, *(_rate(by[c]) if c in by else "" for by in each.results.values())] for c in classes]
    return _table(["class", *names], rows)


def _rate(success: Success) -> str:
    low, high = success.ci95
    steps = "" if success.steps_or_limit is None else f", {success.steps_or_limit:.1f} steps"
    violated = "" if success.violated is None else f", violated {success.violated:.3f}"
    return f"{success.success:.3f} [{low:.3f}, {high:.3f}]{steps}{violated}"


def _independence(library: Library) -> list[str]:
    moved, audited = moved_by(library), library.record.audited
    more = "`cumulant inspect --library DIR --card` measures it, and writes it here."
    if moved is None:
        return [f"Not measured. {more}"]
    where = f"from {audited.starts:,} starts (`cumulant inspect`)" if audited else "at the end of its run"
    lines = [f"{independence(moved):.2f}, measured {where}: 1 if a feature moved under its own policies alone."]
    if audited:
        lines.append(f"Learnt Ψ on its own feature: mean error {audited.learnt_error:.3f} against Ψ as played.")
    return lines


def _loading(library: Library) -> str:
    own = {} if shipped.ships(shipped.describe(library.world)) else {"world": type(library.world).__name__}
    name = features_name(library.features)
    mine = ":" in name and not name.startswith(("learnt:", "entangled:"))
    python = "".join(f", {option}={value}(...)" for option, value in own.items()) + (", features=..." if mine else "")
    options = "".join(f" --{option} package.module:{value}" for option, value in own.items())
    options += " --features package.module:function" if mine else ""
    goal = f'"{example(library.world.feature_names)}"' if library.knows_words else ""
    python, options, goal = _typed(python), _typed(options), _typed(goal)
    shown = f"\nlibrary.policy({goal})" if goal else "\nlibrary.learn_reward(...)  # a function of the state"
    asked = goal or "--reward package.module:function"
    return (
        "DIR is this folder.\n\n"
        f'```python\nimport cumulant\n\nlibrary = cumulant.Library.load("DIR"{python}){shown}\n```\n\n'
        f"```sh\ncumulant solve {asked} --library DIR{options}\ncumulant inspect --library DIR{options}\n```"
    )


def _value(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ", ".join(value)
    said = value if isinstance(value, str) else json.dumps(value)
    return said if len(said) <= _LONGEST else f"{said[:_LONGEST]} …"


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_safe(cell) for cell in line) + " |" for line in lines)


def _safe(text: str) -> str:
    """Text of one line that is no markup."""
    for mark in "\\|<`*&":
        text = text.replace(mark, f"\\{mark}")
    return text.replace("](", "]\\(").replace("\n", " ")  # brackets alone are an interval's


def _typed(text: str) -> str:
    """Text of one line that ends no block of code."""
    return "".join(c if c.isprintable() and c != "`" else "?" for c in text)
