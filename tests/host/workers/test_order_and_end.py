"""The one order of output rows, and the end of a stream right after a loss."""

from __future__ import annotations

import os
import signal
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import penstock
from penstock import Checkpoint, Flow, Running
from penstock.host.workers.output_order import in_order

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
