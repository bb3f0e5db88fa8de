"""`cumulant sweep`."""

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tyro.conf import Positional

from cumulant.commands.inputs import BadInput, Flag, NoDefault, at_least
from cumulant.commands.output import on_terminal, print_json

if TYPE_CHECKING:
    from cumulant.sweeps.experiments import Engine


@dataclass(frozen=True)
class Sweep:
    """Run free play many times, over seeds, settings and worlds.

    Keys are seed, world, world.FIELD, preset, any setting of pretrain, and tasks_per_class, task_seed, episodes and
    budgets, which say how a trial is judged. A file has them in two tables: [fixed], and [grid] with a list for each
    key. Every combination is a trial, with a folder of its own. What is finished is not run again.

    Try: cumulant sweep --grid seed=0:4 width=64,128 preset=cpu --out my-sweep
    """

    file: NoDefault[Positional[Path | None]] = None  # A TOML file with the tables [fixed] and [grid].
    grid: NoDefault[tuple[str, ...]] = ()  # In its place, key=v1,v2 ...; seed=0:8 is 0 to 7, budgets=500+2000 both.
    out: Path = Path("my-sweep")  # Folder for the trials' folders.
    world: NoDefault[str] = ""  # Of trials that name none; the only way to a world of your own, package.module:World.
    engine: Literal["local", "ray"] = "local"  # This process; or a Ray cluster (extra `ray`).
    address: str = "auto"  # Of the cluster's head, HOST:PORT; auto: the cluster that this machine is part of.
    cpus: float = 1.0  # Of each task on the cluster.
    gpus: float = 0.0  # Of each task on the cluster; with 0.25, four share a GPU and its memory.
    retries: int = 2  # Of a task whose worker died.
    in_step: NoDefault[int | None] = None  # Trials in one program at most; by default what suits the device.
    json: Flag = False  # JSON objects on stdout, one a line: an event each, and the summary at the end.

    def run(self) -> None:
        """Run what is not finished."""
        if (self.file is None) == (not self.grid):
            raise BadInput("give a file, or --grid key=v1,v2 ...")
        with on_terminal("loading", self.json):
            from cumulant.commands.grids import trials_in, trials_typed
            from cumulant.storage import Unreadable
            from cumulant.sweeps.trials import sweep

            named = self.world
            trials = trials_typed(self.grid, named) if self.file is None else trials_in(self.file, named)
        engine = engine_of(self.engine, self.address, self.cpus, self.gpus, self.retries, self.in_step)
        try:
            swept = sweep(trials, self.out, engine, Following(len(trials), self.json))
        except (Unreadable, ValueError) as error:
            raise BadInput(str(error)) from None
        if self.json:
            print_json({"event": "ended"} | swept._asdict())
        else:
            before = f", {len(swept.skipped):,} before" if swept.skipped else ""
            print(f"{self.out}: {len(swept.finished):,} trials finished{before}, {len(swept.failed):,} failed")
            for name, reason in swept.failed.items():
                print(f"failed: {name}: {reason}", file=sys.stderr)
            print(f"Next: cumulant report {self.out}")
        if swept.failed:
            raise SystemExit(1)


class Following:
    """Prints what the runner of experiments reports: a line an event, or a JSON object."""

    def __init__(self, experiments: int, json: bool):
        """`json` prints objects on stdout; otherwise lines go to stderr."""
        self._json, self._begun, self._all, self._done = json, time.monotonic(), experiments, 0

    def __call__(self, event: dict[str, Any]) -> None:
        """Print one event."""
        seconds = round(time.monotonic() - self._begun, 1)
        self._done += event["event"] != "started"
        if self._json:
            print_json(event | {"seconds": seconds})
            sys.stdout.flush()
        else:
            reason, done = f": {event['reason']}" if "reason" in event else "", f"{self._done}/{self._all}"
            words = f"{event['event']:>9} {done:>9} {seconds:8.1f} s  {event['trial']}{reason}"
            print(words, file=sys.stderr, flush=True)


def engine_of(name: str, address: str, cpus: float, gpus: float, retries: int, in_step: int | None = None) -> "Engine":
    """Return the engine that options describe; BadInput for those that are of the other, or cannot be."""
    from cumulant.commands.programs import keep_programs
    from cumulant.sweeps.experiments import Local
    from cumulant.sweeps.on_ray import Ray

    if in_step is not None:
        at_least("in-step", in_step, 1)
    if name == "ray":
        return Ray(address, cpus, gpus, retries, in_step, keep_programs)
    if (address, cpus, gpus, retries) != ("auto", 1.0, 0.0, 2):
        raise BadInput("--address, --cpus, --gpus and --retries are a cluster's: give --engine ray too")
    return Local(in_step)
