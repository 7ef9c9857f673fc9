"""Joins of rows in the same session, beside DuckDB."""

from __future__ import annotations

from datetime import datetime, timedelta

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock
from penstock.errors import QueryError
from penstock.query.compiler import compile_query
from tests.kit.effort import examples

SCHEMA = pa.schema(
    [
        pa.field("n", pa.int64(), nullable=False),
        ("k", pa.int64()),
        ("x", pa.float64()),
        ("t", pa.int64()),
    ]
)
SCHEMAS = {"a": SCHEMA, "b": SCHEMA}
TIME = {"a": "t", "b": "t"}
KINDS = ("", "LEFT", "RIGHT", "FULL", "LEFT SEMI", "LEFT ANTI")
BOTH = "session_window(a.t, {0}) = session_window(b.t, {0})"
_ROW = st.tuples(
    st.one_of(st.none(), st.integers(0, 2)),
    st.sampled_from([None, 0.0, -0.0, 1.5, float("nan")]),
    st.one_of(st.none(), st.integers(0, 60)),
)
_ROWS = st.lists(_ROW, max_size=25)
Row = tuple[int | None, float | None, int | None]

#: Sessions in DuckDB: where the step from the row before is above the gap, one begins.
_ORACLE = """
WITH rows AS (
  SELECT 0 AS side, n, {keys}, t FROM a WHERE {known}
  UNION ALL SELECT 1, n, {keys}, t FROM b WHERE {known}),
steps AS (
  SELECT *, t - lag(t) OVER (PARTITION BY {keys} ORDER BY t, side, n) <= {gap} AS goes_on
  FROM rows),
sessions AS (
  SELECT *, sum(CASE WHEN goes_on THEN 0 ELSE 1 END)
    OVER (PARTITION BY {keys} ORDER BY t, side, n) AS s FROM steps),
l AS (SELECT a.*, s FROM a LEFT JOIN sessions z ON z.side = 0 AND z.n = a.n),
r AS (SELECT b.*, s FROM b LEFT JOIN sessions z ON z.side = 1 AND z.n = b.n)
SELECT {shown} FROM l AS a {kind} JOIN r AS b ON {equal} AND a.s = b.s{more}
"""


def table(rows: list[Row]) -> pa.Table:
    columns = [range(len(rows)), *(list(own) for own in zip(*rows, strict=True))]
    if not rows:
        return SCHEMA.empty_table()
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def sorted_rows(found: pa.Table) -> list[str]:
    return sorted(map(repr, zip(*(c.to_pylist() for c in found.columns), strict=True)))


def shown(kind: str) -> str:
    return "a.n AS i" if kind.startswith("LEFT ") else "a.n AS i, b.n AS j"


def asked(kind: str, keys: str, gap: int, more: str) -> str:
    equal = " AND ".join(f"a.{key} = b.{key}" for key in keys.split(", "))
    return f"SELECT {shown(kind)} FROM a {kind} JOIN b ON {equal} AND {BOTH.format(gap)}{more}"


def wanted(tables: dict[str, pa.Table], kind: str, keys: str, gap: int, more: str) -> list[str]:
    names = keys.split(", ")
    text = _ORACLE.format(
        keys=keys,
        known=" AND ".join(f"{name} IS NOT NULL" for name in [*names, "t"]),
        gap=gap,
        shown=shown(kind),
        kind=kind.replace("LEFT SEMI", "SEMI").replace("LEFT ANTI", "ANTI"),
        equal=" AND ".join(f"a.{name} = b.{name}" for name in names),
        more=more,
    )
    with duckdb.connect() as base:
        for name, one in tables.items():
            base.register(name, one)
        return sorted_rows(base.sql(text).to_arrow_table())


def streamed(text: str, tables: dict[str, pa.Table], cut: int, **options: object) -> pa.Table:
    """All rows of a stream to which both tables are pushed in turns."""
    found = []
    with penstock.stream(text, SCHEMAS, time=TIME, **options) as stream:
        parts = {name: one.to_batches(max_chunksize=cut) for name, one in tables.items()}
        for k in range(max(len(own) for own in parts.values())):
            for name, own in parts.items():
                if k < len(own):
                    stream.push(name, own[k])
            found.append(stream.poll())
        found.append(stream.close())
    return pa.concat_tables(found)


@settings(deadline=None, max_examples=examples(70))
@given(
    _ROWS,
    _ROWS,
    st.sampled_from(KINDS),
    st.sampled_from(["k", "x", "k, x"]),
    st.integers(1, 12),
    st.sampled_from(["", " AND a.t <= b.t", " AND b.n % 2 = 0", " AND a.n > 3 AND a.n < b.n"]),
    st.integers(1, 9),
)
def test_rows_of_one_session_meet(left, right, kind, keys, gap, more, cut) -> None:
    tables = {"a": table(left), "b": table(right)}
    expected = wanted(tables, kind, keys, gap, more)
    text = asked(kind, keys, gap, more)
    assert sorted_rows(penstock.sql(text, tables, time=TIME)) == expected
    assert sorted_rows(streamed(text, tables, cut, disorder=60)) == expected


@settings(deadline=None, max_examples=examples(25))
@given(_ROWS, _ROWS, st.sampled_from(KINDS), st.integers(1, 9), st.integers(0, 30))
def test_streams_join_the_rows_that_are_on_time(left, right, kind, cut, disorder) -> None:
    text = asked(kind, "k", 4, "")
    tables = {"a": table(left), "b": table(right)}
    found = []
    with penstock.stream(text, SCHEMAS, time=TIME, disorder=disorder) as stream:
        for name, one in tables.items():
            for batch in one.to_batches(max_chunksize=cut):
                stream.push(name, batch)
                found.append(stream.poll())
        late = stream.late()
        found.append(stream.close())
    late_rows = {name: set(own.column("n").to_pylist()) for name, own in late.items()}
    kept = {
        name: one.filter(
            pa.array([n not in late_rows[name] for n in one.column("n").to_pylist()], pa.bool_())
        )
        for name, one in tables.items()
    }
    assert sorted_rows(pa.concat_tables(found)) == wanted(kept, kind, "k", 4, "")


@pytest.mark.parametrize(
    ("left", "right", "gap", "pairs"),
    [
        ([0], [10], 10, [(0, 0)]),  # a gap to the tick
        ([0], [10], 9, []),
        ([0, 20], [10], 10, [(0, 0), (1, 0)]),  # the right row bridges two sessions
        ([0, 20], [], 10, []),
        ([7, 7], [7], 1, [(0, 0), (1, 0)]),  # equal times
        ([0, 3, 6, 9], [12], 3, [(0, 0), (1, 0), (2, 0), (3, 0)]),
        ([-(2**63)], [2**63 - 1], 2**63 - 1, []),
        ([-(2**63)], [2**63 - 1], 2**70, [(0, 0)]),
        ([-(2**63), 0], [-1, 2**63 - 1], 2**63 - 1, [(i, j) for i in (0, 1) for j in (0, 1)]),
    ],
)
def test_sessions_by_hand(left, right, gap, pairs) -> None:
    tables = {
        "a": table([(1, 0.0, t) for t in left]),
        "b": table([(1, 0.0, t) for t in right]),
    }
    text = asked("", "k", gap, "")
    found = penstock.sql(text, tables, time=TIME)
    assert sorted(zip(*(c.to_pylist() for c in found.columns), strict=True)) == pairs
    assert sorted_rows(streamed(text, tables, 1, disorder=2**63 - 1)) == sorted_rows(found)


def test_a_session_leaves_when_both_clocks_have_passed_its_end() -> None:
    tables = {"a": table([(1, 0.0, 10), (2, 0.0, 12)]), "b": table([(1, 0.0, 11)])}
    with penstock.stream(asked("LEFT", "k", 5, ""), SCHEMAS, time=TIME) as stream:
        for name, one in tables.items():
            stream.push(name, one)
        stream.advance("a", 100)
        stream.advance("b", 16)  # a row of 16 may still come: 11 + 5
        assert stream.poll().num_rows == 0
        assert stream.report().window_rows == 3
        stream.advance("b", 17)
        assert stream.poll().to_pylist() == [{"i": 0, "j": 0}]
        stream.advance("b", 18)
        assert stream.poll().to_pylist() == [{"i": 1, "j": None}]
        assert stream.report().window_rows == 0
        assert stream.report().watermark_lag == {"a": -88, "b": -7}


def test_a_row_that_bridges_two_sessions_late_in_the_stream() -> None:
    first = {"a": table([(1, 0.0, 0), (1, 0.0, 20)]), "b": table([(1, 0.0, 21)])}
    with penstock.stream(asked("", "k", 10, ""), SCHEMAS, time=TIME, disorder=30) as stream:
        for name, one in first.items():
            stream.push(name, one)
        stream.push("b", table([(1, 0.0, 10)]))
        found = stream.close()
    assert sorted(zip(*(c.to_pylist() for c in found.columns), strict=True)) == [
        (0, 0), (0, 0), (1, 0), (1, 0),
    ]  # fmt: skip


@pytest.mark.parametrize("latency_s", [0.0, 0.01])
def test_feeds_latency_and_memory(latency_s: float) -> None:
    rows = [(k % 5, 0.0, k) for k in range(0, 4000, 2)]
    tables = {"a": table(rows), "b": table([(k, x, t + 1) for k, x, t in rows])}
    text = asked("FULL", "k", 7, "")
    flow = penstock.Flow(latency_s=latency_s, memory_bytes=1 << 20)
    found = []
    with penstock.stream(text, SCHEMAS, time=TIME, flow=flow) as stream:
        for feed in ("one", "two"):
            stream.register("b", feed)
        for start in range(0, 2000, 100):
            stream.push("a", tables["a"].slice(start, 100))
            for k, feed in enumerate(("one", "two")):
                stream.push("b", tables["b"].slice(start + 50 * k, 50), feed=feed)
            found.append(stream.poll())
        assert stream.report().window_rows < 200
        found.append(stream.close())
        assert stream.report().late == {"a": 0, "b": 0}
    assert sorted_rows(pa.concat_tables(found)) == sorted_rows(
        penstock.sql(text, tables, time=TIME)
    )


def test_a_silent_feed_holds_up_no_session() -> None:
    flow = penstock.Flow(idle_s=0.05)
    with penstock.stream(asked("", "k", 5, ""), SCHEMAS, time=TIME, flow=flow) as stream:
        stream.register("b", "busy")
        stream.register("b", "silent")
        for name, feed in (("a", None), ("b", "busy")):
            more = {} if feed is None else {"feed": feed}
            stream.push(name, table([(1, 0.0, 3), (1, 0.0, 90)]), **more)
        assert stream.poll().num_rows == 0
        assert stream.wait(1, 30)
        assert stream.poll().to_pylist() == [{"i": 0, "j": 0}]


def test_order_does_not_depend_on_the_cut() -> None:
    rows = [(k % 3, 0.0, 3 * k + (k % 7) * 2) for k in range(60)]
    tables = {"a": table(sorted(rows, key=lambda r: r[2])), "b": table(rows[::2])}
    text = asked("", "k", 6, "")
    running = penstock.Running(ordered=True)
    whole = penstock.sql(text, tables, time=TIME, running=running)
    assert whole.num_rows > 50
    flow = penstock.Flow(running=running)
    for cut in (1, 7, 100):
        assert streamed(text, tables, cut, disorder=20, flow=flow).equals(whole)


def test_times_of_two_units_and_keys_of_text() -> None:
    start = datetime(2024, 1, 1)
    at = [start + timedelta(seconds=s) for s in (0, 8, 40)]
    left = pa.table({"k": ["u", "v", "u"], "t": pa.array(at, pa.timestamp("us"))})
    right = pa.table(
        {"k": pa.array(["u", "u", None]).dictionary_encode(), "ts": pa.array(at, pa.timestamp("s"))}
    )
    found = penstock.sql(
        "SELECT a.k AS k, a.t AS t, b.ts AS ts FROM a, b WHERE a.k = b.k AND "
        "session_window(a.t, '10 seconds') = session_window(b.ts, '10 seconds')",
        {"a": left, "b": right},
    )
    assert sorted(zip(*(c.to_pylist() for c in found.columns), strict=True)) == [
        ("u", at[0], at[0]),
        ("u", at[0], at[1]),
    ]


def test_groups_of_pairs() -> None:
    tables = {
        "a": table([(k % 3, 0.0, 4 * k) for k in range(40)]),
        "b": table([(k % 2, 0.0, 5 * k) for k in range(40)]),
    }
    text = (
        f"SELECT a.k AS k, count(*) AS n, max(b.t) AS high FROM a JOIN b ON a.k = b.k AND "
        f"{BOTH.format(9)} GROUP BY a.k"
    )
    pairs = penstock.sql(
        f"SELECT a.k AS k, b.t AS t FROM a JOIN b ON a.k = b.k AND {BOTH.format(9)}",
        tables,
        time=TIME,
    )
    expected = pairs.group_by("k").aggregate([([], "count_all"), ("t", "max")])
    assert sorted_rows(penstock.sql(text, tables, time=TIME)) == sorted_rows(expected)
    with pytest.raises(QueryError, match="groups of pairs of sessions are complete"):
        penstock.stream(text, SCHEMAS, time=TIME)
    per_row = text.replace("a.k AS k", "a.n AS i").replace("GROUP BY a.k", "GROUP BY a.n")
    whole = sorted_rows(penstock.sql(per_row, tables, time=TIME))
    assert sorted_rows(streamed(per_row, tables, 3, unique={"a": "n"})) == whole
    assert len(whole) == 27


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        (BOTH.format(5), "add an equality to ON"),
        ("a.k < b.k AND " + BOTH.format(5), "add an equality to ON"),
        ("a.k = b.k AND session_window(a.t) = session_window(b.t)", "takes a time and a gap"),
        ("a.k = b.k AND " + BOTH.format(0), "the gap of a session must be above 0"),
        ("a.k = b.k AND " + BOTH.format(-3), "the gap of a session must be above 0"),
        ("a.k = b.k AND " + BOTH.format("a.k"), "session_window takes constant sizes"),
        ("a.k = b.k AND " + BOTH.format("'5 seconds'"), "declare the unit of the time"),
        (
            "a.k = b.k AND session_window(a.t, 5) = session_window(b.t, 6)",
            "the same gap on both sides",
        ),
        ("a.k = b.k AND session_window(a.t, 5) = b.t", "a session equals only another one"),
        (
            "a.k = b.k AND session_window(a.t, 5) = session_window(a.t, 5)",
            "needs a time of each table",
        ),
        ("a.k = b.k AND " + BOTH.format(5) + " AND " + BOTH.format(5), "one session_window per"),
        ("a.k = b.s AND " + BOTH.format(5), "cannot|not comparable|compare"),
        ("a.k = b.k AND session_window(a.s, 5) = session_window(b.t, 5)", "needs a time or an"),
        ("a.k = b.k AND session_window(a.x, 5) = session_window(b.t, 5)", "needs a time or an"),
        ("a.k = b.k AND session_window(a.k, 5) = session_window(b.t, 5)", "takes another column"),
        ("a.k = b.k AND (a.t = 1 OR " + BOTH.format(5) + ")", "in ON, beside AND"),
        ("a.k = b.k AND session_window(a.t + 1, 5) = session_window(b.t, 5)", "not a computed"),
    ],
)
def test_what_is_refused(condition: str, message: str) -> None:
    schema = SCHEMA.append(pa.field("s", pa.string()))
    with pytest.raises(QueryError, match=message):
        compile_query(
            f"SELECT a.n AS n FROM a JOIN b ON {condition}", {"a": schema, "b": schema}, time=TIME
        )


def test_a_table_further_out_of_order_than_declared() -> None:
    tables = {"a": table([(1, 0.0, 9), (1, 0.0, 2)]), "b": table([(1, 0.0, 5)])}
    with pytest.raises(penstock.errors.DataError, match="a has 1 row further out of order"):
        penstock.sql(asked("", "k", 5, ""), tables, time=TIME, disorder=6)
