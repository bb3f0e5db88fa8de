"""Episodes as pictures: an animated GIF and a contact sheet."""

import io
from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageDraw, ImageFont

from cumulant.files import write_whole
from cumulant.policy import Play
from cumulant.renderer import render
from cumulant.spriteworld import Spriteworld

Frames = UInt8[np.ndarray, "t size size 3"]
_PAPER, _INK, _QUIET, _GOOD, _BAD = "#ffffff", "#20242e", "#6b7280", "#007a5a", "#b34a00"
_MARGIN, _CAPTION = 12, 44


def episode_frames(world: Spriteworld, play: Play, size: int) -> Frames:
    """The frames from the start until the goal was reached or time ran out: [steps + 1, size, size, 3]."""
    shown = jax.tree.map(lambda leaf: leaf[: int(play.steps) + 1], play.states)
    return np.asarray(jax.jit(jax.vmap(lambda state: render(world, state, size)))(shown))


def save_gif(path: Path, episodes: Sequence[tuple[str, Frames, bool]], fps: int = 10) -> None:
    """Episodes (caption, frames, success) side by side, at equal pace; each waits on its last frame for the others."""
    last = max(len(frames) for _, frames, _ in episodes) - 1
    pictures = [_row([(c, f, s, min(t, len(f) - 1)) for c, f, s in episodes]) for t in range(last + 1)]
    durations = [1000 // fps] * last + [2000]
    data = io.BytesIO()
    palette = pictures[-1].quantize(64)  # one palette for all frames: no flicker, and a small file
    images = [picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures]
    images[0].save(data, "GIF", save_all=True, append_images=images[1:], duration=durations, loop=0, optimize=True)
    write_whole(path, data.getvalue())


def save_contact_sheet(path: Path, episodes: Sequence[tuple[str, Frames, bool]], columns: int = 6) -> None:
    """One row an episode (caption, frames, success), with moments at equal distances from start to end."""
    rows = []
    for caption, frames, success in episodes:
        moments = np.linspace(0, len(frames) - 1, columns).round().astype(int)
        captions = [caption, *[""] * (columns - 1)]
        rows.append(_row([(c, frames, success, int(t)) for c, t in zip(captions, moments, strict=True)]))
    sheet = Image.new("RGB", (rows[0].width, sum(row.height for row in rows)), _PAPER)
    for i, row in enumerate(rows):
        sheet.paste(row, (0, i * row.height))
    data = io.BytesIO()
    sheet.save(data, "PNG", optimize=True)
    write_whole(path, data.getvalue())


def _row(panels: Sequence[tuple[str, Frames, bool, int]]) -> Image.Image:
    """Panels (caption, frames, success, time) beside each other, each with its caption above and its step below."""
    size = panels[0][1].shape[1]
    width, height = _MARGIN + len(panels) * (size + _MARGIN), size + 2 * _CAPTION
    picture = Image.new("RGB", (width, height), _PAPER)
    draw = ImageDraw.Draw(picture)
    for i, (caption, frames, success, t) in enumerate(panels):
        x = _MARGIN + i * (size + _MARGIN)
        draw.text((x, _CAPTION // 2), caption, _INK, ImageFont.load_default(15), anchor="lm")
        picture.paste(Image.fromarray(frames[t]), (x, _CAPTION))
        ended = t == len(frames) - 1
        verdict, colour = ("solved", _GOOD) if success else ("not solved", _BAD)
        note = f"step {t}" + (f": {verdict}" if ended else "")
        below = (x, _CAPTION + size + _CAPTION // 2)
        draw.text(below, note, colour if ended else _QUIET, ImageFont.load_default(13), anchor="lm")
    return picture
