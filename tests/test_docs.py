"""What we tell people to type works: the code of the README and the guides, and the notebook from top to bottom."""

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", "docs/index.md", "docs/worlds.md", "docs/gymnasium.md", "docs/features.md", "docs/scale.md")


@pytest.mark.parametrize("page", PAGES)
def test_the_python_of_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where it may write
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)
    assert blocks
    namespace = {"__name__": "page"}
    for block in blocks:
        exec(block, namespace)


@pytest.mark.filterwarnings("default")  # of Jupyter's own
def test_the_notebook_runs_from_top_to_bottom():
    notebook = nbformat.read(ROOT / "examples" / "tour.ipynb", as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(ROOT)}}).execute()
    pictures = [o for cell in notebook.cells for o in cell.get("outputs", []) if "image/png" in o.get("data", {})]
    assert len(pictures) == 3
