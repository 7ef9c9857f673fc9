"""Lookups of a stream in a relation beside other ways: ``python -m bench.lookup [--quick]``.

All contenders get the same memory and the same batches of calls, of 65,536 rows each, which are
answered before the next one unless it says otherwise; they take turns, and their rows are compared.
The relation has 20 million rows of 100 bytes, with ``--quick`` 2 million, with ``--large`` 100
million. Files are kept in ``build/bench/lookup``. Ratios are by CPU time of this process, since
other work on a machine does not change it much; those by the clock stand beside, and count with
``--cold``, which has no targets. ``--nodes`` measures several nodes instead.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from bench.command import BUILD, Titles, run
from bench.lookup.report import Report
from bench.lookup.scale import FULL, QUICK, Data


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.lookup", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="2 million rows, 13 MB, short rounds")
    parser.add_argument("--large", action="store_true", help="100 million rows")
    parser.add_argument(
        "--cold", action="store_true", help="pages leave the system's memory after each batch"
    )
    parser.add_argument("--nodes", action="store_true", help="figures of several nodes")
    parser.add_argument("--only", nargs="+", metavar="STEP", help="steps of the report, by name")
    parser.add_argument("--no-pictures", action="store_true", help="print the table only")
    parser.add_argument("--folder", type=Path, default=BUILD / "lookup", help="of the relation")
    options = parser.parse_args(argv)
    pa.set_cpu_count(2)
    scale = QUICK if options.quick else FULL
    if options.large:
        scale = replace(scale, rows=100_000_000)
    data = Data(scale.rows, options.folder, options.cold)
    if options.nodes:
        from bench.lookup.nodes import NodesReport

        return run(
            Titles(
                name="lookup_nodes", text=__doc__, title="Lookups on several nodes", baseline=""
            ),
            lambda on_row: NodesReport(data, scale, options.only, on_row),
            quick=options.quick,
            pictures=False,
        )
    return run(
        Titles(name="lookup", text=__doc__, title=f"Lookups in {scale.rows:,} rows", baseline=""),
        lambda on_row: Report(data, scale, options.only, on_row),
        quick=options.quick,
        pictures=not (options.no_pictures or options.only),
    )


if __name__ == "__main__":
    sys.exit(main())
