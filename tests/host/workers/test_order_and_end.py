"""The one order of output rows, and the end of a stream right after a loss."""

from __future__ import annotations

import os
import signal
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock import Checkpoint, Flow, Running
from penstock.host.workers.output_order import in_order

TIMEOUT_S = 60.0
QUERY = "SELECT k, t, count(*) AS n FROM e GROUP BY k, t"
SCHEMA = pa.schema([("t", pa.int64()), ("k", pa.int64())])


@pytest.mark.parametrize(
    "type_", [pa.decimal32(7, 2), pa.decimal64(15, 2), pa.decimal128(10, 2), pa.decimal256(50, 2)]
)
def test_decimals_are_in_order(type_: pa.DataType) -> None:
    schema = pa.schema([("k", type_), ("\0key0", type_)])
    parts = [[Decimal(-3), Decimal(0), None], [Decimal(-1), Decimal(2)]]
    batches = [
        pa.record_batch([pa.array(part, type_), pa.array(part, type_)], schema=schema)
        for part in parts
    ]
    ordered = in_order(batches, schema.remove(1))
    assert ordered["k"].to_pylist() == [-3, -1, 0, 2, None]


@pytest.mark.slow
def test_a_stream_may_close_right_after_a_loss(tmp_path: Path) -> None:
    # New processes need longer to start than this lease, and are no reason to give up.
    flow = Flow(running=Running(timeout_s=0.5))
    stream = penstock.stream(
        QUERY, {"e": SCHEMA}, time={"e": "t"}, flow=flow, workers=2, checkpoint=Checkpoint(tmp_path)
    )
    stream.push("e", pa.record_batch({"t": [1, 1, 2], "k": [7, 7, 8]}))
    os.kill(stream.processes[0], signal.SIGKILL)
    rows = stream.close().rows.to_pylist()
    assert sorted(tuple(row.values()) for row in rows) == [(7, 1, 2), (8, 2, 1)]


def test_with_a_budget_the_memory_of_groups_that_have_left_is_given_back() -> None:
    budget, rows = 2 << 20, 100_000
    flow = Flow(latency_s=0.01, memory_bytes=budget)
    with penstock.stream(
        "SELECT k, t - t % 10 AS w, count(*) AS n FROM e GROUP BY k, t - t % 10",
        {"e": SCHEMA}, time={"e": "t"}, flow=flow, workers=1,
    ) as stream:  # fmt: skip
        for first in range(0, rows, 10_000):
            keys = list(range(first, first + 10_000))
            stream.push("e", pa.record_batch([[1] * 10_000, keys], schema=SCHEMA))
        assert stream.wait_for(lambda: open_groups(stream) == rows, TIMEOUT_S)
        assert state_bytes(stream) > budget
        stream.push("e", pa.record_batch([[20], [1]], schema=SCHEMA))
        found = 0
        while found < rows:
            assert stream.wait(1, TIMEOUT_S)
            found += stream.poll().num_rows
        # Without a budget it is kept for groups that follow.
        assert stream.wait_for(lambda: state_bytes(stream) < budget / 8, TIMEOUT_S)
        assert open_groups(stream) == 1


def open_groups(stream: Any) -> int:
    return stream.report().groups.open


def state_bytes(stream: Any) -> int:
    """Of all workers, as of their latest statuses."""
    return stream.report().memory_bytes["workers"]
