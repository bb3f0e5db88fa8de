"""Figures of what commands measure, in one style. Nothing here trains or plays."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase
from matplotlib.image import AxesImage
from PIL import Image

from cumulant.storage import write_whole
from cumulant.transfer.audit import Audit

COLUMN = 6.9  # inches, drawn at 200 dots each: the column of the documentation, 690 pixels, on screens of twice as many
BLACK, ORANGE, SKY, GREEN, BLUE, RED, PINK, GREY = (  # Okabe and Ito's, told apart by the colour-blind
    "#000000 #e69f00 #56b4e9 #009e73 #0072b2 #d55e00 #cc79a7 #777777".split()
)
_CELLS = 9  # beside each other in half a column, that have room for a number
_AUDIT_WORDS = """\
Each row of the maps above is a skill: a feature,
and one of its {m} bins to bring it to.

Ψ as played: what share of the time to come,
discounted, features then spend in each bin.
A bright diagonal: skills do what they are for.

Error of the Lemma: it says that other features
stay where they are. Outside of the blocks on the
diagonal, dark means that it holds.

How far a feature moves: the same in one number,
as a share of the feature's range. Zero wherever
row and column differ: features are independent.
"""
_COLOURS = mpl.colormaps["viridis"]
_LOOK: dict[Any, Any] = {
    "font.size": 8,  # points; a column's width of pixels shows them 4 % larger
    "axes.titlesize": 8.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 8,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "legend.fontsize": 8,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "grid.linewidth": 0.6,
    "grid.alpha": 0.3,
}

in_column = mpl.rc_context(_LOOK)  # a decorator of what draws a figure as wide as the column


def column(height: float) -> Figure:
    """A figure as wide as the documentation's column, and so many inches high."""
    return Figure(figsize=(COLUMN, height), layout="constrained")


def save(figure: Figure, path: Path, around: bool = False) -> None:
    """Write a figure as PNG, of 256 colours: a third of the bytes. With what stands around it, if need be."""
    drawn, data = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", dpi=150 if around else 200, bbox_inches="tight" if around else None)
    Image.open(drawn).convert("RGB").quantize(dither=Image.Dither.NONE).save(data, "PNG", optimize=True)
    write_whole(path, data.getvalue())


@in_column
def draw_audit(path: Path, result: Audit, names: Sequence[str]) -> None:
    """What policies do to features: Ψ as played, the Lemma's error, and how far features move, as heat maps."""
    k, m = result.true.shape[:2]
    figure = column(7.0)
    above, below = figure.subfigures(2, 1, squeeze=False, height_ratios=[1.15, 1])[:, 0]
    (played, wrong), (moved, words) = above.subplots(1, 2), below.subplots(1, 2, width_ratios=[1.1, 1])
    for ax, matrix, title in (
        (played, result.true, "Ψ as played"),
        (wrong, result.lemma_error, "error of the Lemma"),
    ):
        image = ax.imshow(matrix.reshape(k * m, k * m), vmin=0, vmax=1, cmap=_COLOURS, aspect="auto")
        ax.set(title=title, xlabel="cumulant", xticks=np.arange(k) * m + (m - 1) / 2)
        ax.set_xticklabels(names, rotation=90)
        ax.set_yticks(np.arange(k) * m + (m - 1) / 2, names if ax is played else [])
        for edge in np.arange(1, k) * m - 0.5:
            ax.axhline(edge, color="white", linewidth=0.6)
            ax.axvline(edge, color="white", linewidth=0.6)
    played.set(ylabel="policy")
    add_scale(above, image, [played, wrong])
    image = moved.imshow(result.moved, vmin=0, cmap=_COLOURS, aspect="auto")
    if k <= _CELLS:
        _write_numbers(moved, result.moved)
    moved.set(title="how far a feature moves", xlabel="feature", ylabel="policies of feature")
    moved.set_xticks(range(k), names, rotation=90)
    moved.set_yticks(range(k), names)
    words.axis("off")
    words.text(0, 1, _AUDIT_WORDS.format(m=m), va="top", linespacing=1.5, transform=words.transAxes)
    save(figure, path)


def add_scale(figure: FigureBase, image: AxesImage, axes: Sequence[Axes]) -> None:
    """A bar that tells what colours mean, beside the axes."""
    figure.colorbar(image, ax=axes, shrink=0.8, aspect=25, pad=0.015)


def _write_numbers(ax: Axes, matrix: Float[np.ndarray, "rows columns"]) -> None:
    """Every value into its cell of a heat map from 0 to the greatest, bright on dark and dark on bright."""
    for (i, j), value in np.ndenumerate(matrix):
        colour = "white" if value < 0.6 * matrix.max() else "black"
        ax.text(j, i, f"{value:.2f}", ha="center", va="center", color=colour, fontsize=7.5)


def draw_correlations(
    path: Path,
    matrix: Float[np.ndarray, "d k"],
    latent_names: Sequence[str],
    factor_names: Sequence[str],
    title: str,
) -> None:
    """Which latent tells which factor, as a heat map of values in [0, 1] with the numbers in its cells."""
    d, k = matrix.shape
    width, height = 0.6 * k, 0.42 * d  # inches; the cells fill the figure, and `save` takes in what stands around it
    figure = Figure(figsize=(width, height))
    ax, scale = figure.add_axes((0, 0, 1, 1)), figure.add_axes((1 + 0.2 / width, 0, 0.15 / width, 1))
    image = ax.imshow(matrix, vmin=0, vmax=1, cmap=_COLOURS, aspect="auto")
    for (i, j), value in np.ndenumerate(matrix):
        colour = "white" if value < 0.45 else "black"
        ax.text(j, i, f"{value:.2f}", ha="center", va="center", color=colour, fontsize=9)
    ax.set_xticks(range(k), factor_names, rotation=90)
    ax.set_yticks(range(d), latent_names)
    ax.set(xlabel="factor", ylabel="latent")
    ax.set_title(title, loc="left", pad=10)  # clear of the scale's topmost number
    figure.colorbar(image, cax=scale)
    save(figure, path, around=True)


def draw_frames(
    path: Path, images: Float[np.ndarray, "rows columns size size 3"], names: Sequence[str], title: str
) -> None:
    """Images in [0, 1] as rows of a sheet, each with its name."""
    rows, columns = images.shape[:2]
    figure = Figure(figsize=(columns, rows))
    axes = figure.subplots(rows, columns, squeeze=False, gridspec_kw={"wspace": 0.06, "hspace": 0.06})
    for (i, j), ax in np.ndenumerate(axes):
        ax.imshow(images[i, j], vmin=0, vmax=1, interpolation="nearest")
        ax.set(xticks=[], yticks=[])
        ax.spines[:].set_visible(False)
        if j == 0:
            ax.set_ylabel(names[i], rotation=0, ha="right", va="center")
    axes[0, 0].set_title(title, loc="left", pad=10)
    save(figure, path, around=True)
