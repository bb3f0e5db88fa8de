"""A scenario, disturbed at every step and write, and what must hold each time."""

import random
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from run_attack.disk import Disk, Killed
from run_attack.scenarios import Scenario
from run_attack.wholeness import check_unmixed


class Arena:
    """A scenario and a place for it: what the undisturbed run gives, and what every disturbed one must."""

    def __init__(self, scenario: Scenario, place: Path):
        """Runs it once."""
        self.scenario, self.out, self._old = scenario, place / "run", place / "old"
        scenario.old(self._old)
        self.fresh()
        with Disk(self.out) as disk:
            scenario.begin(self.out)
        self.steps, self.writes, self.expected = disk.steps, disk.writes, self.results()

    def fresh(self) -> None:
        """The folder as it was before."""
        shutil.rmtree(self.out, ignore_errors=True)
        if self._old.exists():
            shutil.copytree(self._old, self.out)

    def results(self) -> dict[str, bytes]:
        """The files that count."""
        return {name: (self.out / name).read_bytes() for name in self.scenario.results}

    def disk(self, dies_at: int = -1, full_from: int = -1, full_for: int = 1) -> Disk:
        """A disk with some trouble, which notes how far the run had come when it began."""
        return Disk(self.out, dies_at, full_from, full_for, before=lambda: self.scenario.saved(self.out))

    def check(self, disk: Disk) -> None:
        """Nothing is mixed and nothing is lost."""
        check_unmixed(self.out)
        if isinstance(disk.found, float | int):
            assert self.scenario.saved(self.out) >= disk.found, "what was saved is lost"

    def finish(self) -> None:
        """Go on undisturbed: the end is the same, and neither a checkpoint nor half a file is left."""
        self.scenario.go_on(self.out)
        assert self.results() == self.expected, "the end is another"
        assert not list(self.out.glob("*checkpoints*")), "checkpoints are left"
        assert not list(self.out.rglob(".*.????????")), "half a file is left"

    def kill(self, *moments: int) -> bool:
        """Die at a step of the run, then at one of going on with it, and so on; whether it lived long enough to."""
        self.fresh()
        died = False
        for i, moment in enumerate(moments):
            disk = self.disk(dies_at=moment)
            try:
                with disk:
                    (self.scenario.go_on if i else self.scenario.begin)(self.out)
            except Killed:
                died = True
            self.check(disk)
        self.finish()
        return died

    def fill(self, write: int, times: int) -> str:
        """Have the disk full at a write; the line that ended the run, if one did."""
        from cumulant.commands.inputs import BadInput
        from cumulant.storage import Unwritable

        self.fresh()
        disk, said = self.disk(full_from=write, full_for=times), ""
        try:
            with disk:
                self.scenario.begin(self.out)
        except (Unwritable, BadInput) as error:
            said = str(error)
            assert len(said.splitlines()) == 1, said
        assert disk.refused, "nothing was written then"
        self.check(disk)
        self.finish()
        return said


def simulated(arena: Arena, every: int, chains: int, seed: int) -> dict[str, Any]:
    """All deaths and full disks of a scenario: how many there were. The first that goes wrong raises."""
    begun = time.monotonic()
    killed = sum(arena.kill(step) for step in range(0, arena.steps, every))
    moments = random.Random(seed)
    chained = sum(arena.kill(*(moments.randrange(arena.steps) for _ in range(4))) for _ in range(chains))
    full = {"once": 1, "for_5_writes": 5, "for_good": sys.maxsize // 2}
    ended = {
        name: sum(bool(arena.fill(write, times)) for write in range(0, arena.writes, every))
        for name, times in full.items()
    }
    return {
        "file_steps": arena.steps,
        "killed": killed,
        "killed_again_and_again": chained,
        "writes": arena.writes,
        "full": len(full) * len(range(0, arena.writes, every)),
        "full_ended_in_one_line": ended,
        "seconds": round(time.monotonic() - begun, 1),
    }
