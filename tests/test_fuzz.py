"""A bounded share of `tools/fuzz.py`, which tries to break what SECURITY.md promises."""

import pytest

from fuzz import PARTS
from fuzz_commands import Tried

TRIED = {  # cases of each part, and some of what it has to have tried
    "folders": (60, ["hostile refused", "hostile read", "damaged refused", "damaged read"]),
    "runs": (8, ["states of sweep", "kills at a step", "real kills", "full disks"]),
    "phrases": (250, ["goals", "plans", "states inside", "states outside"]),
    "arguments": (40, ["pretrain", "solve"]),
    "server": (12, ["requests refused", "messages refused"]),
}


@pytest.mark.parametrize("part", TRIED)
def test_fuzz_finds_no_violation(part):
    most, kinds = TRIED[part]
    PARTS[part](tried := Tried(part, most=most))
    assert not tried.violations
    assert all(tried.count[kind] for kind in kinds)
