"""Bytes written per window row of a stream: ``python -m bench.host.written [--quick]``.

Rows go to a device as keys of its windows; with pruning also in the order of cells, once for each
length of slab that they become a part of. For a device that searches in main memory, slabs with
their order and directory count as written to it. The devices here write and evaluate nothing: what
is written follows from counts of pairs, and not from matches or times.
"""

from __future__ import annotations

import argparse
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
from rich.console import Console

from bench.rows import Row, table
from penstock.host.device.base import PAIRS, Device, Kernel, Result, WindowBuffer
from penstock.host.execute.running import Running
from penstock.host.join.stream import Flow, JoinStream
from penstock.host.prune import ordering
from penstock.program import AnyProgram, Mode
from penstock.query.compiler import compile_query

#: Rows of a batch of each side.
BATCH_ROWS = 10_000
#: Times that of pruning=False which may be written.
TARGET = 4.0
#: Units of the board, and cycles of its tasks.
UNITS, TASK_CYCLES = 512, 1 << 21


class Sink(Device):
    """Counts what it would have to keep, and finds nothing.

    Parameters
    ----------
    searches : bool
        Whether it is like the CPU device, and not like a board.
    """

    def __init__(self, *, searches: bool) -> None:
        self.searches = searches
        self.name = "cpu" if searches else f"board of {UNITS} units"
        self.lanes = 2 if searches else 1
        if not searches:
            self.units = UNITS
            self.key_widths = (32, 64)
            self.task_evaluations = UNITS * TASK_CYCLES
        self.written: Counter[str] = Counter()

    def refuses(self, program: AnyProgram, modes: frozenset[Mode] = PAIRS) -> str | None:
        return None

    def open(self, program: AnyProgram, modes: frozenset[Mode] = PAIRS) -> Kernel:
        return _Kernel(self, program, modes)

    def counters(self) -> dict[str, int]:
        return {}

    def close(self) -> None:
        pass


class _Kernel(Kernel):
    def __init__(self, device: Sink, program: AnyProgram, modes: frozenset[Mode]) -> None:
        super().__init__(program, modes)
        self._device = device

    def allocate(self, capacity: int) -> WindowBuffer:
        return _Buffer(self._device, capacity)

    def submit(self, window: Any, task: Any) -> Future[Result]:
        done: Future[Result] = Future()
        none = np.zeros(0, np.uint32)
        done.set_result(Result(none, none, None, {"evaluations": 0}))
        return done


class _Buffer(WindowBuffer):
    def __init__(self, device: Sink, capacity: int) -> None:
        super().__init__(capacity)
        self._device = device

    @property
    def nbytes(self) -> int:
        return 0

    def write(self, offset: int, columns: Sequence[np.ndarray]) -> None:
        self._device.written["windows"] += sum(column.nbytes for column in columns)

    def free(self) -> None:
        pass


@dataclass(frozen=True)
class Case:
    """A stream of two sides with a ROWS window."""

    name: str
    on: str
    columns: dict[str, int]


CASES = (
    Case("points", "abs(l.x - r.x) + abs(l.y - r.y) < 700", {"x": 1 << 20, "y": 1 << 20}),
    Case("equal keys", "l.k = r.k", {"k": 100_000}),
)


def written(case: Case, device: Sink, window: int, total: int, *, pruning: bool) -> Counter[str]:
    """Bytes per row of both sides, by what they are written to."""
    rng = np.random.default_rng(1)
    fields = [("t", pa.int64()), *((name, pa.int32()) for name in case.columns)]
    schemas = dict.fromkeys("lr", pa.schema(fields))
    query = compile_query(
        f"SELECT l.t FROM l JOIN r ON {case.on}", schemas, time={"l": "t", "r": "t"}, rows=window
    )
    flow = Flow(running=Running(pruning=pruning))

    def sort(cells: np.ndarray, starts: np.ndarray, order: np.ndarray) -> None:
        with lock:
            device.written["order and directory"] += starts.nbytes + order.nbytes
        real_sort(cells, starts, order)

    def take(out: np.ndarray, column: np.ndarray, order: np.ndarray) -> None:
        with lock:
            device.written["slabs"] += out.nbytes
        real_take(out, column, order)

    lock = threading.Lock()  # several threads sort
    real_sort, real_take = ordering.sort_by_cell, ordering.take
    patches = mock.patch.multiple(ordering, sort_by_cell=sort, take=take)
    with patches, JoinStream(query, schemas, device, flow=flow) as stream:
        for low in range(0, total, BATCH_ROWS):
            t = pa.array(np.arange(low, low + BATCH_ROWS))
            for side in "lr":
                keys = [
                    pa.array(rng.integers(0, most, BATCH_ROWS, np.int32))
                    for most in case.columns.values()
                ]
                stream.push(side, pa.record_batch([t, *keys], schema=schemas[side]))
            stream.poll()
        stream.close()
    if not device.searches:  # a board's slabs come through its windows
        device.written["slabs"] = device.written["order and directory"] = 0
    return Counter({name: round(count / 2 / total, 2) for name, count in device.written.items()})


def rows(window: int, total: int) -> list[Row]:
    """Measure all rows."""
    found = []
    for searches in (True, False):
        for case in CASES:
            before, after = (
                written(case, Sink(searches=searches), window, total, pruning=pruning)
                for pruning in (False, True)
            )
            ratio = sum(after.values()) / sum(before.values())
            name = Sink(searches=searches).name
            parts = ", ".join(f"{what} {count:.1f}" for what, count in after.items() if count)
            found.append(
                Row(
                    f"{case.name} on {name}: bytes per window row, ROWS {window:,}",
                    f"{sum(after.values()):.1f} ({parts}): {ratio:.2f}x",
                    f"<= {TARGET:g}x pruning=False",
                    ratio <= TARGET,
                    f"{sum(before.values()):.1f}",
                )
            )
    return found


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.host.written", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a window of 200,000 rows")
    options = parser.parse_args(argv)
    window = 200_000 if options.quick else 1_000_000
    console = Console(width=None if sys.stdout.isatty() else 180)
    found = rows(window, 2 * window)
    console.print(table(found, "bytes written, batches of 10,000 rows", "pruning=False"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
