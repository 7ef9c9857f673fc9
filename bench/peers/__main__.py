"""Penstock beside its peers at joins that look at few pairs: ``python -m bench.peers [--quick]``.

Each join runs from Arrow tables in memory to an Arrow table of pairs or counts, two threads each.
A peer has the best form that its users would write by hand: DuckDB and Polars the same SQL, a grid
of cells, a hash join, ASOF joins of ranks; SciPy's cKDTree; NumPy's sort and search. Peers that
evaluate every pair are left out where that takes more than about 20 s. After one round whose rows
are compared, contenders take turns; ratios are medians over the rounds. With PENSTOCK_DATA also
the real streams. The table goes to ``build/bench/peers.json``, too.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import io
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bench.peers.join import THREADS
from bench.peers.measure import Measured, measure
from bench.peers.penstock_side import NAME
from bench.peers.workloads import workloads
from bench.rows import Row, table
from penstock.errors import MissingToolError, PenstockError

BUILD = Path("build/bench")
#: Columns of the table where the output is no terminal.
_WIDTH = 180


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns its exit code."""
    known = {each.name: each for each in workloads()}
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small joins, two rounds")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=known,
        metavar="WORKLOAD",
        default=list(known),
        help=", ".join(known),
    )
    parser.add_argument("--rounds", type=int, help="timed rounds of each join")
    parser.add_argument(
        "--cpu-time",
        dest="clock",
        action="store_const",
        const=time.process_time,
        default=time.perf_counter,
        help="CPU time of all threads: holds on a machine that does other work",
    )
    options = parser.parse_args(argv)
    rounds = options.rounds or (2 if options.quick else 5)
    pa.set_cpu_count(THREADS)
    # Rows appear in a log file as they are known.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    console = Console() if sys.stdout.isatty() else Console(width=_WIDTH)
    folder = BUILD / "quick" if options.quick else BUILD
    folder.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    began = time.monotonic()
    try:
        _need("duckdb", "polars", "scipy")
        for name in options.only:
            workload = known[name]
            size = workload.quick if options.quick else 1
            found = measure(workload, size=size, rounds=rounds, clock=options.clock)
            rows.append(found.row)
            console.print(f"{time.monotonic() - began:6.0f} s  {found.row.what}", highlight=False)
            console.print(_details(found))
            gc.collect()
    except PenstockError as error:
        console.print(f"bench.peers: {error}", style="red", markup=False)
        return error.exit_code
    finally:
        (folder / "peers.json").write_text(json.dumps([asdict(row) for row in rows], indent=2))
        console.print(table(rows, "Penstock beside its peers, two threads each", "pruning=False"))
    if not any(name in known for name in ("U2", "Z1")):
        console.print("no real streams: PENSTOCK_DATA names no folder with them")
    return 0


def _need(*packages: str) -> None:
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise MissingToolError(f"{package} is not installed; pip install {package}")


def _details(found: Measured) -> Table:
    """All contenders of one workload."""
    shown = Table()
    for heading in ("contender", "ms", f"over {NAME}"):
        shown.add_column(heading, justify="left" if heading == "contender" else "right")
    for name in found.times.seconds:
        ms = f"{found.times.median(name) * 1e3:,.1f}"
        shown.add_row(name, ms, f"{found.times.ratio(name, NAME):.2f}x")
    for name, reason in found.left_out.items():
        shown.add_row(name, "left out", escape(reason))
    return shown


if __name__ == "__main__":
    sys.exit(main())
