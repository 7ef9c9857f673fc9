"""Benchmarks of the window join: ``python -m bench.window [--quick] [--again] [--no-pictures]``.

Redraws the paper's Table 2 and figures 9, 10 and 11 from runs of the exported Verilog, with its
formulas beside them; then the same with more banks. Clock cycles are counted in Verilator, cells by
Yosys; no board and no vendor tool takes part. The table also goes to ``build/bench/window.json``,
pictures beside it. What was measured is kept in ``build/bench/window`` under a hash of the Verilog:
an interrupted run goes on where it was.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from bench.command import Bench, main
from bench.rows import Row
from bench.store import Store
from bench.window.report import FULL, QUICK, Report


def _report(store: Store, quick: bool, on_row: Callable[[Row], None]) -> Report:
    return Report(store, QUICK if quick else FULL, on_row)


BENCH = Bench(
    name="window",
    text=__doc__,
    title="the window join, measured in simulation and by Yosys",
    baseline="the paper",
    report=_report,
)

if __name__ == "__main__":
    sys.exit(main(BENCH))
