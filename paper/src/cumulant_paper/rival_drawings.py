"""The rivals' figures, from run folders alone: from words and from labelled steps, over goals, in larger worlds."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import SubFigure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from cumulant.commands.drawings import column, in_column, save
from cumulant.goals.suites import CLASSES
from cumulant.sweeps.run_folders import Row
from cumulant.sweeps.statistics import Point, lines_of
from cumulant_paper.curves import STYLES
from cumulant_paper.statistics import End, Standing, curve

_WORDS_HIGH, _LABELS_HIGH = 2.6, 3.7  # inches
_KINDS = CLASSES[::-1]  # the hardest first
_TITLE, _NARROW = 9.5, 7  # points, of what stands above several panels and of what has little room
_THIN = 1.2  # points, of a curve
_DARK = 0.45  # below which a cell's colour needs white digits
_FLAT = ("oracle", "random")  # what needs no steps bounds every panel


@in_column
def draw_rivals(path: Path, labelled: Sequence[Row], standings: Mapping[str, Mapping[str, Standing]]) -> None:
    """Draw success from words by class and over all goals, for each world; after the first, from labelled steps.

    `standings` holds, for each world in words, what each line came to.
    """
    panels = [(_WORDS_HIGH, partial(_draw_words, title=title, found=found)) for title, found in standings.items()]
    if labelled:
        panels.insert(1, (_LABELS_HIGH, partial(_draw_labelled, rows=labelled)))
    heights = [height for height, _ in panels]
    figure = column(sum(heights) + 1.0)
    for place, (_, draw) in zip(
        figure.subfigures(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0], panels, strict=True
    ):
        draw(place)
    shown = {*lines_of(labelled), *(line for found in standings.values() for line in found)}
    styles = [style for line, style in STYLES.items() if line in shown]
    figure.legend(
        [Line2D([], [], **style.look(linewidth=_THIN)) for style in styles],
        [style.label for style in styles],
        loc="outside lower center",
        ncols=3,
        frameon=False,
    )
    save(figure, path)


def _draw_words(place: SubFigure, title: str, found: Mapping[str, Standing]) -> None:
    """Draw one world: by class, and over all goals."""
    left, right = place.subplots(1, 2, width_ratios=[1.7, 1], sharey=True)
    _draw_classes(left, found)
    _draw_goals(right, found)
    place.suptitle(title, fontsize=_TITLE)


def _draw_labelled(place: SubFigure, rows: Sequence[Row]) -> None:
    """Draw success against labelled steps."""
    _draw_curves(list(place.subplots(2, 4, sharex=True, sharey=True).ravel()), rows)
    place.suptitle("from labelled steps (the oracle and random play need none)", fontsize=_TITLE)


def _draw_curves(axes: Sequence[Axes], rows: Sequence[Row]) -> None:
    """Draw success against labelled steps, a panel for each class."""
    for ax, kind in zip(axes, _KINDS, strict=False):
        for line in (line for line in STYLES if line in lines_of(rows)):
            found, style = curve(rows, line, kind), STYLES[line]
            if line in _FLAT:
                ax.axhline(found.mean[0], color=style.colour, linestyle=style.dashes, linewidth=1)
                continue
            ax.plot(found.steps, found.mean, **style.look(linewidth=_THIN, markersize=3.5))
            ax.fill_between(found.steps, found.low, found.high, color=style.colour, alpha=0.15, linewidth=0)
        ax.set(xscale="log", ylim=(-0.05, 1.07))
        ax.set_title(kind.replace("_", ", "))
        ax.grid()
    axes[0].set_ylabel("success")
    axes[4].set_ylabel("success")
    for ax in axes[4:7]:
        ax.set_xlabel("labelled steps")
    axes[-1].axis("off")


def _draw_classes(ax: Axes, found: Mapping[str, Standing]) -> None:
    """Draw each class at a place of its own, and in it the lines beside each other, with their intervals."""
    lines = [line for line in STYLES if line in found and line not in _FLAT]
    for i, line in enumerate(lines):
        places = np.arange(len(CLASSES)) + 0.8 * ((i + 0.5) / len(lines) - 0.5)
        _points(
            ax, places, [found[line].classes[kind] for kind in _KINDS], STYLES[line].look(linewidth=_THIN, linestyle="")
        )
    for line in (line for line in _FLAT if line in found):
        for place, kind in enumerate(_KINDS):
            across, mean = (place - 0.48, place + 0.48), found[line].classes[kind].mean
            ax.plot(across, (mean, mean), color=STYLES[line].colour, linestyle=STYLES[line].dashes, linewidth=1)
    ax.set_xticks(range(len(_KINDS)), [kind.replace("_", "\n") for kind in _KINDS], fontsize=_NARROW)
    for edge in np.arange(1, len(CLASSES)) - 0.5:
        ax.axvline(edge, color="0.85", linewidth=0.6)
    ax.set(ylim=(-0.05, 1.07), xlim=(-0.5, len(CLASSES) - 0.5))
    ax.set_ylabel("success, from words")
    ax.grid(axis="y")


def _draw_goals(ax: Axes, found: Mapping[str, Standing]) -> None:
    """Draw success on the (m + 1)^k goals against the number of features that a goal asks for."""
    for line in (line for line in STYLES if line in found):
        goals = found[line].goals
        _points(ax, np.array(list(goals)), list(goals.values()), STYLES[line].look(linewidth=_THIN))
    ax.set_xlabel("features that a goal asks for")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.grid()


def _points(ax: Axes, places: np.ndarray, points: Sequence[Point], look: Mapping[str, Any]) -> None:
    mean, low, high = np.array(points).T
    ax.errorbar(places, mean, [mean - low, high - mean], elinewidth=0.8, **look)


@in_column
def draw_search(path: Path, few: Mapping[str, End], standings: Mapping[str, Standing], title: str) -> None:
    """Draw every setting's success as a heat map: from words by class and over all goals, from steps by class."""
    nothing = [float("nan")]  # over all goals only words are tried
    cells = {f"{line}, words": [*_means(found.classes), found.coverage] for line, found in standings.items()}
    cells |= {f"{line}, {end.steps:,} steps": _means(end.classes) + nothing for line, end in few.items()}
    cells = {line.replace("-search-", ": "): cells[line] for line in sorted(cells)}
    columns = [*(kind.replace("_", "\n") for kind in CLASSES), "all\ngoals"]
    figure = column(0.2 * len(cells) + 1.2)
    ax = figure.subplots()
    values = np.array(list(cells.values()))
    ax.imshow(values, vmin=0, vmax=1, cmap="viridis", aspect="auto")
    for (i, j), value in np.ndenumerate(values):
        if not np.isnan(value):
            colour = "white" if value < _DARK else "black"
            ax.text(j, i, f"{value:.2f}", ha="center", va="center", color=colour)
    ax.set_xticks(range(len(columns)), columns, fontsize=_NARROW)
    ax.set_yticks(range(len(cells)), list(cells))
    ax.set_title(title, loc="left")
    save(figure, path)


def _means(points: Mapping[str, Point]) -> list[float]:
    return [point.mean for point in points.values()]
