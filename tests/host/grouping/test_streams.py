"""Groups of a running stream in one process: the rows of any cut, against DuckDB."""

from __future__ import annotations

import io
import multiprocessing
import threading
import urllib.request
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

import penstock
from penstock import Flow
from penstock.cli.top import read, screen
from penstock.errors import DataError, OverloadError, QueryError, SchemaError, UsageError
from penstock.host.workers.here import GroupStream
from tests.host.grouping.kit import make_case
from tests.host.grouping.pushing import disorder_of, pushed
from tests.host.grouping.recorded import check_jobs_by_the_minute
from tests.kit.effort import effort

SCHEMA = pa.schema([("k", pa.int64()), ("x", pa.int64()), ("t", pa.timestamp("s"))])
QUERY = (
    "SELECT k, window(t, '10 seconds').start AS w, count(*) AS n, sum(x) AS s FROM a "
    "GROUP BY k, window(t, '10 seconds')"
)


def rows(*values: tuple[int | None, int | None, int | None]) -> pa.RecordBatch:
    k, x, t = zip(*values, strict=True) if values else ((), (), ())
    times = pa.array(t, pa.int64()).cast(pa.timestamp("s"))
    return pa.record_batch([pa.array(k, pa.int64()), pa.array(x, pa.int64()), times], schema=SCHEMA)


def opened(query: str = QUERY, **options) -> GroupStream:
    stream = penstock.stream(query, {"a": SCHEMA}, **options)
    assert isinstance(stream, GroupStream)
    return stream


def counts(table: pa.Table) -> list[tuple]:
    return [tuple(row.values()) for row in table.select(["k", "n"]).to_pylist()]


REFUSED = {
    "no end": ("SELECT k, count(*) FROM a GROUP BY k", {}, QueryError, r"add the event time to GR"),
    "no keys": ("SELECT count(*) FROM a", {}, QueryError, "the one group of a query without GROUP"),
    "another's disorder": (QUERY, {"disorder": {"b": 5}}, UsageError, "but the query groups a"),
    "disorder": (QUERY, {"disorder": -1}, UsageError, "must not be negative"),
    "ungrouped": ("SELECT k FROM a", {}, QueryError, "a query over one table gives groups"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_name_the_remedy(name):
    text, options, kind, message = REFUSED[name]
    with pytest.raises(kind, match=message):
        opened(text, **options)


def test_filters_of_aggregates() -> None:
    filtered = "count_if(x > 0) FILTER (WHERE x < 3) AS c, max_by(x, t) FILTER (WHERE x < 9) AS n"
    with opened(QUERY.replace("count(*) AS n", filtered)) as stream:
        stream.push("a", rows((1, 1, 1), (1, 7, 2), (1, 9, 3), (2, 9, 4)))
        found = stream.close()
    assert sorted(found.select(["k", "c", "n"]).to_pylist(), key=str) == [
        {"k": 1, "c": 1, "n": 7},
        {"k": 2, "c": 0, "n": None},
    ]


def test_bad_calls_leave_the_stream_as_it_is():
    with opened() as stream:
        for kind, message, call in (
            (
                UsageError,
                "unknown source 'b'; the query groups a",
                lambda: stream.push("b", rows()),
            ),
            (UsageError, "has no feed 'f'", lambda: stream.push("a", rows(), feed="f")),
            (UsageError, "not empty", lambda: stream.register("a", "")),
            (UsageError, "no feed 'f'", lambda: stream.deregister("a", "f")),
            (UsageError, "RecordBatch or Table", lambda: stream.push("a", [1])),
            (SchemaError, "no column x", lambda: stream.push("a", rows().select(["k", "t"]))),
        ):
            with pytest.raises(kind, match=message):
                call()
        stream.push("a", rows((1, 1, 0)))
        assert stream.pushed("a") == 1
    with pytest.raises(UsageError, match="closed"):
        stream.push("a", rows())
    assert stream.close().num_rows == 0


@pytest.mark.parametrize("latency_s", [0.0, 0.02])
@pytest.mark.parametrize("seed", range(effort(400, 20)))
def test_random_pushes(seed, latency_s):
    case = make_case(seed + 10_000, (300, 60, 5, 0)[seed % 4], timed=True)
    rng = np.random.default_rng(seed)
    disorder, span = disorder_of(case, int(rng.integers(0, 40)))
    stream = penstock.stream(
        case.text,
        {"g": case.table.schema},
        time=case.time or None,
        disorder=span,
        flow=Flow(latency_s=latency_s),
    )
    assert isinstance(stream, GroupStream)
    model, found = pushed(stream, case, rng, disorder)
    case.check(found, model.admitted(case.table))
    report = stream.report()
    assert report.late == {"g": len(model.late)}
    assert report.rows == found.num_rows
    assert report.groups is not None
    assert report.groups.open == 0


def test_groups_leave_in_one_order_for_any_cut():
    rng = np.random.default_rng(1)
    values = rng.integers(0, 9, 500)
    table = pa.table({"k": values, "x": values, "t": np.arange(500) + rng.integers(0, 5, 500)})
    table = table.cast(SCHEMA)
    found = []
    for size in (1, 37, 500):
        with opened(disorder=timedelta(seconds=10)) as stream:
            for batch in table.to_batches(max_chunksize=size):
                stream.push("a", batch)
            found.append(stream.close())
    assert found[0].equals(found[1])
    assert found[0].equals(found[2])
    assert found[0]["w"].to_pylist() == sorted(found[0]["w"].to_pylist())


def test_a_group_leaves_when_no_row_of_it_can_follow():
    with opened(disorder=timedelta(seconds=3)) as stream:
        stream.push("a", rows((1, 1, 0), (2, 1, 9)))
        stream.push("a", rows((1, 1, 12)))  # 9 may follow
        assert stream.poll().num_rows == 0
        stream.push("a", rows((3, 1, 13)))
        assert counts(stream.poll()) == [(1, 1), (2, 1)]
        stream.advance("a", 20)
        assert counts(stream.poll()) == [(1, 1), (3, 1)]
        stream.push("a", rows((1, 1, 19), (1, 1, 20)))
        assert stream.late()["a"]["t"].cast(pa.int64()).to_pylist() == [19]
        assert stream.late()["a"].num_rows == 0
        assert counts(stream.close()) == [(1, 1)]


def test_moments_are_dates_or_numbers():
    with opened() as stream:
        stream.push("a", rows((1, 1, 0)))
        stream.advance("a", datetime(1970, 1, 1, 0, 0, 10))
        assert counts(stream.poll()) == [(1, 1)]


def test_rows_without_a_time_are_counted():
    with opened() as stream:
        stream.push("a", rows((1, 1, None), (1, 2, 3), (1, 4, None)))
        assert counts(stream.close()) == [(1, 1)]
    report = stream.report()
    assert report.groups is not None
    assert report.groups.timeless == 2
    assert report.arrived == {"a": 3}


def test_declared_ids_are_groups_that_leave_at_once():
    with opened("SELECT k, sum(x) AS n FROM a GROUP BY k", unique={"a": "k"}) as stream:
        stream.push("a", rows((1, 5, None), (2, 6, 3)))
        assert counts(stream.poll()) == [(1, 5), (2, 6)]


def test_groups_that_follow_no_time_have_neither_disorder_nor_advances():
    query, how = "SELECT k, sum(x) AS n FROM a GROUP BY k", {"time": {"a": "t"}}
    second = timedelta(seconds=1)
    wanted = (
        "no key of GROUP BY follows the time of a, .* so rows cannot be out of order; leave dis"
    )
    for disorder in (5, second, {"a": second}):
        with pytest.raises(UsageError, match=wanted):
            opened(query, unique={"a": "k"}, disorder=disorder, **how)
    with opened(query, unique={"a": "k"}, disorder=0, **how) as stream:
        with pytest.raises(UsageError, match=wanted):
            stream.register("a", "x", second)
        with pytest.raises(UsageError, match="so nothing waits for it to advance; leave advance o"):
            stream.advance("a", 5)
        stream.register("a", "x")
        stream.push("a", rows((1, 3, None)), feed="x")
        assert counts(stream.poll()) == [(1, 3)]


def test_the_slowest_feed_holds_the_groups_until_it_is_silent():
    with opened(flow=Flow(idle_s=0.2)) as stream:
        stream.register("a", "fast")
        stream.register("a", "slow", timedelta(seconds=5))
        stream.push("a", rows((1, 1, 0), (1, 1, 30)), feed="fast")
        assert stream.poll().num_rows == 0
        assert stream.wait(1, timeout_s=30)
        stream.push("a", rows((7, 1, 31)), feed="slow")
        stream.deregister("a", "fast")
        assert counts(stream.close()) == [(1, 1), (1, 1), (7, 1)]


def test_a_latency_target_folds_without_another_call():
    with opened(flow=Flow(latency_s=0.01)) as stream:
        for second in range(40):
            stream.push("a", rows((1, 1, second)))
        assert stream.wait(3, timeout_s=30)
        stream.flush()
        assert stream.poll().num_rows == 3
        assert stream.report().latency_s[0.5] < 30


def test_an_error_of_a_row_takes_nothing():
    query = QUERY.replace("sum(x)", "sum(CAST(x AS TINYINT))")
    for latency_s in (0.0, 0.01):
        with opened(query, flow=Flow(latency_s=latency_s)) as stream:
            stream.push("a", rows((1, 1, 0)))
            with pytest.raises(DataError):
                stream.push("a", rows((1, 1, 1), (1, 1000, 2)))
            assert stream.pushed("a") == 1
            stream.push("a", rows((1, 1, 2)))
            assert counts(stream.close()) == [(1, 2)]


def test_a_sum_beyond_its_type_ends_the_stream():
    stream = opened()
    stream.push("a", rows((1, 2**62, 0), (1, 2**62, 1)))
    with pytest.raises(DataError, match="overflows"):
        stream.advance("a", 10)
    with pytest.raises(DataError, match="overflows"):
        stream.push("a", rows())
    with pytest.raises(DataError, match="overflows"):
        stream.close()


def test_a_caller_that_never_polls_is_told_within_the_budget():
    limit = 1 << 20
    flow = Flow(memory_bytes=limit, push_timeout_s=0.05)
    stream = opened(flow=flow)

    def push_all() -> None:
        for second in range(0, 10**7, 10):
            stream.push("a", rows(*((k, 1, second) for k in range(1000))))

    with pytest.raises(OverloadError, match="memory budget"):
        push_all()
    before, highest = stream.pushed("a"), stream.budget.highest
    assert highest < 2 * limit
    found = [stream.poll()]
    stream.push("a", rows((1, 1, 10**8)))
    assert stream.pushed("a") == before + 1
    stream.flush()
    found.append(stream.close())
    assert sum(table.num_rows for table in found) == 1000 * before + 1


def test_groups_that_never_end_fill_the_budget():
    stream = opened(flow=Flow(memory_bytes=1 << 20, push_timeout_s=0.05))

    def push_all() -> None:
        for first in range(0, 10**7, 5000):
            stream.push("a", rows(*((first + k, 1, 0) for k in range(5000))))

    with pytest.raises(OverloadError, match="groups"):
        push_all()
    stream.advance("a", 10)
    assert stream.poll().num_rows > 0
    stream.push("a", rows((1, 1, 11)))
    stream.close()


def test_any_thread_may_push():
    with opened() as stream:
        for name in "abcd":
            stream.register("a", name)

        def push(name: str) -> None:
            for second in range(100):
                stream.push("a", rows((1, 1, second)), feed=name)

        threads = [threading.Thread(target=push, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert stream.close()["n"].to_pylist() == [40] * 10


def test_reports_reach_prometheus():
    with opened() as stream:
        stream.push("a", rows((1, 1, 0), (1, 1, None), (1, 1, 11)))
        server = stream.serve_metrics()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=10) as f:
                text = f.read().decode()
        finally:
            server.close()
    assert "penstock_groups_open 1.0" in text
    assert "penstock_groups_timeless_rows_total 1.0" in text
    assert 'penstock_arrived_rows_total{source="a"} 3.0' in text


def test_a_trace_has_what_was_folded_and_given():
    with opened(trace=True) as stream:
        stream.push("a", rows((1, 1, 0), (1, 1, 11)))
    assert {event.name for event in stream.trace.spans} == {"fold", "release"}


def _push_in_child(stream: GroupStream, answers) -> None:
    try:
        stream.push("a", rows((1, 1, 1)))
    except UsageError as error:
        answers.put(str(error))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_is_refused():
    context = multiprocessing.get_context("fork")
    with opened() as stream:
        answers = context.SimpleQueue()
        child = context.Process(target=_push_in_child, args=(stream, answers))
        child.start()
        child.join(60)
        assert "forked" in answers.get()


def test_recorded_jobs_by_the_minute():
    check_jobs_by_the_minute()


def test_penstock_top_shows_groups():
    with opened() as stream:
        stream.push("a", rows((1, 1, 0), (1, 1, None)))
        server = stream.serve_metrics()
        try:
            joins = read(f"http://127.0.0.1:{server.port}/metrics")
        finally:
            server.close()
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(screen(joins, joins, 1.0))
    text = console.export_text()
    assert "groups 1 open   1 row without a time   0 left out by WHERE" in text
    assert "lane" not in text


def test_times_at_the_ends_of_64_bits_are_refused_where_their_group_ends_beyond():
    schema = pa.schema([("t", pa.int64()), ("x", pa.int64())])
    for where, taken in (("", False), (" WHERE x > 0", True)):
        query = f"SELECT window.start AS w, count(*) AS n FROM a{where} GROUP BY window(t, 10)"
        stream = penstock.stream(query, {"a": schema})
        batch = pa.record_batch([[-(2**63), -(2**63) + 20], [0, 1]], schema=schema)
        if taken:
            stream.push("a", batch)
        else:
            with pytest.raises(DataError, match="leave such rows out with WHERE"):
                stream.push("a", batch)
        assert stream.pushed("a") == taken
        stream.push("a", pa.record_batch([[2**62], [1]], schema=schema))
        assert stream.close()["n"].to_pylist() == [1] * (1 + taken)


@pytest.mark.parametrize("unit", ["hour", "day", "week"])
def test_clocks_that_are_put_back(unit):
    """In autumn an hour comes twice: groups of a stream are those of a table even so."""
    rng = np.random.default_rng(3)
    begin = int(datetime(2024, 11, 2).timestamp()) // 3600 * 3600
    times = begin + np.sort(rng.integers(0, 3 * 86_400, 400)) + rng.integers(0, 300, 400)
    table = pa.table({"k": times % 3, "t": pa.array(times, pa.timestamp("s", "UTC"))})
    query = f"SELECT k, date_trunc('{unit}', t) AS w, count(*) AS n FROM a GROUP BY 1, 2"
    zone = "America/New_York"
    wanted = penstock.sql(query, {"a": table}, time_zone=zone)
    with penstock.stream(
        query, {"a": table.schema}, time_zone=zone, disorder=timedelta(minutes=5)
    ) as stream:
        for batch in table.to_batches(max_chunksize=30):
            stream.push("a", batch)
        assert stream.report().rows > 0 or unit == "week"
        found = pa.concat_tables([stream.poll(), stream.close()])
        assert stream.late()["a"].num_rows == 0
    keys = [(name, "ascending") for name in ("w", "k")]
    assert found.sort_by(keys).equals(wanted.sort_by(keys))
    assert sum(found["n"].to_pylist()) == table.num_rows


def test_equal_rows_of_min_by_go_by_time_then_feed_then_row():
    query = QUERY.replace("sum(x) AS s", "min_by(x, 0 * k) AS s, max_by(x, 0 * k) AS m")
    for latency_s in (0.0, 60.0):
        with opened(query, flow=Flow(latency_s=latency_s), disorder=timedelta(seconds=9)) as stream:
            stream.register("a", "first")
            stream.register("a", "second")
            stream.push("a", rows((1, 1, 3), (1, 2, 1)), feed="second")
            stream.push("a", rows((1, 3, 1)), feed="second")
            stream.push("a", rows((1, 4, 2), (1, 5, 1)), feed="first")
            stream.push("a", rows((1, 6, 1)), feed="first")
            found = stream.close()
        assert found["s"].to_pylist() == found["m"].to_pylist() == [5]
