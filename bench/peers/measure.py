"""One workload measured: a row for the report and the times behind it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from bench.peers import (
    bio_side,
    duckdb_side,
    kdtree_side,
    numpy_side,
    penstock_side,
    polars_side,
    sedona_side,
)
from bench.peers.join import Join
from bench.peers.penstock_side import EVERY_PAIR, NAME
from bench.peers.turns import Times, take_turns
from bench.peers.workloads import Against, Workload
from bench.rows import Row

_LONGER = f"{NAME}, window twice as long"
_STREAMS = f"{NAME}, as streams"
#: Forms of peers that look at every pair, or every pair of equal keys.
SLOW_FORMS = ("DuckDB, same SQL", "Polars, join_where", "Polars, hash join")
#: Penstock first.
_SIDES = (
    penstock_side,
    duckdb_side,
    polars_side,
    kdtree_side,
    numpy_side,
    sedona_side,
    bio_side,
)
#: Rows of a batch of streams.
BATCH_ROWS = 10_000


@dataclass(frozen=True)
class Measured:
    """Figures of one workload.

    Parameters
    ----------
    row : Row
    times : Times
    left_out : dict
        Reasons by contender.
    """

    row: Row
    times: Times
    left_out: dict[str, str]


def contenders(join: Join) -> tuple[dict[str, Callable[[], pa.Table]], dict[str, str]]:
    """Calls of all that run a join, Penstock's first, and why others do not."""
    runs: dict[str, Callable[[], pa.Table]] = {}
    left_out: dict[str, str] = {}
    for side in _SIDES:
        for name, run in side.contenders(join).items():
            if isinstance(run, str):
                left_out[name] = run
            else:
                runs[name] = run
    return runs, left_out


def measure(
    workload: Workload,
    *,
    size: float,
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
) -> Measured:
    """Run all contenders in turns; ``clock`` gives seconds that pass, or CPU seconds."""
    join = workload.make(size)
    if workload.against in (Against.SHORTER_WINDOW, Against.TABLES):
        return _own_times(workload, join, size, rounds)
    runs, left_out = contenders(join)
    # What Penstock is compared with takes part in every round.
    once = SLOW_FORMS if workload.against is Against.EVERY_PAIR else (*SLOW_FORMS, EVERY_PAIR)
    times = take_turns(runs, rounds, once=once, clock=clock)
    peers = [name for name in runs if name not in (NAME, EVERY_PAIR)]
    fastest = min(peers, key=times.median)
    other = fastest if workload.against is Against.FASTEST_PEER else EVERY_PAIR
    ratio = times.ratio(other, NAME)
    target = workload.target
    row = Row(
        _what(workload, join),
        f"{_ms(times, NAME)} for {times.rows:,} rows; {fastest} {_ms(times, fastest)}: "
        f"{times.ratio(fastest, NAME):.2f}x",
        "" if target is None else f">= {target:g}x {_OTHER[workload.against]}",
        None if target is None else ratio >= target,
        _ms(times, EVERY_PAIR) if EVERY_PAIR in runs else "",
        _values(workload, join, times, ratio, left_out, fastest=fastest, size=size),
    )
    return Measured(row, times, left_out)


_OTHER = {
    Against.FASTEST_PEER: "the fastest peer",
    Against.EVERY_PAIR: "pruning=False",
    Against.SHORTER_WINDOW: "the shorter one",
    Against.TABLES: "the same as tables",
}


def _own_times(workload: Workload, join: Join, size: float, rounds: int) -> Measured:
    """Penstock alone, in two ways."""
    if workload.longer is not None:
        longer = workload.longer(size)
        other, run, clock = _LONGER, lambda: penstock_side.run(longer), time.perf_counter
    else:
        other, run = _STREAMS, lambda: penstock_side.run_streams(join, BATCH_ROWS)
        clock = time.process_time
    runs = {NAME: lambda: penstock_side.run(join), other: run}
    times = take_turns(runs, rounds, same_rows=workload.longer is None, clock=clock)
    ratio = times.ratio(other, NAME)
    row = Row(
        _what(workload, join),
        f"{_ms(times, NAME)}, {_ms(times, other)}: {ratio:.2f}x",
        f"<= {workload.target:g}x {_OTHER[workload.against]}",
        workload.target is not None and ratio <= workload.target,
        values=_values(workload, join, times, ratio, {}),
    )
    return Measured(row, times, {})


def _what(workload: Workload, join: Join) -> str:
    sizes = f"{join.left.num_rows:,} x {join.right.num_rows:,}"
    return f"{workload.name}: {workload.what} ({sizes}, {join.pairs_in_window:.1e} pairs)"


def _ms(times: Times, name: str) -> str:
    return f"{times.median(name) * 1e3:,.1f} ms"


def _values(
    workload: Workload, join: Join, times: Times, ratio: float, left_out: dict, **more
) -> dict:
    return {
        "workload": workload.name,
        "ratio": ratio,
        "rows": times.rows,
        "left_rows": join.left.num_rows,
        "right_rows": join.right.num_rows,
        "pairs_in_window": join.pairs_in_window,
        "seconds": times.seconds,
        "left_out": left_out,
        **more,
    }
