"""Streams on ranks, beside one process and DuckDB on all rows that were admitted."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock import Checkpoint
from penstock.errors import LostError, PenstockError, ProcessError, QueryError, UsageError
from penstock.host.workers import Workers
from tests.host.workers.kit.groups import SCHEMA, batches, comparable, opened, wanted
from tests.host.workers.kit.together import all_of, together

TIMEOUT_S = 60.0
#: Feeds that the ranks share.
FEEDS = 5


def feeds_of(workers: Workers, given: list[pa.RecordBatch]) -> dict[str, list[pa.RecordBatch]]:
    return {f"f{i}": given[i::FEEDS] for i in range(workers.rank, FEEDS, workers.size)}


def without_first(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows without the value of min_by, which is the oracle's own where several are least."""
    return sorted((row[:-1] for row in rows), key=repr)


def push_all(stream: Any, own: dict[str, list[pa.RecordBatch]]) -> None:
    left = {}
    for feed in own:
        stream.register("a", feed)
        left[feed] = stream.position("a", feed)
    for place in range(max(map(len, own.values()), default=0)):
        for feed, parts in own.items():
            if place < len(parts):
                skipped = min(left[feed], parts[place].num_rows)
                left[feed] -= skipped
                stream.push("a", parts[place].slice(skipped), feed=feed)


@pytest.mark.parametrize(
    "size", [1, 2, *(pytest.param(n, marks=pytest.mark.slow) for n in (3, 5, 8))]
)
def test_ranks_compute_what_one_process_does(size: int) -> None:
    given = batches(size, 20)

    def rank(workers: Workers) -> pa.Table:
        with opened(workers) as stream:
            push_all(stream, feeds_of(workers, given))
            found = [stream.poll(), stream.close()]
            assert not sum(part.num_rows for part in stream.late().values())
        return pa.concat_tables(found)

    found = all_of(together(size, rank))
    assert without_first(comparable(pa.concat_tables(found))) == without_first(wanted(given))
    keys = [
        set(zip(part["k"].to_pylist(), part["name"].to_pylist(), strict=True)) for part in found
    ]
    assert sum(map(len, keys)) == len(set.union(*keys)), "a key has one leader"


def test_late_rows_are_judged_where_they_come_in() -> None:
    query = "SELECT count(*) AS n, t - t % 10 AS w FROM a GROUP BY t - t % 10"

    def at(*times: int) -> pa.Table:
        return pa.table({"t": times}, pa.schema([("t", pa.int64())]))

    def rank(workers: Workers) -> Any:
        schemas = {"a": pa.schema([("t", pa.int64())])}
        with penstock.stream(query, schemas, time={"a": "t"}, workers=workers) as stream:
            stream.push("a", at(30, 5) if workers.rank else at(1, 2))
            rows = stream.close()
            return rows, stream.late()["a"]["t"].to_pylist()

    found = all_of(together(2, rank))
    assert [late for _, late in found] == [[], [5]]
    rows = pa.concat_tables([rows for rows, _ in found])
    assert sorted(zip(*rows.to_pydict().values(), strict=True)) == [(1, 30), (2, 0)]


@pytest.mark.parametrize(
    ("before", "after"), [(2, 3), pytest.param(3, 1, marks=pytest.mark.slow), (1, 2)]
)
def test_another_number_of_ranks_goes_on(before: int, after: int, tmp_path: Path) -> None:
    given = batches(7, 30)
    found: dict[tuple[int, int], pa.Table] = {}

    def drain(stream: Any) -> None:
        while (polled := stream.poll()) is not None:
            key = polled.number, polled.rank
            if key in found:
                assert comparable(found[key]) == comparable(polled.rows)
            found[key] = polled.rows

    def rank(workers: Workers, count: int) -> None:
        own = feeds_of(workers, given)
        taken = {feed: parts[: count // FEEDS] for feed, parts in own.items()}
        with opened(workers, checkpoint=Checkpoint(tmp_path, every_s=60)) as stream:
            push_all(stream, taken)
            if count < len(given):
                stream.flush()
                if workers.rank == 0:
                    drain(stream)
                stream.stop()
                return
            drain(stream)
            last = stream.close()
            if last is not None:
                found[last.number, last.rank] = last.rows
            drain(stream)

    all_of(together(before, lambda workers: rank(workers, 15)))
    all_of(together(after, lambda workers: rank(workers, 30)))
    rows = comparable(pa.concat_tables(found.values()))
    assert without_first(rows) == without_first(wanted(given))


def test_a_feed_that_no_record_has_may_begin_behind_those_that_it_has(tmp_path: Path) -> None:
    """A rank was slow to register its feed when all had to start again."""
    schema = pa.schema([("t", pa.int64())])
    query = "SELECT count(*) AS n, t - t % 10 AS w FROM a GROUP BY t - t % 10"

    def open_(workers: Workers) -> Any:
        how = {"workers": workers, "checkpoint": tmp_path}
        return penstock.stream(query, {"a": schema}, time={"a": "t"}, **how)

    def first(workers: Workers) -> None:
        with open_(workers) as stream:
            if workers.rank == 0:
                stream.register("a", "fast")
                stream.push("a", pa.table({"t": [5, 500]}, schema), feed="fast")
            stream.stop()

    def second(workers: Workers) -> tuple[dict[str, pa.Table], list[int]]:
        with open_(workers) as stream:
            stream.register("a", "fast")
            stream.report()  # looks at watermarks
            stream.register("a", "slow")
            stream.push("a", pa.table({"t": [3, 20]}, schema), feed="slow")
            last = stream.close()
            return stream.late(), sorted(last.rows["n"].to_pylist())

    all_of(together(2, first))
    ((late, counts),) = all_of(together(1, second))
    assert late["a"].num_rows == 0
    assert counts == [1, 1, 2]


def test_rows_at_once_with_a_checkpoint(tmp_path: Path) -> None:
    given = batches(8, 15)

    def rank(workers: Workers) -> pa.Table:
        with opened(workers, checkpoint=tmp_path, release="now") as stream:
            push_all(stream, feeds_of(workers, given))
            stream.flush()
            found = [stream.poll(), stream.close()]
            while (more := stream.poll()).num_rows:
                found.append(more)
        return pa.concat_tables(found)

    rows = comparable(pa.concat_tables(all_of(together(2, rank))))
    assert without_first(rows) == without_first(wanted(given))


def test_rows_of_a_rank_come_in_order_if_so_asked() -> None:
    given = batches(10, 15)

    def rank(workers: Workers) -> tuple[list[Any], pa.Table]:
        with opened(workers, ordered=True) as stream:
            push_all(stream, feeds_of(workers, given))
            stream.flush()
            found = pa.concat_tables([stream.poll(), stream.close()])
        return found["w"].to_pylist(), found

    found = all_of(together(2, rank))
    for windows, _ in found:
        assert windows == sorted(windows)
    rows = comparable(pa.concat_tables([rows for _, rows in found]))
    assert without_first(rows) == without_first(wanted(given))


def test_a_flush_needs_no_call_of_another_rank() -> None:
    """Feeds of both ranks have passed a window; one of them asks for it, the other does nothing."""
    pushed, flushed = threading.Barrier(2), threading.Barrier(2)
    schema = pa.schema([("t", pa.int64())])
    query = "SELECT count(*) AS n, t - t % 10 AS w FROM a GROUP BY t - t % 10"

    def rank(workers: Workers) -> int:
        with penstock.stream(query, {"a": schema}, time={"a": "t"}, workers=workers) as stream:
            stream.push("a", pa.table({"t": [1, 11, 21]}, schema))
            pushed.wait(TIMEOUT_S)
            if workers.rank == 0:
                stream.flush()
            flushed.wait(TIMEOUT_S)
            # What rank 1 leads is complete, and may still be on its way to the stream there.
            found, until = stream.poll(), time.monotonic() + workers.rank * TIMEOUT_S
            while not found.num_rows and time.monotonic() < until:
                found = stream.poll()
            return sum(found["n"].to_pylist())

    assert all_of(together(2, rank)) == [2, 2], "a window of two rows each"


def test_a_large_batch_is_folded_piece_by_piece() -> None:
    schema = pa.schema([("t", pa.int64())])
    query = "SELECT count(*) AS n, t - t % 10 AS w FROM a GROUP BY t - t % 10"
    rows = 200_000

    def rank(workers: Workers) -> int:
        with penstock.stream(query, {"a": schema}, time={"a": "t"}, workers=workers) as stream:
            stream.push("a", pa.table({"t": np.arange(rows) // 1000}, schema))
            return sum(stream.close()["n"].to_pylist())

    assert sum(all_of(together(2, rank))) == 2 * rows


def test_ranks_that_differ_say_how() -> None:
    def rank(workers: Workers) -> None:
        opened(workers, flow={"latency_s": workers.rank / 10})

    for error in together(2, rank):
        assert isinstance(error, ProcessError)
        assert "latency_s is 0.0 on worker 0, but 0.1 on worker 1" in str(error)


def test_what_one_rank_cannot_open_no_rank_opens(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    own, other = together(2, lambda workers: opened(workers, checkpoint=blocked))
    assert "which is a file" in str(own)
    assert isinstance(other, ProcessError)
    assert "rank 0 cannot begin: FileError: cannot keep checkpoints" in str(other)


def test_a_join_that_no_device_computes_is_refused_in_each_rank() -> None:
    columns = [("t", pa.timestamp("ms")), ("z", pa.timestamp("s", "UTC"))]
    query = (
        "SELECT a.t FROM a JOIN b ON b.t BETWEEN a.t AND a.t + INTERVAL 1 HOUR "
        "WHERE CAST(least(a.z, b.z) AS DATE) = DATE '2024-03-10'"
    )

    def rank(workers: Workers) -> None:
        options = {"time": dict.fromkeys("ab", "t"), "time_zone": "Europe/Berlin"}
        penstock.stream(query, dict.fromkeys("ab", pa.schema(columns)), workers=workers, **options)

    for error in together(2, rank):
        assert isinstance(error, QueryError)
        assert "casts a value computed from both sides" in str(error)


def test_an_error_in_one_rank_ends_all() -> None:
    def rank(workers: Workers) -> None:
        with opened(workers) as stream:
            stream.register("a", f"f{workers.rank}")
            if workers.rank:
                raise KeyError("elsewhere")
            stream.close()

    lost, failed = together(2, rank)
    assert isinstance(failed, KeyError)
    assert isinstance(lost, LostError)
    assert "rank 1 of 2 has ended its stream: this rank was left by an error: KeyError" in str(lost)


def test_a_feed_of_two_ranks_is_refused() -> None:
    def rank(workers: Workers) -> None:
        with opened(workers) as stream:
            stream.register("a", "same")
            stream.close()

    errors = together(2, rank)
    assert any("registered by two ranks" in str(error) for error in errors)
    assert all(isinstance(error, PenstockError) for error in errors)


def test_a_recorded_feed_that_nobody_registers_is_named(tmp_path: Path) -> None:
    given = batches(9, 10)

    def first(workers: Workers) -> None:
        with opened(workers, checkpoint=tmp_path) as stream:
            push_all(stream, feeds_of(workers, given))
            stream.stop()

    def second(workers: Workers) -> None:
        flow = {"push_timeout_s": 0.2}
        with opened(workers, checkpoint=tmp_path, flow=flow) as stream:
            for i in range(workers.rank, FEEDS - 1, workers.size):
                stream.register("a", f"f{i}")
            stream.wait(1 << 30, 0.3)

    all_of(together(2, first))
    errors = together(2, second)
    assert any("has feed 'f4' of a, which nobody has registered" in str(e) for e in errors)
    assert all(isinstance(error, (UsageError, LostError)) for error in errors)


def test_with_a_checkpoint_feeds_have_names(tmp_path: Path) -> None:
    def rank(workers: Workers) -> None:
        with opened(workers, checkpoint=tmp_path) as stream:
            with pytest.raises(UsageError, match="under names of its own"):
                stream.push("a", pa.table({f.name: [] for f in SCHEMA}, SCHEMA))
            stream.close()

    all_of(together(1, rank))
