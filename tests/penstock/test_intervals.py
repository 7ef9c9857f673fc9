"""Intervals and other bounds from one side, searched by zones: rows as in DuckDB and on streams."""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock import Flow
from penstock.host.execute.running import Running
from penstock.host.prune.sizes import Pruning

ZONES = Pruning(least_pairs=1, run_rows=(64, 256), always=True, orders=("zones",))
CONDITIONS = {
    "overlap": "a.k = b.k AND a.s <= b.e AND b.s <= a.e",
    "no key": "a.s < b.e AND b.s < a.e",
    "containment": "a.k = b.k AND a.s <= b.s AND b.e <= a.e",
    "stabbing": "a.k = b.k AND b.s <= a.s AND a.s <= b.e",
    "opposed": "a.f < b.f AND a.s > b.s",
    "three": "a.f <= b.f AND a.s >= b.s AND a.e < b.e",
    "one": "a.k = b.k AND a.f >= b.f",
    "texts": "a.n = b.n AND a.k = b.k AND a.s <= b.e AND b.s <= a.e",
    "residual": "a.k = b.k AND a.s <= b.e AND b.s <= a.e AND a.e % 3 - b.s % 3 <> 1",
}


def rows_of(rng: np.random.Generator, rows: int) -> pa.Table:
    """Rows with NULL, NaN, equal rows, extreme numbers, and few intervals much longer."""

    def holed(values: np.ndarray, dtype: pa.DataType) -> pa.Array:
        return pa.array(values, dtype, mask=rng.random(rows) < 0.05, from_pandas=False)

    start = rng.integers(-200, 200, rows)
    length = rng.lognormal(1, 1, rows).astype(np.int64)
    length[rng.random(rows) < 0.02] *= 100
    start[rng.random(rows) < 0.02] = -(1 << 62)
    end = start + length
    end[rng.random(rows) < 0.02] = (1 << 63) - 1
    number = rng.choice([0.0, -0.0, np.nan, np.inf, -np.inf, 1.5, 2.5, *rng.normal(0, 2, 9)], rows)
    return pa.table(
        {
            "id": np.arange(rows),
            "t": np.sort(rng.integers(0, 50, rows)),
            "k": holed(rng.integers(0, 4, rows), pa.int32()),
            "n": pa.array(rng.choice(["x", "y", ""], rows)),
            "s": holed(start, pa.int64()),
            "e": holed(end, pa.int64()),
            "f": holed(number, pa.float64()),
        }
    )


def rows(table: pa.Table) -> list[tuple]:
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True), key=repr)


@pytest.mark.parametrize(
    ("on", "is_near"),
    [*((on, False) for on in CONDITIONS), ("overlap", True), ("three", True), ("one", True)],
)
def test_tables_as_in_duckdb(on: str, is_near: bool) -> None:
    rng = np.random.default_rng(len(on) + is_near)
    tables = {"a": rows_of(rng, 220), "b": rows_of(rng, 330)}
    condition = CONDITIONS[on] + (" AND b.t BETWEEN a.t - 9 AND a.t + 9" if is_near else "")
    if not is_near:  # all rows at one time
        zeros = {name: pa.array(np.zeros(len(table), np.int64)) for name, table in tables.items()}
        tables = {name: table.set_column(1, "t", zeros[name]) for name, table in tables.items()}
    folds = "count(*) AS n, sum(b.t) AS v, min(b.e) AS least, max(b.k) AS most"
    connection = duckdb.connect()
    for name, table in tables.items():
        connection.register(name, table)
    for query in (
        f"SELECT a.id AS i, b.id AS j FROM a JOIN b ON {condition}",
        f"SELECT a.id AS i, b.id AS j FROM a LEFT JOIN b ON {condition}",
        f"SELECT a.id AS i FROM a ANTI JOIN b ON {condition}",
        f"SELECT a.id AS i, {folds} FROM a JOIN b ON {condition} GROUP BY a.id",
    ):
        found = penstock.sql(
            query,
            tables,
            time={"a": "t", "b": "t"},
            within=None if is_near else 0,
            pruning=ZONES,
        )
        assert rows(found) == rows(connection.sql(query).to_arrow_table()), query


@pytest.mark.parametrize("on", ["overlap", "opposed", "one", "residual"])
def test_streams_in_any_cut(on: str) -> None:
    rng = np.random.default_rng(len(on))
    tables = {"a": rows_of(rng, 400), "b": rows_of(rng, 500)}
    condition = f"{CONDITIONS[on]} AND b.t BETWEEN a.t - 9 AND a.t + 4"
    query, time = f"SELECT a.id AS i, b.id AS j FROM a JOIN b ON {condition}", {"a": "t", "b": "t"}
    wanted = rows(penstock.sql(query, tables, time=time, pruning=False))
    assert wanted
    schemas = {name: table.schema for name, table in tables.items()}
    for ordered in (False, True):
        running = Running(pruning=ZONES, ordered=ordered)
        with penstock.stream(query, schemas, time=time, flow=Flow(running=running)) as stream:
            parts, at = [], dict.fromkeys(tables, 0)
            while any(at[name] < table.num_rows for name, table in tables.items()):
                for name, table in tables.items():
                    step = int(rng.integers(1, 90))
                    stream.push(name, table.slice(at[name], step))
                    at[name] = min(at[name] + step, table.num_rows)
                parts.append(stream.poll())
            parts.append(stream.close())
        assert rows(pa.concat_tables(parts)) == wanted
