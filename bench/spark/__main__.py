"""Benchmarks of the Spark bridge: ``python -m bench.spark [--quick] [--no-pictures]``.

The same Manhattan join (int32, pruning off, below one pair in a million) in one Spark session: by
the bridge, and by Spark's BroadcastNestedLoopJoin, which reads as many rows as it handles in
seconds; evaluations and rows per second against the size of the window and the number of lanes; and
a lane whose pairs are larger than the memory of Spark and of its workers. The table also goes to
``build/bench/spark.json``, a picture beside it. Figures hold for a machine that does nothing else.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from bench.command import Bench, main
from bench.rows import Row
from bench.spark.report import FULL, QUICK, Report
from bench.store import Store


def _report(store: Store, quick: bool, on_row: Callable[[Row], None]) -> Report:
    return Report(QUICK if quick else FULL, on_row)


BENCH = Bench(
    name="spark",
    text=__doc__,
    title="joins in Spark",
    baseline="Spark's BroadcastNestedLoopJoin",
    report=_report,
)

if __name__ == "__main__":
    sys.exit(main(BENCH))
