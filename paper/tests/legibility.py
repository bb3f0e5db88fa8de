"""Whether a figure can be read in the documentation's column."""

import itertools
from collections.abc import Callable

import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

COLUMN = 690  # CSS pixels, of which a point is 4/3
SMALLEST = 7  # points


def assert_legible(draw: Callable[[], None]) -> None:
    """The figure that is drawn has the column's width, twice as sharp, and its text is large, whole, and apart."""
    extents, saved = {}, []
    draw_text, save = Text.draw, Figure.savefig

    def recorded(text, renderer, *args, **kwargs):
        draw_text(text, renderer, *args, **kwargs)
        if text.get_visible() and text.get_text().strip():
            extents[text] = text.get_window_extent(renderer)  # the last time that it is drawn counts

    def saved_as(figure, *args, **kwargs):
        saved.append((figure, kwargs["dpi"]))
        save(figure, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Text, "draw", recorded)
        patch.setattr(Figure, "savefig", saved_as)
        draw()
    ((figure, dpi),) = saved
    width, height = figure.get_size_inches()
    assert round(width * dpi) == 2 * COLUMN
    for text, box in extents.items():
        assert text.get_size() * COLUMN / (96 * width) >= SMALLEST, text
        inside = min(box.x0, box.y0) >= 0 and box.x1 <= width * dpi and box.y1 <= height * dpi
        assert inside, f"{text} is cut off"
    for (one, a), (other, b) in itertools.combinations(extents.items(), 2):
        apart = a.x1 <= b.x0 + 1 or b.x1 <= a.x0 + 1 or a.y1 <= b.y0 + 1 or b.y1 <= a.y0 + 1
        assert apart, f"{one} lies on {other}"
