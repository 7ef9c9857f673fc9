"""This tree against an earlier one, side by side: ``python -m bench.versus REVISION [--rounds N]``.

Joins that a change should leave as fast as they were: many small ones, a brute-force join of the
CPU device with its keys prepared, and the same from SQL text to an Arrow table. The two trees take
turns, each in a process of its own; a ratio above 1 says that this tree takes longer. The ratios of
one tree with itself (``python -m bench.versus HEAD`` without a change) tell how noisy a machine is.
With ``--suite`` both run the quick forms of whole benchmarks instead (:mod:`bench.suite`).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

_SMALL_CALLS, _WARM, _LARGE_CALLS = 200, 20, 60


def small() -> list[float]:
    """Seconds of joins of 1,000 by 1,000 rows."""
    from bench.host.small_join import calls

    return calls(_SMALL_CALLS + _WARM)[_WARM:]


def large() -> dict[str, list[float]]:
    """Seconds of brute-force joins of 20,000 by 20,000 tuples."""
    from bench.cpu import penstock_side
    from bench.cpu.workload import Points, radius_for
    from penstock.host.device.registry import open_device

    points = Points(20_000, 20_000, radius_for(1e-5))
    given = penstock_side.tables(points)
    with penstock_side.loaded(points, 1) as one, open_device("cpu") as device:
        return {
            "20,000 x 20,000, device": _taken(lambda: penstock_side.join(one, points)),
            "20,000 x 20,000, sql": _taken(lambda: penstock_side.sql(device, given, points)),
        }


def _taken(run: Callable[[], object]) -> list[float]:
    taken = []
    for _ in range(_LARGE_CALLS + 1):
        began = time.perf_counter()
        run()
        taken.append(time.perf_counter() - began)
    return taken[1:]  # the first one compiles


def _check(root: Path) -> None:
    """Refuse to measure another tree's packages."""
    import penstock
    from penstock import host

    for package in (penstock, host):
        if not str(package.__file__).startswith(str(root)):
            raise SystemExit(f"{package.__name__} is imported from {package.__file__}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.versus", description=__doc__)
    parser.add_argument("revision", help="of git")
    parser.add_argument("--rounds", type=int, help="turns of each tree; 5, or 2 of a suite")
    parser.add_argument("--suite", action="store_true", help="the quick forms of benchmarks")
    parser.add_argument("--only", help="of these benchmarks: cpu,host")
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.one is not None:
        _check(given.one)
        sys.stdout.write(json.dumps({"1,000 x 1,000, sql": small(), **large()}))
        return 0
    # Not before: as a script it finds only what its own tree has.
    from bench.suite import compared
    from bench.trees import HERE, checked_out, in_process

    if given.suite:
        return compared(given.revision, given.only, given.rounds or 2)
    found: dict[str, list[tuple[float, float]]] = {}
    with checked_out(given.revision) as then:
        for _ in range(given.rounds or 5):
            old, new = (
                in_process(__file__, ["", "--one", str(tree)], tree) for tree in (then, HERE)
            )
            for name, taken in old.items():
                pair = statistics.median(taken), statistics.median(new[name])
                found.setdefault(name, []).append(pair)
    for name, pairs in found.items():
        old, new = (1e3 * statistics.median(side) for side in zip(*pairs, strict=True))
        ratio = statistics.median(b / a for a, b in pairs)
        sys.stdout.write(f"{name:28}{old:10,.2f} ms then{new:10,.2f} ms now   ratio {ratio:.3f}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
