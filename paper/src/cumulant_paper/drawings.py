"""The figure of the Theorem. The style of all figures is `cumulant.commands.drawings`'."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes

from cumulant.commands.drawings import BLUE, GREEN, SKY, add_scale, column, in_column, save
from cumulant_paper.theory import Check, Tabular, fill_off_diagonal, successor_matrix

_COLOURS = mpl.colormaps["viridis"]


@in_column
def draw_theorem(path: Path, checks: Sequence[Check], examples: Sequence[Tabular], gamma: float) -> None:
    """Draw GPI's success over all goals in every world, and Ψ against the Lemma in two of them."""
    figure = column(5.6)
    above, below = figure.subfigures(2, 1, squeeze=False, height_ratios=[1, 1.05])[:, 0]
    _draw_solved(above.subplots(), checks)
    axes = below.subplots(1, len(examples))
    for ax, world in zip(axes, examples, strict=True):
        psi, policies = successor_matrix(world, gamma)
        error = np.abs(psi - fill_off_diagonal(world, psi, gamma)) * (1 - gamma)
        chosen = np.take_along_axis(error, policies[:, None, :, :, None, None], axis=1)[:, 0].mean(axis=0)
        size = chosen.shape[0] * chosen.shape[1]
        image = ax.imshow(chosen.reshape(size, size), vmin=0, vmax=1, cmap=_COLOURS)
        ax.set(title=world.name, xlabel="cumulant", ylabel="policy")
    below.suptitle("Error of the Lemma on the policy's path", fontsize=9)
    add_scale(below, image, list(axes))
    save(figure, path)


def _draw_solved(ax: Axes, checks: Sequence[Check]) -> None:
    """Draw a group of bars for each world."""
    ways = {
        "plain GPI, exact Ψ": ([c.solved_exact for c in checks], SKY),
        "plain GPI, the Lemma's Ψ": ([c.solved_trick for c in checks], BLUE),
        "committed GPI, in order": ([c.solved_in_order for c in checks], GREEN),
    }
    place = np.arange(len(checks))
    for turn, (label, (solved, colour)) in enumerate(ways.items()):
        ax.barh(place + 0.27 * (turn - 1), solved, 0.25, color=colour, label=label)
    ax.set_yticks(place, [f"{c.world}\n{'independent' if c.independent else 'not independent'}" for c in checks])
    ax.set(xlim=(0, 1.02), xlabel="share of goals and starts that are solved")
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=len(ways), frameon=False)
    ax.invert_yaxis()
