"""Stores that a relation could lie in: ``python -m bench.relation_stores [--quick]``.

The folder of pages, Lance, LMDB and RocksDB get the same rows of 100 bytes, and take turns; each
step has a process of its own, and what they give is compared. Memory is what a process has above
what it had before the step, pages of mapped files included. Files lie in
``build/bench/relation_stores``, and go at the end. Decision record 33 has the table.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.command import BUILD
from bench.relation_stores.measure import (
    BOXES,
    KEYS,
    STORES,
    Scale,
    Spent,
    boxed,
    built,
    isolated,
    looked_up,
    scanned,
    updated,
)
from bench.relation_stores.rows import Data
from bench.relation_stores.versions import VERSION_ROWS

FULL = Scale(2_000_000, 64 << 20, rounds=3)
QUICK = Scale(200_000, 64 << 20, rounds=1)
_MIB = 1 << 20

#: Texts by row of the table and store, and the numbers behind them.
Figures = dict[str, dict[str, str]]


class Report:
    """Measures all stores.

    Parameters
    ----------
    scale : Scale
    folder : Path
    stores : list of str
    console : Console
    """

    def __init__(self, scale: Scale, folder: Path, stores: list[str], console: Console) -> None:
        self.scale, self.folder, self.stores, self.console = scale, folder, stores, console
        self.figures: Figures = defaultdict(dict)

    def measure(self) -> None:
        """What each step takes."""
        part = Scale(self.scale.rows // 4, self.scale.memory_bytes, 1)
        for scale in (self.scale, part):
            Data(scale.rows).write(self.folder / f"rows-{scale.rows}.arrows")
        self._turns("build", built, False, rounds=1, after="MiB on disk")
        self._turns(f"build of {part.rows:,} rows", built, False, scale=part, rounds=1)
        self._lookups("")
        self._turns("all rows", scanned)
        self._turns("update of 1 %", updated, rounds=1, after="MiB more")
        self._lookups(", after the update")
        self._turns("all rows, after the update", scanned)
        self._turns("build by x and y", built, True, rounds=1, after="MiB on disk")
        self._turns(f"{BOXES} boxes", boxed)

    def check_versions(self) -> None:
        """What each store does with versions."""
        for what, check in VERSION_ROWS.items():
            for name in self.stores:
                self.figures[what][name] = check(name)
            self._say(what)

    def _lookups(self, when: str) -> None:
        self._turns(f"{KEYS:,} keys{when}", looked_up, False)
        if not when:
            self._turns(f"{KEYS:,} absent keys", looked_up, True)

    def _turns(
        self,
        what: str,
        step: Callable,
        *args: Any,
        rounds: int | None = None,
        scale: Scale | None = None,
        after: str = "",
    ) -> None:
        """Run a step of each store in turns; results that are no sizes have to be equal.

        Parameters
        ----------
        after : str
            What the step's second result is, if it is a number of bytes.
        """
        scale = scale or self.scale
        took: dict[str, list[Spent]] = defaultdict(list)
        results: dict[str, Any] = {}
        for _ in range(rounds or scale.rounds):
            for name in self.stores:
                one, results[name] = isolated(step, name, self.folder, scale, *args)
                took[name].append(one)
        for name, times in took.items():
            cpu_s, seconds = (median(getattr(t, k) for t in times) for k in ("cpu_s", "seconds"))
            peak = max(t.peak_bytes for t in times) / _MIB
            text = f"{cpu_s:.3g} s ({seconds:.3g}); {peak:,.0f} MiB"
            self.figures[what][name] = text
            if after:
                self.figures[f"{what}: {after}"][name] = f"{results[name] / _MIB:,.1f}"
        if step is not built and not after:
            first = results[self.stores[0]]
            for name, result in results.items():
                if result != first:
                    raise SystemExit(f"{what}: {name} gives other rows than {self.stores[0]}")
        self._say(what)

    def _say(self, what: str) -> None:
        """Show a row as it is known."""
        texts = "; ".join(f"{name} {text}" for name, text in self.figures[what].items())
        self.console.print(f"{what}: {texts}", highlight=False)


def main() -> int:
    """Measure, and print the table; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.relation_stores", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rows and rounds")
    parser.add_argument("--rows", type=int, help="of the relation")
    parser.add_argument("--stores", nargs="+", choices=STORES, default=list(STORES))
    parser.add_argument("--versions", action="store_true", help="measure nothing, try versions")
    options = parser.parse_args()
    scale = QUICK if options.quick else FULL
    if options.rows:
        scale = Scale(options.rows, scale.memory_bytes, scale.rounds)
    folder = BUILD / "relation_stores"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    console = Console() if sys.stdout.isatty() else Console(width=180)
    report = Report(scale, folder, options.stores, console)
    try:
        if not options.versions:
            report.measure()
        report.check_versions()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        result = Path(f"{folder}.json")
        result.write_text(json.dumps({"rows": scale.rows, **report.figures}, indent=2))
        shown = Table(title=f"{scale.rows:,} rows: CPU time (by the clock); most memory")
        for heading in ("", *options.stores):
            shown.add_column(heading, overflow="fold")
        for what, texts in report.figures.items():
            shown.add_row(what, *(texts.get(name, "") for name in options.stores))
        console.print(shown)
    return 0


if __name__ == "__main__":
    sys.exit(main())
