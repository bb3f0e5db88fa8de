"""`cumulant reproduce`."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from cumulant.commands.inputs import usable_folder
from cumulant.commands.output import print_json, print_table


@dataclass(frozen=True)
class Reproduce:
    """The paper's results from scratch, data beside the picture.

    theorem: the Lemma and the Theorem, exactly, in small tabular worlds.
    """

    what: Positional[Literal["theorem"]]  # Which result.
    out: Path = Path("reproduce")  # Folder for the data and the picture.
    json: bool = False  # One JSON object on stdout, and nothing else.

    def run(self) -> None:
        """Check every world, print the table, draw it."""
        from cumulant import theory
        from cumulant.figures import draw_theorem
        from cumulant.files import write_whole

        usable_folder(self.out)
        gamma = 0.9
        checks = [theory.check(world, gamma) for world in theory.WORLDS]
        report = {"gamma": gamma, "worlds": [check._asdict() for check in checks]}
        write_whole(self.out / "theorem.json", json.dumps(report, indent=2).encode())
        draw_theorem(self.out / "theorem.png", checks, (theory.WORLDS[0], theory.WORLDS[3]), gamma)
        if self.json:
            return print_json(report)
        columns = ["world", "independent", "goals", "Lemma's error", "any first action", "GPI, exact Ψ", "GPI, trick"]
        rows = [
            [c.world, "yes" if c.independent else "no", str(c.goals)]
            + [f"{x:.3f}" for x in (c.error_on_policy, c.error_any_action, c.solved_exact, c.solved_trick)]
            for c in checks
        ]
        print_table(
            "The Lemma and the Theorem, exactly (errors scaled by 1-γ; success from every state)", columns, rows
        )
        print(f"Drawn in {self.out / 'theorem.png'}, data in {self.out / 'theorem.json'}.")
