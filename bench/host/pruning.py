"""Pruning on and off in turns, in one run: ``python -m bench.host.pruning [--quick]``.

The demo's city always; with PENSTOCK_DATA also the real rides and aircraft over long windows. Each
join runs from the query to Arrow tables of its rows, so rows that match weigh on both sides.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from penstock.host.device.base import Device
from penstock.host.device.registry import open_device
from penstock.host.execute.running import Running
from penstock.host.execute.stats import Stats
from penstock.host.join.stream import Flow, JoinStream
from penstock.host.join.table.table_join import TableJoin
from penstock.host.prune.sizes import DEFAULT_PRUNING, Pruning
from penstock.host.rows.files import read_table
from penstock.plan.query import JoinQuery
from penstock.query.compiler import compile_query
from penstock.sim.workloads import City, city

#: Query of the real data, its window (rows, or seconds to both sides).
LONG = (
    ("U1", 3600),
    ("U2", 3600),
    ("U2", "65536 rows"),
    ("U3", "65536 rows"),
    ("A1", 3600),
    ("A2", "65536 rows"),
)
#: Pieces that a stream is pushed in, per side.
PUSHES = 40


@dataclass(frozen=True)
class Case:
    """A join to measure."""

    name: str
    query: JoinQuery
    tables: Mapping[str, pa.Table]


@dataclass(frozen=True)
class Turn:
    """What one run took."""

    rows: int
    pairs: int
    evaluated: int
    seconds: float
    cpu_seconds: float


def generated(seconds: int) -> Case:
    """The demo: predicate and rows as ``penstock demo`` has them."""
    with tempfile.TemporaryDirectory() as folder:
        City(seconds=seconds, seed=1).write(Path(folder))
        names = ("orders", "gps")
        tables = {n: read_table(Path(folder) / f"{n}.parquet").sort_by("ts") for n in names}
    schemas = {name: table.schema for name, table in tables.items()}
    return Case("city, 180 s", compile_query(city.query(), schemas), tables)


def real(folder: Path) -> Iterator[Case]:
    """The long windows."""
    facts = json.loads((folder / "queries.json").read_text(encoding="utf-8"))
    for name, window in LONG:
        query = facts[name]
        tables = {side: pq.read_table(folder / f"{query[side]}.parquet") for side in "rs"}
        on = " AND ".join(p for p in query["on"].split(" AND ") if "t_s" not in p)
        rows = None
        if isinstance(window, int):
            on = f"abs(r.t_s - s.t_s) <= {window} AND {on}"
        else:
            rows = int(window.split()[0])
        where = f" WHERE {query['where']}" if query["where"] else ""
        text = f"SELECT r.id AS r_id, s.id AS s_id FROM r JOIN s ON {on}{where}"
        schemas = {side: table.schema for side, table in tables.items()}
        compiled = compile_query(text, schemas, time=dict.fromkeys("rs", "t_s"), rows=rows)
        yield Case(f"{name}, {window}{'' if rows else ' s'}", compiled, tables)


def as_tables(case: Case, device: Device, pruning: Pruning | None) -> Turn:
    began = time.perf_counter(), time.process_time()
    join = TableJoin(case.query, case.tables, device, pruning=pruning)
    rows = sum(batch.num_rows for batch in join)
    return _turn(rows, join.stats, began)


def as_streams(case: Case, device: Device, pruning: Pruning | None) -> Turn:
    schemas = {side: table.schema for side, table in case.tables.items()}
    flow = Flow(running=Running(pruning=pruning or False))
    began = time.perf_counter(), time.process_time()
    rows = 0
    with JoinStream(case.query, schemas, device, flow=flow) as stream:
        for part in range(PUSHES):
            for side, table in case.tables.items():
                step = -(-table.num_rows // PUSHES)
                stream.push(side, table.slice(part * step, step))
            rows += stream.poll().num_rows
        rows += stream.close().num_rows
    return _turn(rows, stream.stats, began)


def _turn(rows: int, stats: Stats, began: tuple[float, float]) -> Turn:
    spent = time.perf_counter() - began[0], time.process_time() - began[1]
    return Turn(rows, stats.pairs_in_window, stats.pairs_evaluated, *spent)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m bench.host.pruning", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one turn, a short city")
    options = parser.parse_args()
    turns = 1 if options.quick else 2
    folder = os.environ.get("PENSTOCK_DATA")
    cases = [generated(60 if options.quick else 600)]
    cases += real(Path(folder)) if folder else []
    shown = Table(title="pruning, cpu device: off over on")
    for heading in ("join", "as", "pairs", "rows", "evaluations", "time", "CPU time", "seconds"):
        shown.add_column(heading)
    with open_device("cpu") as device:
        for case in cases:
            for kind, run in (("tables", as_tables), ("streams", as_streams)):
                run(case, device, DEFAULT_PRUNING)  # compiles kernels, or loads them
                on, off = [], []
                for _ in range(turns):
                    on.append(run(case, device, DEFAULT_PRUNING))
                    off.append(run(case, device, None))
                if {(t.rows, t.pairs) for t in on} != {(t.rows, t.pairs) for t in off}:
                    raise SystemExit(f"{case.name} as {kind} gives other rows with pruning")
                best_on, best_off = (min(t.seconds for t in ts) for ts in (on, off))
                cpu_on, cpu_off = (min(t.cpu_seconds for t in ts) for ts in (on, off))
                shown.add_row(
                    case.name,
                    kind,
                    f"{on[0].pairs:,}",
                    f"{on[0].rows:,}",
                    f"{off[0].evaluated / max(on[0].evaluated, 1):.1f}x fewer",
                    f"{best_off / best_on:.2f}x",
                    f"{cpu_off / cpu_on:.2f}x",
                    f"{best_on:.2f}",
                )
    Console(width=140).print(shown)


if __name__ == "__main__":
    main()
