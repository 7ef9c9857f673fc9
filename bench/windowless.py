"""Joins of tables with an equality and other comparisons, no window: the chosen plan beside both.

Each join runs by the plan that Penstock chooses, with the join forced onto Penstock, and forced
onto DuckDB; in turns, after one run each whose rows are compared. Regret is the chosen plan's CPU
time over that of the faster one.

python -m bench.windowless [--rows 100000] [--turns 3] [--large]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

import penstock
from penstock.api import around
from penstock.around import splitting

CONDITIONS = {
    "overlap": "a.lo <= b.hi AND b.lo <= a.hi",
    "Manhattan": "abs(a.x - b.x) + abs(a.y - b.y) < 0.2",
    "both orders": "a.lo < b.lo AND a.hi > b.hi",
    "common part": "greatest(a.lo, b.lo) < least(a.hi, b.hi)",
}
#: Whether an equality leaves so many pairs that Penstock runs a join.
PLANS = {"Penstock": True, "DuckDB": False}


def intervals(rows: int, keys: int, seed: int) -> pa.Table:
    """Intervals and points with a key; lengths are lognormal, some 1,000 times as long."""
    rng = np.random.default_rng(seed)
    lows = rng.integers(0, 100 * rows, rows)
    lengths = rng.lognormal(3, 1, rows).astype(np.int64)
    lengths[rng.random(rows) < 1e-3] *= 1000
    return pa.table(
        {
            "k": rng.integers(0, keys, rows),
            "lo": lows,
            "hi": lows + lengths,
            "x": rng.random(rows) * 100,
            "y": rng.random(rows) * 100,
        }
    )


@contextmanager
def forced(plan: str) -> Iterator[None]:
    """Let one of :data:`PLANS` run the join, or the chosen one."""
    decide, kept = splitting._Splitter._has_many_pairs, around._kept
    try:
        if plan in PLANS:
            splitting._Splitter._has_many_pairs = lambda *_: PLANS[plan]
            around._kept = type(kept)()
        yield
    finally:
        splitting._Splitter._has_many_pairs, around._kept = decide, kept


def cpu_s(query: str, tables: dict[str, pa.Table], plan: str) -> tuple[float, int]:
    """CPU seconds of a query by a plan, and its rows."""
    with forced(plan):
        began = time.process_time()
        rows = penstock.sql(query, tables).num_rows
        return time.process_time() - began, rows


def compare(name: str, rows: int, keys: int, turns: int) -> None:
    """Print a line: rows out, CPU seconds of the chosen plan and of both, regret."""
    tables = {"a": intervals(rows, keys, 0), "b": intervals(rows, keys, 1)}
    query = f"SELECT a.lo AS x, b.lo AS y FROM a JOIN b ON a.k = b.k AND {CONDITIONS[name]}"
    plans = ["chosen", *PLANS]
    # Testing each pair of few keys takes minutes: it is not the faster plan, and is left out.
    if rows * rows / keys > 2e9:
        plans.remove("DuckDB")
    counts = {cpu_s(query, tables, plan)[1] for plan in plans}
    assert len(counts) == 1, f"{name}: {counts} rows"
    took: dict[str, list[float]] = {plan: [] for plan in plans}
    for _ in range(turns):
        for plan in plans:
            took[plan].append(cpu_s(query, tables, plan)[0])
    least = {plan: min(times) for plan, times in took.items()}
    regret = least["chosen"] / min(least.values())
    shown = "  ".join(f"{plan} {seconds:8.3f} s" for plan, seconds in least.items())
    joined = f"{name:12} {rows:9,} rows {keys:9,} keys {counts.pop():11,} out"
    sys.stdout.write(f"{joined}  {shown}  {regret:.2f}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--large", action="store_true", help="a million intervals of 24 keys, too")
    chosen = parser.parse_args()
    for name in CONDITIONS:
        for keys in (10, 100, 1_000, 5_000, chosen.rows):
            compare(name, chosen.rows, keys, chosen.turns)
    if chosen.large:
        compare("overlap", 1_000_000, 24, chosen.turns)


if __name__ == "__main__":
    sys.exit(main())
