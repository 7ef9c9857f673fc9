"""Executors whose Python has what ``penstock spark pack`` has packed, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from penstock.sim.local_spark.cluster import Cluster, ClusterConfig
from penstock.sim.local_spark.standalone import spark_class
from penstock.spark_bridge.packing import pack
from tests.spark_bridge.kit import packed_app
from tests.spark_bridge.kit.apps import ENV, said_by

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

#: For three processes that unpack half a gigabyte, and then load it.
TIMEOUT_S = 1000

PYTHON = "./environment/bin/python"


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """The archive, and a folder with what is in it."""
    folder = tmp_path_factory.mktemp("packed")
    pack(folder / "environment.tar.gz")
    with tarfile.open(folder / "environment.tar.gz") as archive:
        archive.extractall(folder / "environment", filter="fully_trusted")
    return folder


@pytest.fixture
def joined(packed, tmp_path, monkeypatch):
    """Runs the program outside of the checkout, to which nothing leads; what it has found."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    # Python data sources are planned on the driver, by the executors' path of Python.
    (tmp_path / "environment").symlink_to(packed / "environment")
    (tmp_path / "data").mkdir()
    quiet = "spark.ui.enabled false\nspark.log.level ERROR\nspark.sql.shuffle.partitions 2\n"

    def run(command: list[str], settings: Path, **env: str) -> dict:
        defaults = settings / "spark-defaults.conf"
        before = defaults.read_text() if defaults.exists() else ""
        settings.mkdir(exist_ok=True)
        defaults.write_text(before + quiet)
        done = subprocess.run(
            [*command, str(packed_app.__file__), str(tmp_path / "data")],
            cwd=tmp_path,
            env={**os.environ, **ENV, "PYTHONPATH": "", "SPARK_CONF_DIR": str(settings), **env},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        return said_by(done)

    return run


def check(said: dict) -> None:
    assert said["rows"] > 500
    assert said["replayed"] == 200
    assert said["batch"]
    assert said["streamed"]
    assert said["driver"] == sys.prefix
    assert said["homes"]
    # The prefix, files of modules, and each path of packages.
    assert [home for home in said["homes"] if "/environment/" not in f"{home}/"] == []


def test_on_a_cluster_by_spark_submit(java, packed, joined, tmp_path):
    with Cluster(tmp_path / "cluster", ClusterConfig(workers=1)) as cluster:
        command = [
            str(spark_class().with_name("spark-submit")),
            *("--archives", f"{packed / 'environment.tar.gz'}#environment"),
            *("--conf", f"spark.pyspark.python={PYTHON}"),
            *("--conf", f"spark.pyspark.driver.python={sys.executable}"),
        ]
        said = joined(command, cluster.client)
        assert said["master"] == cluster.master
        check(said)
        assert all("/work/worker-1/" in home for home in said["homes"])


def test_on_local_cluster_by_python(java, packed, joined, tmp_path):
    # Executors work in a folder of Spark's home, and what they unpack there would stay.
    home = tmp_path / "spark"
    home.mkdir()
    for path in spark_class().parents[1].iterdir():
        if path.name != "work":
            (home / path.name).symlink_to(path)
    settings = tmp_path / "settings"
    settings.mkdir()
    (settings / "spark-defaults.conf").write_text(
        "spark.master local-cluster[2,1,1024]\n"
        f"spark.archives {packed / 'environment.tar.gz'}#environment\n"
    )
    pythons = {"PYSPARK_PYTHON": PYTHON, "PYSPARK_DRIVER_PYTHON": sys.executable}
    said = joined([sys.executable], settings, SPARK_HOME=str(home), **pythons)
    check(said)
    assert all(f"{home}/work/" in path for path in said["homes"])
