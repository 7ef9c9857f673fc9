"""Interrupts calls of a stream at random moments, and compares its rows with brute force.

``python -m tests.host.kit.interrupting --count 500`` does it for long and prints what it met;
``make interrupts`` does so for each way, window and latency.
"""

from __future__ import annotations

import argparse
import ctypes
import signal
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from random import Random

import pyarrow as pa

from penstock.host.device.base import Device
from penstock.host.devices.cpu import CpuDevice
from penstock.host.join.stream import Flow, JoinStream
from penstock.host.workers.here import GroupStream
from penstock.plan.group_query import GroupQuery
from penstock.query.compiler import compile_query, compile_select
from tests.host.kit.streams import SCHEMA, Feed, Row, batch_of, rows_join, time_join

SCHEMAS = {"a": SCHEMA, "b": SCHEMA}
SELECT = "SELECT a.n AS a, b.n AS b FROM a JOIN b ON a.x = b.x"
#: Groups of one source; times are integers.
GROUPS = "SELECT x, window(t, 5).start AS w, count(*) AS n FROM a GROUP BY x, window(t, 5)"
#: What a stream does: a join over windows of time or of ROWS, or groups.
KINDS = ("time", "rows", "groups")
#: Sizes of the ROWS window.
ROWS = {"a": 40, "b": 30}
#: Calls of one stream.
CALLS = 60
#: Seconds until an interrupt comes, from the least to the most.
SOONEST_S, LATEST_S = 2e-6, 3e-3
#: Seconds that a call may take; far beyond that it hangs.
PATIENCE_S = 30.0


class Interrupted(BaseException):
    """Raised in the thread that calls."""


class Interrupter(ABC):
    """Raises :class:`Interrupted` in the calling thread after a while."""

    @abstractmethod
    def after(self, delay_s: float) -> None:
        """Raise it once so much later."""

    @abstractmethod
    def stop(self) -> None:
        """Raise nothing any more."""

    def close(self) -> None:  # noqa: B027 - one has nothing to close
        """End its threads."""


class BySignal(Interrupter):
    """As Ctrl-C comes: by a signal's handler, in the main thread."""

    def __init__(self) -> None:
        signal.signal(signal.SIGALRM, self._handle)

    def after(self, delay_s: float) -> None:
        signal.setitimer(signal.ITIMER_REAL, delay_s)

    def stop(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _handle(self, *_: object) -> None:
        raise Interrupted


class ByThread(Interrupter):
    """As debuggers and notebooks do it: another thread sets an exception for this one."""

    def __init__(self) -> None:
        self._target = threading.get_ident()
        self._lock = threading.Lock()
        self._due: float | None = None
        self._closing = False
        # Not an event, whose lock an interrupt of who sets it would leave taken.
        self._wake: SimpleQueue[None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def after(self, delay_s: float) -> None:
        with self._lock:
            self._due = time.monotonic() + delay_s
        self._wake.put(None)

    def stop(self) -> None:
        with self._lock:
            self._due = None
            self._set(None)

    def close(self) -> None:
        self._closing = True
        self._wake.put(None)
        self._thread.join()

    def _set(self, error: type[BaseException] | None) -> None:
        what = None if error is None else ctypes.py_object(error)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._target), what)

    def _run(self) -> None:
        while not self._closing:
            due = self._due
            left = None if due is None else max(0.0, due - time.monotonic())
            try:
                self._wake.get(timeout=left)
            except Empty:
                with self._lock:
                    if self._due == due:
                        self._due = None
                        self._set(Interrupted)


@dataclass
class Outcome:
    """What a run met."""

    #: Interrupts by the call that they ended.
    hits: Counter[str] = field(default_factory=Counter)
    #: Interrupted pushes whose batch was in.
    taken: int = 0
    longest_s: float = 0.0
    rows: int = 0


def run(
    interrupter: Interrupter, device: Device, seed: int, count: int, latency_s: float, kind: str
) -> Outcome:
    """Interrupt so many calls, on as many streams as that takes.

    Raises
    ------
    AssertionError
        Rows are missing, or there are too many.
    """
    rng, outcome = Random(seed), Outcome()
    while outcome.hits.total() < count:
        _Stream(interrupter, device, rng, outcome, latency_s, kind).run()
    return outcome


class _Stream:
    """One stream, some of whose calls are interrupted."""

    def __init__(
        self,
        interrupter: Interrupter,
        device: Device,
        rng: Random,
        outcome: Outcome,
        latency_s: float,
        kind: str,
    ) -> None:
        self.interrupter, self.rng, self.outcome = interrupter, rng, outcome
        self.kind, self.names = kind, "a" if kind == "groups" else "ab"
        self.stream = _opened(kind, device, Flow(latency_s=latency_s))
        self.arrivals: list[tuple[int, Row]] = []
        self.clock = {"a": 0, "b": 0}
        self.numbers = {"a": 0, "b": 0}
        self.taken = {"a": 0, "b": 0}
        self.found: list[tuple[int, ...]] = []

    def run(self) -> None:
        for _ in range(CALLS):
            often = (self.push,) * 6 + (self.poll,) * 2
            self.rng.choice((*often, self.flush, self.advance, self.wait))()
        while not self.take("close", self.stream.close):
            pass
        self.found += _pairs(self.stream.close())
        assert sorted(self.found) == self.expected()
        self.outcome.rows += len(self.found)

    def take(self, what: str, call: Callable[[], pa.Table]) -> bool:
        """Take the rows of a call; whether it came to its end."""
        got = []

        def take() -> None:
            table = call()  # nothing is raised between the end of the call and this
            got.append(table)

        ended = self.tried(what, take)
        self.found += [pair for table in got for pair in _pairs(table)]
        return ended

    def poll(self) -> None:
        self.take("poll", self.stream.poll)

    def flush(self) -> None:
        self.tried("flush", self.stream.flush)

    def wait(self) -> None:
        self.tried("wait", lambda: self.stream.wait(1, 0.002))

    def advance(self) -> None:
        if self.kind != "rows":
            name = self.rng.choice(self.names)
            self.tried("advance", lambda: self.stream.advance(name, self.clock[name]))

    def push(self) -> None:
        name = self.rng.choice(self.names)
        rows: list[Row] = []
        for _ in range(self.rng.randint(1, 20)):
            self.clock[name] += self.rng.random() < 0.4
            rows.append((self.numbers[name], self.clock[name], self.rng.randint(0, 2)))
            self.numbers[name] += 1
        batch = batch_of(rows)
        while not self.tried("push", lambda: self.stream.push(name, batch)):
            if self.stream.pushed(name) > self.taken[name]:
                self.outcome.taken += 1
                break
            if self.rng.random() < 0.3:  # a caller need not try again
                return
        self.taken[name] += 1
        assert self.stream.pushed(name) == self.taken[name]
        self.arrivals += [("ab".index(name), row) for row in rows]

    def tried(self, what: str, call: Callable[[], object]) -> bool:
        """Call it with an interrupt on its way; whether it came to its end."""
        steps, began = [], time.monotonic()
        low, high = SOONEST_S, LATEST_S
        delay_s = low * (high / low) ** self.rng.random()
        try:
            self.interrupter.after(delay_s)
            call()
            steps.append("ended")
        except Interrupted:
            pass
        while True:
            try:
                self.interrupter.stop()
                break
            except Interrupted:
                continue
        took = time.monotonic() - began
        self.outcome.longest_s = max(self.outcome.longest_s, took)
        assert took < PATIENCE_S
        if not steps:
            self.outcome.hits[what] += 1
        return bool(steps)

    def expected(self) -> list[tuple[int, ...]]:
        if self.kind == "groups":
            counts = Counter((x, time - time % 5) for _, (_, time, x) in self.arrivals)
            return sorted((*key, count) for key, count in counts.items())
        if self.kind == "rows":
            return rows_join(self.arrivals, (ROWS["a"], ROWS["b"]), lambda x, y: x == y)
        sides = [Feed([row for place, row in self.arrivals if place == k], [], 0) for k in (0, 1)]
        return time_join(*sides, 4, 4, lambda x, y: x == y)


def _opened(kind: str, device: Device, flow: Flow) -> JoinStream | GroupStream:
    if kind == "groups":
        found = compile_select(GROUPS, SCHEMAS, time={"a": "t"})
        assert isinstance(found, GroupQuery)
        return GroupStream(found, SCHEMA, flow=flow)
    by_rows = kind == "rows"
    time_of = {} if by_rows else {"a": "t", "b": "t"}
    on = "" if by_rows else " AND abs(a.t - b.t) <= 4"
    query = compile_query(SELECT + on, SCHEMAS, time=time_of, rows=ROWS if by_rows else None)
    return JoinStream(query, SCHEMAS, device, flow=flow)


def _pairs(table: pa.Table) -> list[tuple[int, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


@contextmanager
def interrupting(way: str) -> Iterator[Interrupter]:
    """Interrupter for the calling thread, which is the main one for signals."""
    found = BySignal() if way == "signal" else ByThread()
    try:
        yield found
    finally:
        found.close()


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.host.kit.interrupting")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--way", choices=("signal", "thread"), default="signal")
    parser.add_argument("--latency", type=float, default=0.0, help="target in seconds")
    parser.add_argument("--kind", choices=KINDS, default="time", help="what the stream does")
    options = parser.parse_args()
    with CpuDevice(threads=2) as device, interrupting(options.way) as interrupter:
        outcome = run(
            interrupter, device, options.seed, options.count, options.latency, options.kind
        )
    hits = ", ".join(f"{what} {count}" for what, count in sorted(outcome.hits.items()))
    sys.stdout.write(
        f"seed {options.seed}, {options.way}, latency {options.latency:g} s, "
        f"{options.kind}: {outcome.hits.total()} interrupts ({hits}); "
        f"{outcome.taken} interrupted batches were in; {outcome.rows} rows, all right; the "
        f"longest call took {outcome.longest_s:.3f} s\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
