"""Pushes of sources whose rows are computed before the join."""

from __future__ import annotations

import threading
import time

import numpy as np
import pyarrow as pa

import penstock

QUERY = (
    "SELECT a.id AS i, b.id AS j, a.s FROM a JOIN b ON upper(a.s) = upper(b.s) "
    "AND b.t BETWEEN a.t AND a.t + INTERVAL 1 MILLISECOND"
)
BATCHES, ROWS, TAKEN = 12, 1000, 3


def rows(first: int, count: int, text: str) -> pa.Table:
    """One row per millisecond."""
    times = np.arange(first, first + count)
    stamps = pa.array(times * 1000, pa.timestamp("us", "UTC"))
    return pa.table({"id": times, "t": stamps, "s": [text * 100] * count})


def test_a_push_that_waits_for_room_lets_other_sources_push():
    """Their rows are what makes the room."""
    schema = rows(0, 1, "").schema
    flow = penstock.Flow(memory_bytes=1_000_000, push_timeout_s=60)
    with penstock.stream(QUERY, {"a": schema, "b": schema}, flow=flow) as stream:

        def push() -> None:
            for number in range(BATCHES):
                stream.push("a", rows(number * ROWS, ROWS, "x"))

        ahead = threading.Thread(target=push)
        ahead.start()
        deadline, pause = time.monotonic() + 60, threading.Event()
        while stream.pushed("a") < TAKEN and time.monotonic() < deadline:
            pause.wait(0.01)
        found = []
        for first in range(0, BATCHES * ROWS, 100):
            stream.push("b", rows(first, 100, "X"))
            found.append(stream.poll())
        ahead.join(60)
        assert not ahead.is_alive()
        assert stream.pushed("a") == BATCHES
        found.append(stream.close())
    # Each row meets that of its time and the next one.
    assert sum(part.num_rows for part in found) == 2 * BATCHES * ROWS - 1
