"""The paper's figures, drawn from run folders alone: success against steps, and what free play costs and saves."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cumulant.experiments.drawings import save
from cumulant.experiments.run_folders import Row
from cumulant.experiments.statistics import Curve, LargerWorld, Payback, break_even, curve, ends, last, lines_of
from cumulant.goals.suites import CLASSES
from cumulant.worlds.shapes import SHAPES


class Style(NamedTuple):
    """How a line looks. Colours are Okabe and Ito's, told apart by the colour-blind; markers tell in grey, too."""

    label: str
    colour: str
    marker: str = ""
    dashes: str = "-"


_THICK = 1.4  # points, of a curve
_BLACK, _ORANGE, _SKY, _GREEN, _BLUE, _RED, _PINK, _GREY = (
    "#000000 #e69f00 #56b4e9 #009e73 #0072b2 #d55e00 #cc79a7 #777777".split()
)
# More of them, of Tol's, for what Okabe and Ito's do not suffice.
_WINE, _INDIGO, _OLIVE, _PURPLE, _TEAL, _ROSE = "#882255 #332288 #999933 #aa4499 #44aa99 #cc6677".split()
STYLES = {
    "ours": Style("ours (committed GPI)", _GREEN, "D"),
    "gpi-trick": Style("GPI, disentangled, trick", _BLUE, "o"),
    "gpi-full": Style("GPI, disentangled, full", _SKY, "s"),
    "gpi-entangled": Style("GPI, entangled, full", _PINK, "^"),
    "gpi-entangled-trick": Style("GPI, entangled, trick", _PINK, "v", ":"),
    "dqn": Style("DQN", _RED, "P"),
    "diayn": Style("DIAYN, GPI", _ORANGE, "X"),
    "diayn-best-skill": Style("DIAYN, best skill", _ORANGE, "", "--"),
    "her": Style("HER, goal-conditioned DQN", _WINE, "p"),
    "fb": Style("forward-backward", _INDIGO, "h"),
    "usfa": Style("USFA", _OLIVE, "<"),
    "usfa-gpi": Style("USFA, GPI", _OLIVE, ">", "--"),
    "dusdi": Style("DUSDi, GPI", _PURPLE, "*"),
    "visr": Style("VISR", _TEAL, "d"),
    "metra": Style("METRA", _ROSE, "1"),
    "oracle": Style("oracle", _BLACK, "", "--"),
    "random": Style("random play", _GREY, "", ":"),
}
BINS_STYLES = {
    "gpi-trick": Style("9 bins", _BLUE, "o"),
    "gpi-trick-7-bins": Style("7 bins", _PINK, "^", "--"),
    "gpi-trick-7-bins-aligned": Style("7 bins, aligned tasks", _GREEN, "D"),
    "gpi-trick-5-bins": Style("5 bins", _ORANGE, "s"),
    "oracle": STYLES["oracle"],
    "random": Style("random play, unaligned", _GREY, "", ":"),
}
PIXEL_STYLES = {
    "ours": Style("true coordinates", _GREEN, "D"),
    "keypoints": Style("learnt: keypoints", _BLUE, "o"),
    "ada-gvae": Style("learnt: Ada-GVAE", _SKY, "s"),
    "beta-vae": Style("learnt: β-VAE", _ORANGE, "^"),
    "ours-entangled": Style("true, rotated", _PINK, "v"),
    "random": Style("random play", _GREY, "x"),
}


def search_styles(lines: Sequence[str]) -> dict[str, Style]:
    """A look for each line of a search of up to eight."""
    colours = (_GREY, _SKY, _PINK, _GREEN, _ORANGE, _BLUE, _RED, _BLACK)
    looks = zip(lines, colours, "osv^PXD*", strict=False)
    return {line: Style(line.removeprefix("dqn-search-"), colour, marker) for line, colour, marker in looks}


def draw_curves(path: Path, rows: Sequence[Row], title: str, styles: Mapping[str, Style]) -> None:
    """A panel for each class: success against the steps of the task, on a log scale. Lines without steps lie flat.

    Where lines lie on each other, markers nest: hollow, and each line's smaller than those drawn before.
    """
    figure = Figure(figsize=(11, 5.6), layout="constrained")
    axes = figure.subplots(2, 4, sharex=True, sharey=True).ravel()
    lines = [line for line in styles if line in lines_of(rows)]
    for ax, kind in zip(axes, CLASSES, strict=False):
        for line, size in zip(lines, np.linspace(8, 4, len(lines)), strict=True):
            _draw_line(ax, curve(rows, line, kind), styles[line], size)
        ax.set(xscale="log", ylim=(-0.06, 1.08), title=kind.replace("_", ", "))
        ax.tick_params(labelbottom=True)
        ax.grid(alpha=0.25)
    for ax in axes[3:7]:
        ax.set_xlabel("environment steps of the task")
    for ax in axes[::4]:
        ax.set_ylabel("success within 100 steps")
    axes[7].axis("off")
    axes[7].legend(*axes[0].get_legend_handles_labels(), loc="center", frameon=False)
    figure.suptitle(title)
    save(figure, path)


def _draw_line(ax: Axes, found: Curve, style: Style, size: float) -> None:
    if not found.steps.any():
        ax.axhline(found.mean[0], color=style.colour, linestyle=style.dashes, label=style.label, linewidth=_THICK)
        return
    (line,) = ax.plot(found.steps, found.mean, style.dashes, color=style.colour, label=style.label, linewidth=_THICK)
    line.set(marker=style.marker, markersize=size, markerfacecolor="none")
    ax.fill_between(found.steps, found.low, found.high, color=style.colour, alpha=0.15, linewidth=0)


def draw_from_pixels(path: Path, rows: Sequence[Row], scores: Mapping[str, Mapping[int, float]]) -> None:
    """Success by class for features true, learnt and entangled; and against how disentangled they are, seed by seed."""
    figure = Figure(figsize=(12, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1.8, 1])
    lines = [line for line in PIXEL_STYLES if line in lines_of(rows)]
    found = ends(rows)
    for i, line in enumerate(lines):
        style, points = PIXEL_STYLES[line], found[line].classes.values()
        mean, low, high = np.array(list(points)).T
        place = np.arange(len(CLASSES)) + 0.13 * (i - (len(lines) - 1) / 2)
        looks = {"color": style.colour, "marker": style.marker, "linestyle": "", "label": style.label}
        left.errorbar(place, mean, [mean - low, high - mean], capsize=2, markersize=6, **looks)
        if line in scores:
            success = {seed: np.mean([r.success for r in last(rows, line) if r.seed == seed]) for seed in scores[line]}
            right.plot(list(scores[line].values()), list(success.values()), markersize=7, **looks)
    left.set_xticks(range(len(CLASSES)), [kind.replace("_", ",\n") for kind in CLASSES])
    labelled = max(row.steps for row in rows)
    left.set(ylabel=f"success within 100 steps,\nfrom {labelled:,} labelled steps", ylim=(-0.03, 1.05))
    left.grid(alpha=0.25, axis="y")
    right.set(
        xlabel="DCI disentanglement", ylabel="mean success over the classes", xlim=(-0.03, 1.05), ylim=(-0.03, 1.05)
    )
    right.grid(alpha=0.25)
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=len(lines), frameon=False)
    save(figure, path)


def draw_objects(path: Path, found: Mapping[str, LargerWorld]) -> None:
    """Success in the hardest class of each world, and the seconds of learning, against the number of objects."""
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for preset, style in {"fast": STYLES["ours"], "paper": STYLES["gpi-trick"]}.items():
        worlds = sorted((w for w in found.values() if w.preset == preset), key=lambda world: world.objects)
        objects = [world.objects for world in worlds]
        looks = {"color": style.colour, "marker": style.marker, "markerfacecolor": "none"}
        for ax, label, values in (
            (left, f"preset {preset}, mean of the classes", [np.mean(list(w.classes.values())) for w in worlds]),
            (right, f"preset {preset}", [world.seconds for world in worlds]),
        ):
            ax.plot(objects, values, label=label, **looks)
        worst = [min(world.classes.values()) for world in worlds]
        left.plot(objects, worst, linestyle=":", label=f"preset {preset}, worst class", **looks)
    left.set(xlabel="objects", ylabel="success within 100 steps", ylim=(-0.03, 1.05))
    right.set(xlabel="objects", ylabel="seconds of learning", ylim=(0, None))
    for ax in (left, right):
        ax.set_xticks(range(1, len(SHAPES) + 1))
        ax.grid(alpha=0.25)
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    save(figure, path)


def draw_payback(path: Path, costs: Mapping[str, tuple[int, list[Payback]]]) -> None:
    """Steps in all against the number of tasks solved: free play and then few steps a task, or DQN each time."""
    figure = Figure(figsize=(8, 5), layout="constrained")
    ax = figure.subplots()
    tasks = np.geomspace(1, 10_000, 200)
    sides = (("-", (10, -14), "left"), ("--", (-10, 8), "right"))  # of a crossing, to write its number on
    for (name, (free_play, found)), (dashes, offset, align) in zip(costs.items(), sides, strict=True):
        few, scratch = (np.mean([getattr(p, field) for p in found]) for field in ("few_shot", "scratch_at_least"))
        style = STYLES[name]
        ax.plot(tasks, free_play + few * tasks, color=style.colour, linestyle=dashes, label=style.label)
        bound = "at least " if any(np.isinf(p.scratch) for p in found) else ""
        label = f"DQN, to the same success ({bound}{scratch:,.0f} steps a task)"
        ax.plot(tasks, scratch * tasks, color=_RED, linestyle=dashes, label=label)
        even = break_even(free_play, found)
        ax.plot(even, scratch * even, "o", color=style.colour)
        ax.annotate(
            f"{even:,.0f} tasks",
            (even, scratch * even),
            xytext=offset,
            ha=align,
            textcoords="offset points",
            color=style.colour,
        )
    ax.set(xscale="log", yscale="log", xlabel="tasks solved", ylabel="environment steps in all")
    ax.grid(alpha=0.25)
    ax.legend(frameon=False)
    save(figure, path)
