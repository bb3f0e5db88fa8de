"""`cumulant reproduce`."""

import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tyro.conf import Positional

from cumulant.commands.inputs import BadInput, usable_folder
from cumulant.commands.output import print_json, print_table

if TYPE_CHECKING:
    from cumulant.experiments.run_folders import Row

_TITLES = {
    "fig4": "The paper's Figure 4: success on new tasks",
    "fig5": "The paper's Figure 5: GPI with the off-diagonal trick and fewer bins",
    "dqn-search": "DQN's settings, on tasks drawn with another seed",
    "pixels": "Features from pixels",
}


@dataclass(frozen=True)
class Reproduce:
    """The paper's results from scratch, data beside the picture.

    theorem: the Lemma and the Theorem, exactly, in small tabular worlds. fig4: success against steps of the task, for
    all methods. fig5: fewer bins. sample-complexity: after how many tasks free play has paid for itself. dqn-search:
    DQN's settings. pixels: features learnt from frames, and success with them. What the folder already holds is not run
    again, so figures can be redrawn anywhere.

    Try: cumulant reproduce fig4 --smoke
    """

    what: Positional[Literal["theorem", "fig4", "fig5", "sample-complexity", "dqn-search", "pixels"]]  # Which result.
    out: Path = Path("reproduce")  # Folder for the runs and the picture; results of several figures may share one.
    smoke: bool = False  # Everything in miniature, to see that it runs; minutes on 2 cores.
    only: tuple[str, ...] = ()  # Run these parts of the figure alone, and draw what there is.
    redraw: bool = False  # Run nothing; draw what there is.
    json: bool = False  # One JSON object on stdout, and nothing else.

    def run(self) -> None:
        """Run what is missing, draw, tell."""
        usable_folder(self.out)
        if self.what == "theorem":
            return _theorem(self.out, self.json)
        rows, configs = self._rows()
        picture, data = (self.out / f"{self.what}.{ending}" for ending in ("png", "json"))
        special: dict[str, Any] = {"sample-complexity": _payback, "pixels": _from_pixels}
        draw = partial(special[self.what], configs) if self.what in special else self._curves
        report: dict[str, Any] = draw(rows, picture)
        from cumulant.storage import write_whole

        report |= {"seconds": {name: config["seconds"]["total_s"] for name, config in configs.items()}}
        report |= {"devices": sorted({config["device"] for config in configs.values()})}
        write_whole(data, json.dumps(report, indent=2, allow_nan=False).encode() + b"\n")
        if self.json:
            return print_json(report)
        _print_report(self.what, report)
        print(f"Drawn in {picture}, figures in {data}, runs in {self.out / 'runs'}.")

    def _rows(self) -> "tuple[list[Row], dict[str, Any]]":
        """All rows of the figure's parts, run now where they are missing, and the parts' config.json."""
        from cumulant.experiments.run_folders import read_rows
        from cumulant.storage import Unreadable, read_info

        try:
            folders = self._folders()
            return [row for f in folders for row in read_rows(f)], {f.name: read_info(f) for f in folders}
        except (ValueError, Unreadable) as error:
            raise BadInput(str(error)) from None

    def _folders(self) -> list[Path]:
        from cumulant.experiments.parts import FIGURES, FULL, SMOKE, is_recorded, run_part

        parts = FIGURES[self.what]
        if unknown := [name for name in self.only if name not in parts]:
            raise BadInput(f"{self.what} has no part {unknown[0]!r}: choose from {', '.join(parts)}")
        scale = SMOKE if self.smoke else FULL
        recorded = [name for name in parts if is_recorded(name, scale, self.out)]
        asked = () if self.redraw else self.only or parts
        if self.what == "sample-complexity" and not {"gpi-trick", "ours", "dqn"} <= {*recorded, *asked}:
            raise BadInput("sample-complexity compares gpi-trick, ours and dqn: it needs all three")
        if not recorded and not asked:
            raise BadInput(f"{self.out} holds nothing to redraw")
        for name in asked:
            run_part(name, scale, self.out, lambda words: print(words, file=sys.stderr, flush=True))
        return [self.out / "runs" / name for name in parts if name in recorded or name in asked]

    def _curves(self, rows: "list[Row]", picture: Path) -> dict[str, Any]:
        """Draw curves; report each line's last point in each class."""
        from cumulant.experiments.curves import BINS_STYLES, STYLES, draw_curves, search_styles
        from cumulant.experiments.run_folders import lines_of

        styles = {"fig4": STYLES, "fig5": BINS_STYLES, "dqn-search": search_styles(lines_of(rows))}[self.what]
        draw_curves(picture, rows, _TITLES[self.what], styles)
        return {"lines": _ends(rows)}


def _from_pixels(configs: dict[str, Any], rows: "list[Row]", picture: Path) -> dict[str, Any]:
    """Draw success with features true, learnt and entangled; report it, and how disentangled all of them are."""
    from cumulant.experiments.curves import draw_from_pixels

    measures = _measures(picture.parent, configs)
    scores = _disentanglement(rows, measures)
    draw_from_pixels(picture, rows, scores)
    rounded = {line: {seed: round(score, 4) for seed, score in seeds.items()} for line, seeds in scores.items()}
    return {"lines": _ends(rows), "measures": measures, "disentanglement": rounded}


def _measures(out: Path, parts: Iterable[str]) -> dict[str, Any]:
    """What was measured of the features that parts have learnt."""
    from cumulant.experiments.from_pixels import read_measures
    from cumulant.storage import Unreadable

    folders = [out / "runs" / name for name in parts]
    try:
        return {folder.name: read_measures(folder) for folder in folders if (folder / "measures.json").exists()}
    except Unreadable as error:
        raise BadInput(str(error)) from None


def _ends(rows: "list[Row]") -> dict[str, Any]:
    """Each line's last point in each class: mean, low, high."""
    from cumulant.experiments.run_folders import curve, lines_of
    from cumulant.goals.suites import CLASSES

    ends: dict[str, Any] = {}
    for line in lines_of(rows):
        found = {kind: curve(rows, line, kind) for kind in CLASSES}
        ends[line] = {
            "steps": int(found[CLASSES[0]].steps[-1]),
            **{kind: [float(c[-1]) for c in points[1:]] for kind, points in found.items()},
        }
    return ends


def _disentanglement(rows: "list[Row]", measures: dict[str, Any]) -> dict[str, dict[int, float]]:
    """Each line's DCI disentanglement, seed by seed: as measured of learnt features, and computed of the others."""
    from cumulant.experiments.from_pixels import disentanglement_of
    from cumulant.features.coordinates import named_features
    from cumulant.worlds.spriteworld import Spriteworld

    world = Spriteworld()

    @cache  # the true features are the same whatever the seed
    def of(name: str) -> float:
        return disentanglement_of(named_features(name, len(world.feature_names)), world)

    scores = {part: {each["seed"]: each["disentanglement"] for each in seeds} for part, seeds in measures.items()}
    for line, name in {"ours": "true", "ours-entangled": "entangled:{seed}"}.items():
        seeds = sorted({row.seed for row in rows if row.line == line})
        scores[line] = {seed: of(name.format(seed=seed)) for seed in seeds}
    return scores


def _payback(configs: dict[str, Any], rows: "list[Row]", picture: Path) -> dict[str, Any]:
    from cumulant.experiments.curves import draw_payback
    from cumulant.experiments.run_folders import break_even, paybacks
    from cumulant.goals.suites import CLASSES

    costs = {}
    for line in ("gpi-trick", "ours"):
        steps = configs[line]["settings"]["what"]["free_play"]["env_steps"]
        costs[line] = (steps, paybacks(rows, line, CLASSES))
    draw_payback(picture, costs)
    return {
        line: {
            "free_play": steps,
            "tasks_to_break_even": _finite(break_even(steps, found)),
            "classes": [{name: _finite(value) for name, value in p._asdict().items()} for p in found],
        }
        for line, (steps, found) in costs.items()
    }


def _finite(value: Any) -> Any:
    """JSON knows no infinity."""
    return None if value == float("inf") else value


def _number(value: float | None) -> str:
    return "never" if value is None else f"{value:,.0f}"


def _print_report(what: str, report: dict[str, Any]) -> None:
    if what == "sample-complexity":
        for line in ("gpi-trick", "ours"):
            part = report[line]
            rows = [
                [p["kind"], f"{p['level']:.3f}", _number(p["few_shot"]), _number(p["scratch"])] for p in part["classes"]
            ]
            even = f"paid for after {_number(part['tasks_to_break_even'])} tasks"
            print_table(
                f"{line}: {part['free_play']:,} steps of free play, {even}",
                ["class", "success", "its labelled steps", "DQN's steps to the same"],
                rows,
            )
        return
    from cumulant.goals.suites import CLASSES

    rows = []
    for line, ends in report["lines"].items():
        rates = [f"{mean:.3f} ±{(high - low) / 2:.3f}" for mean, low, high in (ends[kind] for kind in CLASSES)]
        rows.append([line, f"{ends['steps']:,}", *rates])
    print_table(f"{_TITLES[what]}, at the last step", ["", "steps", *CLASSES], rows)


def _theorem(out: Path, as_json: bool) -> None:
    """Check every world, print the table, draw it."""
    from cumulant.experiments import theory
    from cumulant.experiments.drawings import draw_theorem
    from cumulant.storage import write_whole

    gamma = 0.9
    checks = [theory.check(world, gamma) for world in theory.WORLDS]
    report = {"gamma": gamma, "worlds": [check._asdict() for check in checks]}
    write_whole(out / "theorem.json", json.dumps(report, indent=2).encode())
    draw_theorem(out / "theorem.png", checks, (theory.WORLDS[0], theory.WORLDS[3]), gamma)
    if as_json:
        return print_json(report)
    columns = ["world", "independent", "goals", "Lemma's error", "any first action", "GPI, exact Ψ", "GPI, trick"]
    rows = [
        [c.world, "yes" if c.independent else "no", str(c.goals)]
        + [f"{x:.3f}" for x in (c.error_on_policy, c.error_any_action, c.solved_exact, c.solved_trick)]
        for c in checks
    ]
    print_table("The Lemma and the Theorem, exactly (errors scaled by 1-γ; success from every state)", columns, rows)
    print(f"Drawn in {out / 'theorem.png'}, data in {out / 'theorem.json'}.")
