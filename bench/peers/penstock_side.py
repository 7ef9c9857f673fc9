"""Penstock: a user's call, from SQL text and Arrow tables to an Arrow table."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

import penstock
from bench.peers.join import THREADS, Join
from penstock.host.device.registry import open_device

#: The contender whose times are compared, and the one that evaluates every pair.
NAME = "Penstock"
EVERY_PAIR = "Penstock, pruning=False"


#: Most pairs on the sphere, or of intervals, that are evaluated within about 20 s.
_MOST_PAIRS = 2_000_000_000


def contenders(join: Join) -> dict[str, Callable[[], pa.Table] | str]:
    """Calls by name, or why one is left out."""
    found: dict[str, Callable[[], pa.Table] | str] = {NAME: lambda: run(join)}
    if (join.within or join.overlap) is None or join.pairs_in_window <= _MOST_PAIRS:
        found[EVERY_PAIR] = lambda: run(join, pruning=False)
    else:
        found[EVERY_PAIR] = f"{join.pairs_in_window:.1e} pairs take more than 20 s"
    return found


def run(join: Join, *, pruning: bool = True) -> pa.Table:
    """Join once; the device opens and closes, as it does when it is given by name."""
    within = 0 if join.interval is None and join.rows is None else None
    with open_device("cpu", threads=THREADS) as device:
        return penstock.sql(
            query(join),
            {"l": join.left, "r": join.right},
            time={"l": "t", "r": "t"},
            rows=join.rows,
            within=within,
            pruning=pruning,
            device=device,
        )


def run_streams(join: Join, batch_rows: int) -> pa.Table:
    """Join the same rows as streams whose times advance together.

    Parameters
    ----------
    batch_rows : int
        Rows of a batch of the longer side.
    """
    sides = {"l": join.left, "r": join.right}
    pushes = -(-max(table.num_rows for table in join) // batch_rows)
    with (
        open_device("cpu", threads=THREADS) as device,
        penstock.stream(
            query(join),
            {name: table.schema for name, table in sides.items()},
            time={"l": "t", "r": "t"},
            unique={"l": "id"} if join.count else None,
            device=device,
        ) as stream,
    ):
        rows = []
        for push in range(pushes):
            for name, table in sides.items():
                begin, end = (table.num_rows * k // pushes for k in (push, push + 1))
                stream.push(name, table.slice(begin, end - begin))
            rows.append(stream.poll())
        rows.append(stream.close())
    return pa.concat_tables(rows)


def query(join: Join) -> str:
    """SQL of a join."""
    on = " AND ".join(part for part in (join.times, join.equal_keys, join.on) if part)
    if join.count:
        return f"SELECT l.id AS i, count(*) AS n FROM l JOIN r ON {on} GROUP BY l.id"
    return f"SELECT l.id AS i, r.id AS j FROM l JOIN r ON {on}"
