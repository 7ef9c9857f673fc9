"""``make mutants``: every mutant must be noticed by its test."""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor
from time import monotonic

from rich.console import Console
from rich.markup import escape
from rich.progress import track
from rich.table import Table

from .listed import MUTANTS
from .run import Outcome, Verdict, run


def main() -> int:
    """Run all mutants, or those of some modules; 1 if one was not noticed."""
    parser = argparse.ArgumentParser(prog="python -m tests.hw.mutants", description=__doc__)
    parser.add_argument("--jobs", type=int, default=2, help="tests that run at a time")
    parser.add_argument("--only", default="", help="mutants of modules with this in their name")
    options = parser.parse_args()
    chosen = [place for place, one in enumerate(MUTANTS) if options.only in one.module]
    console, begun = Console(), monotonic()
    with ThreadPoolExecutor(options.jobs) as pool:
        # What does not pass on the hardware as it is notices nothing.
        nodes = sorted({MUTANTS[place].test for place in chosen})
        groups = [nodes[job :: options.jobs] for job in range(options.jobs)]
        for plain in pool.map(run, [group for group in groups if group]):
            if plain.verdict is not Verdict.SURVIVED:
                console.print(plain.text, markup=False)
                console.print("the tests do not pass without a mutation")
                return 1
        runs = pool.map(lambda place: run([MUTANTS[place].test], place), chosen)
        outcomes = list(track(runs, "mutants", len(chosen), console=console))
    console.print(_table(chosen, outcomes))
    counts = {verdict: [o.verdict for o in outcomes].count(verdict) for verdict in Verdict}
    parts = ", ".join(f"{count} {verdict.value}" for verdict, count in counts.items())
    console.print(f"{len(chosen)} mutants: {parts}; {monotonic() - begun:.0f} s")
    for place, outcome in zip(chosen, outcomes, strict=True):
        if outcome.verdict is Verdict.BROKEN:
            console.print(f"\nmutant {place}:\n{outcome.text}", markup=False)
    return int(counts[Verdict.NOTICED] < len(chosen))


def _table(chosen: list[int], outcomes: list[Outcome]) -> Table:
    table = Table("", "module", "mutant", "", "noticed by", "s")
    for place, outcome in zip(chosen, outcomes, strict=True):
        mutant = MUTANTS[place]
        table.add_row(
            str(place),
            mutant.module.removeprefix("penstock.hw."),
            escape(mutant.breaks),
            outcome.verdict.value,
            escape(mutant.test.removeprefix("tests/hw/")),
            f"{outcome.seconds:.1f}",
        )
    return table


if __name__ == "__main__":
    sys.exit(main())
