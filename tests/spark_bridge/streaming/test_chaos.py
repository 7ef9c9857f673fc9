"""Exactly once, whatever is killed; `make chaos` kills more."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from penstock.errors import MissingToolError
from penstock.sim.local_spark.java import ensure_java
from tests.spark_bridge.kit.chaos import Chaos
from tests.spark_bridge.kit.outcome import Outcome


@pytest.fixture(autouse=True)
def java():
    try:
        ensure_java()
    except MissingToolError as error:
        pytest.skip(str(error))


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("design", "master", "targets"),
    [
        ("keys", "local[2,3]", ["driver"]),
        pytest.param("files", "local[2,3]", ["driver"], marks=pytest.mark.slow),
        pytest.param("delta", "local[2,3]", ["worker", "driver"], marks=pytest.mark.slow),
        pytest.param("lookup", "local[2,3]", ["worker", "driver"], marks=pytest.mark.slow),
        pytest.param("files", "local[2,3]", ["server", "driver"], marks=pytest.mark.slow),
        pytest.param(
            "state",
            "local-cluster[2,1,1024]",
            ["executor", "server", "worker", "driver"],
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "lookup",
            "local-cluster[2,1,1024]",
            ["executor", "server", "worker", "driver"],
            marks=pytest.mark.slow,
        ),
    ],
)
def test_every_row_once(tmp_path, design, master, targets):
    """``keys`` is the files design with lanes that own keys."""
    chaos = Chaos(tmp_path, design, master)
    if design == "keys":
        chaos = Chaos(tmp_path, "files", master, partitioning="keys")
    chaos.run(targets)
    found = chaos.outcome()
    assert found == Outcome(found.rows, lost=0, doubled=0)
    assert found.rows > 0
    assert "driver" in chaos.killed
    assert chaos.starts >= 2
