"""`cumulant bench`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from tyro.conf import Positional

from cumulant.commands.inputs import OBJECTS, BadInput, Flag, at_least, world_of
from cumulant.commands.output import on_terminal, print_json
from cumulant.commands.programs import forget_programs

if TYPE_CHECKING:
    from cumulant.worlds.host import HostWorld


@dataclass(frozen=True)
class Bench:
    """Measure speed, beside a peer's and the hardware's limit.

    env and render: the world against the original Spriteworld. parse: the worst phrase. pretrain: free play, and a wide
    update against the peak of matrix products. gpi: actions from Ψ, all_policies against the paper's network.
    host: free play in a Gymnasium environment against its bare loop. start: commands in new processes, with nothing
    compiled and with what was kept.
    """

    what: Positional[Literal["env", "render", "parse", "pretrain", "gpi", "host", "start"]]  # What to measure.
    objects: tuple[str, ...] = OBJECTS  # The world's objects, topmost first.
    batch: int | None = None  # Worlds, frames or transitions at once; by default what suits the device.
    size: int = 64  # Pixels along a frame's side.
    environment: str = "gymnasium_robotics:FetchPush-v4"  # Of host; the extra `robotics` installs this one.
    no_peer: Flag = False  # Leave out the original, which the extra `peers` installs.
    json: Flag = False  # One JSON object on stdout, and nothing else.

    def run(self) -> None:
        """Measure, and tell how far the limit is."""
        forget_programs()  # compiling is measured, too
        with on_terminal("loading", self.json):
            import jax

            from cumulant.config import PRESETS, check_memory
            from cumulant_paper import bench, peers
            from cumulant_paper.starts import bench_start

        at_least("batch", 1 if self.batch is None else self.batch, 1)
        at_least("size", self.size, 1)
        check_memory(f"a frame of {self.size:,} pixels a side", 3 * self.size**2)
        world, on_cpu = world_of(self.objects), jax.default_backend() == "cpu"
        measure: dict[str, Callable[[], dict[str, Any]]] = {
            "env": lambda: bench.bench_env(world, self.batch or (4096 if on_cpu else 2**22), 200, not self.no_peer),
            "render": lambda: bench.bench_render(
                world, self.batch or (256 if on_cpu else 2**16), self.size, not self.no_peer
            ),
            "parse": lambda: bench.bench_parse(world),
            "pretrain": lambda: bench.bench_pretrain(world, self.batch or (256 if on_cpu else 2**14)),
            "gpi": lambda: bench.bench_gpi(world),
            "host": lambda: bench.bench_host(self._host_world(), PRESETS["cpu"]),
            "start": bench_start,
        }
        try:
            with on_terminal("loading", self.json):
                if self.what in ("env", "render") and not self.no_peer:
                    peers.load()  # before anything is measured
            with on_terminal(f"measuring {self.what}", self.json):
                report = measure[self.what]()
        except ModuleNotFoundError as error:
            raise BadInput(str(error)) from None
        if self.json:
            return print_json(report)
        for name, value in report.items():
            print(f"{name:>24}  {_readable(value)}")

    def _host_world(self) -> "HostWorld":
        from cumulant_paper.bench import host_world

        try:
            return host_world(self.environment, self.batch or 8)
        except Exception as error:  # whatever somebody's own environment does
            said = str(error).strip().partition("\n")[0]
            raise BadInput(f"--environment {self.environment!r} cannot be measured: {said}") from None


def _readable(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return str(value)
