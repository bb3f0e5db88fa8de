"""What a run keeps on its way: metrics, a line for every report, and the newest checkpoints."""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from cumulant import storage
from cumulant.storage import Unreadable, write_whole

_KEPT = 2  # checkpoints
Arrays = TypeVar("Arrays")
Report = Callable[[dict[str, Any]], None]


def holds_a_run(out: Path) -> bool:
    """Whether a folder has something that a new run would overwrite."""
    return any((out / name).exists() for name in ("config.json", "weights.safetensors", "metrics.jsonl", "checkpoints"))


def save(out: Path, update: int, arrays: Arrays, about: dict[str, Any]) -> None:
    """Write a checkpoint, then forget the oldest."""
    folder = out / "checkpoints"
    storage.write(folder / f"{update:09d}", arrays, about)
    for old in sorted(folder.iterdir())[:-_KEPT]:
        shutil.rmtree(old)


def latest(out: Path, like: Arrays, about: dict[str, Any], report: Report) -> Arrays:
    """The newest checkpoint that can be read; a run that was stopped before its first one starts anew."""
    folder = out / "checkpoints"
    found = sorted(folder.iterdir(), reverse=True) if folder.is_dir() else []
    for path in found:
        try:
            info = storage.read_info(path)
            if {name: info.get(name) for name in about} != json.loads(json.dumps(about)):
                raise ValueError(f"{out} holds a run with other settings: resume it with the same")
            return storage.read(path, like)
        except Unreadable as error:
            report({"event": "damaged", "message": str(error)})
    if found:
        raise Unreadable(f"none of the checkpoints in {folder} can be read")
    return like


def last_good(out: Path | None) -> str:
    """Where to go back to, in words."""
    found = sorted((out / "checkpoints").iterdir()) if out and (out / "checkpoints").is_dir() else []
    return f"the last good checkpoint is {found[-1]}" if found else "there is no checkpoint yet"


def append_metrics(out: Path, metrics: dict[str, Any]) -> None:
    """A line for a report."""
    out.mkdir(parents=True, exist_ok=True)
    with (out / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({name: value for name, value in metrics.items() if name != "event"}) + "\n")


def truncate_metrics(out: Path, update: int) -> None:
    """Forget what was recorded after the checkpoint: it will be recorded again."""
    path = out / "metrics.jsonl"
    if path.exists():
        lines = [line for line in path.read_text().splitlines() if _update_of(line) <= update]
        write_whole(path, "".join(f"{line}\n" for line in lines).encode())


def _update_of(line: str) -> float:
    try:
        return float(json.loads(line)["update"])
    except (ValueError, KeyError):
        return math.inf  # half a line, cut off when the run was killed
