"""DuckDB: the same SQL, a grid by hand, and for counts ASOF joins."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pyarrow as pa

from bench.peers.join import THREADS, Band, Join

#: Most pairs that the same SQL looks at within about 20 s, by how it finds them.
MOST_PAIRS = {"loop": 7_000_000_000, "keys": 2_000_000_000, "ranges": 200_000_000}

#: Bits of all numbers of a cell.
_CELL_BITS = 60


def contenders(join: Join) -> dict[str, Callable[[], pa.Table] | str]:
    """Calls by name, or why one is left out."""
    # A nested loop over Arrow data as it lies runs in one thread; a hash join does not.
    loaded = not join.keys
    found: dict[str, Callable[[], pa.Table] | str] = {}
    if join.comparisons or join.candidates <= MOST_PAIRS[join.found_by]:
        found["DuckDB, same SQL"] = lambda: run(join, same_sql(join), loaded=loaded)
    else:
        found["DuckDB, same SQL"] = f"{join.candidates:.1e} pairs take more than 20 s"
    for name, cells in join.grids.items():
        found[f"DuckDB, {name}"] = lambda cells=cells: run(join, grid(join, cells))
    if join.count and join.keys and not join.on:
        found["DuckDB, ASOF"] = lambda: run(join, asof(join))
    return found


def run(join: Join, text: str, *, loaded: bool = False) -> pa.Table:
    """Run SQL over the tables as they lie in memory, or over copies in DuckDB's own format."""
    connection = _connection()
    for name, table in zip("lr", join.with_places(), strict=True):
        connection.register(f"{name}_arrow", table)
        kind = "TEMP TABLE" if loaded else "TEMP VIEW"
        connection.execute(f"CREATE {kind} {name} AS SELECT * FROM {name}_arrow")
    try:
        return connection.sql(text).to_arrow_table()
    finally:
        for name in "lr":
            connection.execute(f"DROP {'TABLE' if loaded else 'VIEW'} {name}")
            connection.unregister(f"{name}_arrow")


@cache
def _connection():
    import duckdb

    connection = duckdb.connect(config={"threads": THREADS})
    connection.execute("SET preserve_insertion_order = false")
    return connection


def same_sql(join: Join) -> str:
    """The join as it stands."""
    return _select(join, "l", "r", [join.equal_keys])


def grid(join: Join, bands: tuple[Band, ...]) -> str:
    """Cells twice as wide as a band reaches; the smaller side has a row per cell it overlaps."""
    left_is_smaller = join.left.num_rows <= join.right.num_rows
    sides = {}
    for side, repeats in (("l", left_is_smaller), ("r", not left_is_smaller)):
        cells, steps = [], []
        for number, band in enumerate(bands):
            shift = {"l": band.low, "r": -band.high}[side] if repeats else 0
            step = f" + s{number}.step" if repeats else ""
            cells.append(f"(({band.sql}) - ({join.base(band) - shift})) // {band.width}{step}")
            if repeats:
                steps.append(f", (VALUES (0), (1)) s{number}(step)")
        sides[side] = f"(SELECT *, {_packed(cells)} AS cell FROM {side}{''.join(steps)}) {side}"
    return _select(join, sides["l"], sides["r"], [join.equal_keys, "l.cell = r.cell"])


def asof(join: Join) -> str:
    """Counts as differences of ranks: how many rows lie up to each end of a row's interval."""
    low, high = join.interval or (0, 0)
    using = f"hi.{join.keys[0]} = l.{join.keys[0]}"
    return f"""
        WITH ranked AS (
            SELECT {join.keys[0]}, t, count(*) OVER (PARTITION BY {join.keys[0]} ORDER BY t) AS n
            FROM r
        )
        SELECT l.id AS i, hi.n - coalesce(lo.n, 0) AS n
        FROM l ASOF JOIN ranked hi ON {using} AND hi.t <= l.t + {high}
        ASOF LEFT JOIN ranked lo ON {using.replace("hi.", "lo.")} AND lo.t < l.t + {low}
        WHERE hi.n > coalesce(lo.n, 0)
    """


def _packed(cells: list[str]) -> str:
    """One number of several cells."""
    text = f"({cells[0]})::BIGINT"
    for cell in cells[1:]:
        text = f"({text} << {_CELL_BITS // len(cells)}) + {cell}"
    return text


def _select(join: Join, left: str, right: str, equal: list[str]) -> str:
    places = "r.place >= l.first AND r.place < l.stop" if join.rows is not None else ""
    conditions = [*equal, join.times, places, join.duckdb_on or join.on]
    on = " AND ".join(f"({part})" for part in conditions if part)
    if join.count:
        return f"SELECT l.id AS i, count(*) AS n FROM {left} JOIN {right} ON {on} GROUP BY l.id"
    return f"SELECT l.id AS i, r.id AS j FROM {left} JOIN {right} ON {on}"
