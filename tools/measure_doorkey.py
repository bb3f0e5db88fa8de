"""Success in DoorKey by kind of goal, pooled: `python tools/measure_doorkey.py LIBRARY...`."""

import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import jax

from cumulant.commands.output import print_table, rate_and_steps
from cumulant.goals.feature import Feature
from cumulant.goals.language import parse
from cumulant.goals.tasks import Task
from cumulant.transfer.evaluation import evaluate_references, pool
from cumulant.transfer.library import Library

_EPISODES, _SEED = 64, 1000
_COLUMNS, _ROWS = ("left", "centre", "right"), ("top", "middle", "bottom")
_KINDS = {
    "key held": ["key held"],
    "door open": ["door open"],
    "agent in a third": [f"agent {third}" for third in (*_COLUMNS, *_ROWS)],
    "agent in a ninth": [f"agent {row} {column}" for row in _ROWS for column in _COLUMNS],
    "agent right": ["agent right"],
    "door open, agent right": ["door open and agent right"],
    "door shut, agent right": ["door shut and agent right"],
    "key lying, door open": ["key lying and door open"],
    "key lying, agent right": ["key lying and agent right"],
    "everything": [
        f"agent {row} {column} and key {key} and door {door}"
        for row in ("top", "bottom")
        for column in ("left", "right")
        for key in ("held", "lying")
        for door in ("open", "shut")
    ],
}


def main(folders: list[str], kinds: Mapping[str, list[str]] = MappingProxyType(_KINDS)) -> None:
    """Play every goal with each library, and print one table."""
    libraries = [Library.load(Path(folder)) for folder in folders]
    world, key = libraries[0].world, jax.random.key(_SEED)
    goals = {kind: _parsed(phrases, world.feature_names) for kind, phrases in kinds.items()}
    runs = [library.evaluate(goals, key, _EPISODES) for library in libraries]
    columns = {
        "committed GPI": {kind: pool([run[kind] for run in runs]) for kind in goals},
        **evaluate_references(world, goals, key, _EPISODES),
    }
    rows = [[kind, *(part for each in columns.values() for part in rate_and_steps(each[kind]))] for kind in goals]
    title = f"Success in {world.max_steps} steps, {_EPISODES} episodes a goal, seed {_SEED}"
    print_table(title, ["goal", *(part for name in columns for part in (name, "steps"))], rows)


def _parsed(phrases: list[str], features: tuple[str | Feature, ...]) -> list[Task]:
    return [parse(phrase, features) for phrase in phrases]


if __name__ == "__main__":
    main(sys.argv[1:])
