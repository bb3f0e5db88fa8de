"""The figures: what each is made of, what it says and how it is drawn. Nothing here trains or plays."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, NamedTuple

from cumulant.sweeps.run_folders import Row, Run
from cumulant.transfer.library import Library
from cumulant_paper import theory
from cumulant_paper.curves import (
    BINS_STYLES,
    STYLES,
    Style,
    draw_curves,
    draw_from_pixels,
    draw_objects,
    draw_payback,
    search_styles,
)
from cumulant_paper.drawings import draw_theorem
from cumulant_paper.experiments import Part
from cumulant_paper.from_pixels import LEARNERS, VAE_SEARCH, VARIANTS
from cumulant_paper.from_scratch import DQN, DQN_SEARCH
from cumulant_paper.larger_worlds import LARGER_WORLDS
from cumulant_paper.methods import METHODS
from cumulant_paper.rival_drawings import draw_rivals, draw_search
from cumulant_paper.rivals import LARGER_RIVALS, RIVALS, RIVALS_SEARCH
from cumulant_paper.scene import PHRASE, scene
from cumulant_paper.schematic import draw_schematic
from cumulant_paper.statistics import COVERAGE, ZERO_SHOT, disentanglement, ends, larger_world, paybacks, standings
from cumulant_paper.tables import (
    Table,
    checks_table,
    cost_table,
    costs_table,
    ends_table,
    objects_table,
    plain_cost,
    plain_costs,
    plain_ends,
    plain_standings,
    standings_table,
)

PARTS: dict[str, Part] = {
    **METHODS,
    "dqn": DQN,
    **DQN_SEARCH,
    **LEARNERS,
    **VAE_SEARCH,
    **VARIANTS,
    **LARGER_WORLDS,
    **RIVALS,
    **LARGER_RIVALS,
    **RIVALS_SEARCH,
}
_PAPERS = 2  # objects in the paper's world, where labelled steps are drawn
_PLAYED, _SCRATCH = ("gpi-trick", "ours"), "dqn"  # what sample complexity compares


class Summary(NamedTuple):
    """What a figure says: as JSON, as tables, and as a picture, which is drawn when it is asked for."""

    report: dict[str, object]
    tables: list[Table]
    draw: Callable[[Path], None]
    missing: tuple[str, ...] = ()  # what the runs do not tell, a line each


@dataclass(frozen=True)
class Figure(ABC):
    """A result of the paper or of ours."""

    title: str
    parts: tuple[str, ...]  # names in PARTS

    suffix: ClassVar[str] = ".png"  # of the picture

    def check(self, parts: Collection[str]) -> None:
        """ValueError, if these parts are too few to draw; most figures draw what there is."""
        return

    @abstractmethod
    def summarise(self, runs: Sequence[Run]) -> Summary:
        """What the runs of its parts say."""


@dataclass(frozen=True)
class Curves(Figure):
    """Success against steps of the task, a panel for each class."""

    styles: Mapping[str, Style]  # of the lines that are drawn

    def summarise(self, runs: Sequence[Run]) -> Summary:
        """Each line's last point in each class."""
        rows = _rows(runs)
        found = ends(rows)
        report = {"lines": plain_ends(found)} | _about(runs)
        return Summary(
            report,
            [ends_table(self.title, found)],
            partial(draw_curves, rows=rows, title=self.title, styles=self.styles),
        )


@dataclass(frozen=True)
class SampleComplexity(Figure):
    """After how many tasks free play has paid for itself."""

    def check(self, parts: Collection[str]) -> None:
        """All that are compared must be there."""
        if not {*_PLAYED, _SCRATCH} <= set(parts):
            raise ValueError(f"sample-complexity compares {', '.join(_PLAYED)} and {_SCRATCH}: it needs all three")

    def summarise(self, runs: Sequence[Run]) -> Summary:
        """What free play costs and saves in every class."""
        rows, settings = _rows(runs), {run.name: run.settings for run in runs}
        costs = {
            name: (settings[name]["what"]["free_play"]["env_steps"], paybacks(rows, name, _SCRATCH)) for name in _PLAYED
        }
        report = {name: plain_cost(*cost) for name, cost in costs.items()} | _about(runs)
        tables = [cost_table(name, *cost) for name, cost in costs.items()]
        return Summary(report, tables, partial(draw_payback, costs=costs))


@dataclass(frozen=True)
class Pixels(Figure):
    """Success with features true, learnt and entangled, and how disentangled all of them are."""

    def summarise(self, runs: Sequence[Run]) -> Summary:
        """Each line's last point, and what was measured of the features."""
        rows, scores = _rows(runs), disentanglement(runs)
        found = ends(rows)
        rounded = {line: {seed: round(score, 4) for seed, score in seeds.items()} for line, seeds in scores.items()}
        measures = {run.name: run.measures for run in runs if run.measures is not None}
        report = {"lines": plain_ends(found), "measures": measures, "disentanglement": rounded} | _about(runs)
        draw = partial(draw_from_pixels, rows=rows, scores=scores)
        return Summary(report, [ends_table(self.title, found)], draw)


@dataclass(frozen=True)
class Objects(Figure):
    """Success and time against the number of objects."""

    def summarise(self, runs: Sequence[Run]) -> Summary:
        """A row for each run: what it came to in every class, and how long it learnt."""
        found = {run.name: larger_world(run) for run in runs}
        report = {"worlds": {name: world._asdict() for name, world in found.items()}} | _about(runs)
        return Summary(report, [objects_table(self.title, found)], partial(draw_objects, found=found))


@dataclass(frozen=True)
class Rivals(Figure):
    """Success from words and from labelled steps, over all goals and with more objects, and what each method cost."""

    def summarise(self, runs: Sequence[Run]) -> Summary:
        """A row for each line of each world, and one for what each part learnt."""
        labelled = _labelled([run for run in runs if _objects(run) in (None, _PAPERS)])
        few = plain_ends(ends(labelled))
        found = {f"from words, {objects} objects": standings(rows) for objects, rows in _by_objects(runs).items()}
        costs = {run.name: (_part_of(run).costs(), run.seconds) for run in runs}
        report = {"lines": few, "words": plain_standings(found), "costs": plain_costs(costs)} | _about(runs)
        tables = [standings_table(world, lines) for world, lines in found.items()]
        tables += [ends_table("from labelled steps", ends(labelled)), costs_table(costs)]
        absent = [name for name in self.parts if name not in {run.name for run in runs}]
        missing = (f"not run, and so not drawn: {', '.join(absent)}",) if absent else ()
        return Summary(report, tables, partial(draw_rivals, labelled=labelled, standings=found), missing)


@dataclass(frozen=True)
class Search(Figure):
    """What every setting of every rival came to, on tasks drawn with another seed."""

    def summarise(self, runs: Sequence[Run]) -> Summary:
        """A row for each setting, from words and from labelled steps."""
        found = {line: standing for run in runs for line, standing in standings(run.rows).items()}
        few = ends(_labelled(runs))
        report = {"lines": plain_ends(few), "words": plain_standings({"": found})} | _about(runs)
        tables = [standings_table(self.title, found), ends_table("from labelled steps", few)]
        return Summary(report, tables, partial(draw_search, few=few, standings=found, title=self.title))


def _part_of(run: Run) -> Part:
    """The part as it was run, at full size or in miniature."""
    part = PARTS[run.name]
    return part.shrunk() if run.settings["scale"].get("miniature", False) else part


def _labelled(runs: Sequence[Run]) -> list[Row]:
    """The rows of what needs labelled steps, and of what needs nothing at all."""
    return [row for row in _rows(runs) if row.kind != COVERAGE and not row.line.endswith(ZERO_SHOT)]


def _objects(run: Run) -> int | None:
    """How many objects there were, of a run that says so."""
    return (run.settings["what"] or {}).get("objects")


def _by_objects(runs: Sequence[Run]) -> dict[int, list[Row]]:
    """The rows of runs in worlds of so many objects; of those that say so."""
    found: dict[int, list[Row]] = {}
    for run in runs:
        if objects := _objects(run):
            found.setdefault(objects, []).extend(run.rows)
    return dict(sorted(found.items()))


@dataclass(frozen=True)
class Theorem(Figure):
    """The Lemma and the Theorem, exactly, in small worlds: it has no parts, and takes seconds."""

    def summarise(self, runs: Sequence[Run]) -> Summary:
        """What holds in each world."""
        checks = [theory.check(world) for world in theory.WORLDS]
        report = {"gamma": theory.GAMMA, "worlds": [check._asdict() for check in checks]}
        draw = partial(draw_theorem, checks=checks, examples=theory.EXAMPLES, gamma=theory.GAMMA)
        return Summary(report, [checks_table(self.title, checks)], draw)


@dataclass(frozen=True)
class Idea(Figure):
    """A drawing of the idea, of an episode of the library that ships: it has no parts, and takes seconds."""

    suffix: ClassVar[str] = ".svg"

    def summarise(self, runs: Sequence[Run]) -> Summary:
        """The episode."""
        shown = scene(Library.load())
        report = {"phrase": PHRASE, "success": shown.success, "steps": shown.steps}
        rows = [[PHRASE, "yes" if shown.success else "no", str(shown.steps)]]
        return Summary(
            report, [Table(self.title, ["goal", "reached", "steps"], rows)], partial(draw_schematic, scene=shown)
        )


def _rows(runs: Sequence[Run]) -> list[Row]:
    return [row for run in runs for row in run.rows]


def _about(runs: Sequence[Run]) -> dict[str, object]:
    """How long the runs took, and on what."""
    return {
        "seconds": {run.name: run.seconds["total_s"] for run in runs},
        "devices": sorted({run.device for run in runs}),
    }


FIGURES: dict[str, Figure] = {
    "idea": Idea("The idea, in an episode of the library that ships", ()),
    "theorem": Theorem("The Lemma and the Theorem, exactly (errors scaled by 1-γ; success from every state)", ()),
    "fig4": Curves(
        "The paper's Figure 4: success on new tasks",
        (
            "references",
            "gpi-trick",
            "gpi-full",
            "gpi-entangled",
            "gpi-entangled-trick",
            "ours",
            "dqn",
            "diayn",
        ),
        STYLES,
    ),
    "fig5": Curves(
        "The paper's Figure 5: GPI with the off-diagonal trick and fewer bins",
        ("references", "gpi-trick-5-bins", "gpi-trick-7-bins", "gpi-trick"),
        BINS_STYLES,
    ),
    "sample-complexity": SampleComplexity(
        "After how many tasks free play has paid for itself", ("references", *_PLAYED, _SCRATCH)
    ),
    "dqn-search": Curves(
        "DQN's settings, on tasks drawn with another seed", tuple(DQN_SEARCH), search_styles(tuple(DQN_SEARCH))
    ),
    "objects": Objects("Success and time against the number of objects", tuple(LARGER_WORLDS)),
    "rivals": Rivals(
        "The methods that a reader would ask about",
        ("references", "ours", "gpi-trick", "dqn", "diayn", *RIVALS, *LARGER_RIVALS),
    ),
    "rivals-search": Search("The rivals' settings, on tasks drawn with another seed", tuple(RIVALS_SEARCH)),
    "pixels": Pixels(
        "Features from pixels", ("references", "ours", *LEARNERS, "ours-entangled", *VAE_SEARCH, *VARIANTS)
    ),
}
