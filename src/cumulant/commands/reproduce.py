"""`cumulant reproduce`."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tyro.conf import Positional

from cumulant.commands.inputs import BadInput, Flag, usable_files, usable_folder
from cumulant.commands.output import print_json, print_table

if TYPE_CHECKING:
    from cumulant.experiments.figures import Figure
    from cumulant.experiments.run_folders import Run


@dataclass(frozen=True)
class Reproduce:
    """The paper's results from scratch, data beside the picture.

    theorem: the Lemma and the Theorem, exactly, in small tabular worlds. fig4: success against steps of the task, for
    all methods. fig5: fewer bins. sample-complexity: after how many tasks free play has paid for itself. dqn-search:
    DQN's settings. rivals: other methods, from words and from labelled steps. rivals-search: their settings. objects:
    success and time in worlds of 1 to 8 objects. pixels: features learnt from frames, and success with them. What the
    folder already holds is not run again, so figures can be redrawn anywhere.

    Try: cumulant reproduce fig4 --smoke
    """

    what: Positional[
        Literal[
            "theorem", "fig4", "fig5", "sample-complexity", "dqn-search", "rivals", "rivals-search", "objects", "pixels"
        ]
    ]  # Which result.
    out: Path = Path("reproduce")  # Folder for the runs and the picture; results of several figures may share one.
    smoke: Flag = False  # Everything in miniature, to see that it runs; minutes on 2 cores.
    only: tuple[str, ...] = ()  # Run these parts of the figure alone, and draw what there is.
    redraw: Flag = False  # Run nothing; draw what there is.
    json: Flag = False  # One JSON object on stdout, and nothing else.

    def run(self) -> None:
        """Run what is missing, draw, tell."""
        from cumulant.experiments.figures import FIGURES
        from cumulant.storage import Unreadable, write_json

        figure = FIGURES[self.what]
        if self.only and self.redraw:
            raise BadInput("--redraw draws all that is there, and --only runs some: give one of the two")
        try:
            runs = self._runs(figure)
        except (ValueError, Unreadable) as error:
            raise BadInput(str(error)) from None
        summary = figure.summarise(runs)
        for line in summary.missing:
            print(line, file=sys.stderr)
        picture, data = self._results()
        summary.draw(picture)
        write_json(data, summary.report)
        if self.json:
            return print_json(summary.report)
        for table in summary.tables:
            print_table(*table)
        print(f"Drawn in {picture}, numbers in {data}" + (f", runs in {self.out / 'runs'}." if runs else "."))

    def _results(self) -> tuple[Path, Path]:
        """The picture, and the numbers."""
        return self.out / f"{self.what}.png", self.out / f"{self.what}.json"

    def _runs(self, figure: "Figure") -> "list[Run]":
        """The runs of the figure's parts, in order: those that are there, and those asked for."""
        from cumulant.experiments.figures import PARTS
        from cumulant.experiments.parts import FULL, SMOKE, is_recorded, run_folder, run_part
        from cumulant.experiments.run_folders import read_run

        if unknown := [name for name in self.only if name not in figure.parts]:
            raise BadInput(f"{self.what} has no part {unknown[0]!r}: choose from {', '.join(figure.parts)}")
        scale = SMOKE if self.smoke else FULL
        there = [name for name in figure.parts if is_recorded(name, PARTS[name], scale, self.out)]
        runs = {name: read_run(run_folder(name, self.out)) for name in there}
        asked = () if self.redraw else self.only or figure.parts
        figure.check({*there, *asked})
        if self.redraw and not there:
            raise BadInput(f"{self.out} holds nothing to redraw")
        usable_folder(self.out)
        usable_files(*self._results())  # before hours have been spent
        for name in asked:
            if name not in runs:
                run_part(name, PARTS[name], scale, self.out, lambda words: print(words, file=sys.stderr, flush=True))
                runs[name] = read_run(run_folder(name, self.out))
        return [runs[name] for name in figure.parts if name in runs]
