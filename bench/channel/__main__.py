"""Measure a channel between two processes: ``python -m bench.channel [--quick]``.

Slots of 64 KiB are filled from memory that no cache holds, and a word of each line is read on the
other side. Contenders take turns; ratios are medians over turns that follow each other. The bare
ring, two compiled loops with a processor each, shows what the machine can do. Run it on a machine
that does nothing else: two processes that wait for each other need both processors at once.
"""

from __future__ import annotations

import argparse
import sys

from bench.channel.report import ChannelReport
from bench.channel.scale import FULL, QUICK
from bench.command import Titles, run


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.channel", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="short transfers, few rounds")
    parser.add_argument("--no-pictures", action="store_true", help="print the table only")
    options = parser.parse_args(argv)
    scale = QUICK if options.quick else FULL
    return run(
        Titles(
            name="channel",
            text=__doc__ or "",
            title="A channel between two processes",
            baseline="baseline",
        ),
        lambda on_row: ChannelReport(scale, on_row),
        quick=options.quick,
        pictures=not options.no_pictures,
    )


if __name__ == "__main__":
    sys.exit(main())
