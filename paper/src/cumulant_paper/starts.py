"""How long commands take from their start to their end: with nothing compiled, and with what the one before kept."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from tempfile import TemporaryDirectory
from typing import NamedTuple

_SOLVE, _DEMO = ("solve", "square left"), ("demo", "--out", "{folder}/demo")
PAIRS = {  # a command, and the one after it
    "solve": (_SOLVE, _SOLVE),
    "another_phrase": (_SOLVE, ("solve", "circle top")),
    "demo": (_DEMO, _DEMO),
    "evaluate": (("evaluate", "--episodes", "64"),) * 2,
}
_COMPILED = re.compile(r"Finished XLA compilation of (.+) in ([\d.e-]+) sec")
_CACHE = ("JAX_COMPILATION_CACHE_DIR", "JAX_ENABLE_COMPILATION_CACHE", "PYTHONDONTWRITEBYTECODE")


class Start(NamedTuple):
    """One run of a command in a process of its own."""

    seconds: float
    programs: int  # that were compiled, or read from the cache
    compiling: float  # seconds, reading included


def bench_start(pairs: Mapping[str, tuple[Sequence[str], Sequence[str]]] = PAIRS) -> dict[str, float | str | None]:
    """Measure both of each pair of commands, from a cache folder that is empty before the first.

    `ratio` is the first pair's: the time of the second as a share of the first's.
    """
    starts = {name: _one_after_the_other(pair) for name, pair in pairs.items()}
    first, second = (each.seconds for each in next(iter(starts.values())))
    report: dict[str, float | str | None] = {"unit": "s, second start", "ours": second, "peer": first}
    report["ratio"] = second / first
    for name, pair in starts.items():
        for which, each in zip(("first", "second"), pair, strict=True):
            report |= {f"{name}_{which}_{what}": value for what, value in each._asdict().items()}
    return report


def _one_after_the_other(pair: Sequence[Sequence[str]]) -> list[Start]:
    with TemporaryDirectory() as folder:
        return [start([word.format(folder=folder) for word in command], folder) for command in pair]


def start(command: Sequence[str], cache: str) -> Start:
    """Run a command of ours to its end, with a cache folder of its own."""
    environment = {name: value for name, value in os.environ.items() if name not in _CACHE}
    environment |= {"XDG_CACHE_HOME": cache, "JAX_LOG_COMPILES": "1"}
    begun = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "cumulant", *command], env=environment, capture_output=True, text=True, check=True
    )
    seconds, compiled = time.perf_counter() - begun, _COMPILED.findall(done.stderr)
    if not compiled:
        raise RuntimeError("JAX no longer tells what it compiles, or tells it in other words")
    return Start(seconds, len(compiled), sum(float(took) for _, took in compiled))
