"""Results as figures. Nothing here trains or plays."""

import io
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from cumulant.experiments.theory import Check, Tabular, fill_off_diagonal, successor_matrix
from cumulant.storage import write_whole
from cumulant.transfer.audit import Audit

_COLOURS = mpl.colormaps["viridis"]


def save(figure: Figure, path: Path) -> None:
    """Write a figure as PNG."""
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=150, bbox_inches="tight")
    write_whole(path, data.getvalue())


def draw_audit(path: Path, result: Audit, names: Sequence[str]) -> None:
    """What policies do to features: Ψ as played, the Lemma's error, and how far features move, as heat maps."""
    k, m = result.true.shape[:2]
    figure = Figure(figsize=(16, 5.2), layout="constrained")
    axes = figure.subplots(1, 3)
    labels = [f"{name}" for name in names]
    for ax, matrix, title in (
        (axes[0], result.true, "Ψ as played, (1-γ)-scaled"),
        (axes[1], result.lemma_error, "error of the Lemma's φ(s)"),
    ):
        image = ax.imshow(matrix.reshape(k * m, k * m), vmin=0, vmax=1, cmap=_COLOURS)
        ax.set_xticks(np.arange(k) * m + (m - 1) / 2, labels, rotation=90)
        ax.set_yticks(np.arange(k) * m + (m - 1) / 2, labels)
        for edge in np.arange(1, k) * m - 0.5:
            ax.axhline(edge, color="white", linewidth=0.6)
            ax.axvline(edge, color="white", linewidth=0.6)
        ax.set(title=title, xlabel="cumulant: feature and bin", ylabel="policy: feature and bin")
        figure.colorbar(image, ax=ax, shrink=0.8)
    ax = axes[2]
    image = ax.imshow(result.moved, vmin=0, cmap=_COLOURS)
    for i in range(k):
        for j in range(k):
            value = result.moved[i, j]
            ax.text(
                j, i, f"{value:.2f}", ha="center", va="center", color="white" if value < 0.2 else "black", fontsize=8
            )
    ax.set_xticks(range(k), labels, rotation=90)
    ax.set_yticks(range(k), labels)
    ax.set(
        title="how far a feature moves\n(0 off the diagonal: independent)",
        xlabel="feature",
        ylabel="policies of feature",
    )
    figure.colorbar(image, ax=ax, shrink=0.8)
    save(figure, path)


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
    save(figure, path)


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
    save(figure, path)


def draw_theorem(path: Path, checks: Sequence[Check], examples: Sequence[Tabular], gamma: float) -> None:
    """GPI's success over all goals in every world, and Ψ against the Lemma in two of them."""
    figure = Figure(figsize=(15, 4.8), layout="constrained")
    axes = figure.subplots(1, 1 + len(examples), width_ratios=[1.3] + [1] * len(examples))
    place = np.arange(len(checks))
    ways = {
        "exact Ψ": ([c.solved_exact for c in checks], "#0072b2"),
        "off-diagonal trick": ([c.solved_trick for c in checks], "#e69f00"),
        "in order": ([c.solved_in_order for c in checks], "#009e73"),
    }
    for turn, (label, (solved, colour)) in enumerate(ways.items()):
        axes[0].barh(place + 0.27 * (turn - 1), solved, 0.25, color=colour, label=label)
    axes[0].set_yticks(place, [f"{c.world}\n{'independent' if c.independent else 'not independent'}" for c in checks])
    axes[0].set(xlabel="share of goals and starts that GPI solves", xlim=(0, 1.02))
    axes[0].legend(loc="upper center", bbox_to_anchor=(0.5, 1.13), ncol=3, frameon=False)
    axes[0].invert_yaxis()
    for ax, world in zip(axes[1:], examples, strict=True):
        psi, policies = successor_matrix(world, gamma)
        error = np.abs(psi - fill_off_diagonal(world, psi, gamma)) * (1 - gamma)
        chosen = np.take_along_axis(error, policies[:, None, :, :, None, None], axis=1)[:, 0].mean(axis=0)
        size = chosen.shape[0] * chosen.shape[1]
        image = ax.imshow(chosen.reshape(size, size), vmin=0, vmax=1, cmap=_COLOURS)
        ax.set(title=f"error of the Lemma on the policy's path\n{world.name}", xlabel="cumulant", ylabel="policy")
        figure.colorbar(image, ax=ax, shrink=0.8)
    save(figure, path)
