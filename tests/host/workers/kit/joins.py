"""Streams of joins to run on workers, and what DuckDB makes of their rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import duckdb
import pyarrow as pa

import penstock
from penstock import Flow, Running
from tests.host.workers.kit.groups import Rows, comparable

SCHEMA = pa.schema(
    [
        pa.field("n", pa.int64(), nullable=False),
        ("k", pa.int64()),
        ("name", pa.string()),
        ("t", pa.int64()),
        ("x", pa.int32()),
    ]
)
SCHEMAS = {"a": SCHEMA, "b": SCHEMA}
#: How far rows may lie below the largest time before them.
DISORDER = 4

_NEAR = "b.t BETWEEN a.t - 6 AND a.t + 3"
_PAIR = "SELECT a.n AS i, b.n AS j, a.name AS name, b.x AS x FROM a {} JOIN b ON "
_ROW = "SELECT a.n AS i, a.t AS t FROM a LEFT {} JOIN b ON "
_KEYED = f"a.k = b.k AND a.x < b.x AND {_NEAR}"
_THETA = f"abs(a.x - b.x) < 9 AND {_NEAR}"
#: As Penstock has it, and DuckDB.
EQUAL_WINDOWS, _EQUAL = "window(a.t, 4) = window(b.t, 4)", "(a.t + 40) // 4 = (b.t + 40) // 4"
#: Of both sides' rows of one k, as Penstock has it, and on sessions that were numbered before.
SESSIONS, _SAME = "session_window(a.t, 1) = session_window(b.t, 1)", "a.session = b.session"
_NUMBERED = """
    CREATE TABLE numbered AS
    WITH every AS (
        SELECT 'a' AS side, n, k, t FROM given_a UNION ALL SELECT 'b', n, k, t FROM given_b
    ), marked AS (
        SELECT *, coalesce(t - lag(t) OVER (PARTITION BY k ORDER BY t) > 1, true) AS begins
        FROM every WHERE k IS NOT NULL AND t IS NOT NULL
    )
    SELECT side, n, sum(begins::INT) OVER (
        PARTITION BY k ORDER BY t RANGE UNBOUNDED PRECEDING
    ) AS session FROM marked
"""
_WINDOW = "a.t - a.t % 10"

#: By name: queries with an equality, which workers share by key, and without one.
QUERIES = {
    "keyed inner": _PAIR.format("") + _KEYED,
    "keyed full": _PAIR.format("FULL") + f"a.k = b.k AND a.name = b.name AND {_NEAR}",
    "keyed left": _PAIR.format("LEFT") + _KEYED + " WHERE a.x > -80",
    "keyed semi": _ROW.format("SEMI") + _KEYED,
    "keyed groups": (
        f"SELECT a.k, {_WINDOW} AS w, count(*) AS n, max(b.x) AS high FROM a JOIN b ON {_KEYED} "
        f"GROUP BY a.k, {_WINDOW}"
    ),
    "keyed window": (
        f"SELECT a.n AS i, b.n AS j FROM a LEFT JOIN b ON a.k = b.k AND {EQUAL_WINDOWS}"
    ),
    "window": f"SELECT a.n AS i, b.n AS j FROM a JOIN b ON a.x < b.x AND {EQUAL_WINDOWS}",
    "sessions": f"SELECT a.n AS i, b.n AS j FROM a JOIN b ON a.k = b.k AND {SESSIONS}",
    "sessions full": (
        f"SELECT a.n AS i, b.n AS j FROM a FULL JOIN b ON a.k = b.k AND a.x < b.x AND {SESSIONS}"
    ),
    "theta inner": _PAIR.format("") + _THETA,
    "theta full": _PAIR.format("FULL") + _THETA,
    "theta right": _PAIR.format("RIGHT") + _THETA,
    "theta anti": _ROW.format("ANTI") + _THETA,
    "theta groups": (
        f"SELECT {_WINDOW} AS w, count(*) AS n, sum(a.x + b.x) AS s FROM a JOIN b ON {_THETA} "
        f"GROUP BY {_WINDOW}"
    ),
    "keys of no group": (
        f"SELECT {_WINDOW} AS w, count(*) AS n FROM a JOIN b ON {_KEYED} GROUP BY {_WINDOW}"
    ),
}


def batches(
    seed: int, count: int, rows: int = 30, *, stray: int = DISORDER
) -> list[pa.RecordBatch]:
    """Random rows in about the order of time, some of them late if ``stray`` is above disorder."""
    rng, made, largest = Random(seed), [], 0
    for place in range(count):
        times: list[int | None] = []
        for row in range(rows):
            largest = max(largest, place * 5 + row * 5 // rows)
            # Some have no time: they meet nothing.
            times.append(None if rng.random() < 0.03 else largest - rng.randint(0, stray))
        columns = [
            range(place * rows, (place + 1) * rows),
            [rng.choice([None, 1, 2, 3, 4]) for _ in times],
            [rng.choice([None, "", "é", "south" * 9]) for _ in times],
            times,
            [rng.choice([None, rng.randint(-100, 100)]) for _ in times],
        ]
        arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
        made.append(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))
    return made


def opened(
    query: str,
    workers: Any = 2,
    *,
    flow: Mapping[str, Any] | None = None,
    ordered: bool = False,
    lease_s: float = 600.0,
    **how: Any,
) -> Any:
    """A stream of two sources over :data:`SCHEMA`."""
    chosen = Flow(running=Running(ordered=ordered, timeout_s=lease_s), **(flow or {}))
    how = {"disorder": DISORDER, "time": {"a": "t", "b": "t"}, **how}
    return penstock.stream(query, SCHEMAS, workers=workers, flow=chosen, **how)


def wanted(query: str, left: Sequence[pa.RecordBatch], right: Sequence[pa.RecordBatch]) -> Rows:
    """What the query gives on all rows, by DuckDB, sorted."""
    text = query.replace("LEFT SEMI", "SEMI").replace("LEFT ANTI", "ANTI")
    text = text.replace(EQUAL_WINDOWS, _EQUAL).replace(SESSIONS, _SAME)
    with duckdb.connect() as base:
        for name, rows in (("a", left), ("b", right)):
            base.register(f"given_{name}", pa.Table.from_batches(rows, SCHEMA))
        base.execute(_NUMBERED)
        for name in "ab":
            base.execute(
                f"CREATE VIEW {name} AS SELECT g.*, m.session FROM given_{name} g "
                f"LEFT JOIN numbered m ON m.side = '{name}' AND m.n = g.n"
            )
        return comparable(base.sql(text).to_arrow_table())


def without(given: Sequence[pa.RecordBatch], late: pa.Table) -> list[pa.RecordBatch]:
    """The rows that were not late."""
    numbers = set(late["n"].to_pylist())
    return [
        batch.filter(pa.array([n not in numbers for n in batch["n"].to_pylist()], pa.bool_()))
        for batch in given
    ]
