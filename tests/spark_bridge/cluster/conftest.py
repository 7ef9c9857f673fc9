"""A standalone cluster, and programs that use it."""

from __future__ import annotations

import os
import re
import urllib.request

import pytest

from penstock.errors import MissingToolError
from penstock.sim.local_spark.cluster import Cluster
from penstock.spark_bridge.java import bundled_java, ensure_java
from tests.spark_bridge.kit.apps import LIGHT_JAVA, run_app, said_by

TIMEOUT_S = 300


@pytest.fixture(scope="module")
def java():
    """The Java of the java extra, where it is installed: the cluster needs no other."""
    pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_HOME", str(bundled_java() or os.environ.get("JAVA_HOME", "")))
        for name, value in LIGHT_JAVA.items():
            patch.setenv(name, value)
        try:
            yield ensure_java()
        except MissingToolError as error:
            pytest.skip(str(error))


@pytest.fixture
def batch_join():
    """Runs a join on a cluster; what it says."""

    def run(cluster: Cluster, resource: str = "") -> dict:
        env = {"SPARK_CONF_DIR": str(cluster.client)}
        return said_by(run_app("cluster_app", resource, timeout_s=TIMEOUT_S, env=env))

    return run


def evaluations(metrics: str) -> dict[str, float]:
    """Evaluations of each device of a server, from its page for Prometheus."""
    with urllib.request.urlopen(metrics, timeout=TIMEOUT_S) as answer:
        text = answer.read().decode()
    found = re.findall(r'^penstock_server_evaluations_total\{device="(\w+)"\} (\S+)$', text, re.M)
    return {name: float(value) for name, value in found}
