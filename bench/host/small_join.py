"""What a small join costs: ``python -m bench.host.small_join [--quick]``.

``penstock.sql`` of two tables of 1,000 rows (the query of :mod:`bench.host.way`): in a process that
has run it before, as the first call of a process whose kernels are in the cache, and as the first
one of a user whose cache is empty, so that they are compiled; then ``penstock --help``, from the
start of its process to its end. Each figure is a median. Figures hold for a machine that does
nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext

import numpy as np

#: Calls in a process that is warm, processes that are started, and caches that are filled.
_CALLS, _PROCESSES, _CACHES = 200, 10, 3
_QUICK = 20, 3, 1
#: Calls before those that count.
_WARM = 10
_TIMEOUT_S = 300

_HELP = [sys.executable, "-c", "from penstock.cli.main import run; run()", "--help"]


def calls(count: int) -> list[float]:
    """Seconds of each of so many calls, one after the other; the first is the process's first."""
    import penstock
    from bench.host.way import QUERY, TIME, table

    rng = np.random.default_rng(1)
    tables = {name: table(rng) for name in "ab"}
    taken = []
    for _ in range(count):
        began = time.perf_counter()
        assert penstock.sql(QUERY, tables, time=TIME).num_rows
        taken.append(time.perf_counter() - began)
    return taken


def first_calls(count: int, *, is_cold: bool) -> list[float]:
    """Seconds of the first call in each of so many processes; of cold ones with an empty cache."""
    taken = []
    with nullcontext(None) if is_cold else tempfile.TemporaryDirectory() as kept:
        if kept is not None:
            _first_call(kept)
        for _ in range(count):
            with tempfile.TemporaryDirectory() as empty:
                taken.append(_first_call(kept or empty))
    return taken


def _first_call(cache: str) -> float:
    done = subprocess.run(
        [sys.executable, "-m", "bench.host.small_join", "--one"],
        env={**os.environ, "PENSTOCK_CACHE_DIR": cache},
        capture_output=True,
        text=True,
        check=True,
        timeout=_TIMEOUT_S,
    )
    return json.loads(done.stdout)


def helps(count: int) -> list[float]:
    """Seconds of each of so many runs of ``penstock --help``."""
    taken = []
    for _ in range(count):
        began = time.perf_counter()
        subprocess.run(_HELP, capture_output=True, check=True, timeout=_TIMEOUT_S)
        taken.append(time.perf_counter() - began)
    return taken


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.host.small_join", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few runs of each")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.one:
        sys.stdout.write(json.dumps(calls(1)[0]))
        return 0
    number, processes, caches = _QUICK if given.quick else (_CALLS, _PROCESSES, _CACHES)
    _say("penstock.sql, 1,000 x 1,000 rows", calls(number + _WARM)[_WARM:])
    _say("the first of a process, cache warm", first_calls(processes, is_cold=False))
    _say("the first of a process, cache cold", first_calls(caches, is_cold=True))
    _say("penstock --help", helps(processes))
    return 0


def _say(what: str, taken: list[float]) -> None:
    middle, low, high = (1e3 * f(taken) for f in (statistics.median, min, max))
    sys.stdout.write(f"{what:36}{middle:10,.1f} ms   ({low:,.1f} to {high:,.1f})\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
