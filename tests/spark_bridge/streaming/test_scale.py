"""Streams of very many keys: what the driver holds and notes is bounded by cells, not by keys."""

from __future__ import annotations

import json
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from penstock.spark_bridge.streaming.planning import planned
from penstock.spark_bridge.streaming.spec import Rules
from tests.spark_bridge.kit.steps import Steps

SCHEMA = pa.schema([("t", pa.int64()), ("k", pa.int64())])
TEXT = "SELECT a.k AS k FROM a JOIN b ON a.k = b.k AND b.t BETWEEN a.t - 99 AND a.t"
RULES = Rules("mnrt", 0.05, 1024, None)
#: Micro-batches, and lanes.
BATCHES, LANES = 5, 64


def driver(tmp_path, keys: int) -> tuple[int, int]:
    """Bytes of the last record, and of the memory that its plan needs at most."""
    steps = Steps(tmp_path / str(keys), TEXT, {"a": SCHEMA, "b": SCHEMA}, "t", 8, resident=False)
    before = steps.commit
    own = keys // (2 * BATCHES)
    for batch in range(BATCHES):
        before = steps.commit
        parts = {}
        for side, place in (("l", 2 * batch), ("r", 2 * batch + 1)):
            k = np.arange(place * own, (place + 1) * own)
            parts[side] = [pa.table([np.full(own, batch), k], schema=SCHEMA)]
        steps.took(parts, LANES, RULES)
    tracemalloc.start()
    record = planned(steps.spec, before, steps.commit, [], LANES)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert record == steps.commit.routing | {"figures": record["figures"]}
    assert sum(file.rows for file in steps.commit.kept()) == keys
    return len(json.dumps(steps.commit.as_json())), most


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_driver_does_not_grow_with_keys(tmp_path):
    """A thousand times as many distinct keys, 10 millions."""
    small, many = driver(tmp_path, 10_000), driver(tmp_path, 10_000_000)
    # Counts of cells have more digits.
    assert many[0] <= 3 * small[0] <= 40_000, (small, many)
    assert many[1] <= 1.5 * small[1] <= 1 << 20, (small, many)
