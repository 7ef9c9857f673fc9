"""Benchmarks of the hardware: ``python -m bench.hw [--quick] [--again] [--no-pictures]``.

Cycles are counted on the Verilated kernels, cells by Yosys; no board and no vendor tool takes part.
Each row has its target and the same figure of FJoin's pipeline. The table also goes to
``build/bench/hw.json``, pictures beside it. What was measured is kept in ``build/bench/hw`` under
a hash of what it was measured of: an interrupted run goes on where it was.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from bench.command import Bench, main
from bench.hw import pictures
from bench.hw.report import FULL, QUICK, Report
from bench.rows import Row
from bench.store import Store


class _Report(Report):
    def measure(self) -> None:
        self.cycles()
        self.areas()
        self.projection()

    def draw(self, out: Path) -> list[Path]:
        return pictures.draw(self.store, self.scale, self.per_unit, out)


def _report(store: Store, quick: bool, on_row: Callable[[Row], None]) -> _Report:
    return _Report(store, QUICK if quick else FULL, on_row)


BENCH = Bench(
    name="hw",
    text=__doc__,
    title="hardware, measured in simulation and by Yosys",
    baseline="FJoin",
    report=_report,
)

if __name__ == "__main__":
    sys.exit(main(BENCH))
