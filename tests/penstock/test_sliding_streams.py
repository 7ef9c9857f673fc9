"""Groups by sliding windows of streams: every pair once in each window, and windows that leave."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.errors import QueryError

ROWS = 160
REACH = 9_000_000
NS = {"us": 1_000, "ns": 1, "ms": 1_000_000}
SPANS = {
    "halves": (20_000_000, 10_000_000),
    "no divisor": (20_000_000, 7_000_000),
    "many": (5_000_000, 500_000),
}


def rows(seed: int, dtype: pa.DataType) -> pa.Table:
    rng = np.random.default_rng(seed)
    # Multiples of half a second, so that times lie on the edges of windows.
    times = np.sort(rng.integers(-200, 200, ROWS)) * 500_000
    ticks = pa.array(times * 1_000 // NS[dtype.unit]).cast(pa.timestamp(dtype.unit)).cast(dtype)
    return pa.table({"id": np.arange(ROWS), "t": ticks, "us": times, "k": rng.integers(0, 3, ROWS)})


def windows(time: int, size: int, slide: int) -> list[int]:
    """Starts of the windows of a time, found by trying all that may be."""
    first = (time - size) // slide * slide
    starts = range(first - slide, time + slide, slide)
    return [start for start in starts if start <= time < start + size]


def brute(a: pa.Table, b: pa.Table, size: int, slide: int, *, left: bool) -> Counter:
    found: Counter = Counter()
    others = b.to_pylist()
    for row in a.to_pylist():
        met = [o for o in others if o["k"] == row["k"] and abs(o["us"] - row["us"]) <= REACH]
        for start in windows(row["us"], size, slide):
            if met or left:
                found[start, row["k"]] += len(met)
    return found


QUERIES = {
    "of the pairs": (
        "SELECT window.start AS s, window.end AS e, a.k, count(b.id) AS n, "
        "count(DISTINCT b.id) AS d FROM a {kind} JOIN b ON a.k = b.k "
        "AND abs(a.t - b.t) <= INTERVAL 9 SECONDS "
        "GROUP BY window(a.t, '{size} microseconds', '{slide} microseconds'), a.k"
    ),
    "of a subquery": (
        "SELECT q.w.start AS s, q.w.end AS e, k, count(j) AS n, count(DISTINCT j) AS d FROM ("
        "SELECT window(a.t, '{size} microseconds', '{slide} microseconds') AS w, a.k, b.id AS j "
        "FROM a {kind} JOIN b ON a.k = b.k AND abs(a.t - b.t) <= INTERVAL 9 SECONDS"
        ") q GROUP BY q.w, k"
    ),
}


@pytest.mark.parametrize("kind", ["", "LEFT"])
@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize(
    ("spans", "dtype"),
    [
        ("halves", pa.timestamp("us")),
        ("no divisor", pa.timestamp("ns")),
        ("many", pa.timestamp("ms", "UTC")),
    ],
    ids=str,
)
def test_counts_are_those_of_every_window(
    query: str, kind: str, spans: str, dtype: pa.DataType
) -> None:
    size, slide = SPANS[spans]
    text = QUERIES[query].format(kind=kind, size=size, slide=slide)
    a, b = rows(1, dtype), rows(2, dtype)
    parts = []
    with penstock.stream(text, {"a": a.schema, "b": b.schema}) as stream:
        for first in range(0, ROWS, 16):
            stream.push("a", a.slice(first, 16))
            stream.push("b", b.slice(first, 16))
            parts.append(stream.poll())
        early = sum(part.num_rows for part in parts)
        parts.append(stream.close())
    found = pa.concat_tables(parts)
    starts = found["s"].cast(pa.timestamp("us")).cast(pa.int64()).to_pylist()
    ends = found["e"].cast(pa.timestamp("us")).cast(pa.int64()).to_pylist()
    assert [end - start for start, end in zip(starts, ends, strict=True)] == [size] * len(starts)
    keys = list(zip(starts, found["k"].to_pylist(), strict=True))
    assert len(set(keys)) == len(keys)
    wanted = brute(a, b, size, slide, left=kind == "LEFT")
    assert dict(zip(keys, found["n"].to_pylist(), strict=True)) == dict(wanted)
    assert early > len(wanted) // 2
    on_tables = penstock.sql(text, {"a": a, "b": b})
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, on_tables.to_pylist()))


def test_a_window_leaves_once_no_row_of_it_can_follow() -> None:
    """A window [0, 20 s) waits for the other side's rows up to 9 s behind it, and no longer."""
    query = QUERIES["of the pairs"].format(kind="", size=20_000_000, slide=10_000_000)

    def row(seconds: float) -> pa.Table:
        ticks = pa.array([int(seconds * 1e6)]).cast(pa.timestamp("us"))
        return pa.table({"id": [1], "t": ticks, "us": [0], "k": [0]})

    schema = row(0).schema
    with penstock.stream(query, {"a": schema, "b": schema}) as stream:
        stream.push("a", row(12))
        stream.push("b", row(12))
        stream.push("a", row(40))
        stream.push("b", row(28.9))
        assert stream.poll().num_rows == 0
        stream.push("b", row(29))
        first = stream.poll()
        assert first["s"].cast(pa.int64()).to_pylist() == [0]
        stream.push("b", row(39))
        second = stream.poll()
        assert second["s"].cast(pa.int64()).to_pylist() == [10_000_000]


def test_one_stream_says_what_to_do() -> None:
    query = (
        "SELECT window.start AS s, count(*) AS n FROM a "
        "GROUP BY window(t, '20 seconds', '10 seconds')"
    )
    with pytest.raises(QueryError, match="tumbling windows of the slide"):
        penstock.stream(query, {"a": rows(1, pa.timestamp("us")).schema})


@pytest.mark.parametrize("units", [("s", "ns"), ("us", "ns"), ("ns", "ms")], ids="-".join)
@pytest.mark.parametrize("own", ["a", "b"])
def test_times_of_two_units(units: tuple[str, str], own: str) -> None:
    """The window counts the finer unit; groups close by the time of their own source."""
    a, b = rows(3, pa.timestamp("us")), rows(4, pa.timestamp("us"))
    a, b = (
        one.set_column(1, "t", one["t"].cast(pa.timestamp(unit), safe=False))
        for one, unit in zip((a, b), units, strict=True)
    )
    query = (
        f"SELECT window({own}.t, '10 seconds').start AS s, count(DISTINCT a.id) AS n, "
        "count(*) AS pairs FROM a FULL JOIN b ON a.k = b.k "
        "AND abs(a.t - b.t) <= INTERVAL 2 SECONDS "
        f"GROUP BY window({own}.t, '10 seconds').start"
    )
    parts = []
    with penstock.stream(query, {"a": a.schema, "b": b.schema}) as stream:
        for first in range(0, ROWS, 16):
            stream.push("a", a.slice(first, 16))
            stream.push("b", b.slice(first, 16))
            parts.append(stream.poll())
        parts.append(stream.close())
    assert sum(part.num_rows for part in parts[:-1]) > 5
    found, wanted = pa.concat_tables(parts), penstock.sql(query, {"a": a, "b": b})
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, wanted.to_pylist()))
