"""The command `cumulant bench`."""

import json

import pytest

from cumulant.commands.cli import main


@pytest.mark.parametrize("what", ["env", "render"])
def test_bench_measures_ours_beside_the_original(what, capsys):
    assert main(["bench", what, "--batch", "64", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["ratio"] == pytest.approx(report["ours"] / report["peer"])
    assert report["memory_limit"] > 0


def test_bench_parse(capsys):
    assert main(["bench", "parse", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ours"] > 0
