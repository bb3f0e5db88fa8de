"""`cumulant explain`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tyro.conf import Positional

from cumulant.commands.inputs import Flag, NoDefault, Objects
from cumulant.commands.output import on_terminal, print_json
from cumulant.commands.worlds import refuse_features, world_asked

if TYPE_CHECKING:
    from cumulant.goals.feature import Feature
    from cumulant.goals.tasks import Task


@dataclass(frozen=True)
class Explain:
    """Show how a phrase was understood.

    Try: cumulant explain "get the square to the centre left"
    """

    phrase: Positional[str]  # The goal, in words.
    world: str = "spriteworld"  # Also package.module:World, gymnasium:ID.
    features: NoDefault[str] = ""  # Of gymnasium:ID: package.module:function.
    objects: Objects = None  # Of spriteworld, topmost first.
    json: Flag = False  # One JSON object on stdout, and nothing else.

    def run(self) -> None:
        """Parse the phrase, and print what it means."""
        refuse_features(self.world, self.features)
        with on_terminal("reading", self.json):
            from cumulant.goals.language import parse_plan
            from cumulant.worlds.protocol import colours_of

            world = world_asked(self.world, self.objects, self.features)
            plan = parse_plan(self.phrase, world.feature_names, colours_of(world))
        if plan.task is not None:
            if self.json:
                return print_json({"canonical": str(plan), "dnf": _dnf(plan.task)})
            print(f"understood as: {plan}")
            return _print_dnf(plan.task)
        parts = [
            {name: task for name in ("reach", "avoid", "keep") if (task := getattr(stage, name)) is not None}
            for stage in plan.stages
        ]
        if self.json:
            stages = [
                {name: {"canonical": str(task), "dnf": _dnf(task)} for name, task in part.items()} for part in parts
            ]
            return print_json({"canonical": str(plan), "stages": stages})
        print(f"understood as: {plan}")
        for i, part in enumerate(parts):
            for name, task in part.items():
                print(f"stage {i + 1}: {_SAID[name]}")
                _print_dnf(task, "  ")


_BOUNDS = ("above ", "below ", "between ", "not between ")
_SAID = {"reach": "reach", "avoid": "without entering, on the way", "keep": "and keep, from then on"}


def _dnf(task: "Task") -> list[list[tuple[str, str, list[str]]]]:
    """Return a task's clauses in words: thing, feature and regions of each condition."""
    from cumulant.goals.regions import Region, bounds, members

    features = dict(zip(task.names, task.features, strict=True))

    def regions(feature: "Feature", bins: tuple[int, ...]) -> list[str]:
        told, words = Region(sum(1 << b for b in bins), task.bins), feature.regions
        if task.bins % len(words) == 0 and told.on(len(words)).on(task.bins) == told:
            return [words[b] for b in members(told.on(len(words)).mask)]
        measured = feature.unit or (feature.low, feature.high) != (0, 1)
        if measured and (numbers := bounds(feature, told)):
            return [numbers]
        parts = told.coarsest()
        return [f"{b + 1}/{parts.of}" for b in members(parts.mask)]

    return [
        [(features[name].of, features[name].name, regions(features[name], bins)) for name, bins in clause]
        for clause in task.conditions()
    ]


def _print_dnf(task: "Task", indent: str = "") -> None:
    dnf = _dnf(task)
    for i, clause in enumerate(dnf):
        print(indent + ("or:" if i else "either:" if len(dnf) > 1 else "all of:"))
        for sprite, axis, places in clause:
            within = "" if places[0].startswith(_BOUNDS) else "in "
            print(f"{indent}  {f'{sprite} {axis}'.strip()} {within}{', '.join(places)}")
        if not clause:
            print(f"{indent}  (nothing: any state will do)")
