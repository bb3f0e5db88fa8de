"""`cumulant sweep`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tyro.conf import Positional

from cumulant.commands.inputs import BadInput, Flag, at_least, usable_folder
from cumulant.commands.output import on_terminal

if TYPE_CHECKING:
    from cumulant.experiments.engines import Engine
    from cumulant.experiments.sweeps import Trial


@dataclass(frozen=True)
class Sweep:
    """Many runs of free play, each judged on tasks: seeds, settings and worlds, here or on a Ray cluster.

    Keys are seed, world, world.FIELD, preset, any setting of pretrain, and tasks_per_class, task_seed, episodes and
    budgets, which say how a trial is judged. A file has them in two tables: [fixed], and [grid] with a list for each
    key. Every combination is a trial, with a folder of its own. What is finished is not run again.

    Try: cumulant sweep --grid seed=0:4 width=64,128 preset=cpu --out my-sweep
    """

    file: Positional[Path | None] = None  # A TOML file with the tables [fixed] and [grid].
    grid: tuple[str, ...] = ()  # In its place, key=v1,v2 ...; seed=0:8 is 0 to 7, budgets=500+2000 both.
    out: Path = Path("my-sweep")  # Folder for the trials' folders.
    world: str = ""  # Of trials that name none; the only way to a world of your own, package.module:World.
    engine: Literal["local", "ray"] = "local"  # This process, on one device; or a Ray cluster (extra `ray`).
    address: str = "auto"  # Of the cluster's head, HOST:PORT; auto: the cluster that this machine is part of.
    cpus: float = 1.0  # Of each task on the cluster.
    gpus: float = 0.0  # Of each task on the cluster; with 0.25, four share a GPU and its memory.
    retries: int = 2  # Of a task whose worker died.
    in_step: int | None = None  # Trials in one program at most; by default what suits the device.
    json: Flag = False  # JSON objects on stdout, one a line: an event each, and the summary at the end.

    def run(self) -> None:
        """Run what is not finished."""
        with on_terminal("loading", self.json):
            from cumulant.commands.following import Following
            from cumulant.experiments.on_ray import NoCluster
            from cumulant.experiments.sweeps import check, sweep
            from cumulant.storage import Unreadable

            trials = self._trials()
        engine = engine_of(self.engine, self.address, self.cpus, self.gpus, self.retries, self.in_step)
        check(trials, here=self.engine == "local")  # `sweep` does too, but only when there are a cluster and a folder
        try:
            with engine.ready():
                usable_folder(self.out)
                with Following(trials, self.json) as following:
                    swept = sweep(trials, self.out, engine, following)
        except (NoCluster, Unreadable, ValueError) as error:
            raise BadInput(str(error)) from None
        following.summary(swept, self.out)
        if swept.failed:
            raise SystemExit(1)

    def _trials(self) -> "list[Trial]":
        from cumulant.commands.grids import trials_in, trials_typed

        if (self.file is None) == (not self.grid):
            raise BadInput("give a file, or --grid key=v1,v2 ...")
        return trials_typed(self.grid, self.world) if self.file is None else trials_in(self.file, self.world)


def engine_of(name: str, address: str, cpus: float, gpus: float, retries: int, in_step: int | None = None) -> "Engine":
    """The engine that options describe; BadInput for those that are of the other, or cannot be."""
    from cumulant.commands.programs import keep_programs
    from cumulant.experiments.engines import Local
    from cumulant.experiments.on_ray import Ray

    if in_step is not None:
        at_least("in-step", in_step, 1)
    if name == "ray":
        return Ray(address, cpus, gpus, retries, in_step, keep_programs)
    if (address, cpus, gpus, retries) != ("auto", 1.0, 0.0, 2):
        raise BadInput("--address, --cpus, --gpus and --retries are a cluster's: give --engine ray too")
    return Local(in_step)
