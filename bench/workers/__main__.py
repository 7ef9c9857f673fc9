"""Streams on workers: ``python -m bench.workers [--quick] [--only PART]``.

The workloads of the Slash paper (§8.1.2), from rows in memory to rows as Arrow: one worker over a
loop written by hand; two workers that make their own input over DuckDB, Polars and Spark Structured
Streaming, two threads each; CPU seconds of a row with 1 to 16 workers beside UpPar's, and by role;
how many workers beat a thread by hand; NEXMark's queries beside Flink's published rates; a theta
join; what checkpoints cost; and latency at half of the sustained rate. Contenders take turns in one
run and their rows are compared; ratios are medians over the rounds. The table goes to
``build/bench/workers.json``, too. Figures hold for a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import sys

from bench.command import Titles, run
from bench.workers.report import PARTS, Report
from bench.workers.scale import FULL, QUICK
from penstock.host.workers.local.child import keep_memory


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.workers", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, one round")
    parser.add_argument("--only", choices=PARTS, action="append", help="parts; default: all")
    parser.add_argument("--rounds", type=int, help="timed rounds of each part")
    options = parser.parse_args(argv)
    titles = Titles(
        name="workers", text=__doc__ or "", title="Streams on workers", baseline="beside"
    )
    return run(
        titles,
        lambda on_row: Report(
            QUICK if options.quick else FULL, options.only or PARTS, options.rounds, on_row
        ),
        quick=options.quick,
        pictures=True,
    )


if __name__ == "__main__":
    keep_memory()  # as workers do, for all that is measured in this process
    sys.exit(main())
