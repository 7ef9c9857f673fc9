"""What the command lines of benchmarks share."""

from __future__ import annotations

import argparse
import importlib.util
import io
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from rich.console import Console

from bench.rows import Row, table
from bench.store import Store
from penstock.errors import PenstockError

BUILD = Path("build/bench")

#: Columns of the table where the output is no terminal.
_WIDTH = 180


class Report(Protocol):
    """What measures and collects rows."""

    rows: list[Row]

    def measure(self) -> None:
        """Measure all figures of the table."""
        ...

    def draw(self, out: Path) -> list[Path]:
        """Write all pictures into a folder; returns their paths."""
        ...


@dataclass(frozen=True, kw_only=True)
class Titles:
    """What a benchmark is called.

    Parameters
    ----------
    name : str
        Of its package, its JSON file, and the folder of what was measured.
    text : str
        What it does.
    title, baseline : str
        Of its table, and of the table's column of baselines.
    """

    name: str
    text: str
    title: str
    baseline: str


@dataclass(frozen=True, kw_only=True)
class Bench(Titles):
    """One benchmark.

    Parameters
    ----------
    report : callable
        Makes the report from a store, whether to be quick, and what takes each row as it is known.
    """

    report: Callable[[Store, bool, Callable[[Row], None]], Report]


def main(bench: Bench) -> int:
    """Run a benchmark; returns its exit code."""
    parser = argparse.ArgumentParser(prog=f"python -m bench.{bench.name}", description=bench.text)
    parser.add_argument("--quick", action="store_true", help="small builds and short runs")
    parser.add_argument("--again", action="store_true", help="measure anew what is kept")
    parser.add_argument("--no-pictures", action="store_true", help="print the table only")
    options = parser.parse_args()
    return run(
        bench,
        lambda on_row: bench.report(
            Store(BUILD / bench.name, again=options.again), options.quick, on_row
        ),
        quick=options.quick,
        pictures=not options.no_pictures,
    )


def run(
    bench: Titles, made: Callable[[Callable[[Row], None]], Report], *, quick: bool, pictures: bool
) -> int:
    """Measure, print each row and then the table, and draw; returns the exit code.

    Parameters
    ----------
    bench : Titles
    made : callable
        Makes the report, from what takes each row as it is known.
    quick : bool
        Whether the results go where they replace none of a full run.
    pictures : bool
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Rows appear in a log file as they are known.
        sys.stdout.reconfigure(line_buffering=True)
    console = Console() if sys.stdout.isatty() else Console(width=_WIDTH)
    began = time.monotonic()

    def on_row(row: Row) -> None:
        console.print(
            f"{time.monotonic() - began:6.0f} s  {row.what}: {row.measured}", highlight=False
        )

    report = made(on_row)
    folder = BUILD / "quick" if quick else BUILD
    folder.mkdir(parents=True, exist_ok=True)
    try:
        report.measure()
        if not pictures:
            pass
        elif importlib.util.find_spec("matplotlib") is None:
            console.print("no pictures: matplotlib is not installed; pip install 'penstock[demo]'")
        else:
            for path in report.draw(folder):
                console.print(f"picture: {path}")
    except PenstockError as error:
        console.print(f"bench.{bench.name}: {error}", style="red", markup=False)
        return error.exit_code
    finally:
        rows = json.dumps([asdict(row) for row in report.rows], indent=2)
        (folder / f"{bench.name}.json").write_text(rows)
        console.print(table(report.rows, bench.title, bench.baseline))
    return 0
