"""Every public name says what it is, and shows it by an example that runs."""

import doctest
import sys

import pytest

import cumulant

NAMES = [name for name in cumulant.__all__ if name != "PRESETS"]  # which is a plain dictionary


@pytest.mark.parametrize("name", NAMES)
def test_the_example_of_a_public_name_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    thing = getattr(cumulant, name)
    names = vars(sys.modules[thing.__module__]).copy()
    example = doctest.DocTestParser().get_doctest(thing.__doc__, names, name, None, 0)
    assert example.examples, f"{name} has no example"
    said = []
    doctest.DocTestRunner().run(example, out=said.append)
    assert not said, "".join(said)


def test_what_is_public_can_be_listed_and_nothing_else_imported():
    assert set(cumulant.__all__) <= set(dir(cumulant))
    assert cumulant.__version__ == "0.2.0"
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = cumulant.nonsense
