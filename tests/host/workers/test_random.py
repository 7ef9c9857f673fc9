"""Random queries, schemas, disorder and cuts on any number of workers, beside DuckDB."""

from __future__ import annotations

import numpy as np
import pytest

import penstock
from penstock import Flow
from tests.host.grouping.kit import make_case
from tests.host.grouping.pushing import disorder_of, pushed
from tests.host.grouping.recorded import check_jobs_by_the_minute


def _cases(short: list[tuple[int, int]], full: list[tuple[int, int]]) -> list:
    return [*short, *(pytest.param(*one, marks=pytest.mark.slow) for one in full)]


@pytest.mark.parametrize(
    ("seed", "workers"),
    _cases([(1, 2)], [(2, 3), *((seed, n) for n in (1, 2, 3, 5, 8) for seed in range(10, 30))]),
)
def test_streams(seed: int, workers: int) -> None:
    case = make_case(seed + 40_000, 300, timed=True)
    rng = np.random.default_rng(seed)
    disorder, span = disorder_of(case, int(rng.integers(0, 40)))
    stream = penstock.stream(
        case.text,
        {"g": case.table.schema},
        time=case.time or None,
        disorder=span,
        flow=Flow(latency_s=0.02 * (seed % 2)),
        workers=workers,
    )
    model, found = pushed(stream, case, rng, disorder)
    case.check(found, model.admitted(case.table))
    report = stream.report()
    assert report.late == {"g": len(model.late)}
    assert report.rows == found.num_rows


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "workers"), [(0, 2), *((seed, n) for n in (1, 3, 5, 8) for seed in range(10))]
)
def test_tables(seed: int, workers: int) -> None:
    case = make_case(seed + 50_000, 300)
    found = penstock.sql(case.text, {"g": case.table}, time=case.time or None, workers=workers)
    case.check(found)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 4])
def test_recorded_jobs_by_the_minute(workers: int) -> None:
    check_jobs_by_the_minute(workers=workers, flow=Flow(latency_s=0.05))
