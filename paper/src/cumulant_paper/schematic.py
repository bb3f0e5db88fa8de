"""The idea in one drawing, as SVG: play once, then act on any goal."""

import base64
import io
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np
from jaxtyping import Float, UInt8
from PIL import Image, ImageColor

from cumulant.storage import write_whole
from cumulant_paper.scene import PHRASE, Scene

_Number = float | int  # of pixels
WIDTH = 690  # pixels, the column of the documentation
_SIDE, _GAP, _MARGIN = 144, 28, 15  # of a panel; from panel to panel; from the card's edge to the first
_BETWEEN = 16  # cards
_TOP = 70  # of the panels in their card
_TALL, _LOW = 272, 234  # cards, with titles and two lines a panel, and with one line
_LABELS = 54  # pixels, for the names of features beside a grid
_LEARNT = "#12b088"  # of maps, on light and on dark ground
_STYLE = """
text { font-family: system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", Arial, sans-serif; fill: #1f2430 }
.head { font-size: 16px; font-weight: 700 } .title { font-size: 12.5px; font-weight: 600 }
.aside, .note { font-size: 11px; fill: #566070 } .aside { font-size: 12.5px } .label { font-size: 10.5px }
.card { fill: #f5f7f8; stroke: #d5dbe0 } .cell { fill: #e1e6ea } .paper { fill: #ffffff; stroke: #c5ccd3 }
.learnt { fill: #009e73 } .wanted { fill: #d55e00 } .mark { fill: none; stroke: #1f2430; stroke-width: 1.5 }
.way { fill: none; stroke: #8a94a0; stroke-width: 1.6; stroke-linejoin: round } .tip { fill: #8a94a0 }
@media (prefers-color-scheme: dark) {
  text { fill: #e9ecf1 } .aside, .note { fill: #a9b2bf } .mark { stroke: #ffffff }
  .card { fill: #2a303a; stroke: #3f4754 } .cell { fill: #404957 } .paper { fill: #353c49; stroke: #566070 }
  .learnt { fill: #1fc493 } .wanted { fill: #ff8a3d }
}
"""


def draw_schematic(path: Path, scene: Scene) -> None:
    """Write the drawing as SVG, as wide as the column; it follows the page, or the reader's system, into the dark."""
    cards, tops = (_play(scene), _goal(scene), _act(scene)), (0, _TALL + _BETWEEN, 2 * (_TALL + _BETWEEN))
    placed = [f'<g transform="translate(0 {top})">{card}</g>' for top, card in zip(tops, cards, strict=True)]
    into, height = tops[1] + _TOP - 27, tops[2] + _LOW
    way = f"M{_centre(3)} {_TALL - 16} V{tops[1] - _BETWEEN / 2:g} H{_centre(2)} V{into - 2}"
    about = (
        f"Free play in Spriteworld gives {scene.phi.size} skills and their predictions. The goal {PHRASE} becomes"
        f" weights, both together tell what each skill is worth, and the goal is reached in {scene.steps} steps."
    )
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
        f' role="img"><title>The idea: play once, then act on any goal</title><desc>{escape(about)}</desc>'
        f"<style>{_STYLE}</style>{''.join(placed)}"
        f'<path class="way" d="{way}"/>{_tip(_centre(2), into, 90)}</svg>\n'
    )
    write_whole(path, svg.encode())


def _play(scene: Scene) -> str:
    """Return the first card: what happens once."""
    (k, m), low = scene.phi.shape, scene.worth.min()
    worth = _map((scene.worth - low) / (scene.worth.max() - low)) + _drawn(scene.thing)
    features = [f"{k} features of {m} bins each,", "and where they are now."]
    skills = [f"“{_named(scene)}”: worth", "by where the agent stands."]
    return _card("1 · Play once", "No reward, no goal.", _TALL) + _row(
        ("A world", ["The agent walks, and", "drags what it stands on."], _picture(scene.start)),
        ("Features in bins: φ", features, _grid(scene.features, scene.phi, "learnt")),
        (f"{k * m} skills, one per bin", skills, worth),
        (
            "Predictions: Ψ",
            ["Row: a skill. Column: how", "long it will be in a bin."],
            _map(np.sqrt(scene.psi.clip(0))),
        ),
    )


def _goal(scene: Scene) -> str:
    """Return the second card: from words or rewards to what each skill is worth, and to an action."""
    first, second = PHRASE.split(" and ")
    words, rewards = [f"“{first}", f"and {second}”"], ["reward(state) → 0, 0, 1 …", "for some hundred steps"]
    goal = _chip(0, words) + _text(_SIDE / 2, 75, "or", "note", "middle") + _chip(88, rewards)
    values = _grid(scene.features, scene.values, "learnt", scene.skill)
    weights = _grid(scene.features, scene.w, "wanted")
    return _card("2 · Then any goal", "Only w is new: nothing is trained.", _TALL) + _row(
        ("Words or rewards", ["Words say what w is;", "from rewards it is learnt."], goal),
        ("Weights: w", ["Which bins the goal", "wants features to be in."], weights),
        ("GPE: Q = Ψᵀw", ["Framed: the best skill of", "what is not reached yet."], values),
        ("GPI: the best action", ["By what each is worth to", f"{_named(scene)}."], _bars(scene)),
    )


def _act(scene: Scene) -> str:
    """Return the third card: the episode."""
    ending = "reached" if scene.success else "not reached"
    words = {step: f"after {step} steps" for step in scene.moments} | {
        0: "start",
        scene.steps: f"after {scene.steps} steps: {ending}",
    }
    shown = _row(*(("", [words[step]], _picture(frame)) for step, frame in scene.moments.items()))
    head = _card("3 · Act", "In every state anew. Where each object is to be, is shaded in its colour.", _LOW)
    return f'{head}<g transform="translate(0 -22)">{shown}</g>'


def _row(*panels: tuple[str, Sequence[str], str]) -> str:
    """Return panels of a title, notes and what lies inside, and arrows from each to the next."""
    return "".join([_panel(n, *panel) for n, panel in enumerate(panels)] + [*map(_arrow, range(len(panels) - 1))])


def _named(scene: Scene) -> str:
    """Return the name of the skill that is pursued."""
    feature, bin = scene.skill
    return f"{scene.features[feature]} to bin {bin + 1}"


def _left(column: int) -> _Number:
    return _MARGIN + column * (_SIDE + _GAP)


def _centre(column: int) -> float:
    return _left(column) + _SIDE / 2


def _card(head: str, aside: str, height: _Number) -> str:
    frame = f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="10"/>'
    return frame + _text(_MARGIN, 29, head, "head") + _text(_left(1), 29, aside, "aside")


def _panel(column: int, title: str, notes: Sequence[str], inside: str) -> str:
    """Return a panel; what lies inside has its origin at the upper left corner."""
    lines = [_text(0, _SIDE + 20 + 15 * n, line, "note") for n, line in enumerate(notes)]
    above = _text(0, -10, title, "title")
    return f'<g transform="translate({_left(column)} {_TOP})">{above}{inside}{"".join(lines)}</g>'


def _text(x: _Number, y: _Number, words: str, kind: str, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(words)}</text>'


def _tip(x: _Number, y: _Number, turn: int) -> str:
    return f'<path class="tip" d="M0 0 L-7 -4.5 L-7 4.5 Z" transform="translate({x:g} {y:g}) rotate({turn})"/>'


def _arrow(column: int) -> str:
    """Return an arrow from a panel to the next."""
    start, y = _left(column) + _SIDE + 6, _TOP + _SIDE / 2
    return f'<path class="way" d="M{start:g} {y:g} h{_GAP - 15}"/>' + _tip(start + _GAP - 12, y, 0)


def _chip(y: _Number, lines: Sequence[str]) -> str:
    box = f'<rect class="paper" x="0" y="{y:g}" width="{_SIDE}" height="56" rx="8"/>'
    return box + "".join(_text(_SIDE / 2, y + 24 + 17 * n, line, "label", "middle") for n, line in enumerate(lines))


def _grid(
    names: Sequence[str], values: Float[np.ndarray, "k m"], kind: str, marked: tuple[int, int] | None = None
) -> str:
    """Return a row for each feature and a cell for each bin, the fuller the greater its value."""
    (k, m), greatest = values.shape, max(float(values.max()), 1e-9)
    wide, high = (_SIDE - _LABELS) / m, _SIDE / k
    found = [_text(0, (i + 0.5) * high + 3.5, name, "label") for i, name in enumerate(names)]
    for (i, j), value in np.ndenumerate(values):
        place = (
            f'x="{_LABELS + j * wide + 0.5:.2f}" y="{i * high + 3:.2f}" width="{wide - 1:.2f}" height="{high - 6:.2f}"'
        )
        found.append(f'<rect class="cell" {place}/>')
        if value / greatest > 0.02:
            found.append(f'<rect class="{kind}" {place} fill-opacity="{value / greatest:.2f}"/>')
        if (i, j) == marked:
            found.append(f'<rect class="mark" {place}/>')
    return "".join(found)


def _bars(scene: Scene) -> str:
    """Return a bar for each action's worth, from the worst on, since differences are small. The one taken is framed."""
    low, high = float(scene.of_actions.min()), float(scene.of_actions.max())
    step, left, right = _SIDE / len(scene.actions), 64, 112
    found = []
    for n, (name, value) in enumerate(zip(scene.actions, scene.of_actions, strict=True)):
        share = 0.04 + 0.96 * (float(value) - low) / max(high - low, 1e-9)
        found.append(_text(0, (n + 0.5) * step + 3.5, name, "label"))
        place = f'x="{left}" y="{n * step + 3:.2f}" width="{share * (right - left):.2f}" height="{step - 6:.2f}"'
        found.append(f'<rect class="learnt" {place}/>')
        if n == scene.taken:
            found.append(f'<rect class="mark" {place}/>')
        found.append(_text(_SIDE, (n + 0.5) * step + 3.5, f"{value:.3f}", "label", "end"))
    return "".join(found)


def _map(values: Float[np.ndarray, "rows columns"]) -> str:
    """Return a heat map in the one colour, the fuller the greater, on whatever ground the page has."""
    shares = np.clip(values / max(float(values.max()), 1e-9), 0, 1)
    colours = np.zeros((*values.shape, 4), np.uint8)
    colours[..., :3] = ImageColor.getrgb(_LEARNT)
    colours[..., 3] = np.round(255 * shares)
    ground = f'<rect class="cell" width="{_SIDE}" height="{_SIDE}"/>'
    return ground + _image(Image.fromarray(colours), "image-rendering: pixelated")


def _drawn(corners: Float[np.ndarray, "corners 2"]) -> str:
    """Return an outline, from where y points upwards."""
    points = " ".join(f"{_SIDE * x:.1f},{_SIDE * (1 - y):.1f}" for x, y in corners)
    return f'<polygon class="mark" points="{points}"/>'


def _picture(frame: UInt8[np.ndarray, "size size 3"]) -> str:
    return _image(Image.fromarray(frame).quantize(32, dither=Image.Dither.NONE))


def _image(picture: Image.Image, style: str = "") -> str:
    data = io.BytesIO()
    picture.save(data, "PNG", optimize=True)
    url = f"data:image/png;base64,{base64.b64encode(data.getvalue()).decode()}"
    return f'<image width="{_SIDE}" height="{_SIDE}" preserveAspectRatio="none" style="{style}" href="{url}"/>'
