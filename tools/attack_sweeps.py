"""Kill a sweep at random moments, and go on with it each time; print what it came to as one JSON object.

The command is the real one, in a process of its own, and the signal is SIGKILL. After every death each folder must be
whole, failed or not there at all; in the end all are equal to those of a sweep that nobody disturbed, but for seconds.
"""

import argparse
import json
import os
import random
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

from run_attack.real_deaths import in_child
from run_attack.wholeness import check_unmixed

GRID = "width=8 num_envs=4 batch=8 env_steps=400 replay=400 world.max_steps=10 tasks_per_class=1 episodes=2"


def attack(place: Path, kills: int, trials: int, seed: int) -> dict[str, Any]:
    """Kill so many times, as often over as it takes. The first thing that is wrong raises."""
    import cumulant.commands.grids
    import cumulant.sweeps.trials  # noqa: F401  (imported before the forks, for all of them)
    from cumulant.commands.cli import main

    log, begun = place / "log", time.monotonic()

    def run(out: Path, after: float | None = None) -> int:
        args = ["sweep", "--grid", f"seed=0:{trials}", *GRID.split(), "--in-step", "1", "--out", str(out)]
        return in_child(lambda: main(args), log, after)

    assert run(place / "first") == 0, log.read_text()  # which leaves its programs in JAX's cache
    started = time.monotonic()
    assert run(place / "undisturbed") == 0, log.read_text()
    expected, seconds = told(place / "undisturbed"), time.monotonic() - started
    assert told(place / "first") == expected, "two undisturbed sweeps differ"
    out, chosen, killed, ended = place / "out", random.Random(seed), 0, 0
    while killed < kills:
        killed += run(out, after=chosen.uniform(0, seconds)) == -signal.SIGKILL
        check_whole(out, expected)
        if out.exists() and len(told(out)) == trials:
            assert told(out) == expected, "the end is another"
            shutil.rmtree(out)
            ended += 1
    assert run(out) == 0, log.read_text()
    assert told(out) == expected, "the end is another"
    assert not list(out.glob(".*")), "something is left beside the folders"
    return {"trials": trials, "killed": killed, "ended": ended + 1, "seconds": round(time.monotonic() - begun, 1)}


def told(out: Path) -> dict[str, dict[str, Any]]:
    """What every folder that counts holds, but for seconds."""
    folders = [path for path in out.iterdir() if not path.name.startswith(".")]
    return {path.name: {str(file.relative_to(path)): _timeless(file) for file in _files(path)} for path in folders}


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _timeless(file: Path) -> Any:
    if file.suffix not in (".json", ".jsonl"):
        return file.read_bytes()
    lines = [file.read_text()] if file.suffix == ".json" else file.read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k not in ("seconds", "seal")} for line in lines]


def check_whole(out: Path, expected: dict[str, dict[str, Any]]) -> None:
    """Whatever is there is there whole, and as it should be."""
    if not out.exists():
        return
    check_unmixed(out)
    for name, files in told(out).items():
        assert files == expected[name], f"{name} is not whole"


def main() -> None:
    """Read the options, attack, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20, help="deaths, at random moments")
    parser.add_argument("--trials", type=int, default=4, help="of the sweep")
    parser.add_argument("--seed", type=int, default=0, help="of the random moments")
    given = parser.parse_args()
    if given.kills < 1 or given.trials < 1:
        parser.error("a number is out of range")
    with tempfile.TemporaryDirectory(prefix="attack-sweeps-") as name:
        place = Path(name)
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(place / "compiled"))
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.03")
        print(json.dumps(attack(place, given.kills, given.trials, given.seed), indent=2))


if __name__ == "__main__":
    main()
