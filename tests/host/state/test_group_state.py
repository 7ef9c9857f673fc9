"""Groups on one and on several workers, against plain Python."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import QueryError, UsageError
from penstock.host.routing.base import WORKER_CELLS
from penstock.host.state import GroupState
from tests.host.state import rows_by_hand
from tests.host.state.hand_workers import Workers, check, chunks, dealt, query_of
from tests.host.state.rows_by_hand import CASES, EPOCH, SCHEMA, Case, batch_of

SIZES = (1, 2, 3, 5)


# -- arguments ------------------------------------------------------------------------------------


def test_ranks_are_checked():
    query = query_of("SELECT count(*) AS n FROM s")
    with pytest.raises(UsageError, match="worker 2 of 2 cannot be"):
        GroupState(query, SCHEMA, rank=2, size=2)
    with pytest.raises(UsageError, match="at most 4096 workers"):
        GroupState(query, SCHEMA, size=WORKER_CELLS + 1)
    with pytest.raises(UsageError, match="row -1 of feed 0 has no number"):
        GroupState(query, SCHEMA).fold(batch_of([]), 0, -1)


def test_keys_without_an_order_are_refused():
    schema = SCHEMA.append(pa.field("list", pa.list_(pa.int64())))
    query = query_of("SELECT min_by(list, k) AS m FROM s", schema)
    with pytest.raises(QueryError, match=r"MIN_BY\(list, k\) of lists"):
        GroupState(query, schema)


# -- random ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("fast", [False, True], ids=["by tables", "compiled"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_groups_are_those_of_plain_python(case: Case, fast: bool):
    for seed, size in enumerate(SIZES):
        rng = np.random.default_rng(100 * seed + fast)
        workers = Workers(query_of(case.sql), size, rng, fast)
        phases = dealt(rng, 5)
        for number, rows in enumerate(phases):
            for some in chunks(rng, rows):
                workers.fold(some)
                if rng.random() < 0.3:
                    workers.seal(int(rng.integers(len(workers.states))))
                workers.deliver(int(rng.integers(3)))
            workers.settle()
            if rng.random() < 0.4:
                workers.move(int(rng.choice(SIZES)))
            if case.time is not None:
                limit = 20_000 * number
                for batch in workers.release(limit):
                    starts = batch.column("w").drop_null().to_pylist()
                    assert starts == sorted(starts)
                    assert all(s < EPOCH + timedelta(milliseconds=limit) for s in starts)
        workers.out += [state.finish() for state in workers.states]
        check(case, workers.out, [row for rows in phases for row in rows])
        assert sum(state.entries for state in workers.states) == 0
        assert workers.out[0].schema == workers.states[0].schema


@pytest.mark.parametrize("fast", [False, True], ids=["by tables", "compiled"])
def test_rows_left_out_are_counted(fast: bool):
    rng = np.random.default_rng(5)
    rows = rows_by_hand.random_rows(rng, 500, 0, 100)
    for row in rows:
        row["feed"] = row["row"] = 0
    workers = Workers(query_of(CASES[0].sql), 1, rng, fast)
    folded = workers.fold(rows)
    admitted = [row for row in rows if CASES[0].where(row)]
    assert folded.filtered == len(rows) - len(admitted)
    assert folded.without_time == sum(row["t"] is None for row in admitted) > 0
    assert folded.rows == len(admitted) - folded.without_time
