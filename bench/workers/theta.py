"""A theta join on workers: what an evaluation costs, whatever their number.

No order of the window helps this condition, so each pair of rows is evaluated, once, by one of the
workers. What a query over no rows needs, which is to start and to end them, is subtracted.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from math import sqrt

import numpy as np
import pyarrow as pa

import penstock
from bench.rows import Row
from penstock.errors import PenstockError

#: Least rate of two workers over one, and most growth of CPU seconds.
TARGET_TWO, MOST_GROWTH = 1.7, 0.1

_SPAN_MS = 1_000
SQL = """
SELECT a.x, a.y, b.x AS bx, b.y AS by FROM a JOIN b
ON (a.x * 7 + b.y * 13 + a.y * b.x) % 1000003 < 1
AND b.t BETWEEN a.t - INTERVAL 1 SECOND AND a.t + INTERVAL 1 SECOND
"""


@dataclass(frozen=True)
class Cost:
    """Seconds of a join by the clock and of all processes, without those of an empty one."""

    workers: int
    evaluations: int
    seconds: float
    cpu: float


def measure(rows: int, sizes: Sequence[int], add: Callable[[Row], None]) -> None:
    """Add what two have over one, and what each number of workers needs for an evaluation.

    Parameters
    ----------
    rows : int
        Of each side for one worker; as many evaluations come with each other worker.
    sizes : sequence of int
        Numbers of workers, 1 and 2 among them.
    """
    found = {size: cost(round(rows * sqrt(size)), size) for size in sizes}
    each = {size: own.cpu / own.evaluations for size, own in found.items()}
    rates = {size: own.evaluations / own.seconds for size, own in found.items()}
    over = rates[2] / rates[1]
    growth = max(each.values()) / each[1] - 1
    values = [asdict(own) for own in found.values()]
    add(
        Row(
            f"theta join, evaluations/s, two workers over one, {rows:,} rows a side and worker",
            f"{over:.2f}x, {rates[2] / 1e9:.2f} G/s",
            f">= {TARGET_TWO:g}x",
            over >= TARGET_TWO,
            f"one {rates[1] / 1e9:.2f} G/s",
            {"over": over, "costs": values},
        )
    )
    texts = ", ".join(f"{size}: {own * 1e9:.2f}" for size, own in each.items())
    add(
        Row(
            "theta join, CPU ns per evaluation by workers",
            f"{texts}; {growth:+.0%} at most",
            f"<= {MOST_GROWTH:.0%}",
            growth <= MOST_GROWTH,
            "",
            {"growth": growth},
        )
    )


def cost(rows: int, size: int) -> Cost:
    """What workers need for a join of two tables of so many rows.

    Raises
    ------
    PenstockError
        One process has other rows.
    """
    tables = {"a": side(rows, 1), "b": side(rows, 2)}
    return cost_of(SQL, tables, rows * rows, size)


def cost_of(sql: str, tables: dict[str, pa.Table], evaluations: int, size: int) -> Cost:
    """What workers need for a query that evaluates its condition so often.

    Raises
    ------
    PenstockError
        One process has other rows.
    """
    empty = _timed(sql, {name: table[:0] for name, table in tables.items()}, size)[1:]
    found, seconds, cpu = _timed(sql, tables, size)
    keys = [(name, "ascending") for name in found.column_names]
    one = penstock.sql(sql, tables)
    if not found.sort_by(keys).equals(one.sort_by(keys)):
        raise PenstockError(
            f"{size} workers have {found.num_rows:,} rows, one process {one.num_rows:,}, or others"
        )
    return Cost(size, evaluations, seconds - empty[0], cpu - empty[1])


def side(rows: int, seed: int) -> pa.Table:
    """A table of a second of rows, all of which are in each other's window."""
    rng = np.random.default_rng(seed)
    times = np.sort(rng.integers(0, _SPAN_MS, rows))
    x, y = rng.integers(0, 10**6, (2, rows))
    return pa.table({"t": pa.array(times, pa.timestamp("ms", "UTC")), "x": x, "y": y})


def _timed(sql: str, tables: dict[str, pa.Table], size: int) -> tuple[pa.Table, float, float]:
    began, cpu = time.perf_counter(), _cpu_s()
    found = penstock.sql(sql, tables, workers=size)
    return found, time.perf_counter() - began, _cpu_s() - cpu


def _cpu_s() -> float:
    """CPU seconds of this process and of those that it has seen end."""
    whole = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        used = resource.getrusage(who)
        whole += used.ru_utime + used.ru_stime
    return whole
