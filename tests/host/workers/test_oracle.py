"""Groups on workers against DuckDB: random queries, types, cuts, and recorded jobs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from penstock import Flow
from tests.host.grouping.kit import make_case
from tests.host.grouping.pushing import pushed

#: Numbers of workers; starting many takes seconds, so the short run has two of them.
SIZES = [
    pytest.param(1, marks=pytest.mark.slow),
    2,
    3,
    pytest.param(5, marks=pytest.mark.slow),
    pytest.param(8, marks=pytest.mark.slow),
]
#: Cases of each number of workers: each starts processes of its own.
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 12))]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("workers", SIZES)
def test_random_pushes(workers, seed):
    case = make_case(1000 * workers + seed, 300, timed=True)
    rng = np.random.default_rng(seed)
    disorder = int(rng.integers(0, 40))
    stream = penstock.stream(
        case.text,
        {"g": case.table.schema},
        time=case.time or None,
        disorder=disorder,
        workers=workers,
        flow=Flow(latency_s=float(rng.choice([0, 0.02]))),
    )
    model, found = pushed(stream, case, rng, disorder)
    case.check(found, model.admitted(case.table))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("workers", SIZES)
def test_random_tables(workers, seed):
    case = make_case(2000 * workers + seed, 300)
    found = penstock.sql(case.text, {"g": case.table}, time=case.time or None, workers=workers)
    case.check(found)


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.slow), 4])
def test_recorded_jobs_by_the_minute(workers):
    folder = os.environ.get("PENSTOCK_DATA")
    if folder is None:
        pytest.skip("PENSTOCK_DATA names no folder with the real streams")
    wanted = json.loads((Path(folder) / "expected.json").read_text(encoding="utf-8"))["G2"]
    jobs = pq.read_table(Path(folder) / "gjobs.parquet")
    query = (
        "SELECT event, sched_class, window(t_us, '60 seconds').start AS w, count(*) AS n FROM g "
        "GROUP BY event, sched_class, window(t_us, '60 seconds')"
    )
    found = []
    flow = Flow(latency_s=0.2)
    with penstock.stream(
        query, {"g": jobs.schema}, time={"g": "t_us:us"}, workers=workers, flow=flow
    ) as stream:
        for batch in jobs.to_batches(max_chunksize=20_000):
            stream.push("g", batch)
            found.append(stream.poll())
        found.append(stream.close())
    groups = pa.concat_tables(found)
    assert groups.num_rows == wanted["matches"]
    assert max(groups["n"].to_pylist()) == wanted["max_count"]
    assert sum(groups["n"].to_pylist()) == wanted["R"]
