"""What we tell people to type works: the code of the README and the guides, and the notebook from top to bottom."""

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parent.parent
TOUR = ROOT / "examples" / "tour.ipynb"
PAGES = ("README.md", "docs/index.md", "docs/worlds.md", "docs/gymnasium.md", "docs/features.md", "docs/scale.md")


@pytest.mark.parametrize("page", PAGES)
def test_the_python_of_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where it may write
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)
    assert blocks
    namespace = {"__name__": "page"}
    for block in blocks:
        exec(block, namespace)


def pictures_in(notebook):
    """The kinds of picture that its cells show: plots as PNG, films as GIF."""
    shown = [output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", [])]
    films = ["gif" for data in shown if "data:image/gif;base64," in data.get("text/html", "")]
    return films + ["png" for data in shown if "image/png" in data]


@pytest.mark.filterwarnings("default")  # of Jupyter's own
def test_the_notebook_runs_from_top_to_bottom():
    """Every claim of its prose is shown or asserted by a cell."""
    notebook = nbformat.read(TOUR, as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(ROOT)}}).execute()
    assert sorted(pictures_in(notebook)) == ["gif", "gif", "png", "png"]


def test_the_notebook_as_it_is_stored_shows_what_it_says():
    assert TOUR.stat().st_size < 400_000
    notebook = nbformat.read(TOUR, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error" or output.get("name") == "stderr"]
    assert sorted(pictures_in(notebook)) == ["gif", "gif", "png", "png"]
    said = "".join(output.get("text", "") + output.get("data", {}).get("text/plain", "") for output in outputs)
    rates = [float(rate) for rate in re.findall(r"Success\(([\d.]+) ", said)]
    assert len(rates) == 2
    assert rates[0] >= 0.97
    assert rates[1] >= 0.95
    assert "{'circle_x': ['7/9', '8/9', '9/9']}" in said
    prose = "".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    assert "at least 97 of 100" in prose
    assert "at least 95 in 100" in prose
    assert "From 2,000 labelled steps" in prose
    assert any("budget=2_000" in cell.source for cell in code)
