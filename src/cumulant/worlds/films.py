"""Episodes as pictures: an animated GIF and a contact sheet."""

import base64
import html
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from textwrap import wrap

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, PyTree, Shaped, UInt8
from PIL import Image, ImageDraw, ImageFont

from cumulant.goals.plans import Plan, tables_of
from cumulant.goals.tasks import Task
from cumulant.storage import check_writable, write_whole
from cumulant.worlds.episodes import PolicyMaker, Rollout, episode_keys, rollouts
from cumulant.worlds.markings import marked, ticked
from cumulant.worlds.protocol import Arena, World, check_drawable, render

_PAPER, _INK, _QUIET, _GOOD, _BAD = "#ffffff", "#20242e", "#6b7280", "#007a5a", "#b34a00"
WORTHWHILE = 20  # steps of an episode that is worth watching, and at most twice as many
_MARGIN, _CAPTION, _SIZE, _STARTS = 12, 44, 320, 16
_COLOURS, _LOOKED_AT = 64, 8  # of a film's palette, and frames that it is made from
_LINE = 46  # characters beside each other above a film
_TICK, _LINE_HEIGHT, _TICKED = 15, 18, ImageFont.load_default(12)  # of what is ticked off above a film


@dataclass(frozen=True, eq=False)
class Film:
    """An episode to look at. In a notebook it shows itself.

    >>> import cumulant
    >>> film = cumulant.Library.load().watch("square left")
    >>> film  # doctest: +ELLIPSIS
    Film of 'square left': reached in ... steps, seed ...
    >>> len(film.frames) == film.steps + 1  # the start, and a frame for every step
    True
    >>> film.save("mine.gif")
    """

    caption: str
    frames: UInt8[np.ndarray, "t size size 3"]  # from the start until the goal was reached or time ran out
    success: bool | None  # None where there was no goal to reach
    every: int = 1  # steps from one frame to the next
    first: int = 0  # step of the first frame
    seed: int | None = None  # of the episode, where it has one of its own
    done: Sequence[Sequence[tuple[str, bool]]] = ()  # of each frame, what there is to do, and whether it is done

    @property
    def steps(self) -> int:
        """The step of the last frame."""
        return self.step_of(len(self.frames) - 1)

    def step_of(self, frame: int) -> int:
        """The step that a frame shows."""
        return self.first + frame * self.every

    def save(self, path: str | Path) -> None:
        """Write it as an animated GIF. ValueError for a name that ends otherwise; Unwritable where no file can be."""
        place = Path(path)
        if place.suffix.lower() not in ("", ".gif"):
            raise ValueError(f"a film is a GIF: let the name end in .gif, which {place.name} does not")
        check_writable(place)
        save_gif(place, [self])

    def _repr_html_(self) -> str:
        """The animation, for notebooks."""
        data = base64.b64encode(gif([self])).decode()
        return f'<img alt="{html.escape(repr(self))}" src="data:image/gif;base64,{data}">'

    def __repr__(self) -> str:
        told = {True: "reached in", False: "not reached in", None: "played for"}[self.success]
        seed = "" if self.seed is None else f", seed {self.seed}"
        return f"Film of {self.caption!r}: {told} {self.steps} step{'s' * (self.steps != 1)}{seed}"


def watch(
    world: World,
    make_policy: PolicyMaker,
    caption: str,
    goal: Task | Plan | None,
    guides: PyTree[Shaped[Array | np.ndarray, "1 ..."]],
    seed: int,
) -> Film:
    """A film of the first episode worth watching: of that of the seed and those after it, as `episode_keys` has them.

    Without a goal nothing is ever reached, and the film ends when nothing moves any more.
    """
    check_drawable(world)
    aim = Task(world.feature_names, ()) if goal is None else goal  # without a goal, one that is never reached
    played = rollouts(world, make_policy, tables_of([aim]), guides, episode_keys(seed, _STARTS))
    film = film_of(world, caption, played, goal, WORTHWHILE, seed)
    if goal is not None:
        return film
    moving = np.flatnonzero((film.frames != film.frames[-1]).any(axis=(1, 2, 3)))
    return replace(film, frames=film.frames[: int(moving.max(initial=-1)) + 2], success=None)


def film_of(
    world: World,
    caption: str,
    episodes: Rollout,
    goal: Task | Plan | None = None,
    least: int = 1,
    seed: int | None = None,
) -> Film:
    """The first of several episodes (a leading axis) that takes `least` steps, and not twice as many; or the longest.

    Where the world can show it, the goal is marked, and what is done of it is ticked off. `seed` is that of the first,
    if they are those of `episode_keys`.
    """
    everything, success, steps = jax.device_get((episodes.states, episodes.success, episodes.steps))
    fitting = (steps >= least) & (steps <= 2 * least) & success
    chosen = int(np.argmax(fitting if least > 1 and fitting.any() else np.minimum(steps, least)))
    shown = int(steps[chosen]) + 1
    states = jax.tree.map(lambda leaf: leaf[chosen], everything)
    moments = [jax.tree.map(lambda leaf, t=t: leaf[t], states) for t in range(shown)]
    frames, done = np.stack([_drawn(world, state) for state in moments]), []
    if isinstance(world, Arena):
        places = np.asarray(jax.vmap(world.features)(states))[:shown]  # of all: one program serves every film
        frames, done = marked(world, frames, places, goal), [] if goal is None else ticked(goal, places)
    own = None if seed is None else seed + chosen
    return Film(caption, frames, bool(success[chosen]), seed=own, done=done)


@eqx.filter_jit
def _drawn(world: World, state: PyTree) -> UInt8[Array, "size size 3"]:
    """A frame of a film: one program for films of any length."""
    return render(world, state, _SIZE)


def save_gif(path: Path, films: Sequence[Film], fps: int = 10) -> None:
    """Write what `gif` draws."""
    write_whole(path, gif(films, fps))


def gif(films: Sequence[Film], fps: int = 10) -> bytes:
    """Films side by side, at equal pace; each waits on its last frame for the others."""
    films = [
        replace(film, caption="\n".join(wrap(film.caption, _LINE, max_lines=2, placeholder=" …"))) for film in films
    ]
    last = max(len(film.frames) for film in films) - 1
    pictures = [_row([(film, min(t, len(film.frames) - 1)) for film in films]) for t in range(last + 1)]
    durations = [1000 // fps] * last + [2000]
    data = io.BytesIO()
    palette = _palette(pictures)
    images = [picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures]
    images[0].save(data, "GIF", save_all=True, append_images=images[1:], duration=durations, loop=0, optimize=True)
    return data.getvalue()


def _palette(pictures: Sequence[Image.Image]) -> Image.Image:
    """The same colours for all: no flicker, a small file. What is rare, or there for a while, has its own, too."""
    some = np.unique(np.linspace(0, len(pictures) - 1, _LOOKED_AT).round().astype(int))
    beside = Image.fromarray(np.concatenate([np.asarray(pictures[t]) for t in some]))
    return beside.quantize(_COLOURS, method=Image.Quantize.MAXCOVERAGE)


def save_contact_sheet(path: Path, films: Sequence[Film], columns: int = 6) -> None:
    """One row a film, with moments at equal distances from start to end."""
    rows = []
    for film in films:
        small = replace(film, frames=np.stack([np.asarray(Image.fromarray(each).reduce(2)) for each in film.frames]))
        moments = np.linspace(0, len(film.frames) - 1, columns).round().astype(int)
        shown = [small, *[replace(small, caption="")] * (columns - 1)]
        rows.append(_row([(part, int(t)) for part, t in zip(shown, moments, strict=True)]))
    sheet = Image.new("RGB", (rows[0].width, sum(row.height for row in rows)), _PAPER)
    for row, below in zip(rows, accumulate((row.height for row in rows), initial=0), strict=False):
        sheet.paste(row, (0, below))
    data = io.BytesIO()
    sheet.save(data, "PNG", optimize=True)
    write_whole(path, data.getvalue())


def _row(panels: Sequence[tuple[Film, int]]) -> Image.Image:
    """Moments of films beside each other, each with its caption above and its step below."""
    size = panels[0][0].frames.shape[1]
    told = [_laid_out(film.done[t], size) if film.done else [] for film, t in panels]
    top = _CAPTION + _LINE_HEIGHT * max((line + 1 for each in told for _, _, _, line in each), default=0)
    picture = Image.new("RGB", (_MARGIN + len(panels) * (size + _MARGIN), top + size + _CAPTION), _PAPER)
    draw = ImageDraw.Draw(picture)
    for i, (film, t) in enumerate(panels):
        x, y = _MARGIN + i * (size + _MARGIN), top
        draw.text((x, _CAPTION // 2), film.caption, _INK, ImageFont.load_default(14), anchor="lm")
        for words, done, across, line in told[i]:
            _tick(draw, (x + across, _CAPTION + _LINE_HEIGHT * line), words, done)
        picture.paste(Image.fromarray(film.frames[t]), (x, y))
        note, colour = f"step {film.step_of(t)}", _QUIET
        if t == len(film.frames) - 1 and film.success is not None:
            verdict, colour = ("solved", _GOOD) if film.success else ("not solved", _BAD)
            note = f"{note}: {verdict}"
        draw.text((x, y + size + _CAPTION // 2), note, colour, ImageFont.load_default(13), anchor="lm")
    return picture


def _laid_out(parts: Sequence[tuple[str, bool]], width: int) -> list[tuple[str, bool, int, int]]:
    """What is ticked off, beside each other as far as there is room: words, done, how far across, in which line."""
    laid, across, line = [], 0, 0
    for words, done in parts:
        needed = _TICK + int(_TICKED.getlength(words)) + _MARGIN
        if across and across + needed - _MARGIN > width:
            across, line = 0, line + 1
        laid.append((words, done, across, line))
        across += needed
    return laid


def _tick(draw: ImageDraw.ImageDraw, place: tuple[int, int], words: str, done: bool) -> None:
    """A box, ticked if something is done, and what it is."""
    x, y = place
    draw.rectangle((x, y + 2, x + 10, y + 12), _GOOD if done else _PAPER, _GOOD if done else _QUIET)
    if done:
        draw.line([(x + 2, y + 7), (x + 4, y + 10), (x + 8, y + 4)], _PAPER, 2)
    draw.text((x + _TICK, y + 7), words, _GOOD if done else _QUIET, _TICKED, anchor="lm")
