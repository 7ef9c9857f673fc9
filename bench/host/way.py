"""The way of a small batch: ``python -m bench.host.way [--latency] [--sql] [--list]``.

Through how many files and functions of Penstock do ten rows pass, from the ``push`` that gives them
until ``poll`` has given the rows that they joined, over all threads? The stream has a window of
time, a condition over two integer columns, device ``cpu`` and no latency target; it has run before,
so that its kernels are compiled and its window moves on. ``--latency`` adds the same with a target
of 20 ms, ``--sql`` a whole ``penstock.sql`` of two tables of 1,000 rows. With ``--list`` the
functions follow in the order of their first call.

Counted are functions with a name, in files of Penstock (modules ``penstock.*``, bench and tests are
none): comprehensions, generator expressions and lambdas are parts of what they stand in, and
methods that a dataclass has made for it are in no file. A generator is called once, however often
it goes on. Code that Numba compiled is not seen. Several batches are traced, each by itself, and
the middle one of them is shown: threads do not always look for work equally often.
"""

from __future__ import annotations

import argparse
import dis
import inspect
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from types import CodeType, FrameType
from typing import Any

import numpy as np
import pyarrow as pa

import penstock
from bench.host.traffic import SCHEMA, SCHEMAS
from penstock import Flow

#: Rows of a batch.
ROWS = 10
#: Rows of each table.
TABLE_ROWS = 1000
#: The latency target of ``--latency``.
LATENCY_S = 0.020
#: Batches before those that are traced, and how many are.
_WARM, _TRACED = 60, 11
#: Microseconds between rows of one source; the window holds some 200 rows a side.
_STEP_US = 5_000
_SPAN = 1 << 14
_TIMEOUT_S = 60.0
#: What is joined: integer coordinates that are near, within a second.
QUERY = """SELECT a.t AS ta, b.t AS tb FROM a JOIN b
ON abs(a.x - b.x) + abs(a.y - b.y) < 1500 AND b.t BETWEEN a.t - 1000000 AND a.t + 1000000"""
TIME = {"a": "t", "b": "t"}


@dataclass
class Way:
    """What was called.

    Parameters
    ----------
    rows : int
        Rows that were joined.
    calls : Counter
        How often each function was called in each thread, the first call first.
    """

    rows: int = 0
    calls: Counter[tuple[CodeType, str, str]] = field(default_factory=Counter)

    @property
    def functions(self) -> list[CodeType]:
        """Each function once, by its first call."""
        return list(dict.fromkeys(code for code, _, _ in self.calls))

    @property
    def files(self) -> set[str]:
        return {code.co_filename for code in self.functions}

    @property
    def packages(self) -> list[str]:
        return sorted({module.rpartition(".")[0] for _, module, _ in self.calls})

    @property
    def threads(self) -> Counter[str]:
        """Calls in each thread."""
        found: Counter[str] = Counter()
        for (_, _, thread), count in self.calls.items():
            found[thread] += count
        return found

    def summary(self) -> str:
        """The figures, a line each."""
        threads = ", ".join(f"{name} {count}" for name, count in self.threads.items())
        return "\n".join(
            [
                f"  files      {len(self.files)}",
                f"  functions  {len(self.functions)}",
                f"  calls      {self.calls.total()}",
                f"  packages   {len(self.packages)}: {', '.join(self.packages)}",
                f"  threads    {len(self.threads)}: {threads}",
            ]
        )

    def listing(self) -> str:
        """The functions in the order of their first call: thread, calls, name."""
        lines, seen = [], set()
        for code, module, thread in self.calls:
            if code in seen:
                continue
            seen.add(code)
            count = sum(n for (other, _, _), n in self.calls.items() if other is code)
            lines.append(f"  {thread:24} {count:4}  {module}:{code.co_qualname}")
        return "\n".join(lines)


class Tracer:
    """Notes calls in this thread and in threads that begin while it is installed."""

    def __init__(self) -> None:
        self._way: Way | None = None
        self._unseen: set[int] = set()

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Be told of all calls; what is called in :meth:`tracing` counts."""
        before, before_threads = sys.getprofile(), threading.getprofile()
        sys.setprofile(self._note)
        threading.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(before)
            threading.setprofile(before_threads)

    @contextmanager
    def tracing(self) -> Iterator[Way]:
        """Count, in all threads that are told of."""
        way = self._way = Way()
        try:
            yield way
        finally:
            self._way = None

    @contextmanager
    def unseen(self) -> Iterator[None]:
        """Do not count what this thread does meanwhile."""
        own = threading.get_ident()
        self._unseen.add(own)
        try:
            yield
        finally:
            self._unseen.discard(own)

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        way = self._way
        if way is None or event != "call" or threading.get_ident() in self._unseen:
            return
        module, code = frame.f_globals.get("__name__", ""), frame.f_code
        if not module.startswith("penstock.") or code.co_name.startswith("<"):
            return
        if code.co_filename.startswith("<") or frame.f_lasti > _beginning(code):
            return
        way.calls[code, module, threading.current_thread().name] += 1


@cache
def _beginning(code: CodeType) -> int:
    """Where a frame stands that is entered first; a generator that goes on is further on."""
    if not code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE):
        return sys.maxsize
    return next(step.offset for step in dis.get_instructions(code) if step.opname == "RESUME")


def stream_way(latency_s: float = 0.0) -> Way:
    """The way of a batch through a stream."""
    rng = np.random.default_rng(1)
    tracer, ways = Tracer(), []
    # Threads are told of when they begin, with the stream.
    with (
        tracer.installed(),
        penstock.stream(
            QUERY, SCHEMAS, time=TIME, device="cpu", flow=Flow(latency_s=latency_s)
        ) as stream,
    ):
        for number in range(2 * (_WARM + _TRACED)):
            source, batch = "ab"[number % 2], _batch(rng, number)
            if number < 2 * _WARM or source == "b":
                stream.push(source, batch)
                stream.flush()
                stream.poll()
                continue
            with tracer.tracing() as way:
                stream.push(source, batch)
                with tracer.unseen():
                    assert stream.wait(1, _TIMEOUT_S), "the batch joined no row"
                way.rows = stream.poll().num_rows
            ways.append(way)
    return _middle(ways)


def sql_way() -> Way:
    """The way of two tables."""
    rng = np.random.default_rng(1)
    tables = {name: table(rng) for name in "ab"}
    tracer, ways = Tracer(), []
    with tracer.installed():
        for number in range(3 + _TRACED):
            with tracer.tracing() as way:
                way.rows = penstock.sql(QUERY, tables, time=TIME).num_rows
            if number >= 3:
                ways.append(way)
    return _middle(ways)


def table(rng: np.random.Generator, rows: int = TABLE_ROWS) -> pa.Table:
    """A table of rows at even times."""
    return pa.Table.from_batches([_rows(rng, np.arange(rows) * _STEP_US)])


def _batch(rng: np.random.Generator, number: int) -> pa.RecordBatch:
    """The batch of a number; both sources move on alike, one batch after the other."""
    return _rows(rng, (number * ROWS + np.arange(ROWS)) * _STEP_US // 2)


def _rows(rng: np.random.Generator, times: np.ndarray) -> pa.RecordBatch:
    places = rng.integers(0, _SPAN, (2, len(times))).astype(np.int32)
    return pa.record_batch([times, *places], schema=SCHEMA)


def _middle(ways: list[Way]) -> Way:
    ways = sorted(ways, key=lambda way: (len(way.functions), way.calls.total()))
    return ways[len(ways) // 2]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what was asked for."""
    text, _, more = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(prog="python -m bench.host.way", description=text, epilog=more)
    parser.add_argument("--latency", action="store_true", help="also with a latency target")
    parser.add_argument("--sql", action="store_true", help="also a join of tables")
    parser.add_argument("--list", action="store_true", help="name all functions")
    given = parser.parse_args(arguments)
    wanted: dict[str, Callable[[], Way]] = {f"stream, {ROWS} rows, latency 0": stream_way}
    if given.latency:
        name = f"stream, {ROWS} rows, latency target {LATENCY_S * 1e3:.0f} ms"
        wanted[name] = lambda: stream_way(LATENCY_S)
    if given.sql:
        wanted[f"penstock.sql, {TABLE_ROWS:,} x {TABLE_ROWS:,} rows"] = sql_way
    for name, measure in wanted.items():
        way = measure()
        sys.stdout.write(f"{name}: {way.rows:,} rows joined\n{way.summary()}\n")
        if given.list:
            sys.stdout.write(f"{way.listing()}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
