"""A room that breaks, or kills the process that it is in: for those who must live with such worlds."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path

import jax

from cumulant.worlds.room import Room


@dataclass(frozen=True)
class Touchy(Room):
    """In the mood "breaks" no step can be taken. In the mood "kills" the first process that takes one dies of it."""

    mood: str = ""
    grave: str = ""  # a file that tells that one has died

    def step(self, state, action):
        if self.mood == "breaks":
            raise RuntimeError("the heater is\x1b[2J broken\nand so is the lamp")
        if self.mood == "kills" and not Path(self.grave).exists():
            jax.debug.callback(self._kill)  # when the program runs, not yet when it is compiled
        return super().step(state, action)

    def _kill(self):
        Path(self.grave).touch()
        os.kill(os.getpid(), signal.SIGKILL)
