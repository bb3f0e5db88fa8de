"""What DQN needs, from scratch, for a task of the same class: for what was measured and recorded, and nothing else."""

import json
from functools import cache
from importlib import resources
from typing import Any

from cumulant.goals.suites import class_of
from cumulant.goals.tasks import Task
from cumulant.web.schemas import FromScratch
from cumulant.worlds.protocol import World
from cumulant.worlds.shipped import describe


def from_scratch(world: World, task: Task) -> FromScratch | None:
    """DQN's steps for a task of this one's class; None in another world, and for a task of no class."""
    recorded = _recorded()
    name = class_of(task) if describe(world) == recorded["world"] else ""
    if not name:
        return None
    return FromScratch(steps=recorded["steps"][name], most=recorded["most"], source=recorded["source"])


@cache
def _recorded() -> dict[str, Any]:
    """Return what `paper/tools/dqn_steps.py` wrote."""
    return json.loads((resources.files("cumulant.web") / "dqn_steps.json").read_text())
