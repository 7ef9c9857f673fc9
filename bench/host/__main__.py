"""Benchmarks of the host: ``python -m bench.host [--quick] [--again] [--no-pictures]``.

Throughput at bounded latency, quantiles of the latency, host overhead, overload, and predictions of
``penstock plan`` beside what this machine does: the FJoin paper's figures 7 to 11 and its Table 3.
Tuples arrive when they are scheduled to, whatever the join does. Besides the CPU device, lanes of
simulated units at 300 MHz are measured: exact results that come when the Verilated kernel would
have them (``bench/host/modelled.py``). The table also goes to ``build/bench/host.json``, pictures
beside it; runs are kept in ``build/bench/host`` under a hash of the sources: an interrupted run
goes on where it was. Figures hold for a machine that does nothing else.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from bench.command import Bench, main
from bench.host.report import FULL, QUICK, Report
from bench.rows import Row
from bench.store import Store


def _report(store: Store, quick: bool, on_row: Callable[[Row], None]) -> Report:
    return Report(store, QUICK if quick else FULL, on_row)


BENCH = Bench(
    name="host",
    text=__doc__,
    title="the host, measured and predicted",
    baseline="the FJoin paper",
    report=_report,
)

if __name__ == "__main__":
    sys.exit(main(BENCH))
