"""The paper's figures, drawn from run folders alone: success against steps, and what free play costs and saves."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, FixedLocator, NullLocator

from cumulant.commands.drawings import BLACK, BLUE, GREEN, GREY, ORANGE, PINK, RED, SKY, column, in_column, save
from cumulant.goals.suites import CLASSES
from cumulant.sweeps.run_folders import Row
from cumulant.sweeps.statistics import Curve, last, lines_of
from cumulant.worlds.shapes import SHAPES
from cumulant_paper.statistics import ZERO_SHOT, LargerWorld, Payback, break_even, curve, ends


class Style(NamedTuple):
    """How a line looks. Colours are Okabe and Ito's, told apart by the colour-blind; markers tell in grey, too.

    A colour of Figure 4 means the same method in every figure.
    """

    label: str
    colour: str
    marker: str = ""
    dashes: str = "-"

    def look(self, **more: Any) -> dict[str, Any]:
        """Return what Matplotlib calls it, with hollow markers; `more` adds to it or replaces some of it."""
        look = {"color": self.colour, "marker": self.marker, "linestyle": self.dashes, "markerfacecolor": "none"}
        return look | {"markersize": 5} | more


_THICK = 1.4  # points, of a curve
_PANELS: Any = [  # the hardest first
    ["conjunction", "conjunction", "legend"],
    ["object_hard", "disjunction_hard", "agent_hard"],
    ["object_easy", "disjunction_easy", "agent_easy"],
]
_WINE, _OLIVE, _INDIGO, _BROWN, _SAND = "#882255 #7a7a29 #332288 #8c510a #c8963c".split()  # of no method in Figure 4
_MAROON, _SLATE, _MUSTARD, _PURPLE, _TEAL, _ROSE = "#661100 #225555 #999933 #aa4499 #44aa99 #cc6677".split()
STYLES = {
    "ours": Style("ours (committed GPI)", GREEN, "D"),
    "gpi-trick": Style("GPI, disentangled, trick", BLUE, "o"),
    "gpi-full": Style("GPI, disentangled, full", SKY, "s"),
    "gpi-entangled": Style("GPI, entangled, full", PINK, "^"),
    "gpi-entangled-trick": Style("GPI, entangled, trick", PINK, "v", ":"),
    "dqn": Style("DQN", RED, "P"),
    "diayn": Style("DIAYN, GPI", ORANGE, "X"),
    "diayn-best-skill": Style("DIAYN, best skill", ORANGE, "", "--"),
    "her": Style("HER, goal-conditioned DQN", _MAROON, "p"),
    "fb": Style("forward-backward", _SLATE, "h"),
    "usfa": Style("USFA", _MUSTARD, "<"),
    "usfa-gpi": Style("USFA, GPI", _MUSTARD, ">", "--"),
    "dusdi": Style("DUSDi, GPI", _PURPLE, "*"),
    "visr": Style("VISR", _TEAL, "d"),
    "metra": Style("METRA", _ROSE, "1"),
    "oracle": Style("oracle", BLACK, "", "--"),
    "random": Style("random play", GREY, "", ":"),
}
BINS_STYLES = {
    "gpi-trick": Style("9 bins", BLUE, "o"),
    "gpi-trick-7-bins": Style("7 bins", _WINE, "^"),
    "gpi-trick-7-bins-aligned": Style("7 bins, aligned tasks", _WINE, "v", ":"),
    "gpi-trick-5-bins": Style("5 bins", _OLIVE, "s"),
    "oracle": STYLES["oracle"],
    "random": Style("random play, unaligned", GREY, "", ":"),
}
PIXEL_STYLES = {
    "ours": Style("true coordinates", GREEN, "D"),
    "keypoints": Style("learnt: keypoints", _INDIGO, "o"),
    "ada-gvae": Style("learnt: Ada-GVAE", _BROWN, "s"),
    "beta-vae": Style("learnt: β-VAE", _SAND, "^"),
    "ours-entangled": Style("true, rotated", PINK, "v"),
    "random": Style("random play", GREY, "x"),
}


def search_styles(lines: Sequence[str]) -> dict[str, Style]:
    """Return a look for each line of a search of up to eight."""
    colours = (GREY, SKY, PINK, GREEN, ORANGE, BLUE, RED, BLACK)
    looks = zip(lines, colours, "osv^PXD*", strict=False)
    return {line: Style(line.removeprefix("dqn-search-"), colour, marker) for line, colour, marker in looks}


@in_column
def draw_curves(path: Path, rows: Sequence[Row], title: str, styles: Mapping[str, Style]) -> None:
    """Draw success against the steps of the task, a panel for each class, on a log scale from the first step on.

    Methods differ most on conjunctions, which come first. A filled marker at 0 is success from words alone, before any
    step of the task. Lines without steps lie flat. Where lines lie on each other, markers nest: hollow, and each line's
    smaller than those drawn before.
    """
    figure = column(6.4)
    axes = figure.subplot_mosaic(_PANELS, sharex=True, sharey=True, height_ratios=[1.6, 1, 1])
    lines = [line for line in styles if line in lines_of(rows)]
    first = min((row.steps for row in rows if row.steps), default=1)
    for kind in CLASSES:
        for line, size in zip(lines, np.linspace(6.5, 3, len(lines)), strict=True):
            _draw_line(axes[kind], curve(rows, line, kind), styles[line], size)
            _draw_zero_shot(axes[kind], curve(rows, line + ZERO_SHOT, kind), styles[line], size)
        _dress(axes[kind], kind.replace("_", ", "), first)
    axes["conjunction"].tick_params(labelbottom=True)
    axes["disjunction_easy"].set_xlabel("environment steps of the task")
    for kind in ("conjunction", "object_hard", "object_easy"):
        axes[kind].set_ylabel("success")
    axes["legend"].axis("off")
    handles, labels = axes["conjunction"].get_legend_handles_labels()
    if any(row.line.endswith(ZERO_SHOT) for row in rows):
        handles.append(Line2D([], [], color=BLACK, marker="o", markersize=5, linestyle=""))
        labels.append("filled, at 0: from words alone")
    axes["legend"].legend(handles, labels, loc="center left", bbox_to_anchor=(-0.1, 0.5), frameon=False)
    figure.suptitle(f"{title} (within 100 steps)", fontsize=9.5)
    save(figure, path)


def _dress(ax: Axes, title: str, first: int) -> None:
    """Set the scales of a panel: 0 has a place of its own, before the first steps."""
    ax.set_xscale("symlog", linthresh=first, linscale=0.4)
    ax.set(title=title, ylim=(-0.06, 1.08), xlim=(-first / 4, None))
    ax.xaxis.set_major_locator(FixedLocator([0, *(10.0**n for n in range(3, 7))]))
    ax.xaxis.set_major_formatter(EngFormatter(sep=""))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.grid()


def _draw_line(ax: Axes, found: Curve, style: Style, size: float) -> None:
    if not found.steps.any():
        ax.axhline(found.mean[0], color=style.colour, linestyle=style.dashes, label=style.label, linewidth=_THICK)
        return
    ax.plot(found.steps, found.mean, **style.look(label=style.label, linewidth=_THICK, markersize=size))
    ax.fill_between(found.steps, found.low, found.high, color=style.colour, alpha=0.15, linewidth=0)


def _draw_zero_shot(ax: Axes, found: Curve, style: Style, size: float) -> None:
    (points,) = ax.plot(found.steps, found.mean, style.marker, color=style.colour, markersize=1.3 * size)
    points.set(markeredgecolor="white", markeredgewidth=0.4)


@in_column
def draw_from_pixels(path: Path, rows: Sequence[Row], scores: Mapping[str, Mapping[int, float]]) -> None:
    """Draw success by class for features true, learnt and entangled, and, seed by seed, against disentanglement."""
    figure = column(3.6)
    left, right = figure.subplots(1, 2, width_ratios=[3, 1], sharey=True)
    lines = [line for line in PIXEL_STYLES if line in lines_of(rows)]
    found, kinds = ends(rows), CLASSES[::-1]  # the hardest first
    for i, line in enumerate(lines):
        style = PIXEL_STYLES[line]
        mean, low, high = np.array([found[line].classes[kind] for kind in kinds]).T
        place = np.arange(len(kinds)) + 0.14 * (i - (len(lines) - 1) / 2)
        points = style.look(linestyle="", label=style.label, markerfacecolor=style.colour)
        left.errorbar(place, mean, [mean - low, high - mean], capsize=1.5, **(points | {"markersize": 4}))
        if line in scores:
            success = {seed: np.mean([r.success for r in last(rows, line) if r.seed == seed]) for seed in scores[line]}
            right.plot(list(scores[line].values()), list(success.values()), **points)
    left.set_xticks(range(len(kinds)), [kind.replace("_", ",\n") for kind in kinds], fontsize=7)
    labelled = max(row.steps for row in rows)
    left.set(title=f"success from {labelled:,} labelled steps", ylim=(-0.03, 1.05))
    left.grid(axis="y")
    right.set(title="mean over the classes", xlabel="DCI disentanglement", xlim=(-0.08, 1.1), xticks=[0, 0.5, 1])
    right.grid()
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    save(figure, path)


@in_column
def draw_objects(path: Path, found: Mapping[str, LargerWorld]) -> None:
    """Draw success, and the seconds of learning, against the number of objects in the world."""
    figure = column(3.2)
    left, right = figure.subplots(1, 2)
    for preset, style in {"fast": STYLES["ours"], "paper": STYLES["gpi-trick"]}.items():
        worlds = sorted((w for w in found.values() if w.preset == preset), key=lambda world: world.objects)
        objects = [world.objects for world in worlds]
        solid = style.look(linestyle="-")
        for ax, label, values in (
            (left, f"preset {preset}, mean of the classes", [np.mean(list(w.classes.values())) for w in worlds]),
            (right, f"preset {preset}", [world.seconds for world in worlds]),
        ):
            ax.plot(objects, values, label=label, **solid)
        worst = [min(world.classes.values()) for world in worlds]
        left.plot(objects, worst, **style.look(linestyle=":", label=f"preset {preset}, worst class"))
    left.set(title="success within 100 steps", xlabel="objects", ylim=(-0.03, 1.05))
    right.set(title="seconds of learning", xlabel="objects", ylim=(0, None))
    for ax in (left, right):
        ax.set_xticks(range(1, len(SHAPES) + 1))
        ax.grid()
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
    save(figure, path)


@in_column
def draw_payback(path: Path, costs: Mapping[str, tuple[int, list[Payback]]]) -> None:
    """Draw steps in all against the number of tasks solved: free play and then few steps a task, or DQN each time."""
    figure = column(3.9)
    ax = figure.subplots()
    tasks = np.geomspace(1, 10_000, 200)
    sides = (("-", (8, -12), "left"), ("--", (-8, 8), "right"))  # of a crossing, to write its number on
    for (name, (free_play, found)), (dashes, offset, align) in zip(costs.items(), sides, strict=True):
        few, scratch = (np.mean([getattr(p, field) for p in found]) for field in ("few_shot", "scratch_at_least"))
        style = STYLES[name]
        ax.plot(tasks, free_play + few * tasks, color=style.colour, linestyle=dashes, label=style.label)
        bound = "at least " if any(np.isinf(p.scratch) for p in found) else ""
        label = f"DQN, to the same success ({bound}{scratch:,.0f} steps a task)"
        ax.plot(tasks, scratch * tasks, color=RED, linestyle=dashes, label=label)
        even = break_even(free_play, found)
        ax.plot(even, scratch * even, "o", color=style.colour)
        ax.annotate(
            f"{even:,.0f} tasks",
            (even, scratch * even),
            xytext=offset,
            ha=align,
            textcoords="offset points",
            color=style.colour,
            weight="bold",
        )
    ax.set(xscale="log", yscale="log", xlabel="tasks solved", ylabel="environment steps in all")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(EngFormatter(sep=""))
    ax.grid()
    ax.legend(frameon=False)
    save(figure, path)
