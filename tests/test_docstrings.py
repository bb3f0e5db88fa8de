"""Every public name says what it is, and shows it by an example that runs."""

import doctest
import sys
from importlib import metadata

import pytest

import cumulant

NAMES = [name for name in cumulant.__all__ if name != "PRESETS"]  # which is a plain dictionary


@pytest.mark.parametrize("name", NAMES)
def test_examples_of_public_names_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    thing = getattr(cumulant, name)
    names = vars(sys.modules[thing.__module__]).copy()
    found = doctest.DocTestFinder().find(thing, name, globs=names)  # those of its methods, too
    assert found[0].examples, f"{name} has no example"
    said = []
    for each in found:
        doctest.DocTestRunner().run(each, out=said.append)
    assert not said, "".join(said)


def test_dir_lists_what_is_public():
    assert set(cumulant.__all__) <= set(dir(cumulant))
    assert cumulant.__version__ == metadata.version("cumulant")
    with pytest.raises(AttributeError, match="nonsense"):
        _ = cumulant.nonsense
