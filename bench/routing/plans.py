"""Plans of lanes by key beside their targets: ``python -m bench.routing.plans [--quick]``.

How much MNRT and QMMP split and move, beside the least that is possible and an exact integer
program, how long they take, and how much memory. Loads follow Zipf's law, keys in random order.
The table goes to ``build/bench/routing_plans.json``, too. ``--quick`` leaves out 10 million keys,
and most of the integer programs.
"""

from __future__ import annotations

import argparse
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bench.command import Titles, run
from bench.routing.quality import at_home, beside_exact, drift, grid, zipf
from bench.rows import Row
from penstock.host.routing.loads import Loads
from penstock.host.routing.moves_plan import plan

_PLANNERS = ("qmmp", "mnrt")
#: Seconds that a plan may take, by keys.
_SECONDS = {10**6: {"qmmp": 0.2, "mnrt": 1.0}, 10**7: {"qmmp": 2.0, "mnrt": 12.0}}
#: Memory that a plan may take, as a multiple of the arrays of its loads.
_MEMORY = 12


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.routing.plans", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small cases")
    options = parser.parse_args(argv)
    titles = Titles(
        name="routing_plans", text=__doc__ or "", title="Plans of lanes by key", baseline="QMMP"
    )
    return run(
        titles, lambda on_row: _Report(options.quick, on_row), quick=options.quick, pictures=False
    )


class _Report:
    """Measures plans."""

    def __init__(self, quick: bool, on_row: Callable[[Row], None]) -> None:
        self.rows: list[Row] = []
        self._quick, self._on_row = quick, on_row

    def measure(self) -> None:
        """Measure all figures of the table."""
        self._grid()
        self._drift()
        self._exact()
        self._batches()
        for keys, targets in _SECONDS.items():
            if keys <= 10**6 or not self._quick:
                self._large(keys, targets)

    def draw(self, out: Path) -> list[Path]:
        """No pictures."""
        return []

    def _add(self, what: str, value: float, most: float, shown: str, baseline: str = "") -> None:
        unit = shown.partition("}")[2]
        row = Row(what, shown.format(value), f"<= {most:g}{unit}", value <= most, baseline, value)
        self.rows.append(row)
        self._on_row(row)

    def _grid(self) -> None:
        sums = grid(2 if self._quick else 10)
        copies = sums.mnrt.copies
        self._add("grid: copies over QMMP's", copies / sums.qmmp.copies, 0.6, "{:.3f}x")
        bound = sums.qmmp.copies / sums.least_copies
        self._add(
            "grid: copies over the bound", copies / sums.least_copies, 1.75, "{:.3f}x",
            f"{bound:.3f}x",
        )  # fmt: skip
        moved = sums.qmmp.moved / sums.least_moved
        self._add(
            "grid: moved over the least", sums.mnrt.moved / sums.least_moved, 1.1, "{:.3f}x",
            f"{moved:.3f}x",
        )  # fmt: skip

    def _drift(self) -> None:
        mnrt, qmmp = (drift(name, 2 if self._quick else 20) for name in ("mnrt", "qmmp"))
        for name, most in (("copies", 0.05), ("entries", 0.5)):
            ratio = getattr(mnrt, name) / getattr(qmmp, name)
            self._add(f"drift: {name} over QMMP's", ratio, most, "{:.4f}x")

    def _exact(self) -> None:
        cases = 50 if self._quick else 500
        exact, mnrt, qmmp = beside_exact(cases)
        what = f"{cases} small cases: copies over an exact program's"
        self._add(what, mnrt / exact, 1.05, "{:.3f}x", f"{qmmp / exact:.3f}x")

    def _batches(self) -> None:
        """Plans of 1,024 cells on 32 lanes, the table carried on."""
        for name in _PLANNERS:
            rng = np.random.default_rng(32)
            longest = 0.0
            for exponent in (0.5, 0.8, 1.2):
                load = zipf(1024, exponent, 60_000, rng)
                loads = at_home(load, 32)
                for _ in range(10 if self._quick else 40):
                    made = plan(loads, 0.05, name)
                    longest = max(longest, made.costs.seconds)
                    swapped = rng.choice(1024, 100, replace=False)
                    load[swapped] = load[rng.permutation(swapped)]
                    loads = made.table.loads(load)
            what = f"1,024 cells, 32 lanes: longest {name} plan"
            self._add(what, longest * 1e3, 50, "{:.1f} ms")

    def _large(self, keys: int, targets: dict[str, float]) -> None:
        whole = at_home(zipf(keys, 0.8, 20 * keys, np.random.default_rng(7)), 8)
        arrays = sum(
            each.nbytes for each in (whole.key, whole.lane, whole.load, whole.size, whole.homes)
        )
        all_on_one = np.zeros(keys, np.int64)
        for name in _PLANNERS:
            what = f"{keys:,} keys, 8 lanes, all on one: {name}"
            row = Row(what, f"{_planned(whole, all_on_one, name):.3f} s")
            self.rows.append(row)
            self._on_row(row)
            for lane in (whole.lane, all_on_one):
                what = f"{keys:,} keys, 8 lanes{', all on one' * (lane is all_on_one)}: {name}"
                if lane is whole.lane:
                    seconds = [_planned(whole, lane, name) for _ in range(3)]
                    self._add(what, min(seconds), targets[name], "{:.3f} s")
                tracemalloc.start()
                _planned(whole, lane, name)
                most = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
                self._add(f"{what}, memory over the arrays", most / arrays, _MEMORY, "{:.1f}x")


def _planned(whole: Loads, lane: np.ndarray, planner: str) -> float:
    """Seconds that a plan takes whose loads are new, so that nothing is known of them."""
    homes = whole.homes
    loads = Loads(whole.key, lane, whole.load, whole.size, homes=homes, lanes=whole.lanes)
    return plan(loads, 0.05, planner).costs.seconds


if __name__ == "__main__":
    sys.exit(main())
