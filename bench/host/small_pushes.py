"""How long a push of a few rows takes at latency 0, until its pairs can be polled."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa

from bench.host.traffic import SCHEMA, SCHEMAS
from penstock.host.devices.cpu import CpuDevice
from penstock.host.join.stream import JoinStream
from penstock.query import compile_query

#: Rows of a push.
ROWS = 10
#: Pushes before those that count.
_WARM = 500
#: Microseconds between rows; the window holds some 200 rows a side.
_STEP_US = 5_000
_QUERY = """SELECT a.t AS ta, b.t AS tb FROM a JOIN b
ON abs(a.x - b.x) + abs(a.y - b.y) < 1500 AND b.t BETWEEN a.t - 1000000 AND a.t + 1000000"""
_SPAN = 1 << 14


def small_pushes(count: int) -> np.ndarray:
    """Seconds of each of so many pushes, of both sources in turn, with the poll of their pairs."""
    rng = np.random.default_rng(1)
    query = compile_query(_QUERY, SCHEMAS, time={"a": "t", "b": "t"})
    taken = []
    with CpuDevice() as device, JoinStream(query, SCHEMAS, device) as stream:
        for number in range(count + _WARM):
            times = (number * ROWS + np.arange(ROWS)) * _STEP_US // 2
            batch = pa.record_batch(
                [times, *rng.integers(0, _SPAN, (2, ROWS)).astype(np.int32)], schema=SCHEMA
            )
            began = time.perf_counter()
            stream.push("ab"[number % 2], batch)
            stream.poll()
            taken.append(time.perf_counter() - began)
        stream.close()
    return np.array(taken[_WARM:])
