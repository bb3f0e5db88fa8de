"""Success by kind of goal in the worlds that ship, pooled over libraries.

python paper/tools/measure_goals.py WORLD LIBRARY... [--episodes 64] [--seed 0]
"""

import argparse
from itertools import product
from pathlib import Path

import jax

from cumulant.commands.output import print_table, rate_and_steps
from cumulant.goals.language import parse
from cumulant.transfer.evaluation import evaluate_references, pool
from cumulant.transfer.library import Library

_ACROSS, _UP = ("left", "centre", "right"), ("bottom", "middle", "top")
_THIRDS = (*_ACROSS, *_UP)
_NINTHS = [f"{row} {column}" for row, column in product(_UP, _ACROSS)]
_PUCKS = ("red", "blue")
_FAR, _WIDE, _HIGH = ("near", "centre", "far"), ("right", "middle", "left"), ("low", "medium", "high")
KINDS: dict[str, dict[str, list[str]]] = {
    "doorkey": {
        "key held": ["key held"],
        "door open": ["door open"],
        "agent in a third": [f"agent {third}" for third in _THIRDS],
        "agent in a ninth": [f"agent {ninth}" for ninth in _NINTHS],
        "agent right": ["agent right"],
        "door open, agent right": ["door open and agent right"],
        "door shut, agent right": ["door shut and agent right"],
        "key lying, door open": ["key lying and door open"],
        "key lying, agent right": ["key lying and agent right"],
        "everything": [
            f"agent {row} {column} and key {key} and door {door}"
            for row, column, key, door in product(
                ("top", "bottom"), ("left", "right"), ("held", "lying"), ("open", "shut")
            )
        ],
    },
    "pusher": {
        "hand in a third": [f"hand {third}" for third in _THIRDS],
        "hand in a ninth": [f"hand {ninth}" for ninth in _NINTHS],
        "one puck in a third": [f"{puck} {third}" for puck, third in product(_PUCKS, _THIRDS)],
        "one puck in a ninth": [f"{puck} {ninth}" for puck, ninth in product(_PUCKS, _NINTHS)],
        "both in given thirds": [f"red {one} and blue {other}" for one, other in product(_THIRDS, _THIRDS)],
        "both in given ninths": [f"red {one} and blue {other}" for one, other in product(_NINTHS, _NINTHS)],
    },
    "fetch-reach": {
        "hand in a third": [f"hand {third}" for third in (*_FAR, *_WIDE, *_HIGH)],
        "all three axes": [f"hand {' '.join(thirds)}" for thirds in product(_FAR, _WIDE, _HIGH)],
    },
    "fetch-push": {
        "hand in a third": [f"hand {third}" for third in (*_FAR, *_WIDE, *_HIGH)],
        "puck in a third": [f"puck {third}" for third in (*_FAR, *_WIDE)],
        "puck in a ninth": [f"puck {' '.join(thirds)}" for thirds in product(_FAR, _WIDE)],
    },
}


def main() -> None:
    """Play every goal with each library, and print one table."""
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("world", choices=KINDS)
    reader.add_argument("libraries", nargs="+", type=Path)
    reader.add_argument("--episodes", type=int, default=64, help="of each goal")
    reader.add_argument("--seed", type=int, default=0, help="of the starts")
    given = reader.parse_args()
    libraries = [Library.load(folder) for folder in given.libraries]
    world, key = libraries[0].world, jax.random.key(given.seed)
    goals = {
        kind: [parse(phrase, world.feature_names) for phrase in phrases] for kind, phrases in KINDS[given.world].items()
    }
    runs = [library.evaluate(goals, key, given.episodes) for library in libraries]
    columns = {
        "committed GPI": {kind: pool([run[kind] for run in runs]) for kind in goals},
        **evaluate_references(world, goals, key, given.episodes),
    }
    rows = [[kind, *(part for each in columns.values() for part in rate_and_steps(each[kind]))] for kind in goals]
    title = f"Success in {world.max_steps} steps, {given.episodes} episodes a goal, seed {given.seed}"
    title += "; steps: a failure counts as all of them"
    print_table(title, ["goal", *(part for name in columns for part in (name, "steps"))], rows, 2)


if __name__ == "__main__":
    main()
