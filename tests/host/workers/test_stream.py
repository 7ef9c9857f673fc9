"""Streams on workers give the groups that DuckDB gives on the same rows."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import OverloadError, QueryError, SchemaError, UsageError
from tests.host.workers.kit.groups import QUERY, SCHEMA, batches, comparable, listed, opened, wanted

TIMEOUT_S = 60.0


@pytest.mark.parametrize("workers", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 3))])
def test_groups_are_those_of_duckdb(workers: int) -> None:
    given = batches(workers, 30)
    with opened(workers, flow={"latency_s": 0.02 * (workers - 1)}) as stream:
        for batch in given:
            stream.push("a", batch)
        assert stream.pushed("a") == 30
        assert stream.position("a") == 30 * 40
        stream.flush()
        some = stream.poll()
        assert 0 < some.num_rows < len(wanted(given))
        assert stream.report().arrived == {"a": 30 * 40}
        rest = stream.close()
    # min_by is checked against one process.
    left = comparable(pa.concat_tables([some, rest]).drop_columns(["first"]))
    assert left == sorted([row[:-1] for row in wanted(given)], key=repr)
    assert stream.late()["a"].num_rows == 0


@pytest.fixture(scope="module")
def one_process() -> list[tuple[Any, ...]]:
    """All rows of a stream in one process, in its order."""
    with opened(None) as stream:
        for batch in batches(7, 20, disorder=9):
            stream.push("a", batch)
        late = stream.late()["a"].num_rows
        assert late > 0
        return [*listed(stream.close()), (late,)]


@pytest.mark.parametrize("latency_s", [0.0, pytest.param(0.05, marks=pytest.mark.slow)])
def test_ordered_rows_are_those_of_one_process(one_process, latency_s: float) -> None:
    pieces = []
    with opened(3, ordered=True, flow={"latency_s": latency_s}) as stream:
        for place, batch in enumerate(batches(7, 20, disorder=9)):
            half = batch.num_rows // 2
            stream.push("a", batch.slice(0, half))
            stream.push("a", pa.Table.from_batches([batch.slice(half)]))
            if latency_s and place == 12:
                assert stream.wait(1, TIMEOUT_S)
            pieces.append(stream.poll())
        late = stream.late()["a"].num_rows
        pieces.append(stream.close())
    assert sum(table.num_rows > 0 for table in pieces) > 1
    assert [*listed(pa.concat_tables(pieces)), (late,)] == one_process
    assert stream.schema == pieces[0].schema


@pytest.mark.slow
def test_without_a_latency_target_a_push_waits_for_what_it_completes() -> None:
    with opened(2) as stream:
        seen = 0
        for place, batch in enumerate(batches(3, 12, disorder=0)):
            stream.push("a", batch)
            # Groups [0, 10) are complete with the first row of time 14, as rows may be 4 late.
            seen += stream.poll().num_rows
            assert (seen > 0) == (place >= 2)
        stream.advance("a", 60)
        after = stream.poll()
        assert set(after["w"].to_pylist()) == {50}
        assert stream.close().num_rows == 0


def test_feeds_hold_each_other_up_and_one_process_agrees() -> None:
    rng = Random(1)
    calls: list[tuple[str, pa.RecordBatch]] = [
        (rng.choice(["x", "y"]), batch) for batch in batches(11, 16)
    ]
    results = []
    for workers in (None, 2):
        stream = opened(workers, disorder=0)
        with pytest.raises(UsageError, match="unknown source 'b'"):
            stream.register("b", "x")
        stream.register("a", "x", disorder=9)
        stream.register("a", "y", disorder=9)
        with pytest.raises(UsageError, match="a has no feed ''"):
            stream.push("a", calls[0][1])
        for feed, batch in calls:
            stream.push("a", batch, feed=feed)
        stream.deregister("a", "x")
        stream.advance("a", 70, feed="y")
        stream.flush()
        first = comparable(stream.poll())
        late = comparable(stream.late()["a"])
        results.append((first, late, comparable(stream.close())))
    assert results[0] == results[1]
    assert len(results[0][0]) > 50


def test_a_silent_feed_no_longer_holds_up_the_others() -> None:
    with opened(2, flow={"idle_s": 0.2}) as stream:
        for feed in ("x", "y"):
            stream.register("a", feed)
        for batch in batches(6, 8):
            stream.push("a", batch, feed="x")
        assert stream.wait(1, TIMEOUT_S)  # y has sent nothing
        assert set(stream.poll()["w"].to_pylist()) <= {0, 10, 20}
        stream.push("a", batches(6, 1)[0], feed="y")
        assert stream.late()["a"].num_rows == 40  # below what was promised meanwhile


def test_arguments_and_rows_are_checked_and_nothing_is_taken() -> None:
    with pytest.raises(UsageError, match="workers must be 1 to 4096, not 0"):
        opened(0)
    with pytest.raises(UsageError, match="release must be 'commit' or 'now', not 'soon'"):
        opened(2, release="soon")
    with pytest.raises(UsageError, match="give checkpoint=FOLDER; leave release= out"):
        opened(2, release="now")
    with pytest.raises(QueryError, match="complete with each row: leave workers and checkpoint ou"):
        opened(2, query="SELECT k, count(*) AS n FROM a GROUP BY k", unique={"a": "k"})
    with pytest.raises(QueryError, match="a stream never knows that these groups are complete"):
        opened(2, query="SELECT k, count(*) AS n FROM a GROUP BY k")
    with pytest.raises(UsageError, match="device= is not for a query over one table"):
        opened(2, device="amaranth")
    with opened(1) as stream:
        with pytest.raises(SchemaError, match="a batch of a has no column k"):
            stream.push("a", pa.record_batch({"t": [1]}))
        with pytest.raises(UsageError, match="without a checkpoint nothing is kept"):
            stream.stop()
        assert (stream.pushed("a"), stream.position("a")) == (0, 0)
    with pytest.raises(UsageError, match="the stream is closed"):
        stream.push("a", batches(0, 1)[0])
    assert stream.close().num_rows == 0


def test_a_caller_that_never_polls_is_refused_within_the_budget() -> None:
    budget = 1 << 20
    flow = {"memory_bytes": budget, "push_timeout_s": 0.3, "latency_s": 0.01}
    stream = opened(2, flow=flow, query=QUERY.replace("GROUP BY k", "GROUP BY x, k"))
    given = batches(5, 400, rows=400, keys=1000)

    def push_all() -> None:
        for batch in given:
            stream.push("a", batch)

    with pytest.raises(OverloadError, match="poll the results"):
        push_all()
    taken = stream.pushed("a")
    assert 0 < taken < 400
    # Once rows are polled, it goes on.
    first = stream.poll()
    assert first.num_rows > 0
    assert stream.budget.highest < 2 * budget
    pieces = [first]

    def pushes() -> bool:
        pieces.append(stream.poll())
        try:
            stream.push("a", given[taken])
        except OverloadError:
            return False
        return True

    assert any(pushes() for _ in range(200))
    rows = pa.concat_tables([*pieces, stream.close()])
    assert sum(rows["n"].to_pylist()) > 0
    assert stream.position("a") == 400 * (taken + 1)


def test_metrics_and_traces_name_each_worker(tmp_path) -> None:
    with opened(2, trace=True, checkpoint=tmp_path / "c") as stream:
        for batch in batches(2, 8):
            stream.push("a", batch)
        stream.flush()
        report = stream.report()
        assert sum(one.rows for one in report.workers) == 8 * 40
        assert all(one.epochs and one.checkpoint for one in report.workers)
        assert sum(one.delta_bytes for one in report.workers) > 0
        assert report.groups is not None
        assert report.groups.open == sum(one.entries for one in report.workers) > 0
        tracks = {(span.track, span.name) for span in stream.trace.spans}
        assert {("worker 0", "epoch"), ("worker 1", "epoch"), ("records", "record")} <= tracks
        assert {("worker 0", "merge"), ("worker 1", "merge")} & tracks
    assert SCHEMA.field("k").type == pa.int64()
