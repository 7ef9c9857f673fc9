"""Exactly once, whatever is killed; `make chaos` kills more."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from penstock.errors import MissingToolError
from penstock.spark_bridge.java import ensure_java
from tests.spark_bridge.kit.chaos import Chaos


@pytest.mark.timeout(600)
def test_driver_and_workers_are_killed(tmp_path):
    try:
        ensure_java()
    except MissingToolError as error:
        pytest.skip(str(error))
    chaos = Chaos(tmp_path, "files", "local[2,3]", batches=9)
    chaos.run(["worker", "driver"])
    chaos.check()
    assert chaos.starts >= 2
    assert "driver" in chaos.killed
