"""The rivals' figures, from run folders alone: from words and from labelled steps, over goals, in larger worlds."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cumulant.experiments.curves import STYLES, Style
from cumulant.experiments.drawings import save
from cumulant.experiments.run_folders import Row
from cumulant.experiments.statistics import End, Point, Standing, curve, lines_of
from cumulant.goals.suites import CLASSES

_WIDTH = 7.2  # inches: 1,080 pixels, of which a page shows some 690
_SMALL = 8.5  # points
_FLAT = ("oracle", "random")  # what needs no steps bounds every panel


def draw_rivals(path: Path, labelled: Sequence[Row], standings: Mapping[str, Mapping[str, Standing]]) -> None:
    """Success from words by class and over all goals, for each world; and between them, against labelled steps.

    `standings` holds, for each number of objects in words, what each line came to.
    """
    sizes = [2.6] * len(standings)
    sizes.insert(1, 3.9)
    figure = Figure(figsize=(_WIDTH, sum(sizes) + 0.9), layout="constrained")
    with_legend = figure.subfigures(len(sizes), 1, height_ratios=sizes)
    parts = list(np.atleast_1d(with_legend))
    against_steps = parts.pop(1)
    _draw_curves(against_steps.subplots(2, 4, sharex=True, sharey=True).ravel(), labelled)
    against_steps.suptitle("from labelled steps (the oracle and random play need none)", fontsize=_SMALL + 1)
    for part, (title, found) in zip(parts, standings.items(), strict=True):
        left, right = part.subplots(1, 2, width_ratios=[1.7, 1], sharey=True)
        _draw_classes(left, found)
        _draw_goals(right, found)
        part.suptitle(title, fontsize=_SMALL + 1)
    shown = dict.fromkeys([*lines_of(labelled), *(line for found in standings.values() for line in found)])
    styles = [STYLES[line] for line in STYLES if line in shown]
    handles = [Axes.plot(left, [], [], **_look(style))[0] for style in styles]
    figure.legend(
        handles, [s.label for s in styles], loc="outside lower center", ncols=4, frameon=False, fontsize=_SMALL
    )
    save(figure, path)


def _look(style: Style) -> dict[str, object]:
    return {
        "color": style.colour,
        "linestyle": style.dashes,
        "marker": style.marker,
        "markerfacecolor": "none",
        "markersize": 5,
        "linewidth": 1.2,
    }


def _draw_curves(axes: Sequence[Axes], rows: Sequence[Row]) -> None:
    """A panel for each class: success against labelled steps."""
    for ax, kind in zip(axes, CLASSES, strict=False):
        for line in (line for line in STYLES if line in lines_of(rows)):
            found, style = curve(rows, line, kind), STYLES[line]
            if line in _FLAT:
                ax.axhline(found.mean[0], color=style.colour, linestyle=style.dashes, linewidth=1)
                continue
            ax.plot(found.steps, found.mean, **(_look(style) | {"markersize": 3.5}))
            ax.fill_between(found.steps, found.low, found.high, color=style.colour, alpha=0.15, linewidth=0)
        ax.set(xscale="log", ylim=(-0.05, 1.07))
        ax.set_title(kind.replace("_", ", "), fontsize=_SMALL)
        ax.tick_params(labelsize=_SMALL - 1)
        ax.grid(alpha=0.25)
    axes[0].set_ylabel("success", fontsize=_SMALL)
    axes[4].set_ylabel("success", fontsize=_SMALL)
    for ax in axes[4:7]:
        ax.set_xlabel("labelled steps", fontsize=_SMALL)
    axes[-1].axis("off")


def _draw_classes(ax: Axes, found: Mapping[str, Standing]) -> None:
    """A place for each class, and beside each other in it the lines, with their intervals."""
    lines = [line for line in STYLES if line in found]
    for i, line in enumerate(lines):
        places = np.arange(len(CLASSES)) + 0.8 * ((i + 0.5) / len(lines) - 0.5)
        _points(ax, places, [found[line].classes[kind] for kind in CLASSES], _look(STYLES[line]) | {"linestyle": ""})
    ax.set_xticks(range(len(CLASSES)), [kind.replace("_", "\n") for kind in CLASSES], fontsize=_SMALL - 1)
    for edge in np.arange(1, len(CLASSES)) - 0.5:
        ax.axvline(edge, color="0.85", linewidth=0.6)
    ax.set(ylim=(-0.05, 1.07), xlim=(-0.5, len(CLASSES) - 0.5))
    ax.set_ylabel("success, from words", fontsize=_SMALL)
    ax.tick_params(labelsize=_SMALL - 1)
    ax.grid(alpha=0.25, axis="y")


def _draw_goals(ax: Axes, found: Mapping[str, Standing]) -> None:
    """Success on the (m + 1)^k goals against the number of features that a goal asks for."""
    for line in (line for line in STYLES if line in found):
        goals = found[line].goals
        _points(ax, np.array(list(goals)), list(goals.values()), _look(STYLES[line]))
    ax.set_xlabel("features that a goal asks for", fontsize=_SMALL)
    ax.tick_params(labelsize=_SMALL - 1)
    ax.grid(alpha=0.25)


def _points(ax: Axes, places: np.ndarray, points: Sequence[Point], look: Mapping[str, object]) -> None:
    mean, low, high = np.array(points).T
    ax.errorbar(places, mean, [mean - low, high - mean], elinewidth=0.8, **look)


def draw_search(path: Path, few: Mapping[str, End], standings: Mapping[str, Standing], title: str) -> None:
    """Every setting's success in each class as a heat map: from words, and after the last labelled step."""
    cells = {f"{line}, words": [p.mean for p in found.classes.values()] for line, found in standings.items()}
    cells |= {f"{line}, {end.steps:,} steps": [p.mean for p in end.classes.values()] for line, end in few.items()}
    cells = {line.replace("-search-", ": "): cells[line] for line in sorted(cells)}
    figure = Figure(figsize=(_WIDTH, 0.24 * len(cells) + 1.2), layout="constrained")
    ax = figure.subplots()
    ax.imshow(list(cells.values()), vmin=0, vmax=1, cmap="viridis", aspect="auto")
    for (i, j), value in np.ndenumerate(np.array(list(cells.values()))):
        colour = "white" if value < 0.45 else "black"
        ax.text(j, i, f"{value:.2f}", ha="center", va="center", color=colour, fontsize=_SMALL)
    ax.set_xticks(range(len(CLASSES)), [kind.replace("_", "\n") for kind in CLASSES], fontsize=_SMALL)
    ax.set_yticks(range(len(cells)), list(cells), fontsize=_SMALL)
    ax.set_title(title, loc="left", fontsize=_SMALL + 1)
    save(figure, path)
