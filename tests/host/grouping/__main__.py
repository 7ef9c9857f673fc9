"""Random queries over one table in long runs: ``python -m tests.host.grouping --cases 5000``."""

from __future__ import annotations

import argparse
import sys

import numpy as np

import penstock
from penstock import Flow
from penstock.host.workers.here import GroupStream
from tests.host.grouping.kit import make_case
from tests.host.grouping.pushing import disorder_of, pushed

#: Rows of cases, in turns.
SIZES = (300, 60, 5, 1, 0)
#: Latency targets of streams, in turns.
TARGETS_S = (0.0, 0.0, 0.02)


def as_table(seed: int) -> None:
    """Hold the groups of a table to DuckDB's."""
    case = make_case(seed, SIZES[seed % len(SIZES)])
    case.check(penstock.sql(case.text, {"g": case.table}, time=case.time or None))


def as_stream(seed: int) -> None:
    """Hold the groups of a stream, pushed at random, to DuckDB's."""
    case = make_case(seed, SIZES[seed % len(SIZES)], timed=True)
    rng = np.random.default_rng(seed)
    disorder, span = disorder_of(case, int(rng.integers(0, 40)))
    stream = penstock.stream(
        case.text,
        {"g": case.table.schema},
        time=case.time or None,
        disorder=span,
        flow=Flow(latency_s=TARGETS_S[seed % len(TARGETS_S)]),
    )
    assert isinstance(stream, GroupStream)
    model, found = pushed(stream, case, rng, disorder)
    case.check(found, model.admitted(case.table))


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.host.grouping")
    parser.add_argument("--seed", type=int, default=0, help="first seed")
    parser.add_argument("--cases", type=int, default=1000, help="tables, and as many streams")
    options = parser.parse_args()
    failed = 0
    for seed in range(options.seed, options.seed + options.cases):
        for run in (as_table, as_stream):
            try:
                run(seed)
            except Exception as error:  # the next seeds are still wanted
                failed += 1
                sys.stdout.write(f"{run.__name__} {seed}: {type(error).__name__}: {error}\n")
    sys.stdout.write(f"{options.cases} tables and as many streams, {failed} of them wrong\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
