"""Benchmarks of the host: ``python -m bench.host [--quick]``.

Predictions of ``penstock plan`` beside what this machine does. The CPU device is calibrated anew
before each run; its figures hold for a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from bench.host.prediction import counted_cycles, sustained_rates
from bench.rows import Row, table
from penstock.errors import PenstockError

BUILD = Path("build/bench")

#: What predictions may be away from what is measured.
RATE_TOLERANCE, CYCLES_TOLERANCE = 0.15, 0.05


def rows(quick: bool) -> Iterator[Row]:
    """The figures, one after the other."""
    found = sustained_rates(runs=1 if quick else 3, measured_s=2.0 if quick else 4.0)
    off = found.predicted_per_s / found.measured_per_s - 1
    yield Row(
        "cpu: rate that is sustained",
        f"predicted {found.predicted_per_s:,.0f}, measured {found.measured_per_s:,.0f} tuples/s: "
        f"{off:+.1%}",
        f"within {RATE_TOLERANCE:.0%}",
        abs(off) <= RATE_TOLERANCE,
        values=asdict(found),
    )
    cycles = counted_cycles(quick=quick)
    worst = max(cycles, key=lambda one: abs(one.off))
    yield Row(
        f"rtl: cycles of {len(cycles)} tasks",
        f"worst {worst.off:+.1%}: predicted {worst.predicted:,.0f}, counted {worst.counted:,}",
        f"within {CYCLES_TOLERANCE:.0%}",
        abs(worst.off) <= CYCLES_TOLERANCE,
        values=[asdict(one) for one in cycles],
    )


def main() -> int:
    """Run the benchmark; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.host", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small builds and short runs")
    options = parser.parse_args()
    console = Console() if sys.stdout.isatty() else Console(width=160)
    found: list[Row] = []
    try:
        for row in rows(options.quick):
            found.append(row)
            console.print(f"{row.what}: {row.measured}", highlight=False)
    except PenstockError as error:
        console.print(f"bench.host: {error}", style="red", markup=False)
        return error.exit_code
    finally:
        folder = BUILD / "quick" if options.quick else BUILD
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "host.json").write_text(json.dumps([asdict(row) for row in found], indent=2))
        console.print(table(found, "the host, predicted and measured", ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
