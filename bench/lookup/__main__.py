"""Lookups of a stream in a relation beside other ways: ``python -m bench.lookup [--quick]``.

All contenders get the same memory and the same batches of calls, of 65,536 rows each, which are
answered before the next one unless it says otherwise; they take turns, and their rows are compared.
The relation has 20 million rows of 100 bytes, with ``--quick`` 2 million, with ``--large`` 100
million. Files are kept in ``build/bench/lookup``. Ratios are by CPU time of this process, since
other work on a machine does not change it much; those by the clock stand beside.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import pyarrow as pa
from rich.console import Console

from bench.lookup.report import Report
from bench.lookup.scale import FULL, QUICK, Data
from bench.rows import Row, table
from penstock.errors import PenstockError

BUILD = Path("build/bench")
#: Columns of the table where the output is no terminal.
_WIDTH = 180


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.lookup", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="2 million rows, 13 MB, short rounds")
    parser.add_argument("--large", action="store_true", help="100 million rows")
    parser.add_argument("--only", nargs="+", metavar="STEP", help="steps of the report, by name")
    parser.add_argument("--no-pictures", action="store_true", help="print the table only")
    parser.add_argument("--folder", type=Path, default=BUILD / "lookup", help="of the relation")
    options = parser.parse_args(argv)
    pa.set_cpu_count(2)
    scale = QUICK if options.quick else FULL
    if options.large:
        scale = replace(scale, rows=100_000_000)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    console = Console() if sys.stdout.isatty() else Console(width=_WIDTH)
    began = time.monotonic()

    def on_row(row: Row) -> None:
        console.print(
            f"{time.monotonic() - began:6.0f} s  {row.what}: {row.measured}", highlight=False
        )

    report = Report(Data(scale.rows, options.folder), scale, on_row)
    folder = BUILD / "quick" if options.quick else BUILD
    folder.mkdir(parents=True, exist_ok=True)
    try:
        report.measure(options.only)
        if not options.no_pictures and not options.only:
            for path in report.draw(folder):
                console.print(f"picture: {path}")
    except PenstockError as error:
        console.print(f"bench.lookup: {error}", style="red", markup=False)
        return error.exit_code
    finally:
        rows = json.dumps([asdict(row) for row in report.rows], indent=2)
        (folder / "lookup.json").write_text(rows)
        console.print(table(report.rows, f"Lookups in {scale.rows:,} rows", ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
