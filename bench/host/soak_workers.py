"""A stream on workers that runs for long: memory, threads and files of all its processes."""

from __future__ import annotations

import gc
import os
import resource
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

import penstock
from bench.host import rss
from bench.host.soak_lines import LEAST_LINES, Line
from penstock import Checkpoint, Flow

SCHEMA = pa.schema([("key", pa.int64()), ("t", pa.int64()), ("x", pa.int64())])
QUERY = (
    "SELECT key, t - t % 1000 AS w, count(*) AS n, sum(x) AS s FROM a GROUP BY key, t - t % 1000"
)
#: Different keys; a window of a second holds most of them.
_KEYS = 20_000
_TICK_S = 0.01
#: Seconds between checkpoints: some hundreds of them in half an hour.
_EVERY_S = 5.0


def run(workers: int, seconds: float, rate: float, latency_s: float) -> Iterator[Line]:
    """Group random rows for so long; a line every minute, or every tenth."""
    every = min(60.0, seconds / LEAST_LINES)
    wait, rng = threading.Event(), np.random.default_rng(0)
    rows = max(1, round(rate * _TICK_S))
    with tempfile.TemporaryDirectory() as folder:
        stream = penstock.stream(
            QUERY,
            {"a": SCHEMA},
            time={"a": "t"},
            flow=Flow(latency_s=latency_s, memory_bytes=256 << 20),
            workers=workers,
            checkpoint=Checkpoint(folder, every_s=_EVERY_S),
        )
        began, tick, lines, results = time.monotonic(), 0, 0, 0
        while (now := time.monotonic() - began) < seconds:
            if (left := tick * _TICK_S - now) > 0:
                wait.wait(left)
            times = np.full(rows, round(tick * _TICK_S * 1e3))
            columns = [rng.integers(0, _KEYS, rows), times, rng.integers(0, 100, rows)]
            stream.push("a", pa.RecordBatch.from_arrays(columns, schema=SCHEMA))
            tick += 1
            while (polled := stream.poll()) is not None:
                results += polled[1].num_rows
            if now >= (lines + 1) * every:
                lines += 1
                yield _look(now, stream, results, folder)
                results = 0
        stream.stop()


def _look(now: float, stream: penstock.RunningQuery, results: int, folder: str) -> Line:
    gc.collect()
    pids = ["self", *map(str, stream.processes)]
    return Line(
        now,
        sum(_resident_bytes(pid) for pid in pids),
        sum(len(os.listdir(f"/proc/{pid}/task")) for pid in pids),
        sum(map(partial(_files, folder=folder), pids)),
        results,
        stream.report().latency_s[0.99],
    )


def _files(pid: str, folder: str) -> int:
    """Open files of a process, without those of checkpoints, which come and go."""
    found = 0
    for place in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):  # closed meanwhile, as the listing itself
            found += not os.readlink(place).startswith(folder)
    return found


def _resident_bytes(pid: str) -> int:
    """Main memory that a process has for itself, without what it maps together with others."""
    if pid == "self":
        return rss.resident_bytes()
    pages = Path(f"/proc/{pid}/statm").read_text().split()
    return (int(pages[1]) - int(pages[2])) * resource.getpagesize()
