"""Kill runs at every file step and fill the disk at every write; print what they came to as one JSON object.

A file step makes, writes, syncs, renames or removes a file or a folder. Whatever happens at one, the run must go on
from there, lose nothing that it had saved, and end with the same bytes as a run that nothing disturbed.

Most deaths are simulated, thousands in one process: at the step an exception is raised that nothing catches, and from
then on no file operation does anything, as after SIGKILL. `--random` and `--real` send real signals to real processes.
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from run_attack.arena import Arena, simulated
from run_attack.real_deaths import real
from run_attack.scenarios import quickly, scenarios


def main() -> None:
    """Read the options, attack, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=40, help="of a run of free play; 1 to 40 parts")
    parser.add_argument("--every", type=int, default=1, help="simulate a death at every step, or at every so many")
    parser.add_argument("--chains", type=int, default=50, help="runs that die four times in a row, at random steps")
    parser.add_argument("--only", nargs="*", help="scenarios, by name; none: only real deaths")
    parser.add_argument("--random", type=int, default=0, help="real deaths of `pretrain`, at random moments")
    parser.add_argument("--real", type=int, default=0, help="real deaths of `pretrain`, at so many of its file steps")
    parser.add_argument("--represent", type=int, default=0, help="real deaths of `represent`, half at random moments")
    parser.add_argument("--seed", type=int, default=0, help="of the random moments")
    given = parser.parse_args()
    if not (1 <= given.updates <= 1000 and given.every >= 1 and min(given.random, given.real, given.chains) >= 0):
        parser.error("a number is out of range")
    told: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="attack-runs-") as name:
        place = Path(name)
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(place / "compiled"))
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.03")
        if given.random or given.real:  # first: a process that has used JAX must not fork
            told["pretrain, really"] = real("pretrain", place, given.real, given.random, given.seed)
        if half := given.represent // 2:
            told["represent, really"] = real("represent", place, given.represent - half, half, given.seed)
        for number, (what, scenario) in enumerate(scenarios(given.updates)):
            if given.only is None or what in given.only:
                folder = place / str(number)
                folder.mkdir()
                with quickly():
                    told[what] = simulated(Arena(scenario(), folder), given.every, given.chains, given.seed)
                print(f"{what}: {json.dumps(told[what])}", file=sys.stderr, flush=True)
    print(json.dumps(told, indent=2))


if __name__ == "__main__":
    main()
