"""NEXMark's Q7, Q8 and Q11 as their suite defines them: events per CPU second of one process.

Flink's figures are those published for 1.13 by the suite's authors, events per second and core of a
cluster that also generates the events, keeps checkpoints in RocksDB and exchanges rows. Ours run
from rows in memory to rows as Arrow, in one process, without checkpoints; DuckDB does the same from
the same rows. Events are of all three kinds, as the suite counts them: a query reads its own, in Q8
4 of 50, where Flink makes and discards the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median

import duckdb
import pyarrow as pa

import penstock
from bench.rows import Row
from penstock.errors import PenstockError
from penstock.sim.workloads import Q7, Q8, Q11
from penstock.sim.workloads.workload import Workload

#: Events per second and core of Flink 1.13, and our least rate over it.
FLINK = {"Q7": 12_330.0, "Q8": 146_140.0, "Q11": 39_700.0}
TARGET = 20.0
#: Events per second of event time.
RATE = 100_000.0

Tables = Mapping[str, pa.Table]


def measure(events: int, rounds: int, add: Callable[[Row], None]) -> None:
    """Add a row for each query.

    Raises
    ------
    PenstockError
        Penstock's rows are not DuckDB's.
    """
    for made in (Q7, Q8, Q11):
        work = made(seconds=events / RATE, rate=RATE)
        tables = dict(work.tables())
        seconds: dict[str, list[float]] = {"ours": [], "DuckDB": []}
        found = {}
        for _ in range(rounds + 1):
            for name, run in (("ours", ours), ("DuckDB", theirs)):
                began = time.process_time()
                found[name] = run(work, tables)
                seconds[name].append(time.process_time() - began)
        agree(made.__name__, found["ours"], found["DuckDB"])
        add(_row(made.__name__, events, found["ours"].num_rows, seconds))


def ours(work: Workload, tables: Tables) -> pa.Table:
    """Rows of a query, by way of those before it."""
    given = dict(tables)
    for name, text in work.stages().items():
        given[name] = penstock.sql(text, given)
    return penstock.sql(work.query(), given)


def theirs(work: Workload, tables: Tables) -> pa.Table:
    """DuckDB's rows, in two threads."""
    with duckdb.connect(config={"threads": 2}) as db:
        for name, table in tables.items():
            db.register(name, table)
        return db.sql(work.oracle()).to_arrow_table()


def agree(name: str, own: pa.Table, other: pa.Table) -> None:
    """See that two tables have the same rows, times as milliseconds."""
    columns = []
    for place, column in enumerate(own.columns):
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("ms", column.type.tz)).cast(pa.int64())
        columns.append(column.cast(other.column(place).type))
    names = [str(place) for place in range(len(columns))]
    keys: Sequence[tuple[str, str]] = [(name, "ascending") for name in names]
    found = pa.table(columns, names=names).sort_by(keys).combine_chunks()
    if not found.equals(other.rename_columns(names).sort_by(keys).combine_chunks()):
        raise PenstockError(
            f"{name}: Penstock has {own.num_rows:,} rows, DuckDB {other.num_rows:,}, or others"
        )


def _row(name: str, events: int, rows: int, seconds: Mapping[str, Sequence[float]]) -> Row:
    # The first of each compiles, and does not count.
    rates = {who: events / median(own[1:]) for who, own in seconds.items()}
    over = rates["ours"] / FLINK[name]
    return Row(
        f"NEXMark {name}, {events:,} events, {rows:,} rows, over Flink 1.13 (published)",
        f"{rates['ours'] / 1e6:.2f} M events per CPU second: {over:.0f}x; "
        f"{rates['ours'] / rates['DuckDB']:.2f}x DuckDB",
        f">= {TARGET:g}x",
        over >= TARGET,
        f"Flink {FLINK[name] / 1e3:g} k per second and core; DuckDB {rates['DuckDB'] / 1e6:.2f} M",
        {"query": name, "over": over, "seconds": dict(seconds)},
    )
