"""A standalone cluster, and programs that use it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from penstock.errors import MissingToolError
from penstock.spark_bridge.cluster.cluster import Cluster
from penstock.spark_bridge.java import bundled_java, ensure_java

ROOT = Path(__file__).resolve().parents[3]
TIMEOUT_S = 300


@pytest.fixture(scope="module")
def java():
    """The Java of the java extra, where it is installed: the cluster needs no other."""
    pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_HOME", str(bundled_java() or os.environ.get("JAVA_HOME", "")))
        try:
            yield ensure_java()
        except MissingToolError as error:
            pytest.skip(str(error))


@pytest.fixture
def batch_join():
    """Runs a join on a cluster; what it says."""

    def run(cluster: Cluster, resource: str = "") -> dict:
        done = subprocess.run(
            [sys.executable, "-m", "tests.spark_bridge.kit.cluster_app", resource],
            cwd=ROOT,
            env={**os.environ, "SPARK_CONF_DIR": str(cluster.client), "PYTHONWARNINGS": "ignore"},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        said = [line for line in done.stdout.splitlines() if line.startswith("SAID ")]
        assert said, done.stdout[-2000:] + done.stderr[-4000:]
        return json.loads(said[0].removeprefix("SAID "))

    return run


def evaluations(metrics: str) -> dict[str, float]:
    """Evaluations of each device of a server, from its page for Prometheus."""
    with urllib.request.urlopen(metrics, timeout=TIMEOUT_S) as answer:
        text = answer.read().decode()
    found = re.findall(r'^penstock_server_evaluations_total\{device="(\w+)"\} (\S+)$', text, re.M)
    return {name: float(value) for name, value in found}
