"""A sweep on a real Ray cluster: two nodes on this machine, which only its own loopback reaches."""

import json
import os
import warnings
from importlib.util import find_spec
from pathlib import Path

import pytest

import cumulant
from cumulant.commands.cli import main
from cumulant.config import FreePlay
from cumulant.sweeps.experiments import FAILURE
from cumulant.sweeps.judging import Evaluation
from cumulant.sweeps.on_ray import NoCluster, Ray
from cumulant.sweeps.run_folders import read_run
from cumulant.sweeps.trials import Trial, sweep
from cumulant.transfer.library import Library
from cumulant.worlds.room import Room
from touchy_world import Touchy

pytestmark = pytest.mark.skipif(find_spec("ray") is None, reason="RAY IS NOT INSTALLED: nothing of a cluster is tested")

_LOOPBACK = "127.0.0.1"
_MEMORY = 80 * 2**20  # of each node's object store, which is the least
TINY = FreePlay(width=8, num_envs=4, batch=8, env_steps=400, replay=400)
QUICK = Evaluation(tasks_per_class=1, episodes=2)


@pytest.fixture(scope="module")
def cluster():
    """Two nodes of one CPU each."""
    code = [str(Path(cumulant.__file__).parent.parent), str(Path(__file__).parent)]
    quiet = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_raylet_start_wait_time_s": "300", "RAY_DISABLE_IMPORT_WARNING": "1"}
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray's own
        for name, value in (quiet | {"PYTHONPATH": os.pathsep.join(code)}).items():
            patch.setenv(name, value)
        from ray._private import services
        from ray.cluster_utils import Cluster

        patch.setattr(services, "get_node_ip_address", lambda address=None: _LOOPBACK)  # or it looks for another
        node = {"num_cpus": 1, "node_ip_address": _LOOPBACK, "object_store_memory": _MEMORY}
        nodes = Cluster(initialize_head=True, head_node_args=node | {"include_dashboard": False})
        try:
            nodes.add_node(**node)
            yield nodes
        finally:
            nodes.shutdown()


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")
def test_cluster_fills_the_folders_that_one_process_fills(cluster, tmp_path):
    """A trial that fails is named, and one that kills its worker is run again, with the others of its task."""
    good = [Trial(Room(), TINY, seed, QUICK) for seed in range(4)]
    kills = Trial(Touchy(mood="kills", grave=str(tmp_path / "grave")), TINY, 0, QUICK)
    breaks = Trial(Touchy(mood="breaks"), TINY, 0, QUICK)
    events, out = [], tmp_path / "sweep"
    came = sweep([*good, kills, breaks], out, Ray(cluster.address, in_step=4), events.append)
    assert set(came.finished) == {trial.name for trial in (*good, kills)}
    assert came.failed == {breaks.name: "RuntimeError: the heater is?[2J broken"}
    assert (out / breaks.name / FAILURE).exists()
    assert (tmp_path / "grave").exists()
    assert {event["event"] for event in events} == {"finished", "failed"}
    sweep(good[:1], tmp_path / "here")
    for trial in (*good, kills):
        assert read_run(out / trial.name).rows
        assert Library.load(out / trial.name / "library", trial.world).config == TINY
    here, there = (
        (each / good[0].name / "library/weights.safetensors").read_bytes() for each in (tmp_path / "here", out)
    )
    assert here == there
    assert {path.name for path in out.iterdir()} == {trial.name for trial in (*good, kills, breaks)}
    again = sweep([*good, kills], out, Ray(cluster.address))
    assert set(again.skipped) == set(came.finished)


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")
def test_connected_process_works_on_no_other_cluster(cluster):
    with Ray(cluster.address).ready():
        with Ray(cluster.address).ready(), Ray().ready():
            pass
        with pytest.raises(NoCluster, match="works on the Ray cluster at"):
            Ray("127.0.0.1:1").ready().__enter__()


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")
def test_parts_of_a_figure_run_on_a_cluster(cluster, tmp_path, capsys):
    options = ["--smoke", "--only", "references", "--out", str(tmp_path)]
    assert main(["reproduce", "fig4", *options, "--engine", "ray", "--address", cluster.address]) == 0
    assert "finished       1/1" in capsys.readouterr().err
    assert json.loads((tmp_path / "fig4.json").read_text())["lines"].keys() == {"oracle", "random"}
    assert read_run(tmp_path / "runs" / "references").rows
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["references"]
