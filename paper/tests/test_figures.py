"""The documentation's pictures: as wide as its column, legible there, the same as what is recorded."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cumulant.commands.drawings import draw_audit
from cumulant.transfer.audit import Audit
from cumulant.transfer.library import Library
from cumulant_paper import theory
from cumulant_paper.curves import BINS_STYLES, PIXEL_STYLES, STYLES
from cumulant_paper.drawings import draw_theorem
from cumulant_paper.scene import scene
from cumulant_paper.schematic import draw_schematic
from legibility import COLUMN, SMALLEST, assert_legible

PAPER = Path(__file__).parents[1]
PICTURES = PAPER.parent / "docs" / "images"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def shown():
    """What the drawing of the idea shows."""
    return scene(Library.load())


def words_of(drawing):
    """All that is written in a drawing, but for numbers."""
    return [re.sub(r"[0-9.]+", "#", text.text or "") for text in ET.parse(drawing).iter(f"{SVG}text")]


@pytest.mark.parametrize("k", [2, 6, 12])
def test_audit_is_legible_with_any_features(k, tmp_path):
    m, rng = 3, np.random.default_rng(0)
    psi, moved = rng.random((k, m, k, m)), rng.random((k, k))
    names = [f"square_{i}" for i in range(k)]
    assert_legible(lambda: draw_audit(tmp_path / "audit.png", Audit(psi, psi, psi, moved), names))


def test_theorem_is_legible(tmp_path):
    checks = [theory.Check(w.name, w.independent, 1, 0.0, 0.0, 0.5, 0.5, 1.0, 1.0) for w in theory.WORLDS]
    assert_legible(lambda: draw_theorem(tmp_path / "theorem.png", checks, theory.EXAMPLES, theory.GAMMA))


def test_pictures_fit_the_column_and_the_recordings():
    """No wider than the column at twice its sharpness, and byte for byte what is recorded."""
    drawn = {path.name: path for path in PICTURES.iterdir()}
    widths = {}
    for name in (name for name in drawn if name.endswith(".png")):
        with Image.open(drawn[name]) as picture:
            widths[name] = picture.width
    assert {name for name, width in widths.items() if width > 2 * COLUMN} == set()
    assert widths["fig4.png"] == widths["audit.png"] == widths["theorem.png"] == 2 * COLUMN
    recorded = {path.name: path for path in (PAPER / "results").glob("*.png") if path.name in drawn}
    assert {"fig4.png", "fig5.png", "objects.png", "pixels.png", "sample-complexity.png"} <= recorded.keys()
    assert [name for name, path in recorded.items() if path.read_bytes() != drawn[name].read_bytes()] == []


def test_colours_of_figure_4_mean_one_method():
    method = {style.colour: line for line, style in STYLES.items() if "entangled" not in line and "diayn" not in line}
    for styles in (BINS_STYLES, PIXEL_STYLES):
        for line, style in styles.items():
            assert method.get(style.colour, line) == line, line


def test_scene_tells_what_happens(shown):
    assert shown.success
    assert max(shown.moments) == shown.steps
    there = (shown.w * shown.phi).sum(axis=1) > 0.5
    best = np.where(there[:, None], -1, shown.values)
    assert shown.values[shown.skill] == pytest.approx(best.max(), abs=0.02)  # the best of what is not reached yet
    assert shown.w[shown.skill] == pytest.approx(1)
    k, m = shown.phi.shape
    blocks = shown.psi.reshape(k, m, k, m)
    for i in range(k):
        others = np.delete(blocks[i], i, axis=1)
        assert (others == np.delete(shown.phi, i, axis=0)).all()  # the Lemma


def test_schematic_is_legible_and_the_documentation_s(shown, tmp_path):
    draw_schematic(tmp_path / "idea.svg", shown)
    assert words_of(tmp_path / "idea.svg") == words_of(PICTURES / "idea.svg")
    drawing = ET.parse(tmp_path / "idea.svg").getroot()
    assert drawing.get("width") == str(COLUMN)
    style = drawing.findtext(f"{SVG}style")
    sizes = {
        kind.strip(" ."): float(size)
        for kinds, size in re.findall(r"([.\w, ]+) { font-size: ([0-9.]+)px", style)
        for kind in kinds.split(",")
    }
    for text in drawing.iter(f"{SVG}text"):
        assert sizes[text.get("class")] * 3 / 4 >= SMALLEST, text.text
