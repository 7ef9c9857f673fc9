"""Groups of streams by the calendar of a zone: complete, although wall clocks are put back."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest

import penstock
from penstock.errors import QueryError
from penstock.host.windows.source import StreamSource
from penstock.plan.group_query import require_closing
from penstock.query import compile_query

ZONES = ["America/New_York", "Australia/Lord_Howe", "America/Toronto", "Atlantic/Azores", "UTC"]
SCHEMA = pa.schema([("n", pa.int64()), ("t", pa.timestamp("us", "UTC"))])
KEYS = [
    "date_trunc('hour', a.t)",
    "date_trunc('day', a.t)",
    "date_trunc('week', a.t)",
    "cast(a.t AS date)",
    "cast(a.t AS timestamp_ntz)",
    "cast(date_trunc('minute', a.t + INTERVAL 1 DAY) AS timestamp_ntz)",
]
#: Clocks are put back in each of the zones within this time.
START = {
    "America/New_York": datetime.datetime(2024, 11, 3, 0),
    "Australia/Lord_Howe": datetime.datetime(2024, 4, 6, 10),
    "America/Toronto": datetime.datetime(2024, 11, 3, 0),
    "Atlantic/Azores": datetime.datetime(2024, 10, 26, 20),
    "UTC": datetime.datetime(2024, 10, 26, 20),
}


def rows_of(zone: str, seed: int) -> pa.Table:
    start = START[zone].replace(tzinfo=datetime.UTC)
    times = [start + datetime.timedelta(minutes=2 * k + seed) for k in range(240)]
    return pa.table({"n": list(range(240)), "t": times}, schema=SCHEMA)


def counted(tables: list[pa.Table]) -> list[tuple]:
    return sorted(tuple(row.values()) for table in tables for row in table.to_pylist())


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("zone", ZONES)
def test_groups_close_whole(zone, key):
    text = (
        f"SELECT {key} AS k, count(*) AS c, sum(b.n) AS s FROM a JOIN b ON b.t BETWEEN "
        f"a.t - INTERVAL 20 MINUTES AND a.t + INTERVAL 5 MINUTES GROUP BY {key}"
    )
    tables = {side: rows_of(zone, seed) for seed, side in enumerate("ab")}
    found = []
    with penstock.stream(text, dict.fromkeys("ab", SCHEMA), time_zone=zone) as stream:
        for first in range(0, 240, 5):
            for side, table in tables.items():
                stream.push(side, table.slice(first, 5).combine_chunks().to_batches()[0])
            found.append(stream.poll())
        early = sum(table.num_rows for table in found)
        found.append(stream.close())
    expected = penstock.sql(text, tables, time_zone=zone)
    wanted = counted([expected])
    assert len(wanted) > 1 or "week" in key
    assert counted(found) == wanted
    assert early or "week" in key or "day" in key


@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York"])
def test_times_of_two_kinds(zone):
    naive = pa.schema([("n", pa.int64()), ("t", pa.timestamp("us"))])
    text = "SELECT a.n FROM a JOIN b ON b.t BETWEEN a.t AND a.t + INTERVAL 5 MINUTES"
    query = compile_query(text, {"a": SCHEMA, "b": naive}, time_zone=zone)
    if zone != "America/New_York":
        require_closing(query)
        return
    with pytest.raises(QueryError, match=r"the time of b is converted in the time zone America"):
        require_closing(query)


@pytest.mark.parametrize("zone", [None, "America/New_York"])
@pytest.mark.parametrize("naive", [False, True])
def test_what_is_promised_as_a_datetime(zone, naive):
    """One without a zone is a wall clock, in the session's zone where times are instants."""
    schema = SCHEMA if not naive else pa.schema([SCHEMA.field(0), ("t", pa.timestamp("us"))])
    query = compile_query(
        "SELECT a.n FROM a JOIN b ON b.t BETWEEN a.t AND a.t + INTERVAL 5 MINUTES",
        dict.fromkeys("ab", schema),
        time_zone=zone,
    )
    source = StreamSource(query.left, 0, zone)
    wall, instant = (
        datetime.datetime(2024, 3, 10, 1),
        datetime.datetime(2024, 3, 10, 6, tzinfo=datetime.UTC),
    )
    hours = {m: source.moment(m) / 3_600_000_000 - 19_792 * 24 for m in (wall, instant)}
    away = 5 if zone else 0
    assert hours == {wall: 1 if naive else 1 + away, instant: 6 - away if naive else 6}
