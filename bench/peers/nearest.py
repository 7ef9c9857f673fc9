"""Nearest rows beside SciPy, Polars and DuckDB: CPU seconds, in turns, rows compared.

``python -m bench.peers.nearest [--rows N] [--rounds R]``
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
from rich.console import Console

import penstock
from bench.peers.turns import take_turns

#: Nearest points of each one, and values of the key.
_NEAREST, _KEYS = 5, 1000
#: Rows up to which DuckDB, which forms all pairs, takes part.
_MOST_OF_DUCKDB = 5000

Run = Callable[[], pa.Table]


def main() -> None:
    """Print a line for each workload."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=30_000)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    console = Console(soft_wrap=True)
    for name, runs in _workloads(asked.rows).items():
        times = take_turns(runs, asked.rounds, clock=time.process_time)
        spent = ", ".join(f"{one} {times.median(one):.3f} s" for one in runs)
        console.print(f"{name}: {spent}", highlight=False)


def _workloads(rows: int) -> dict[str, dict[str, Run]]:
    sides = {"l": _table(rows, 1), "m": _table(rows, 2)}
    runs: dict[str, dict[str, Run]] = {}
    for dims in (1, 2, 3):
        names = "xyz"[:dims]
        squares = " + ".join(f"(l.{n} - m.{n}) * (l.{n} - m.{n})" for n in names)
        runs[f"{_NEAREST} nearest of {rows:,}, {dims} dimensions"] = {
            "Penstock": _penstock(f"{_NEAREST} BY DISTANCE sqrt({squares})", sides),
            "cKDTree": lambda names=names: _kdtree(sides, names),
            **_duckdb(f"ORDER BY {squares} LIMIT {_NEAREST}", sides),
        }
    gap = "abs(l.x - m.x) + abs(l.y - m.y)"
    runs[f"{_NEAREST} nearest of a key"] = {
        "Penstock": _penstock(f"{_NEAREST} BY DISTANCE {gap} ON l.k = m.k", sides),
        **_duckdb(f"AND l.k = m.k ORDER BY {gap} LIMIT {_NEAREST}", sides),
    }
    for key, by in (("", None), (" AND l.k = m.k", "k")):
        runs[f"latest row before{' of a key' if by else ''}"] = {
            "Penstock": _penstock(f"BY SIMILARITY m.t ON m.t <= l.t{key}", sides),
            "Polars": lambda by=by: _polars(sides, by),
            "DuckDB": lambda key=key: _sql(
                f"SELECT l.id AS i, m.id AS j FROM l ASOF JOIN m ON l.t >= m.t{key}", sides
            ),
        }
    return runs


def _table(rows: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    # No two times are equal, since engines choose among ties as they like.
    times = np.sort(rng.choice(8 * rows, rows, replace=False))
    places = dict(zip("xyz", rng.random((3, rows)), strict=True))
    return pa.table(
        {"id": np.arange(rows), "t": times, "k": rng.integers(0, _KEYS, rows), **places}
    )


def _penstock(nearest: str, sides: dict[str, pa.Table]) -> Run:
    query = f"SELECT l.id AS i, m.id AS j FROM l JOIN m EXACT NEAREST {nearest}"
    return lambda: penstock.sql(query, sides)


def _kdtree(sides: dict[str, pa.Table], names: str) -> pa.Table:
    from scipy.spatial import cKDTree  # pyright: ignore[reportAttributeAccessIssue]

    left, right = (np.stack([side[n].to_numpy() for n in names], axis=1) for side in sides.values())
    _, near = cKDTree(right).query(left, _NEAREST, workers=2)
    return pa.table({"i": np.repeat(np.arange(len(left)), _NEAREST), "j": near.ravel()})


def _polars(sides: dict[str, pa.Table], by: str | None) -> pa.Table:
    import polars as pl

    left, right = (pl.from_arrow(side.select(["id", "t", "k"])) for side in sides.values())
    assert isinstance(left, pl.DataFrame)
    assert isinstance(right, pl.DataFrame)
    joined = left.join_asof(right, on="t", by=by, suffix="_r", check_sortedness=False)
    return joined.select("id", "id_r").drop_nulls().to_arrow()


def _duckdb(tail: str, sides: dict[str, pa.Table]) -> dict[str, Run]:
    if sides["l"].num_rows > _MOST_OF_DUCKDB:
        return {}
    query = f"SELECT l.id AS i, n.id AS j FROM l, LATERAL (SELECT m.id FROM m WHERE true {tail}) n"
    return {"DuckDB": lambda: _sql(query, sides)}


def _sql(query: str, sides: dict[str, pa.Table]) -> pa.Table:
    import duckdb

    with duckdb.connect() as database:
        for name, table in sides.items():
            database.register(name, table)
        return database.sql(query).to_arrow_table()


if __name__ == "__main__":
    main()
