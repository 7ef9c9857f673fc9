"""Queries in a session's time zone, against plain Python with zoneinfo."""

from __future__ import annotations

import datetime
from collections import Counter
from decimal import Decimal
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

import penstock
from penstock.errors import QueryError, UsageError
from penstock.plan.window import TimeWindow
from penstock.query import compile_query
from tests.penstock.kit.clocks import SCHEMA, ZONES, table

NEW_YORK = "America/New_York"
REGIONS = [name for name in ZONES if "/" in name]
ON_KEY = {"time": {"l": "k", "r": "k"}, "within": 1}
UTC = datetime.UTC


def utc(*parts: int) -> datetime.datetime:
    return datetime.datetime(*parts, tzinfo=UTC)


def wall(instant: datetime.datetime, zone: str) -> datetime.datetime:
    return instant.astimezone(ZoneInfo(zone)).replace(tzinfo=None)


def in_utc(value: Any) -> Any:
    """The same; Python finds no datetimes of two zones equal where a clock is put back."""
    is_instant = isinstance(value, datetime.datetime) and value.tzinfo is not None
    return value.astimezone(UTC) if is_instant else value


def one(query: str, zone: str | None = NEW_YORK, **columns) -> list:
    """Values of an expression over a row of ``l``."""
    left = pa.table({"k": [0], **columns})
    text = f"SELECT {query} AS x FROM l JOIN r ON l.k = r.k"
    found = penstock.sql(text, {"l": left, "r": pa.table({"k": [0]})}, time_zone=zone, **ON_KEY)
    return in_utc(found.column("x")[0].as_py())


@pytest.mark.parametrize("zone", ["Mars/Base", "", "right/UTC", 3])
def test_no_such_zone(zone):
    with pytest.raises(UsageError, match="there is no time zone"):
        one("1", zone)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("2024-03-10 01:02:00", utc(2024, 3, 10, 6, 2)),
        ("2024-03-10 02:30:00", utc(2024, 3, 10, 7, 30)),  # skipped
        ("2024-11-03 01:30:00", utc(2024, 11, 3, 5, 30)),  # shown twice
        ("2024-3-9 1:2:3.5", utc(2024, 3, 9, 6, 2, 3, 500_000)),
        ("2024", utc(2024, 1, 1, 5)),
        ("2024-03-10T02:30:00Z", utc(2024, 3, 10, 2, 30)),
        ("2024-03-10 02:30:00+01:00", utc(2024, 3, 10, 1, 30)),
        ("2024-03-10 02:30:00 Asia/Kolkata", utc(2024, 3, 9, 21)),
        ("1883-11-18 12:00:00", utc(1883, 11, 18, 16, 56, 2)),
    ],
)
def test_literals(text, wanted):
    assert one(f"timestamp'{text}'") == wanted
    assert one(f"cast('{text}' AS timestamp_ltz)") == wanted


@pytest.mark.parametrize(
    "text", ["2024-13-01", "2024-02-30", "20240310", "12:00", "2024-03-10 24:00", "2024-01-01 x"]
)
def test_text_that_is_no_time(text):
    with pytest.raises(QueryError, match=f"'{text}' (is not an ISO date|ends with no time zone)"):
        one(f"timestamp'{text}'")


def test_literals_of_other_types():
    assert one("timestamp_ntz'2024-03-10 02:30:00+01:00'") == datetime.datetime(2024, 3, 10, 2, 30)
    assert one("date'2024-03-10 23:00:00-05:00'") == datetime.date(2024, 3, 10)


@pytest.mark.parametrize("zone", REGIONS)
def test_expressions_of_one_side(zone):
    """Dates, truncation and days, by the calendar of the zone."""
    rows = table(Random(zone), zone, 60)
    other = pa.table({"k": pa.array([0], pa.int32())})
    text = (
        "SELECT l.id, cast(l.t AS date) AS d, cast(l.t AS timestamp_ntz) AS n, "
        "date_trunc('hour', l.t) AS h, date_trunc('week', l.t) AS w, l.t + INTERVAL 2 DAYS AS m, "
        "l.t - INTERVAL 30 HOURS AS e, l.t + INTERVAL 3 HOURS AS s FROM l JOIN r ON l.k = r.k"
    )
    found = penstock.sql(text, {"l": rows, "r": other}, time_zone=zone, **ON_KEY)
    assert found.schema.field("h").type == pa.timestamp("us", zone)
    info, day, hour = ZoneInfo(zone), datetime.timedelta(days=1), datetime.timedelta(hours=1)
    instants = {row["id"]: in_utc(row["t"]) for row in rows.to_pylist()}

    def near(clock: datetime.datetime, instant: datetime.datetime) -> datetime.datetime:
        """The instant of a wall clock; of two that with the offset of another instant."""
        both = [clock.replace(tzinfo=info, fold=fold) for fold in (0, 1)]
        real = [m for m in both if wall(m.astimezone(UTC), zone) == clock]
        same = [m for m in real if m.utcoffset() == instant.astimezone(info).utcoffset()]
        return (same or real or both)[0].astimezone(UTC)

    for values in found.to_pylist():
        row = {name: in_utc(value) for name, value in values.items()}
        instant = instants[row["id"]]
        if instant is None:
            assert set(row.values()) == {row["id"], None}
            continue
        clock = wall(instant, zone)
        midnight = datetime.datetime.combine(clock.date(), datetime.time())
        monday = midnight - clock.weekday() * day
        start = near(monday, utc(1800, 1, 1))
        assert row["d"] == clock.date()
        assert row["n"] == clock
        assert row["h"] == near(clock.replace(minute=0, second=0, microsecond=0), instant)
        assert row["w"] == start or wall(start, zone) != monday
        assert row["m"] == near(clock + 2 * day, instant)
        assert row["e"] == near(clock - day, instant) - 6 * hour
        assert row["s"] == instant + 3 * hour


@pytest.mark.parametrize("zone", ["UTC", NEW_YORK, "Australia/Lord_Howe", "GMT-9:30"])
def test_groups_by_day(zone):
    left, right = (table(Random(f"{zone}{k}"), zone, 80) for k in range(2))
    text = (
        "SELECT date_trunc('day', l.t) AS day, count(*) AS n FROM l JOIN r "
        "ON r.t BETWEEN l.t AND l.t + INTERVAL 2 HOURS GROUP BY date_trunc('day', l.t)"
    )
    found = penstock.sql(text, {"l": left, "r": right}, time={"l": "t", "r": "t"}, time_zone=zone)
    offset = datetime.timezone(datetime.timedelta(hours=-9, minutes=-30))
    info = offset if zone.startswith("GMT") else ZoneInfo(zone)
    wanted: Counter = Counter()
    for a in left.column("t").to_pylist():
        for b in right.column("t").to_pylist():
            if a is not None and b is not None and a <= b <= a + datetime.timedelta(hours=2):
                wanted[a.astimezone(info).date()] += 1
    days = [day.astimezone(info).date() for day in found.column("day").to_pylist()]
    assert Counter(dict(zip(days, found.column("n").to_pylist(), strict=True))) == wanted


CASES = {
    "r.t BETWEEN l.t - INTERVAL 1 HOUR AND l.t + INTERVAL 23 HOURS": (3600, 23 * 3600),
    "r.t - l.t BETWEEN INTERVAL 0 SECONDS AND INTERVAL 10 SECONDS": (3600, 10 + 3600),
    "r.t BETWEEN l.t AND l.t + INTERVAL 1 DAY": (0, 86_400 + 3600),
    "date_trunc('day', l.t) = date_trunc('day', r.t)": (86_400 + 2 * 3600, 86_400 + 2 * 3600),
    "r.n BETWEEN l.n AND l.n + INTERVAL 1 DAY": (0, 86_400),
}


@pytest.mark.parametrize("condition", CASES)
def test_windows_allow_for_the_offsets(condition):
    """New York's offsets differ by an hour at most."""
    zone = pa.schema([f.with_nullable(False) for f in SCHEMA])
    column = "n" if "l.n" in condition else "t"
    query = compile_query(
        f"SELECT l.id, r.id AS o FROM l JOIN r ON {condition}",
        {"l": zone, "r": zone},
        time={"l": column, "r": column},
        time_zone=NEW_YORK,
    )
    assert isinstance(query.window, TimeWindow)
    before, after = CASES[condition]
    assert query.window.before is not None
    assert query.window.after is not None
    assert 0 <= before * 1_000_000 - query.window.before <= 1
    assert 0 <= after * 1_000_000 - query.window.after <= 1


def test_a_zone_over_both_sides_is_refused():
    tables = {name: table(Random(name), NEW_YORK, 5) for name in "lr"}
    text = "SELECT l.id FROM l JOIN r ON date_trunc('day', greatest(l.t, r.t)) > l.n"
    with pytest.raises(QueryError, match=r"computed from both sides; devices know no time zones"):
        penstock.sql(text, tables, time_zone=NEW_YORK, **ON_KEY)
    penstock.sql(text, tables, time_zone="UTC", **ON_KEY)
    text = "SELECT date_trunc('day', greatest(l.t, r.t)) AS day FROM l JOIN r ON l.id = r.id"
    found = penstock.sql(text, tables, time_zone=NEW_YORK, **ON_KEY).column("day").to_pylist()
    assert all(wall(day, NEW_YORK).time() == datetime.time() for day in found if day is not None)


def test_without_a_zone_nothing_is_named():
    naive = datetime.datetime(2024, 3, 10, 2, 30)
    assert one("date_trunc('hour', l.n)", None, n=[naive]) == datetime.datetime(2024, 3, 10, 2)
    assert one("timestamp'2024-03-10 02:30:00'", None) == naive
    assert one("timestamp'2024-03-10 02:30:00' = l.n", None, n=[naive])
    assert one("date_trunc('hour', l.n)", "UTC", n=[naive]) == utc(2024, 3, 10, 2)


def test_dates_and_intervals():
    day = datetime.date(2024, 3, 9)
    assert one("l.d + INTERVAL 1 DAY", d=[day]) == datetime.date(2024, 3, 10)
    assert one("l.d - INTERVAL 1 WEEK", d=[day]) == datetime.date(2024, 3, 2)
    assert one("l.d + INTERVAL 36 HOURS", d=[day]) == utc(2024, 3, 10, 17)
    assert one("l.d + 2 * INTERVAL 1 DAY", d=[day]) == utc(2024, 3, 11, 4)


@pytest.mark.parametrize("moment", [utc(2024, 3, 10, 6, 2), datetime.datetime(2024, 3, 10, 1, 2)])
def test_parameters(moment):
    text = "SELECT l.k FROM l JOIN r ON l.k = r.k AND l.t = moment"
    left = pa.table({"k": [0], "t": pa.array([utc(2024, 3, 10, 6, 2)])})
    tables = {"l": left, "r": pa.table({"k": [0]})}
    found = penstock.sql(text, tables, params={"moment": moment}, time_zone=NEW_YORK, **ON_KEY)
    assert found.num_rows == 1


#: Values of every kind that a parameter takes, the first and the last of each.
PARAMETERS = (
    *(None, True, -1, 2**63, 1.5, -0.0, 1e300, float("nan"), float("inf"), Decimal("1.50"), "é'"),
    *(datetime.timedelta(days=-1), datetime.datetime(2024, 3, 10, 1, 2), utc(2024, 3, 10, 6, 2)),
    datetime.datetime.min.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=14))),
    datetime.datetime.max.replace(tzinfo=datetime.timezone(-datetime.timedelta(hours=14))),
)


@pytest.mark.parametrize("value", PARAMETERS, ids=repr)
def test_parameters_around_a_join_are_those_of_a_join(value):
    tables = {"l": pa.table({"k": [0]}), "r": pa.table({"k": [0]})}
    text = "SELECT v AS x FROM l JOIN r ON l.k = r.k"
    beside, around = (
        penstock.sql(text + end, tables, params={"v": value}, time_zone=NEW_YORK, **ON_KEY)
        .column("x")
        .cast(pa.string())
        .to_pylist()
        for end in ("", " ORDER BY l.k")
    )
    assert around == beside


@pytest.mark.parametrize("end", ["", " ORDER BY l.k"])
def test_a_parameter_with_half_a_character(end):
    with pytest.raises(QueryError, match="parameter v has half a character"):
        penstock.sql(
            "SELECT v AS x FROM l JOIN r ON l.k = r.k" + end,
            {"l": pa.table({"k": [0]}), "r": pa.table({"k": [0]})},
            params={"v": "a\ud800"},
            **ON_KEY,
        )


#: Of each, one number and unit is all that the parser reads.
NO_INTERVALS = ("10 seconds ago", "- 1 day", "1 day 1", "P1D", "x1 day", "\x1b[31m", "1 day;")


@pytest.mark.parametrize("text", NO_INTERVALS, ids=repr)
@pytest.mark.parametrize(
    "query",
    [
        "SELECT t + INTERVAL '{}' AS x FROM l GROUP BY t",
        "SELECT window(t, '{}') AS w, count(*) AS n FROM l GROUP BY window(t, '{}')",
        "SELECT id, window(t, '{}') AS w FROM l ORDER BY id",
    ],
)
def test_text_that_is_no_interval(query, text):
    table = pa.table({"id": [1], "t": pa.array([utc(2024, 3, 10)], pa.timestamp("us", "UTC"))})
    with pytest.raises(QueryError, match="is no interval"):
        penstock.sql(query.replace("{}", text), {"l": table})


@pytest.mark.parametrize("text", ["\\\\", "\\'", "''", "5 \\' seconds"])
def test_a_size_with_signs_that_end_texts(text):
    table = pa.table({"t": pa.array([utc(2024, 3, 10)], pa.timestamp("us", "UTC"))})
    query = f"SELECT window(t, '{text}') AS w, count(*) AS n FROM l GROUP BY window(t, '{text}')"
    with pytest.raises(QueryError, match="INTERVAL"):
        penstock.sql(query, {"l": table})
