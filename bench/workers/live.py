"""Streams that are pushed to: what checkpoints cost, and how late complete groups come.

Here a parent deals rows to two workers and judges lateness, as ``penstock.stream(workers=2)`` does.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import penstock
from penstock.errors import PenstockError

WORKERS = 2
BATCH_ROWS = 1 << 16
SCHEMA = pa.schema([("ad", pa.int64()), ("t", pa.timestamp("ms", "UTC"))])

#: A join without an equality, of values below so many, and the target of its latency.
PAIR_VALUES, PAIR_LATENCY_S = 100_000, 0.02
PAIRS = """
SELECT a.t AS at, b.t AS bt FROM a JOIN b
ON abs(a.ad - b.ad) < 3 AND b.t BETWEEN a.t - INTERVAL 1 SECOND AND a.t + INTERVAL 1 SECOND
"""

#: 2023-11-14 22:10:00, where a window of ten minutes and all smaller ones begin.
_BEGIN_MS = 1_699_999_800_000

#: Rows that may wait for workers, and how often it is looked how many do: in batches, and seconds.
_MOST_WAITING_ROWS, _LOOK_BATCHES, _LOOK_S = 4_000_000, 16, 0.01
_PATIENCE_S = 120.0

#: Seconds of pushing that do not count.
_WARM_S = 10.0

#: Bytes that waiting rows, and those that a checkpoint has yet to cover, may take. Those of ten
#: seconds are 3 GB, and at a quarter of the budget a checkpoint does not wait for its time.
_MEMORY_BYTES = 16 << 30


def query(window: str) -> str:
    """Rows of each key in tumbling windows."""
    size = f"window(t, '{window}')"
    return f"SELECT ad, {size}.start AS w, count(*) AS n FROM ads GROUP BY ad, {size}"


def batches(keys: int, count: int, seed: int) -> list[pa.RecordBatch]:
    """Rows of one moment whose keys are uniform."""
    rng = np.random.default_rng(seed)
    return [_batch(rng.integers(0, keys, BATCH_ROWS)) for _ in range(count)]


def _batch(ad: np.ndarray, time_ms: int | np.ndarray = _BEGIN_MS) -> pa.RecordBatch:
    t = np.broadcast_to(np.int64(time_ms) if np.isscalar(time_ms) else time_ms, len(ad))
    return pa.record_batch([pa.array(ad), pa.array(t, SCHEMA.field("t").type)], schema=SCHEMA)


@dataclass(frozen=True)
class Kept:
    """A stream whose groups all stay, for a while.

    Parameters
    ----------
    rows : int
    seconds : float
    checkpoints : int
        Committed meanwhile.
    """

    rows: int
    seconds: float
    checkpoints: int

    @property
    def rate(self) -> float:
        return self.rows / self.seconds


def kept(keys: int, seconds: float, every_s: float | None) -> Kept:
    """Group for some seconds when each of so many keys is in the state already.

    What goes before does not count: ten seconds in which memory comes to be that is used again
    from then on, for rows that a checkpoint has yet to cover.

    Parameters
    ----------
    every_s : float or None
        Seconds from checkpoint to checkpoint; None for none.
    """
    drawn = batches(keys, 64, 1)
    with tempfile.TemporaryDirectory() as folder:
        given = None if every_s is None else penstock.Checkpoint(Path(folder), every_s=every_s)
        with penstock.stream(
            query("10 minutes"),
            {"ads": SCHEMA},
            workers=WORKERS,
            checkpoint=given,
            flow=penstock.Flow(latency_s=1.0, memory_bytes=_MEMORY_BYTES),
        ) as stream:
            for first in range(0, keys, BATCH_ROWS):
                stream.push("ads", _batch(np.arange(first, min(keys, first + BATCH_ROWS))))
            stream.flush()
            rows = keys + _pushed(stream, drawn, keys, min(_WARM_S, seconds))
            before, began = _checkpoints(stream), time.perf_counter()
            counted = _pushed(stream, drawn, rows, seconds)
            return Kept(counted, time.perf_counter() - began, _checkpoints(stream) - before)


def _pushed(stream, drawn: list[pa.RecordBatch], before: int, seconds: float) -> int:
    """Push rows for some seconds, and wait for all; how many."""
    rows, began = 0, time.perf_counter()
    for number, batch in enumerate(cycle(drawn)):
        stream.push("ads", batch)
        rows += batch.num_rows
        if number % _LOOK_BATCHES == 0:
            _wait_for_workers(stream, before + rows)
        if time.perf_counter() - began > seconds:
            break
    stream.flush()
    return rows


def _wait_for_workers(stream, rows: int) -> None:
    """Wait until few of the rows pushed wait, which would force a checkpoint otherwise."""
    deadline = time.monotonic() + _PATIENCE_S
    while sum(own.rows for own in stream.report().workers) < rows - _MOST_WAITING_ROWS:
        if time.monotonic() > deadline:
            raise PenstockError(f"workers have folded no rows for {_PATIENCE_S:g} s")
        stream.wait_for(lambda: False, _LOOK_S)


@dataclass(frozen=True)
class Delays:
    """How late rows came, in seconds from the moment that completed them.

    Parameters
    ----------
    rate : float
        Rows per second that were pushed.
    p50, p99, largest : float
        Over what came.
    count : int
    """

    rate: float
    p50: float
    p99: float
    largest: float
    count: int


def sustained(keys: int, window_ms: int, latency_s: float, seconds: float) -> float:
    """Rows per second that a stream takes when it is pushed to without a pause."""
    with _opened(window_ms, latency_s) as stream:
        rows, began = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - began) < seconds:
            # Time goes on as it does at that rate, so that windows end as they do then.
            rng = np.random.default_rng(rows)
            stream.push("ads", _batch(rng.integers(0, keys, BATCH_ROWS), _ms(elapsed)))
            stream.poll()
            rows += BATCH_ROWS
        stream.flush()
        return rows / (time.perf_counter() - began)


def delays(
    keys: int, window_ms: int, latency_s: float, rate: float, seconds: float, tick_s: float = 0.005
) -> Delays:
    """Push rows when they are due, whatever the stream does, and see when their groups come.

    A group's delay counts from the end of its window: its last row was due just before, and what
    completes it just after.
    """
    ticks = [(due, {"ads": rows}) for due, rows in _ticks(keys, rate, seconds, tick_s)]
    with _opened(window_ms, latency_s) as stream:
        return _driven(stream, ticks, seconds, lambda found: _of(found, "w") + window_ms)


def pair_delays(workers: int | None, rate: float, seconds: float, tick_s: float = 0.005) -> Delays:
    """The same of a theta join's pairs, whose delay counts from their later row.

    Parameters
    ----------
    workers : int or None
        None for a stream in this process.
    rate : float
        Rows per second of each side.
    """
    both = (_ticks(PAIR_VALUES, rate, seconds, tick_s, seed) for seed in (3, 4))
    ticks = [(due, {"a": a, "b": b}) for (due, a), (_, b) in zip(*both, strict=True)]
    flow = penstock.Flow(latency_s=PAIR_LATENCY_S)
    sources = dict.fromkeys("ab", SCHEMA)
    with penstock.stream(PAIRS, sources, workers=workers, flow=flow) as stream:
        return _driven(
            stream, ticks, seconds, lambda found: np.maximum(_of(found, "at"), _of(found, "bt"))
        )


def _of(found: pa.Table, name: str) -> np.ndarray:
    return found[name].cast(pa.int64()).to_numpy()


def _driven(
    stream: Any,
    ticks: list[tuple[float, dict[str, pa.RecordBatch]]],
    seconds: float,
    moments: Callable[[pa.Table], np.ndarray],
) -> Delays:
    """Push what is due at each tick, and see how long after its moments what leaves has come.

    Parameters
    ----------
    moments : callable
        Of each row that leaves, in ms.
    """
    found: list[np.ndarray] = []
    for source, rows in ticks[0][1].items():
        stream.push(source, rows.slice(0, 1))  # all is compiled, and its window the first
    stream.flush()
    began, place, rows = time.perf_counter(), 0, 0
    while place < len(ticks) or time.perf_counter() - began < seconds + 1:
        now = time.perf_counter() - began
        if place < len(ticks) and ticks[place][0] <= now:
            for source, batch in ticks[place][1].items():
                stream.push(source, batch)
                rows += batch.num_rows
            place += 1
        else:
            due = ticks[place][0] - now if place < len(ticks) else ticks[0][0]
            stream.wait(1, max(0.0, min(due, ticks[0][0])))
        found.append(_late(stream.poll(), began, moments))
    stream.flush()  # what comes on a busy machine only now is late too
    found.append(_late(stream.poll(), began, moments))
    late = np.concatenate(found)
    p50, p99 = np.percentile(late, [50, 99])
    return Delays(rows / seconds, float(p50), float(p99), float(late.max()), len(late))


def _late(table: pa.Table, began: float, moments: Callable[[pa.Table], np.ndarray]) -> np.ndarray:
    return time.perf_counter() - began - (moments(table) - _BEGIN_MS) / 1000


def _opened(window_ms: int, latency_s: float):
    return penstock.stream(
        query(f"{window_ms} milliseconds"),
        {"ads": SCHEMA},
        workers=WORKERS,
        flow=penstock.Flow(latency_s=latency_s),
    )


def _ticks(
    keys: int, rate: float, seconds: float, tick_s: float, seed: int = 3
) -> Iterator[tuple[float, pa.RecordBatch]]:
    """Batches with the seconds at which their last rows are due."""
    rng = np.random.default_rng(seed)
    size = max(1, round(rate * tick_s))
    for number in range(round(seconds / tick_s)):
        due = (number + (np.arange(size) + 1) / size) * tick_s
        yield float(due[-1]), _batch(rng.integers(0, keys, size), _ms(due))


def _ms(seconds):
    return _BEGIN_MS + np.int64(np.floor(np.asarray(seconds) * 1000))


def _checkpoints(stream) -> int:
    """Number of the last checkpoint of all workers."""
    return min((own.checkpoint for own in stream.report().workers), default=0)
