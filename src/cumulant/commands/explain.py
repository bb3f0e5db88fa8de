"""`cumulant explain`."""

from dataclasses import dataclass

from tyro.conf import Positional

from cumulant.commands.inputs import OBJECTS, Flag, world_of
from cumulant.commands.output import print_json


@dataclass(frozen=True)
class Explain:
    """Show how a phrase was understood.

    Try: cumulant explain "get the square to the centre left"
    """

    phrase: Positional[str]  # The goal, in words.
    objects: tuple[str, ...] = OBJECTS  # The world's objects, topmost first.
    json: Flag = False  # One JSON object on stdout, and nothing else.

    def run(self) -> None:
        """Parse, and say what it means."""
        from cumulant.goals.language import parse
        from cumulant.goals.tasks import THIRDS

        task = parse(self.phrase, world_of(self.objects).sprites)
        words = THIRDS if task.bins == 3 else _numbered_bins(task.bins)
        dnf = []
        for conditions in task.conditions():
            named = [(*name.rpartition("_")[::2], bins) for name, bins in conditions]
            dnf.append([(sprite, axis, [words[axis][b] for b in bins]) for sprite, axis, bins in named])
        if self.json:
            return print_json({"canonical": str(task), "dnf": dnf})
        print(f"understood as: {task}")
        for i, clause in enumerate(dnf):
            print("or:" if i else "either:" if len(dnf) > 1 else "all of:")
            for sprite, axis, places in clause:
                print(f"  {sprite} {axis} in {', '.join(places)}")
            if not clause:
                print("  (nothing: any state will do)")


def _numbered_bins(bins: int) -> dict[str, tuple[str, ...]]:
    names = tuple(f"{b + 1}/{bins}" for b in range(bins))
    return {"x": names, "y": names}
