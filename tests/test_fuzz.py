"""A bounded share of `tools/fuzz.py`, which tries to break what SECURITY.md promises."""

import pytest

from fuzz import PARTS
from fuzz_commands import Fuzz


@pytest.mark.parametrize(("part", "cases"), [("folders", 80), ("runs", 14), ("arguments", 60), ("server", 40)])
def test_fuzz_finds_no_violation(part, cases):
    PARTS[part](fuzz := Fuzz(count=cases))
    assert not fuzz.violations
    assert fuzz.tried


def test_phrases_mean_what_was_meant_and_parse_back():
    PARTS["phrases"](fuzz := Fuzz(count=500))
    assert not fuzz.violations
    assert min(fuzz.tried["states inside"], fuzz.tried["states outside"]) > 1000
    assert min(fuzz.tried[kind] for kind in ("goals", "plans", "odd texts", "relations")) > 50
