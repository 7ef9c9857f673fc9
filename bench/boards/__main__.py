"""What fits on each board: ``python -m bench.boards [--again] [--check]``.

Counts cells of a few kernels with Yosys (minutes, unless hardware is as it was when they were
counted last), extends them to every board, and writes the tables of docs/hardware/resources.md.
``--check`` writes nothing, and fails where the page says something else.
"""

from __future__ import annotations

import argparse
import sys

from bench.boards.counts import Counts
from bench.boards.report import PAGE, tables, written
from bench.boards.sizes import builds


def main() -> int:
    """Run the command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.boards", description=__doc__)
    parser.add_argument("--again", action="store_true", help="count anew what is kept")
    parser.add_argument("--check", action="store_true", help="compare with the page only")
    options = parser.parse_args()
    counts = Counts(again=options.again)
    counts.ahead(builds())
    made = tables(counts)
    page = PAGE.read_text(encoding="utf-8")
    sys.stdout.write(made)
    if options.check:
        return int(written(page, made) != page)
    PAGE.write_text(written(page, made), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
