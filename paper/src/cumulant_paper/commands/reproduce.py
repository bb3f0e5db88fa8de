"""`cumulant reproduce`."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tyro.conf import Positional

from cumulant.commands.inputs import BadInput, Flag, usable_files, usable_folder
from cumulant.commands.output import doing, on_terminal, print_json, print_table
from cumulant.commands.sweep import Following, engine_of

if TYPE_CHECKING:
    from cumulant.sweeps.run_folders import Run
    from cumulant_paper.figures import Figure


@dataclass(frozen=True)
class Reproduce:
    """Reproduce the paper's results from scratch.

    idea: a drawing of the method, as SVG. theorem: the Lemma and the Theorem, exactly, in small tabular worlds. fig4:
    success against steps of the task, for all methods. fig5: fewer bins. sample-complexity: after how many tasks free
    play has paid for itself. dqn-search: DQN's settings. rivals: other methods, from words and from labelled steps.
    rivals-search: their settings. objects: success and time in worlds of 1 to 8 objects. pixels: features learnt from
    frames, and success with them. What the folder already holds is not run again, so figures can be redrawn anywhere.

    Try: cumulant reproduce fig4 --smoke
    """

    what: Positional[
        Literal[
            "idea",
            "theorem",
            "fig4",
            "fig5",
            "sample-complexity",
            "dqn-search",
            "rivals",
            "rivals-search",
            "objects",
            "pixels",
        ]
    ]  # Which result.
    out: Path = Path("reproduce")  # Folder for the runs and the picture; results of several figures may share one.
    smoke: Flag = False  # Everything in miniature, to see that it runs; minutes on 2 cores.
    only: tuple[str, ...] = ()  # Run these parts of the figure alone, and draw what there is.
    redraw: Flag = False  # Run nothing; draw what there is.
    engine: Literal["local", "ray"] = "local"  # This process, part by part; or a Ray cluster (extra `ray`), at once.
    address: str = "auto"  # Of the cluster's head, HOST:PORT; auto: the cluster that this machine is part of.
    cpus: float = 1.0  # Of each part on the cluster.
    gpus: float = 0.0  # Of each part on the cluster; with 0.25, four share a GPU and its memory.
    retries: int = 2  # Of a part whose worker died.
    json: Flag = False  # One JSON object on stdout, and nothing else.

    def run(self) -> None:
        """Run what is missing, draw, tell."""
        if self.only and self.redraw:
            raise BadInput("--redraw draws all that is there, and --only runs some: give one of the two")
        with on_terminal("loading", self.json):
            from cumulant.storage import Unreadable, write_json
            from cumulant_paper.figures import FIGURES

            figure = FIGURES[self.what]
        try:
            runs = self._runs(figure)
        except (ValueError, Unreadable) as error:
            raise BadInput(str(error)) from None
        with on_terminal("drawing", self.json) if runs else doing(f"working out the {self.what}", self.json):
            summary = figure.summarise(runs)
            picture, data = self._results()
            summary.draw(picture)
        for line in summary.missing:
            print(line, file=sys.stderr)
        write_json(data, summary.report)
        if self.json:
            return print_json(summary.report)
        for table in summary.tables:
            if table.rows:
                print_table(*table)
        print(f"Drawn in {picture}, numbers in {data}" + (f", runs in {self.out / 'runs'}." if runs else "."))

    def _results(self) -> tuple[Path, Path]:
        """Return the paths of the picture and of the numbers."""
        from cumulant_paper.figures import FIGURES

        return self.out / f"{self.what}{FIGURES[self.what].suffix}", self.out / f"{self.what}.json"

    def _runs(self, figure: "Figure") -> "list[Run]":
        """Return the runs of the figure's parts, in order: those that are there, and those asked for."""
        from cumulant.sweeps.experiments import run
        from cumulant.sweeps.run_folders import is_finished, read_run
        from cumulant_paper.experiments import FULL, SMOKE
        from cumulant_paper.figures import PARTS

        if unknown := [name for name in self.only if name not in figure.parts]:
            raise BadInput(f"{self.what} has no part {unknown[0]!r}: choose from {', '.join(figure.parts)}")
        engine = engine_of(self.engine, self.address, self.cpus, self.gpus, self.retries)
        folder, scale = self.out / "runs", SMOKE if self.smoke else FULL
        experiments = {name: PARTS[name].experiment(name, scale) for name in figure.parts}
        there = [name for name, each in experiments.items() if is_finished(folder / name, each.settings)]
        runs = {name: read_run(folder / name) for name in there}
        asked = () if self.redraw else self.only or figure.parts
        figure.check({*there, *asked})
        if self.redraw and not there:
            raise BadInput(f"{self.out} holds nothing to redraw")
        usable_folder(self.out)
        usable_files(*self._results())  # before hours have been spent
        if missing := [experiments[name] for name in asked if name not in runs]:
            follow = (lambda event: None) if self.json else Following(len(missing), json=False)
            ended = run(missing, folder, engine, follow)
            if ended.failed:
                words = "; ".join(f"{name}: {reason}" for name, reason in ended.failed.items())
                print(f"cumulant: failed: {words}: the same command runs what is missing", file=sys.stderr)
                raise SystemExit(1)
        runs |= {each.name: read_run(folder / each.name) for each in missing}
        return [runs[name] for name in figure.parts if name in runs]
