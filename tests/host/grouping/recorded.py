"""The recorded streams of jobs, grouped by the minute: G2 of their expected results."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock

_QUERY = (
    "SELECT event, sched_class, window(t_us, '60 seconds').start AS w, count(*) AS n FROM g "
    "GROUP BY event, sched_class, window(t_us, '60 seconds')"
)


def check_jobs_by_the_minute(**how: Any) -> None:
    """Group the recorded jobs in a stream that is opened so, and compare with what is expected."""
    folder = os.environ.get("PENSTOCK_DATA")
    if folder is None:
        pytest.skip("PENSTOCK_DATA names no folder with the real streams")
    wanted = json.loads((Path(folder) / "expected.json").read_text(encoding="utf-8"))["G2"]
    jobs = pq.read_table(Path(folder) / "gjobs.parquet")
    found = []
    with penstock.stream(_QUERY, {"g": jobs.schema}, time={"g": "t_us:us"}, **how) as stream:
        for batch in jobs.to_batches(max_chunksize=10_000):
            stream.push("g", batch)
            found.append(stream.poll())
        assert stream.late()["g"].num_rows == 0
        found.append(stream.close())
    groups = pa.concat_tables(found)
    assert groups.num_rows == wanted["matches"]
    assert max(groups["n"].to_pylist()) == wanted["max_count"]
    assert sum(groups["n"].to_pylist()) == wanted["R"]
