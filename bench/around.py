"""SQL around a join of a million rows: rows of the join per second and per CPU second, by query.

python -m bench.around [--rows 1000000] [--turns 3]
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np
import pyarrow as pa

import penstock

#: Each row of the one table meets one of the other.
JOIN = "FROM a JOIN b ON b.t BETWEEN a.t AND a.t + INTERVAL 1 SECOND AND a.k = b.k"
#: Of the kinds of tests/sql: a sort, groups that DuckDB makes, a window function, a filter behind a
#: subquery, and a UNION.
QUERIES = {
    "sort": f"SELECT a.id, b.x - a.x AS d, a.p * 2 AS p {JOIN} ORDER BY d DESC, a.id",
    "groups": "SELECT a.k % 100 AS k, count(DISTINCT b.id) AS n, sum(a.x + b.x) AS s, "
    f"avg(b.v) AS v {JOIN} GROUP BY a.k % 100",
    "window": f"SELECT id, r FROM (SELECT a.id AS id, row_number() OVER (PARTITION BY a.k % 1000 "
    f"ORDER BY b.t - a.t) AS r {JOIN}) q WHERE r <= 3",
    "filter": f"SELECT id, CASE WHEN d > 5 THEN d * 3 ELSE -d END AS e FROM (SELECT a.id AS id, "
    f"b.x - a.x AS d {JOIN} ORDER BY a.id) q WHERE d % 7 <> 3",
    "union": f"SELECT a.id, date_trunc('minute', a.t) AS m {JOIN} "
    f"UNION ALL SELECT b.id, b.t {JOIN}",
}


def tables(rows: int) -> dict[str, pa.Table]:
    """Two tables whose rows meet one to one."""
    rng = np.random.default_rng(1)
    made = {}
    for name in "ab":
        made[name] = pa.table(
            {
                "id": np.arange(rows),
                "k": np.arange(rows) % 5000,
                "t": pa.array(np.arange(rows) * 2_000_000).cast(pa.timestamp("us", "UTC")),
                "x": rng.integers(0, 1000, rows).astype(np.int32),
                "v": rng.random(rows),
                "p": pa.array(rng.integers(0, 10**6, rows)).cast(pa.decimal128(19, 0)),
            }
        )
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=3)
    chosen = parser.parse_args()
    given = tables(chosen.rows)
    times = {"a": "t", "b": "t"}
    for name, query in {"join alone": f"SELECT a.id, b.id AS o {JOIN}", **QUERIES}.items():
        took = []
        for _ in range(chosen.turns):
            began = time.perf_counter(), time.process_time()
            penstock.sql(query, given, time=times)
            took.append((time.perf_counter() - began[0], time.process_time() - began[1]))
        wall, cpu = (chosen.rows / min(one) for one in zip(*took, strict=True))
        sys.stdout.write(f"{name:12} {wall:12,.0f} rows per second {cpu:12,.0f} per CPU second\n")


if __name__ == "__main__":
    main()
