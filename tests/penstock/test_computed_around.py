"""Values around a join are Penstock's, whatever clause stands beside them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

import penstock
from penstock.errors import DataError, QueryError
from penstock.query.parse import parse
from tests.penstock.kit.duckdb_text import text_and_calls

NANOS = [-1, 1_700_000_000_000_000_001, 1_700_000_000_000_000_003]
DAYS = 86_400 * 10**9
TABLE = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.uint32()),
        "n": pa.array(NANOS).cast(pa.timestamp("ns")),
        "z": pa.array(NANOS).cast(pa.timestamp("ns", "UTC")),
        "k": pa.array([5, 0, None]),
    }
)
#: What is asked of the rows in the order of ``id``, and what comes; times as counts of their unit.
VALUES = {
    "n - TIMESTAMP_NTZ '1970-01-01'": NANOS,
    "n + INTERVAL 1 SECOND": [one + 10**9 for one in NANOS],
    "date_trunc('second', z)": [-(10**9), 1_700_000_000 * 10**9, 1_700_000_000 * 10**9],
    "n > TIMESTAMP_NTZ '2023-11-14 22:13:20.000000002'": [False, False, True],
    "year(n)": [1969, 2023, 2023],
    "to_date(n)": [-1, 19_675, 19_675],
    "id - 2": [-1, 0, 1],
    "date_sub(to_date(n), id)": [-2, 19_673, 19_672],
    "timestampadd(YEAR, id, n) - n": [n * DAYS for n in (365, 731, 1096)],
    "n + INTERVAL 3 MONTHS": [one + n * DAYS for one, n in zip(NANOS, (90, 92, 92), strict=True)],
    "timestampdiff(MONTH, TIMESTAMP_NTZ '2023-10-14 23:00:00', n)": [-645, 0, 0],
    "k % k": [0, None, None],
    "sum(k) OVER (ORDER BY n ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)": [5, 5, 0],
    "count((n - n)) FILTER (WHERE k > 0) OVER ()": [1] * 3,
    "min(INTERVAL 1 DAY) OVER (PARTITION BY concat(id, k))": [86_400] * 3,
    "n - lag(n) OVER (ORDER BY id)": [None, NANOS[1] - NANOS[0], 2],
}


def plain(column: pa.ChunkedArray) -> list:
    """Times as counts of their unit."""
    dtype = column.type
    if pa.types.is_date32(dtype):
        return column.cast(pa.int32()).to_pylist()
    return (column.cast(pa.int64()) if pa.types.is_temporal(dtype) else column).to_pylist()


@pytest.mark.parametrize("value", VALUES)
def test_values(value: str) -> None:
    rows = penstock.sql(f"SELECT {value} AS v FROM a ORDER BY id", {"a": TABLE})
    assert plain(rows["v"]) == VALUES[value]


@pytest.mark.parametrize("around", ["{}", "{} ORDER BY 1"])
def test_values_and_types_beside_a_join_and_around_it(around: str) -> None:
    far = pa.array([253_402_300_799] * 3, pa.timestamp("s"))
    wide = TABLE.append_column("far", far)
    query = "SELECT CAST(a.id AS BIGINT) AS i, if(a.id > 9, b.far - (a.n - b.n), a.n) AS c FROM a"
    query = around.format(f"{query} JOIN b ON a.n = b.n")
    rows = penstock.sql(query, {"a": wide, "b": wide}, time={"a": "n", "b": "n"})
    assert [str(one.type) for one in rows.schema] == ["int64", "timestamp[ns]"]
    assert plain(rows["c"]) == NANOS


@pytest.mark.parametrize("size", ["'20 seconds', '10 seconds'", "'10 seconds'"])
def test_windows_of_nanoseconds(size: str) -> None:
    window = f"window(n, {size})"
    query = f"SELECT {window}.start AS w, count(DISTINCT id) AS c FROM a GROUP BY {window}"
    rows = penstock.sql(query, {"a": TABLE})
    last = {-10 * 10**9: 1, 1_700_000_000 * 10**9: 2}
    wanted = last | ({one - 10 * 10**9: n for one, n in last.items()} if "20" in size else {})
    assert dict(zip(plain(rows["w"]), rows["c"].to_pylist(), strict=True)) == wanted


@pytest.mark.parametrize("around", ["{}", "{} ORDER BY 1"])
@pytest.mark.parametrize("value", ["window(b.k, 5).start", "CASE WHEN a.id = 9 THEN 1 END"])
@pytest.mark.parametrize("where", ["", " WHERE window(b.k, 5).start >= 0"])
def test_a_pair_without_a_time_is_in_no_window(value: str, where: str, around: str) -> None:
    query = f"SELECT a.id, {value} AS w FROM a LEFT JOIN b ON a.id = b.id AND a.n = b.n{where}"
    rows = penstock.sql(around.format(query), {"a": TABLE, "b": TABLE}, time={"a": "n", "b": "n"})
    assert sorted(rows["id"].to_pylist()) == ([1, 2] if "window" in value + where else [1, 2, 3])


def test_an_outer_join_keeps_a_row_without_a_time() -> None:
    query = (
        "SELECT a.id, c.id AS j FROM a LEFT JOIN b ON a.id = b.id AND a.n = b.n "
        "LEFT JOIN c ON c.id = a.id AND window(a.k, 5).start = window(c.k, 5).start ORDER BY 1"
    )
    rows = penstock.sql(query, dict.fromkeys("abc", TABLE), time=dict.fromkeys("abc", "n"))
    assert rows["j"].to_pylist() == [1, 2, None]


@pytest.mark.parametrize("around", ["{}", "{} ORDER BY 1"])
def test_a_window_beside_its_groups(around: str) -> None:
    late = "avg(k) FILTER (WHERE n < window(n2, '1 day').start) AS k"
    query = f"SELECT window(z, '1 day').start AS w, {late} FROM a GROUP BY window(z, '1 day')"
    table = TABLE.append_column("n2", pa.array([None, *NANOS[1:]], pa.timestamp("ns")))
    rows = penstock.sql(around.format(query), {"a": table}, time={"a": "z"})
    assert str(rows.schema.field("w").type) == "timestamp[ns]"
    assert plain(rows["w"]) == [1_699_920_000 * 10**9]


def test_windows_of_integers() -> None:
    query = "SELECT window(k, 5).start AS w, count(DISTINCT id) AS c FROM a GROUP BY window(k, 5)"
    rows = penstock.sql(query, {"a": TABLE}).to_pylist()
    assert sorted(map(repr, rows)) == ["{'w': 0, 'c': 1}", "{'w': 5, 'c': 1}"]


def test_hours_over_a_change_of_daylight_saving() -> None:
    start = dt.datetime(2024, 3, 9, 17, 30, tzinfo=dt.UTC)  # 12:30 in New York, a day before
    events = pa.table({"t": pa.array([start], pa.timestamp("us", "America/New_York"))})
    query = "SELECT t + INTERVAL 36 HOURS AS w, date_trunc('month', t) AS m FROM e ORDER BY t"
    (row,) = penstock.sql(query, {"e": events}, time_zone="America/New_York").to_pylist()
    assert row["w"] == start + dt.timedelta(hours=24) + dt.timedelta(hours=11)
    assert row["m"] == dt.datetime(2024, 3, 1, 5, tzinfo=dt.UTC)


def test_a_text_that_is_no_number_is_told_in_words_of_the_query() -> None:
    query = "SELECT count(*) OVER (PARTITION BY CAST(concat(id, 'x') AS INT)) AS c FROM a"
    with pytest.raises(DataError, match=r"^the text \dx is no integer; cast it to DECIMAL"):
        penstock.sql(query, {"a": TABLE})


def test_sums_of_more_than_38_digits_are_told() -> None:
    large = pa.array([Decimal(10**38 - 1)] * 3, pa.decimal128(38))
    query = "SELECT avg(k) AS v, count(DISTINCT k) AS c FROM a"
    with pytest.raises(DataError, match=r"^the sum of (a\.)?k is beyond 38 digits: CAST"):
        penstock.sql(query, {"a": TABLE.set_column(3, "k", large)})


def of_pairs(query: str) -> pa.Table:
    return penstock.sql(query, {"a": TABLE, "b": TABLE}, time={"a": "n", "b": "n"})


def test_a_column_that_is_no_key_is_told() -> None:
    for select in ("count(DISTINCT a.z) AS c", "count(*) AS c"):
        query = f"SELECT {select}, a.k FROM a JOIN b ON a.n = b.n GROUP BY a.id ORDER BY 1"
        with pytest.raises(QueryError, match=r"k is neither a key of GROUP BY nor inside an aggr"):
            of_pairs(query)


def test_a_value_is_not_cast_where_a_case_does_not_take_it() -> None:
    query = "SELECT CASE WHEN a.id < 0 THEN CAST(a.id * 1e30 AS INT) ELSE 0 END AS v FROM a"
    for text in (f"{query} JOIN b ON a.n = b.n", f"{query} JOIN b ON a.n = b.n ORDER BY 1"):
        assert of_pairs(text)["v"].to_pylist() == [0, 0, 0]
        with pytest.raises(DataError, match=r"CAST of .* overflows"):
            of_pairs(text.replace("< 0", "> 0"))


def test_truth_values_of_both_sides_as_numbers() -> None:
    query = "SELECT a.id FROM a JOIN b ON CAST(if(a.id > 1, a.k, b.k) IS NULL AS INT) = 1"
    rows = penstock.sql(
        query, {"a": TABLE, "b": TABLE}, time={"a": "n", "b": "n"}, within=dt.timedelta(0)
    )
    assert rows["id"].to_pylist() == [3]


@pytest.mark.parametrize("around", ["{}", "{} LIMIT 9"])
@pytest.mark.parametrize(
    "value", ["date_sub(to_date(a.n), 9999999999)", "timestampadd(YEAR, a.k, a.n)"]
)
def test_times_beyond_their_type(value: str, around: str) -> None:
    table = TABLE.set_column(3, "k", pa.array([2**63] * 3, pa.uint64()))
    query = f"SELECT {value} AS v FROM a JOIN b ON a.n = b.n"
    with pytest.raises(DataError, match=r"a computed .* needs more than \d\d bits"):
        penstock.sql(around.format(query), {"a": table, "b": TABLE}, time={"a": "n", "b": "n"})


#: Expressions of exact numbers that DuckDB has, too: it is given them in its own words.
IN_WORDS = (
    *("x - y", "x * y", "-x", "abs(x)", "x % 7", "x div 7", "y % 2147483648 = x", "k % 7"),
    *("k div 3", "x <= y AND (y > 3 OR NOT c)", "k = 9223372036854775807", "c = (x < y)"),
    *("v IS NULL OR x > 0", "x IS NULL", "CAST(x AS BIGINT) * 3", "k + 1", "-k", "abs(k)"),
    *("CASE WHEN x < 0 THEN k WHEN c THEN y ELSE NULL END", "CASE WHEN x > 0 THEN 1 END"),
    *("CASE WHEN c THEN TRUE ELSE x <> y END", "u + x", "k * k", "u * x", "p - q", "q * p - r"),
    *("q * r + x", "w * 2 - 0.5", "w - w * 3 < -0.25", "-q", "abs(r) * 3", "q + 1.25", "e + r"),
    *("CASE WHEN q < 3 THEN r ELSE q END", "e IN (1, 0.5)", "CAST(k AS DECIMAL(22, 2))", "r * r"),
    *("nullif(q, -0.05)", "CAST(q AS DECIMAL(38, 4)) >= p"),
)
#: Expressions that may need more digits, divide by 0, round, or have values of another kind.
CALLED = (
    *("x % y", "x div y", "v > x", "(x + 1) * (x + 1)", "n - m", "w * 100 * q", "q / 3", "p % 7"),
    *("round(r, 1)", "e * q * q", "p * v"),
)


def _decimals(values: list[int | None], digits: int, scale: int) -> pa.Array:
    """Decimals of all digits, or of few, for integers."""
    stored = [one and one**9 % 10**digits - (one < 0) * 10**digits for one in values]
    stored[:2] = [10**digits - 1, 1 - 10**digits]
    numbers = [
        None if one is None else Decimal((one < 0, tuple(map(int, str(abs(one)))), -scale))
        for one in stored
    ]
    return pa.array(numbers, pa.decimal128(digits, scale))


def test_exact_numbers_are_in_duckdbs_words() -> None:
    edges = [-(2**31), 2**31 - 1, -7, 0, 5, None]
    values = [(x, y) for x in edges for y in edges]
    lefts, rights = [x for x, _ in values], [y for _, y in values]
    table = pa.table(
        {
            "t": pa.array(range(len(values))),
            "x": pa.array(lefts, pa.int32()),
            "y": pa.array(rights, pa.int32()),
            "k": pa.array([one and one * 2**32 for one in lefts], pa.int64()),
            "c": pa.array([None if y is None else y > 0 for y in rights]),
            "v": pa.array([None if y is None else float(y) for y in rights]),
            "n": pa.array(lefts, pa.int64()).cast(pa.timestamp("ns")),
            "m": pa.array(rights, pa.int64()).cast(pa.timestamp("ns")),
            "u": pa.array([0 if y is None else 2**64 - 1 for y in rights], pa.uint64()),
            "p": _decimals(lefts, 19, 0),
            "q": _decimals(rights, 10, 2),
            "r": _decimals(lefts, 18, 4),
            "w": _decimals(rights, 35, 0),
            "e": _decimals(lefts[::-1], 36, 18),
        }
    )
    values = ", ".join(f"{one} AS c{n}" for n, one in enumerate((*IN_WORDS, *CALLED)))
    query = f"SELECT a.t AS t, {values} FROM a JOIN b ON a.t = b.t"
    beside, around = (
        penstock.sql(text, {"a": table, "b": table.select(["t"])}, time={"a": "t", "b": "t"})
        for text in (query, f"{query} ORDER BY t")
    )
    assert around.equals(beside.sort_by("t"))
    _, calls = text_and_calls(parse(f"SELECT {values} FROM a"), {"a": table.schema})
    assert len(calls) - len(around.schema) + 1 == len(CALLED)


@pytest.mark.parametrize("kind", ["LEFT", "RIGHT", "FULL", "LEFT SEMI", "LEFT ANTI"])
def test_computed_conditions_of_outer_joins(kind: str) -> None:
    a = {"id": [1, 2, 3, 4], "k": [7, 7, 8, None], "x": [0.0, 1.0, 0.25, 0.0]}
    b = {"id": [5, 6, 7, 8], "k": [7, 7, 8, 9], "x": [0.0, 4.0, 0.25, 0.0]}
    met = [(1, 5), (3, 7)]  # one side is below 1, and the other, and their sum is below 1
    alone = {
        side: [(n, None) if side == "a" else (None, n) for n in kept]
        for side, kept in {"a": (2, 4), "b": (6, 8)}.items()
    }
    rows = {
        "LEFT": met + alone["a"],
        "RIGHT": met + alone["b"],
        "FULL": met + alone["a"] + alone["b"],
        "LEFT SEMI": [(1,), (3,)],
        "LEFT ANTI": [(2,), (4,)],
    }[kind]
    columns = "a.id" if len(rows[0]) == 1 else "a.id, b.id AS other"
    query = (
        f"SELECT {columns} FROM a {kind} JOIN b ON a.k = b.k AND sqrt(a.x) < 1 "
        "AND sqrt(b.x) + 0 < 1e0 AND a.x + b.x < 1e0"
    )
    tables = {"a": pa.table(a), "b": pa.table(b)}
    answer = penstock.sql(query, tables)
    assert sorted(zip(*answer.to_pydict().values(), strict=True), key=str) == sorted(rows, key=str)
    text, _ = text_and_calls(parse(query), {name: one.schema for name, one in tables.items()})
    # DuckDB computes a key once for a row, and other tests of an outer join for each pair.
    assert text.count('THEN "a"."k" END = CASE WHEN') == text.count('THEN "b"."k" END') == 1


def test_counts_of_conditions_are_numbers() -> None:
    query = "SELECT count_if(k > 9) AS c, count(DISTINCT k) AS d FROM a"
    rows = penstock.sql(query, {"a": TABLE})
    assert rows.schema.field("c").type == pa.int64()
    assert rows.to_pylist() == [{"c": 0, "d": 2}]


@pytest.mark.parametrize(
    ("dtype", "days"), [(pa.uint32(), "5"), (pa.date32(), "INTERVAL 5 DAYS")], ids=str
)
def test_groups_of_streams_by_times_without_a_clock(dtype: pa.DataType, days: str) -> None:
    rows = pa.table({"t": pa.array([1, 3], pa.int32()).cast(dtype)})
    query = (
        f"SELECT a.t, count(b.t) AS n FROM a LEFT JOIN b ON b.t BETWEEN a.t - {days} AND a.t "
        "GROUP BY a.t"
    )
    disorder = {"disorder": 10} if pa.types.is_integer(dtype) else {}
    schemas = {"a": rows.schema, "b": rows.schema}
    with penstock.stream(query, schemas, time={"a": "t", "b": "t"}, **disorder) as stream:
        for name in "ab":
            stream.push(name, rows)
        found = pa.concat_tables([stream.poll(), stream.close()])
    assert sorted(found["n"].to_pylist()) == [1, 2]


def test_found_by_random_queries_from_the_documents() -> None:
    ns = pa.array([-1797024440680481229]).cast(pa.timestamp("ns", "UTC"))
    p = pa.table({"id": [3], "t": [1], "at": ns, "s": ["aB c"], "most": [2**63 - 1]})
    given = {"tables": {"a": p, "b": p}, "time": {"a": "t", "b": "t"}}
    for around in ("", " ORDER BY 1"):
        found = penstock.sql(
            "SELECT if(a.id < 0, timestamp_seconds(b.id), a.at) AS at, initcap(a.s) AS s, "
            "timestamp_millis(b.id) - timestamp_seconds(b.id) AS d, "
            "avg(a.most + a.id) OVER () AS m "
            f"FROM a JOIN b ON a.t = b.t{around}",
            **given,
        )
        assert found["at"].type == pa.timestamp("ns")
        assert found["at"].cast(pa.int64()).to_pylist() == [-1797024440680481229]
        assert found["s"].to_pylist() == ["Ab C"]
        assert found["d"].cast(pa.int64()).to_pylist() == [-2_997_000]
        assert found["m"].to_pylist() == [float(2**63 + 2)]
