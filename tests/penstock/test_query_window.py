"""Windows in every spelling, and what is left of the condition beside them."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pytest

from penstock.errors import QueryError
from penstock.plan.forms import join_form
from penstock.query import JoinQuery, RowsWindow, TimeWindow, compile_query

PLAIN = pa.schema(
    [
        pa.field("t", pa.int64()),
        pa.field("x", pa.int32()),
        pa.field("tol", pa.uint8(), nullable=False),
        pa.field("maybe", pa.uint8()),
    ]
)


def stamped(unit: str) -> pa.Schema:
    return PLAIN.append(pa.field("ts", pa.timestamp(unit))).append(pa.field("d", pa.date32()))


def compiled(on: str, *, a: pa.Schema = PLAIN, b: pa.Schema = PLAIN, **options) -> JoinQuery:
    options.setdefault("time", {"a": "t", "b": "t"})
    return compile_query(f"SELECT a.x FROM a JOIN b ON {on}", {"a": a, "b": b}, **options)


INTEGERS = [
    ("b.t BETWEEN a.t - 5 AND a.t + 7", 5, 7),
    ("a.t BETWEEN b.t - 7 AND b.t + 5", 5, 7),
    ("b.t >= a.t - 5 AND b.t <= a.t + 7", 5, 7),
    ("b.t > a.t - 6 AND b.t < a.t + 8", 5, 7),
    ("a.t - 5 <= b.t AND a.t + 7 >= b.t", 5, 7),
    ("a.t - b.t <= 5 AND b.t - a.t <= 7", 5, 7),
    ("-5 <= b.t - a.t AND 7 >= b.t - a.t", 5, 7),
    ("b.t - a.t BETWEEN -5 AND 7", 5, 7),
    ("NOT (b.t < a.t - 5 OR b.t > a.t + 7)", 5, 7),
    ("abs(a.t - b.t) <= 5", 5, 5),
    ("abs(b.t - a.t) < 5", 4, 4),
    ("5 >= abs(b.t - a.t)", 5, 5),
    ("2 * abs(b.t - a.t) <= 9", 4, 4),
    ("abs(b.t - a.t - 10) <= 5", -5, 15),
    ("abs(a.t - b.t) + 1 <= 5 AND b.t <= a.t", 4, 0),
    ("3 * (b.t - a.t) + abs(b.t - a.t) <= -8 AND b.t >= a.t - 20", 20, -4),
    ("a.t = b.t", 0, 0),
    ("b.t = a.t + 3", -3, 3),
    ("3 * b.t <= 3 * a.t + 8 AND 2 * b.t >= 2 * a.t - 3", 1, 2),
    ("b.t >= a.t", 0, None),
    ("b.t <= a.t + 3", None, 3),
    ("b.t BETWEEN a.t + 5 AND a.t + 9", -5, 9),
    ("b.t BETWEEN a.t - 50 AND a.t + 70 AND abs(a.t - b.t) < 10 AND b.t >= a.t - 2", 2, 9),
]


@pytest.mark.parametrize(("on", "before", "after"), INTEGERS)
def test_integer_spellings(on: str, before: int | None, after: int | None) -> None:
    query = compiled(f"{on} AND a.x = b.x")
    assert query.window == TimeWindow(before, after)
    assert repr(query.predicate) == "l.x = r.x"


UNITS = [
    ("INTERVAL 2 SECONDS", 2_000),
    ("INTERVAL 2 SECOND", 2_000),
    ("INTERVAL '2' SECONDS", 2_000),
    ("INTERVAL '2 seconds'", 2_000),
    ("INTERVAL 0.5 SECONDS", 500),
    ("INTERVAL 3 MINUTES", 180_000),
    ("INTERVAL 1 HOUR", 3_600_000),
    ("INTERVAL 1 DAY", 86_400_000),
    ("INTERVAL 1 WEEK", 604_800_000),
    ("INTERVAL 7 MILLISECONDS", 7),
    ("INTERVAL 7000 MICROSECONDS", 7),
    ("INTERVAL -7 MILLISECONDS", -7),
]


@pytest.mark.parametrize(("interval", "size"), UNITS)
def test_intervals_of_all_units(interval: str, size: int) -> None:
    both = stamped("ms")
    on = f"b.ts >= a.ts - {interval} AND b.ts <= a.ts + INTERVAL 1 WEEK"
    query = compiled(on, a=both, b=both, time={})
    found = query.window
    assert isinstance(found, TimeWindow)
    scale = {"ms": 1, "us": 1000}[found.unit]
    assert (found.before, found.after) == (size * scale, 604_800_000 * scale)


@pytest.mark.parametrize(
    "on",
    [
        "b.ts BETWEEN a.ts - INTERVAL 1 SECOND AND a.ts + INTERVAL 1 SECOND",
        "abs(b.ts - a.ts) <= INTERVAL 1 SECOND",
        "a.ts - b.ts <= INTERVAL 1 SECOND AND b.ts - a.ts <= INTERVAL 1 SECOND",
    ],
)
def test_mixed_units_use_the_finer_one(on: str) -> None:
    query = compiled(on, a=stamped("ms"), b=stamped("us"), time={})
    assert query.window == TimeWindow(1_000_000, 1_000_000, "us")


def test_dates() -> None:
    both = stamped("s")
    time = {"a": "d", "b": "d"}
    query = compiled("b.d BETWEEN a.d - 1 AND a.d + 2", a=both, b=both, time=time)
    assert query.window == TimeWindow(1, 2, "D")
    on = "b.d BETWEEN a.d - INTERVAL 1 DAY AND a.d + INTERVAL 2 DAYS"
    assert compiled(on, a=both, b=both, time=time).window == TimeWindow(1, 2, "D")
    on = "b.ts BETWEEN a.d - INTERVAL 1 HOUR AND a.d"
    mixed = compiled(on, a=both, b=both, time={"a": "d", "b": "ts"})
    assert mixed.window == TimeWindow(3600, 0, "s")


def test_integer_columns_with_a_declared_unit() -> None:
    time = {"a": "t:ms", "b": "t:ms"}
    query = compiled("abs(b.t - a.t) <= INTERVAL 2 SECONDS", time=time)
    assert query.window == TimeWindow(2000, 2000)
    query = compiled("b.t <= a.t + INTERVAL 2 SECONDS", time=time, within=timedelta(seconds=3))
    assert query.window == TimeWindow(3000, 2000)


def test_a_tolerance_of_each_tuple_bounds_the_window_and_stays() -> None:
    query = compiled("b.t - a.t <= a.tol AND a.t - b.t <= b.tol")
    assert query.window == TimeWindow(255, 255)
    assert "l.tol" in repr(query.predicate)
    assert "r.tol" in repr(query.predicate)
    # Rows in which one is NULL meet nothing.
    query = compiled("b.t - a.t <= a.maybe AND b.t >= a.t")
    assert query.window == TimeWindow(0, 255)
    assert "l.maybe" in repr(query.predicate)


def test_within_alone_and_with_bounds() -> None:
    assert compiled("a.x = b.x", within=9).window == TimeWindow(9, 9)
    assert compiled("a.x = b.x AND b.t >= a.t", within=9).window == TimeWindow(0, 9)
    both = stamped("ms")
    query = compiled("a.x = b.x", a=both, b=both, time={}, within=timedelta(seconds=9))
    assert query.window == TimeWindow(9000, 9000, "ms")


def test_a_one_sided_condition_filters_but_keeps_its_place_among_rows() -> None:
    on = "abs(a.t - b.t) < 5 AND a.x > 3 AND a.x = b.x"
    query = compiled(on)
    assert repr(query.left.filter) == "3 < l.x"
    rows = compiled("a.x > 3 AND a.x = b.x", rows=5)
    assert repr(rows.left.filter) == "True"
    assert "3 < l.x" in repr(rows.predicate)


def test_a_disjunction_is_no_window_bound() -> None:
    on = "(abs(a.t - b.t) < 5 OR a.x = b.x) AND b.t >= a.t"
    query = compiled(on)
    assert query.window == TimeWindow(0, None)
    assert "abs" in repr(query.predicate)


@pytest.mark.parametrize(
    ("on", "options"),
    [
        ("b.t < a.t - 5 AND b.t > a.t + 5", {}),
        ("b.t BETWEEN a.t + 1 AND a.t", {}),
        ("b.t >= a.t + 10", {"within": 9}),
    ],
)
def test_bounds_that_contradict_each_other_admit_nothing(on: str, options: dict) -> None:
    query = compiled(on, **options)
    assert query.window == TimeWindow(0, 0)
    assert repr(query.predicate) == "False"


def test_a_join_that_admits_nothing_needs_no_window() -> None:
    query = compiled("1 = 0 AND a.x = b.x AND abs(a.t - b.t) < 9")
    assert join_form(query.predicate, "l").cost == 1


# -- ROWS -----------------------------------------------------------------------------------------


def test_rows_in_the_text_and_as_an_argument() -> None:
    schemas = {"a": PLAIN, "b": PLAIN}
    text = "SELECT a.x FROM a [ROWS 100] JOIN b [ROWS 50] ON a.x = b.x"
    assert compile_query(text, schemas).window == RowsWindow(100, 50)
    assert compile_query(text, schemas, rows=7).window == RowsWindow(7, 7)
    assert compile_query(text, schemas, rows={"B": 7}).window == RowsWindow(100, 7)
    aliased = "SELECT p.x FROM a[ROWS 1] AS p JOIN b[ROWS 2] q ON p.x = q.x"
    assert compile_query(aliased, schemas).window == RowsWindow(1, 2)


def test_time_bounds_stay_in_the_predicate_of_rows() -> None:
    query = compiled("abs(a.t - b.t) < 5 AND a.x = b.x", rows=5)
    assert query.window == RowsWindow(5, 5)
    assert "abs" in repr(query.predicate)


def test_rows_with_one_time_column_are_in_order_of_arrival() -> None:
    query = compiled("a.x = b.x", a=stamped("ms"), time={}, rows=5)
    assert query.left.time is None
    assert query.right.time is None


# -- errors ---------------------------------------------------------------------------------------

ERRORS = [
    ("a.x = b.x", {}, "the join has no window; add a time bound to ON, such as"),
    ("a.x = b.x", {"time": {}}, "a has no time column: name it with time"),
    ("a.x = b.x", {"rows": 0}, "ROWS 0 of a admits nothing"),
    ("a.x = b.x", {"rows": {"a": 5}}, "b has no ROWS; a ROWS window needs one per side"),
    ("a.x = b.x", {"rows": {"c": 5}}, "rows are given for c, but the query has no such table"),
    ("a.x = b.x", {"within": -1}, "within must not be negative"),
    ("a.x = b.x", {"within": timedelta(seconds=1)}, "the time columns are plain integers"),
    ("a.x = b.x", {"time": {"c": "t"}}, "time is given for c, but the query has a, b"),
    ("a.x = b.x", {"time": {"a": "q"}}, "time: unknown column q in a"),
    ("a.x = b.x", {"time": {"a": "t:min"}}, "time unit 'min' of a must be one of"),
    (
        "abs(a.t - b.t) < 5",
        {"time": {"a": "t:s", "b": "t:ms"}},
        "the integer time columns are declared in s and ms",
    ),
    (
        "abs(a.t - b.t) < INTERVAL 1 MILLISECOND",
        {"time": {"a": "t:s", "b": "t:s"}},
        "the INTERVAL is not a whole number of s",
    ),
    ("abs(a.t - b.t) < INTERVAL 1 SECOND", {}, "declare the unit of an integer time column"),
]


@pytest.mark.parametrize(("on", "options", "message"), ERRORS)
def test_windows_that_cannot_be(on: str, options: dict, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        compiled(on, **options)
    assert message in str(caught.value)


def test_times_of_two_kinds() -> None:
    with pytest.raises(QueryError, match=r"of type \w+\[ms\], that of the other integer"):
        compiled("a.x = b.x", a=stamped("ms"), time={"b": "t"}, within=3)


def test_a_duration_that_does_not_fit_the_unit() -> None:
    both = stamped("s")
    with pytest.raises(QueryError, match="within is not a whole number of s"):
        compiled("a.x = b.x", a=both, b=both, time={}, within=timedelta(milliseconds=1))


def test_a_computed_time_column_is_refused() -> None:
    text = "SELECT a.x FROM (SELECT x, t + x AS t FROM a) a JOIN b ON abs(a.t - b.t) < 5"
    with pytest.raises(QueryError, match="a time column must be a column, not a computed sum"):
        compile_query(text, {"a": PLAIN, "b": PLAIN}, time={"a": "t", "b": "t"})
