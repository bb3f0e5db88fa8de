"""Every public name says what it is, and shows it by an example that runs."""

import ast
import doctest
import sys
from importlib import metadata
from pathlib import Path

import pytest

import cumulant

NAMES = [name for name in cumulant.__all__ if name != "PRESETS"]  # which is a plain dictionary


@pytest.mark.parametrize("name", NAMES)
def test_the_example_of_a_public_name_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    thing = getattr(cumulant, name)
    names = vars(sys.modules[thing.__module__]).copy()
    found = doctest.DocTestFinder().find(thing, name, globs=names)  # those of its methods, too
    assert found[0].examples, f"{name} has no example"
    said = []
    for each in found:
        doctest.DocTestRunner().run(each, out=said.append)
    assert not said, "".join(said)


def test_what_is_public_can_be_listed_and_nothing_else_imported():
    assert set(cumulant.__all__) <= set(dir(cumulant))
    assert cumulant.__version__ == metadata.version("cumulant")
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = cumulant.nonsense


def test_type_checkers_see_the_names_that_are_there():
    tree = ast.parse(Path(cumulant.__file__).read_text())
    seen = {
        (node.module.removeprefix("cumulant."), alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module.startswith("cumulant.")
        for alias in node.names
    }
    assert seen == {(module, name) for module, names in cumulant._MODULES.items() for name in names}
