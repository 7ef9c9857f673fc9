"""Rows that are in no group are counted once, whatever dies."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock import Checkpoint
from penstock.host.workers.counts import Statuses

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.timestamp("us"))])
QUERY = (
    "SELECT k, window(t, '10 seconds').start AS w, count(*) AS n FROM e WHERE k <> 3 "
    "GROUP BY k, window(t, '10 seconds')"
)


def test_counts_go_back_to_the_last_record() -> None:
    counts = Statuses(2, {"filtered": 5})
    counts.latest[0] = {"filtered": 4, "filtered_covered": 3, "timeless": 1, "entries": 2}
    counts.latest[1] = {"filtered": 1, "filtered_covered": 1, "timeless": 1}
    assert (counts.sum("filtered"), counts.sum("timeless"), counts.sum("entries")) == (10, 2, 2)
    assert counts.covered() == {"filtered": 9, "timeless": 0}
    counts.begin_again()  # before the record
    assert (counts.sum("filtered"), counts.sum("timeless"), counts.sum("entries")) == (5, 0, 0)
    counts.latest[1] = {"filtered": 6, "filtered_covered": 4}
    counts.committed(counts.covered())
    assert (counts.sum("filtered"), counts.covered()["filtered"]) == (11, 9)
    counts.begin_again()
    assert counts.sum("filtered") == 9
    assert counts.covered() == {"filtered": 9, "timeless": 0}


def opened(folder: Path, workers: int) -> Any:
    checkpoint = Checkpoint(folder, every_s=100)
    return penstock.stream(QUERY, {"e": SCHEMA}, workers=workers, checkpoint=checkpoint)


@pytest.mark.slow
def test_rows_in_no_group_are_counted_once(tmp_path: Path) -> None:
    columns = [[1, 3, 1, 2, 3], pa.array([None, 5, 5, None, 5], pa.timestamp("us"))]
    batch = pa.record_batch(columns, schema=SCHEMA)

    def counts(stream: Any) -> tuple[int, int]:
        groups = stream.report().groups
        return groups.timeless, groups.filtered

    with opened(tmp_path, 2) as stream:
        stream.push("e", batch)
        stream.flush()
        assert counts(stream) == (2, 2)
        stream.push("e", batch)  # is in no record yet, and dealt again
        os.kill(stream.processes[0], signal.SIGKILL)
        stream.push("e", batch)
        stream.flush()
        assert stream.failures() == {"workers": 1}
        assert counts(stream) == (6, 6)
        stream.stop()
    with opened(tmp_path, 1) as stream:
        assert counts(stream) == (6, 6)
        stream.push("e", batch)
        stream.flush()
        assert counts(stream) == (8, 8)
