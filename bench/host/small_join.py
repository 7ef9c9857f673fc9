"""What a small join costs: ``python -m bench.host.small_join [--quick] [--real]``.

``penstock.sql`` of two tables of 1,000 rows (the query of :mod:`bench.host.way`): in a process that
has run it before, as the first call of a process whose kernels are in the cache, and as the first
one of a user whose cache is empty; the same for groups of one of the tables; the import before
them; then ``penstock --help``, from the start of its process to its end. ``--real`` shows instead
warm calls of 1,000, 10,000 and 100,000 rows a side: points without a window, and the short joins of
the real streams (:mod:`bench.peers.streams`, with PENSTOCK_DATA). Each figure is a median, in
milliseconds by the clock and of CPU time; the latter also holds for a machine that does other work.
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
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import pyarrow as pa

#: Calls in a process that is warm, processes that are started, and caches that are filled.
_CALLS, _PROCESSES, _CACHES = 200, 10, 3
_QUICK = 20, 3, 1
#: Calls before those that count: small joins have come to machine code by then.
_WARM = 100
_TIMEOUT_S = 300
#: Rows of both sides, and the real streams, of ``--real``.
_SIZES, _REAL = (1_000, 10_000, 100_000), ("B1", "Z1", "G1", "N2", "S2")

_HELP = [sys.executable, "-c", "from penstock.cli.main import run; run()", "--help"]
_POINTS = "SELECT l.id AS i, r.id AS j FROM l JOIN r ON abs(l.x - r.x) + abs(l.y - r.y) < 1000"
_GROUPS = "SELECT x % 7 AS k, count(*) AS n, sum(y) AS s, avg(x) AS m FROM a GROUP BY x % 7"

#: Seconds by the clock and of CPU time.
Taken = tuple[float, float]


def _timed(call: Callable[[], Any]) -> Taken:
    began, used = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - began, time.process_time() - used


def calls(count: int) -> list[float]:
    """Seconds by the clock of so many joins, see :func:`timed_calls`."""
    return [clock for clock, _ in timed_calls(count)]


def timed_calls(count: int, kind: str = "join") -> list[Taken]:
    """Time so many calls, one after the other; the first is the process's first."""
    import penstock
    from bench.host.way import QUERY, TIME, table

    rng = np.random.default_rng(1)
    tables = {name: table(rng) for name in "ab"}

    def call() -> None:
        if kind == "join":
            assert penstock.sql(QUERY, tables, time=TIME).num_rows
        else:
            assert penstock.sql(_GROUPS, {"a": tables["a"]}).num_rows == 7

    return [_timed(call) for _ in range(count)]


def _first(cache: str, kind: str) -> tuple[Taken, Taken]:
    done = subprocess.run(
        [sys.executable, "-m", "bench.host.small_join", "--one", kind],
        env={**os.environ, "PENSTOCK_CACHE_DIR": cache},
        capture_output=True,
        text=True,
        check=True,
        timeout=_TIMEOUT_S,
    )
    imported, called = json.loads(done.stdout)
    return tuple(imported), tuple(called)


def firsts(count: int, kind: str, *, is_cold: bool) -> tuple[list[Taken], list[Taken]]:
    """Time the imports, and the first call, of so many processes; cold ones have empty caches."""
    taken = []
    with nullcontext(None) if is_cold else tempfile.TemporaryDirectory() as kept:
        if kept is not None:
            _first(kept, kind)
        for _ in range(count):
            with tempfile.TemporaryDirectory() as empty:
                taken.append(_first(kept or empty, kind))
    return [imported for imported, _ in taken], [called for _, called in taken]


def helps(count: int) -> list[Taken]:
    """Time so many runs of ``penstock --help``, by the clock alone."""

    def show() -> None:
        subprocess.run(_HELP, capture_output=True, check=True, timeout=_TIMEOUT_S)

    return [(_timed(show)[0], float("nan")) for _ in range(count)]


def real_joins() -> Iterator[tuple[str, Callable[[int], Callable[[], pa.Table]]]]:
    """Yield names of joins, and what makes the call of one from a number of rows of each side."""
    import penstock
    from bench.peers.files import data_folder
    from bench.peers.penstock_side import query
    from bench.peers.streams import REAL

    def points(rows: int) -> Callable[[], pa.Table]:
        rng = np.random.default_rng(1)
        tables = {
            name: pa.table({c: rng.integers(0, 1_000_000, rows) for c in ("id", "x", "y")})
            for name in "lr"
        }
        return lambda: penstock.sql(_POINTS, tables)

    yield "points", points
    for name in _REAL if data_folder() is not None else ():
        join = REAL[name](1.0)

        def real(rows: int, join: Any = join) -> Callable[[], pa.Table]:
            tables = {"l": join.left.slice(0, rows), "r": join.right.slice(0, rows)}
            return lambda: penstock.sql(query(join), tables, time={"l": "t", "r": "t"})

        yield name, real


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.host.small_join", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few runs of each")
    parser.add_argument("--real", action="store_true", help="warm joins of three sizes")
    parser.add_argument("--one", choices=("join", "groups"), help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.one:

        def load() -> None:
            import penstock

            assert penstock.sql

        imported = _timed(load)
        sys.stdout.write(json.dumps([imported, timed_calls(1, given.one)[0]]))
        return 0
    number, processes, caches = _QUICK if given.quick else (_CALLS, _PROCESSES, _CACHES)
    _say("", ["ms by the clock", "of CPU time"])
    if given.real:
        for name, make in real_joins():
            for rows in _SIZES[:1] if given.quick else _SIZES:
                call = make(rows)
                warm = min(_WARM, 1_000_000 // rows)
                taken = [_timed(call) for _ in range(warm + min(number, 3_000_000 // rows))]
                _say(f"{name}, {rows:,} rows a side", _figures(taken[warm:]))
        return 0
    _say("penstock.sql, 1,000 x 1,000 rows", _figures(timed_calls(number + _WARM)[_WARM:]))
    for kind in ("join", "groups"):
        for is_cold in (False, True):
            imports, taken = firsts(caches if is_cold else processes, kind, is_cold=is_cold)
            cache = "cold" if is_cold else "warm"
            _say(f"first {kind} of a process, cache {cache}", _figures(taken))
    _say("import penstock before it", _figures(imports))
    _say("penstock --help", _figures(helps(processes)))
    return 0


def _figures(taken: Sequence[Taken]) -> list[str]:
    return [f"{1e3 * statistics.median(column):,.1f}" for column in zip(*taken, strict=True)]


def _say(what: str, figures: Sequence[str]) -> None:
    sys.stdout.write(f"{what:40}{''.join(f'{one:>18}' for one in figures)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
