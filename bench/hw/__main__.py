"""Benchmarks of the hardware: ``python -m bench.hw [--quick] [--again] [--no-pictures]``.

Cycles are counted on the Verilated kernels, cells by Yosys; no board and no vendor tool takes part.
Each row has its target and the same figure of FJoin's pipeline. The table also goes to
``build/bench/hw.json``, pictures beside it. What was measured is kept in ``build/bench/hw`` under
a hash of what it was measured of: an interrupted run goes on where it was.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.hw import pictures
from bench.hw.report import FULL, QUICK, Report, Row
from bench.hw.store import Store
from penstock.errors import PenstockError

BUILD = Path("build/bench")

#: Columns of the table where the output is no terminal.
_WIDTH = 180


def table(rows: list[Row]) -> Table:
    shown = Table(title="hardware, measured in simulation and by Yosys")
    for heading in ("what", "measured", "target", "", "FJoin"):
        shown.add_column(heading, overflow="fold")
    for row in rows:
        verdict = {None: "", True: "met", False: "MISSED"}[row.met]
        shown.add_row(row.what, row.measured, row.target, verdict, row.baseline)
    return shown


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.hw", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few units and short windows")
    parser.add_argument("--again", action="store_true", help="measure anew what is kept")
    parser.add_argument("--no-pictures", action="store_true", help="print the table only")
    options = parser.parse_args()
    # Rows appear in a log file as they are known.
    sys.stdout.reconfigure(line_buffering=True)
    console = Console() if sys.stdout.isatty() else Console(width=_WIDTH)
    began = time.monotonic()

    def on_row(row: Row) -> None:
        console.print(
            f"{time.monotonic() - began:6.0f} s  {row.what}: {row.measured}", highlight=False
        )

    scale = QUICK if options.quick else FULL
    store = Store(BUILD / "hw", again=options.again)
    report = Report(store, scale, on_row)
    name = "hw_quick.json" if options.quick else "hw.json"
    try:
        report.cycles()
        report.areas()
        report.projection()
        if options.no_pictures:
            pass
        elif importlib.util.find_spec("matplotlib") is None:
            console.print("no pictures: matplotlib is not installed; pip install 'penstock[demo]'")
        else:
            folder = BUILD / "quick" if options.quick else BUILD
            folder.mkdir(parents=True, exist_ok=True)
            for path in pictures.draw(store, scale, report.per_unit, folder):
                console.print(f"picture: {path}")
    except PenstockError as error:
        console.print(f"bench.hw: {error}", style="red", markup=False)
        return error.exit_code
    finally:
        BUILD.mkdir(parents=True, exist_ok=True)
        (BUILD / name).write_text(json.dumps([asdict(row) for row in report.rows], indent=2))
        console.print(table(report.rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
