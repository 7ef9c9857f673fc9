"""Runs of one case in Penstock: as a join of tables or as streams, cut at random."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import pyarrow as pa

import penstock
from tests.fuzz.compare import rows_of
from tests.fuzz.data import table_of
from tests.fuzz.mode import Mode
from tests.fuzz.oracle import Rows
from tests.fuzz.query import Case

HANG_S = 30
"""Seconds of CPU that a query may take; of time without any, four times as many."""


class HangError(Exception):
    """A query that did not come back in time."""


@contextmanager
def no_hang() -> Iterator[None]:
    """Raises HangError in the main thread where a query takes too long.

    A machine that is busy with something else makes no hang, so time on the CPU counts. A timer
    that runs already, as that of pytest-timeout, goes on afterwards.
    """
    start, cpu = time.monotonic(), time.process_time()

    def alarm(signum: int, frame: Any) -> None:
        if time.process_time() - cpu > HANG_S or time.monotonic() - start > 4 * HANG_S:
            raise HangError(f"no result after {HANG_S} s of CPU or {4 * HANG_S} s in all")
        signal.setitimer(signal.ITIMER_REAL, HANG_S)

    handler = signal.signal(signal.SIGALRM, alarm)
    left, _ = signal.setitimer(signal.ITIMER_REAL, HANG_S)
    try:
        yield
    finally:
        rest = max(0.001, left - (time.monotonic() - start)) if left else 0
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, rest)


def tables_of(case: Case, mode: Mode) -> dict[str, pa.Table]:
    """The tables of a case by name: one where both sides are the same."""
    query = case.query
    return {
        query.table(side): mode.laid_out(table_of(list(query.columns[side]), list(case.rows[side])))
        for side in (0, 1)
    }


def as_tables(case: Case, device: Any, mode: Mode) -> tuple[list[str], Rows]:
    """Column names and rows of ``penstock.sql``."""
    query = case.query
    options = query.options(case.objects)
    tables = tables_of(case, mode)
    result = penstock.sql(query.text(), tables, device=device, pruning=mode.pruning, **options)
    return result.column_names, rows_of(result)


Action = tuple[str, int, int, int]
"""What is done with a stream: "push" (side, from row, to row), "advance" (side, time) or "poll"."""


def actions(case: Case, seed: int) -> list[Action]:
    """Pushes of both sides in random batches, in turns, with random promises in between."""
    rng = Random(seed)
    at = [0, 0]
    done: list[Action] = []
    counts = [len(rows) for rows in case.rows]
    while at[0] < counts[0] or at[1] < counts[1]:
        side = rng.choice([s for s in (0, 1) if at[s] < counts[s]])
        end = min(counts[side], at[side] + rng.choice([1, 1, 2, 3, counts[side]]))
        done.append(("push", side, at[side], end))
        at[side] = end
        if rng.random() < 0.3:
            watermark = next_time(case, side, end)
            if watermark is not None:
                done.append(("advance", side, watermark, 0))
        if rng.random() < 0.4:
            done.append(("poll", 0, 0, 0))
    return done


def as_streams(case: Case, device: Any, mode: Mode) -> tuple[list[str], Rows]:
    """Column names and rows of ``penstock.stream``; rows must be in an order that it takes."""
    assert mode.stream is not None
    query = case.query
    tables = tables_of(case, mode)
    schemas = {name: table.schema for name, table in tables.items()}
    options = stream_options(case, mode)
    stream = penstock.stream(query.text(), schemas, device=device, **options)
    results = []
    try:
        for kind, side, start, end in actions(case, mode.stream):
            if kind == "push":
                part = tables[query.table(side)].slice(start, end - start)
                for batch in part.to_batches():
                    stream.push(query.source(side), batch)
            elif kind == "advance":
                stream.advance(query.source(side), start)
            else:
                results.append(stream.poll())
        late = stream.stats.late
    except BaseException:
        close_quietly(stream)
        raise
    results.append(stream.close())
    if any(late.values()):
        raise AssertionError(f"late rows: {late}")
    whole = pa.concat_tables(results)
    return whole.column_names, rows_of(whole)


def stream_options(case: Case, mode: Mode) -> dict[str, Any]:
    """Keyword arguments of ``penstock.stream``: those of the query, the row numbers, the flow."""
    query = case.query
    options = query.options(case.objects)
    if query.aggregated:
        sides = [s for s in (0, 1) if "id" in query.visible(s)]
        options["unique"] = {"ab"[s]: "id" for s in sides}
    if mode.disorder:
        options["disorder"] = mode.span(query.times.step, query.times.numeric)
    if mode != Mode(stream=mode.stream, layout=mode.layout, disorder=mode.disorder):
        options["flow"] = mode.flow()
    return options


def close_quietly(stream: Any) -> None:
    """Closes a stream that has failed: its own error is the one to show."""
    try:
        stream.close()
    except penstock.PenstockError:
        return


def next_time(case: Case, side: int, at: int) -> int | None:
    """The smallest raw time of the rows that follow."""
    seat = case.query.seat(side)
    times = [row[seat] for row in case.rows[side][at:] if row[seat] is not None]
    return min(times, default=None)


def in_order(case: Case, mode: Mode) -> Case:
    """The case with the rows of each side nearly in order of time, as the disorder allows.

    Rows without a time stay where they were.
    """
    assert mode.stream is not None
    rng = Random(mode.stream)
    query = case.query
    for side in (0,) if query.same else (0, 1):
        seat = query.seat(side)
        late = mode.disorder * max(1, query.times.step // query.times.unit(side))
        rows = case.rows[side]
        keyed = [
            (r[seat] + rng.randint(0, late), i, r)
            for i, r in enumerate(rows)
            if r[seat] is not None
        ]
        rest = iter([r for _, _, r in sorted(keyed, key=lambda k: k[:2])])
        case = case.with_rows(side, tuple(r if r[seat] is None else next(rest) for r in rows))
    return case
