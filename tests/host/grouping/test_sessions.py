"""Groups by sessions: tables, streams and workers, beside DuckDB."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import penstock
from penstock import Flow, Running
from penstock.cli.main import app
from penstock.errors import QueryError
from tests.kit.effort import effort, examples

SCHEMA = pa.schema([("k", pa.int64()), ("name", pa.string()), ("t", pa.int64()), ("x", pa.int32())])
QUERY = (
    "SELECT k, name, session_window(t, {gap}).start AS s, session_window.end AS e, count(*) AS n, "
    "sum(x) AS total, min(x) AS low, avg(x) AS mean, max_by(x, x) AS high, min_by(x, t) AS first "
    "FROM a WHERE x IS NULL OR x < 90 GROUP BY k, name, session_window(t, {gap})"
)
#: Sessions by the distance to the row before, of the same keys.
ORACLE = """
    WITH kept AS (SELECT * FROM a WHERE (x IS NULL OR x < 90) AND t IS NOT NULL),
    marked AS (
        SELECT *, coalesce(
            t::HUGEINT - lag(t) OVER (PARTITION BY k, name ORDER BY t) > {gap}, true
        ) AS begins FROM kept
    ), numbered AS (
        SELECT *, sum(begins::INT) OVER (
            PARTITION BY k, name ORDER BY t RANGE UNBOUNDED PRECEDING
        ) AS session FROM marked
    )
    SELECT k, name, min(t) AS s, max(t)::HUGEINT + {gap} AS e, count(*) AS n, sum(x) AS total,
    min(x) AS low, avg(x) AS mean, max(x) AS high FROM numbered GROUP BY k, name, session
"""
_TIMES = st.one_of(st.none(), st.integers(-60, 60), st.sampled_from([2**63 - 40, -(2**63)]))
_ROWS = st.lists(
    st.tuples(
        st.sampled_from([None, 1, 2]),
        st.sampled_from([None, "", "é"]),
        _TIMES,
        st.one_of(st.none(), st.integers(-99, 99)),
    ),
    max_size=40,
)


def table(rows: list[tuple[Any, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [[]] * len(SCHEMA)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def plain(found: pa.Table) -> list[tuple[str, ...]]:
    """Rows but for the last column of min_by, whose ties are Penstock's own."""
    names = [name for name in found.schema.names if name != "first"]
    columns = [[None if v is None else str(float(v) if not isinstance(v, str) else v) for v in
                found[name].to_pylist()] for name in names]  # fmt: skip
    return sorted(zip(*columns, strict=True), key=repr)


def wanted(rows: pa.Table, gap: int) -> list[tuple[str, ...]]:
    with duckdb.connect() as base:
        base.register("a", rows)
        return plain(base.sql(ORACLE.format(gap=gap)).to_arrow_table())


@settings(deadline=None, max_examples=examples(150))
@given(_ROWS, st.integers(1, 12))
def test_tables(rows, gap: int) -> None:
    data = table(rows)
    found = penstock.sql(QUERY.format(gap=gap), {"a": data}, time={"a": "t"})
    assert plain(found) == wanted(data, gap)


def batches(seed: int, count: int, stray: int = 4) -> list[pa.RecordBatch]:
    """Random rows in about the order of time, of few keys, with pauses."""
    rng, made, clock = Random(seed), [], 0
    for _ in range(count):
        rows = []
        for _ in range(rng.randint(0, 30)):
            clock += rng.choice([0, 0, 0, 1, 1, 3, 8])
            time = None if rng.random() < 0.03 else clock - rng.randint(0, stray)
            rows.append(
                (rng.choice([None, 1, 2]), rng.choice(["", "é"]), time, rng.randint(-99, 99))
            )
        made += table(rows).to_batches()
    return made


def streamed(given: list[pa.RecordBatch], gap: int, workers: int | None, **how: Any) -> pa.Table:
    pieces = []
    with penstock.stream(
        QUERY.format(gap=gap), {"a": SCHEMA}, time={"a": "t"}, disorder=4, workers=workers, **how
    ) as stream:
        for batch in given:
            stream.push("a", batch)
            pieces.append(stream.poll())
        assert stream.late()["a"].num_rows == 0
        # On workers rows come when they come.
        assert workers is not None or sum(piece.num_rows for piece in pieces) > 0
        pieces.append(stream.close())
    return pa.concat_tables(pieces)


@pytest.mark.parametrize(
    "seed", [0, 1, 2, *(pytest.param(n, marks=pytest.mark.slow) for n in (3, 4, 5))]
)
def test_streams(seed: int) -> None:
    given, gap = batches(seed, 25), (1, 3, 9)[seed % 3]
    rows = pa.Table.from_batches(given, SCHEMA)
    assert plain(streamed(given, gap, None)) == wanted(rows, gap)


@pytest.mark.parametrize("workers", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_streams_on_workers(workers: int) -> None:
    given = batches(20 + workers, 25)
    flow = Flow(latency_s=0.01 * (workers - 1), running=Running(ordered=workers == 3))
    rows = pa.Table.from_batches(given, SCHEMA)
    assert plain(streamed(given, 3, workers, flow=flow)) == wanted(rows, 3)


@pytest.mark.parametrize("time", [pytest.param("t", marks=pytest.mark.slow), "x"])
def test_sessions_without_another_key_have_one_leader(time: str) -> None:
    rows = pa.Table.from_batches(batches(9, 30), SCHEMA)
    query = (
        "SELECT session_window(t, 2).start AS s, count(*) AS n, sum(x) AS total FROM a "
        "GROUP BY session_window(t, 2)"
    )
    found = penstock.sql(query, {"a": rows}, time={"a": time}, workers=effort(3, 2))
    assert plain(found) == plain(penstock.sql(query, {"a": rows}, time={"a": "t"}))
    assert found.num_rows > 5


def test_a_session_leaves_when_the_clock_has_passed_its_end() -> None:
    query = (
        "SELECT session_window(t, 5).start AS s, count(*) AS n FROM a GROUP BY session_window(t, 5)"
    )
    schema = pa.schema([("t", pa.int64())])
    with penstock.stream(query, {"a": schema}, time={"a": "t"}) as stream:
        stream.push("a", pa.record_batch({"t": [1, 6, 10]}, schema=schema))
        stream.advance("a", 15)
        assert stream.poll().num_rows == 0  # a row at 15 would still belong to it
        stream.push("a", pa.record_batch({"t": [15, 21]}, schema=schema))
        assert stream.poll().to_pylist() == [{"s": 1, "n": 4}]
        assert stream.close().to_pylist() == [{"s": 21, "n": 1}]


@pytest.mark.slow
def test_checkpoints_keep_open_sessions(tmp_path) -> None:
    given = batches(31, 30)
    found: dict[int, pa.Table] = {}
    for workers, part in ((2, given[:15]), (1, given[15:])):
        with penstock.stream(
            QUERY.format(gap=3), {"a": SCHEMA}, time={"a": "t"}, disorder=4, workers=workers,
            checkpoint=tmp_path,
        ) as stream:  # fmt: skip
            for batch in part:
                stream.push("a", batch)
            stream.flush()
            while (polled := stream.poll()) is not None:
                found[polled.number] = polled.rows
            if workers == 2:
                stream.stop()
                continue
            last = stream.close()
            while last is not None:
                found[last.number] = last.rows
                last = stream.poll()
    assert plain(pa.concat_tables(found.values())) == wanted(
        pa.Table.from_batches(given, SCHEMA), 3
    )


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2, *range(100, 130)))]
)
def test_late_rows_and_cuts_on_any_number_of_workers(seed: int, tmp_path) -> None:
    rng = Random(seed)
    given, gap, found, late = batches(seed, 40, stray=7), rng.choice([1, 3, 9]), {}, []
    sizes = [rng.choice([1, 2, 3, 5]) for _ in range(rng.choice([1, 2, 3]))]
    ends = sorted(rng.randrange(len(given)) for _ in sizes[1:])
    for size, first, end in zip(sizes, [0, *ends], [*ends, len(given)], strict=True):
        with penstock.stream(
            QUERY.format(gap=gap), {"a": SCHEMA}, time={"a": "t"}, disorder=4, workers=size,
            checkpoint=tmp_path, flow=Flow(latency_s=rng.choice([0.0, 0.01])),
        ) as stream:  # fmt: skip
            polled = None
            for batch in given[first:end]:
                stream.push("a", batch)
                if rng.random() < 0.2:
                    stream.flush()
                while rng.random() < 0.5 and (polled := stream.poll()) is not None:
                    found[polled.number] = polled.rows
            late.append(stream.late()["a"])
            if end < len(given):
                stream.stop()
                continue
            polled = stream.close()
            while polled is not None:
                found[polled.number] = polled.rows
                polled = stream.poll()
    rest = Counter(map(tuple, (row.values() for b in given for row in b.to_pylist())))
    rest -= Counter(tuple(row.values()) for rows in late for row in rows.to_pylist())
    rows = table(list(rest.elements()))
    assert rows.num_rows < sum(batch.num_rows for batch in given)
    assert plain(pa.concat_tables(found.values())) == wanted(rows, gap)


def test_instants_of_both_ends_have_one_type_and_explain_says_how(tmp_path) -> None:
    data = pa.table({"t": pa.array([0, 5_000, 90_000], pa.timestamp("ms", tz="UTC"))})
    query = (
        "SELECT session_window.start AS s, session_window.end AS e, count(*) AS n FROM a "
        "GROUP BY session_window(t, '10 seconds')"
    )
    found = penstock.sql(query, {"a": data}, time_zone="Europe/Dublin")
    assert found["s"].type == found["e"].type == pa.timestamp("ms", tz="Europe/Dublin")
    assert found["e"].cast(pa.int64()).to_pylist() == [15_000, 100_000]
    pq.write_table(data, tmp_path / "a.parquet")
    said = CliRunner().invoke(app, ["explain", query, "-t", f"a={tmp_path / 'a.parquet'}"])
    assert "sessions of a.t with gaps of 10000 ms at most" in " ".join(said.output.split())


REFUSED = {
    "no gap": ("GROUP BY session_window(t)", "takes a time and a gap"),
    "a gap below 0": ("GROUP BY session_window(t, -3)", "must be above 0"),
    "gap of 0": ("GROUP BY session_window(t, 0)", "must be above 0"),
    "a column": ("GROUP BY session_window(t, x)", "takes constant sizes"),
    "two": ("GROUP BY session_window(t, 1), session_window(t, 2)", "takes one session_window"),
    "both": ("GROUP BY window(t, 5), session_window(t, 2)", "not both"),
    "a text": ("GROUP BY session_window(name, 5)", "needs a time or an integer"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_name_the_remedy(name: str) -> None:
    text, message = REFUSED[name]
    with pytest.raises(QueryError, match=message):
        penstock.sql(f"SELECT count(*) AS n FROM a {text}", {"a": table([])}, time={"a": "t"})


def test_fields_of_a_session() -> None:
    data = table([(1, "", 5, 1)])
    for field, message in (("session_window.begin", "start and end, not begin"),
                           ("session_window(t, 9).start", "no such session_window")):  # fmt: skip
        with pytest.raises(QueryError, match=message):
            penstock.sql(
                f"SELECT {field} AS s FROM a GROUP BY session_window(t, 5)", {"a": data},
                time={"a": "t"},
            )  # fmt: skip
    joined = "SELECT count(*) AS n FROM a JOIN a b ON a.k = b.k AND a.t = b.t"
    with pytest.raises(QueryError, match="session_window in GROUP BY is of one table"):
        penstock.sql(
            f"{joined} GROUP BY session_window(a.t, 5)", {"a": data}, time={"a": "t", "b": "t"}
        )


@pytest.mark.parametrize("keys", ["t, session_window(t, 10)", "session_window(t, 10), t, k"])
def test_the_time_is_a_key_beside_its_sessions(keys: str) -> None:
    rows = table([(1, "", t, 0) for t in (0, 2, 3, 3, None)])
    query = f"SELECT t, session_window.end AS e, count(*) AS n FROM a GROUP BY {keys}"
    groups = [{"t": 0, "e": 10, "n": 1}, {"t": 2, "e": 12, "n": 1}, {"t": 3, "e": 13, "n": 2}]
    assert penstock.sql(query, {"a": rows}, time={"a": "t"}).to_pylist() == groups
    with penstock.stream(query, {"a": SCHEMA}, time={"a": "t"}) as stream:
        stream.push("a", rows)
        assert stream.close().to_pylist() == groups
