"""What the host adds to a task beyond device time and copies.

From the moment when the dispatcher hands a task to its lane until its rows are published, less what
the trace of the lane shows as device time (``task``), copying to the device (``sync``) and making
rows of pairs (``pairs``, ``rows``). One task at a time per lane (``depth=1``): with the usual two,
most of this hides behind the other task, and what is left is :func:`gaps`.
"""

from __future__ import annotations

from bisect import bisect
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from bench.host.traffic import SCHEMA, SCHEMAS
from penstock.host.device.base import Device
from penstock.host.execute.running import Running
from penstock.host.execute.trace import TraceEvent
from penstock.host.join.stream import Flow, JoinStream
from penstock.query import compile_query

#: Shortest device time of a task that counts.
LEAST_S = 0.010
_QUERY = """SELECT a.t AS ta, b.t AS tb FROM a JOIN b
ON abs(a.x - b.x) + abs(a.y - b.y) < 1500 AND b.t BETWEEN a.t - 1000000 AND a.t + 1000000"""
_SPAN = 1 << 20
#: Evaluations of a task, at most: tens of milliseconds of one core.
_TASK_EVALUATIONS = 1 << 29


@dataclass(frozen=True)
class Overhead:
    """One task, in seconds."""

    device_s: float
    copies_s: float
    overhead_s: float


def overheads(spans: Iterable[TraceEvent]) -> list[Overhead]:
    """What the host added to each task of a trace with one task at a time per lane."""
    tracks: dict[str, list[TraceEvent]] = defaultdict(list)
    for span in spans:
        tracks[span.track].append(span)
    found = []
    for track, own in tracks.items():
        device = {s.numbers["order"]: s for s in tracks.get(f"{track} device", ())}
        syncs = {s.numbers["order"]: s for s in own if s.name == "sync"}
        pairs = {s.numbers["order"]: s for s in own if s.name == "pairs"}
        rows = sorted((s for s in own if s.name == "rows"), key=lambda s: s.began)
        copying = sorted([*pairs.values(), *rows], key=lambda s: s.began)
        ends = [s.ended for s in copying]
        for result in (s for s in own if s.name == "results"):
            number = result.numbers["order"]
            began = syncs[number].began
            asked = began - syncs[number].numbers["waited_s"]
            # The thread may still have been copying what the order before gave.
            before = copying[bisect(ends, asked) : bisect(ends, began)]
            busy = sum(min(s.ended, began) - max(s.began, asked) for s in before)
            copies = [syncs[number], pairs[number]]
            copies += [r for r in rows if result.began <= r.began and r.ended <= result.ended]
            on_device, copied = _length(device[number]), sum(map(_length, copies))
            overhead = result.ended - asked - busy - on_device - copied
            found.append(Overhead(on_device, copied, overhead))
    return found


def hidden_share(spans: Iterable[TraceEvent]) -> float:
    """Share of the copying that went on while a task was on the device of the same lane."""
    tracks: dict[str, list[TraceEvent]] = defaultdict(list)
    for span in spans:
        tracks[span.track].append(span)
    copied = hidden = 0.0
    for track, own in tracks.items():
        tasks = tracks.get(f"{track} device", ())
        for copy in (s for s in own if s.name in ("sync", "pairs", "rows")):
            copied += _length(copy)
            # Tasks of one lane may overlap by a little; no moment counts twice.
            until = copy.began
            for task in sorted(tasks, key=lambda s: s.began):
                began, ended = max(task.began, until), min(task.ended, copy.ended)
                if ended > began:
                    hidden += ended - began
                    until = ended
    return hidden / copied if copied else float("nan")


def gaps(spans: Iterable[TraceEvent], lanes: int) -> list[float]:
    """Seconds for which a lane of the device had nothing to do between two tasks.

    A task begins on the lane that became free last of those that are free.
    """
    tasks = sorted((s for s in spans if s.name == "task"), key=lambda s: s.began)
    free: list[float] = []
    running: list[float] = []
    found = []
    for task in tasks:
        free += sorted(end for end in running if end <= task.began)
        running = [end for end in running if end > task.began]
        if len(running) + len(free) >= lanes and free:
            found.append(task.began - free.pop())
        running.append(task.ended)
    return found


def measure(
    device: Device,
    window_tuples: int,
    stream_tuples: int,
    batches: int,
    least_s: float = LEAST_S,
) -> list[Overhead]:
    """Tasks of batches that each meet a whole window, one at a time per lane."""
    spans = trace(device, window_tuples, stream_tuples, batches, depth=1)
    return [one for one in overheads(spans) if one.device_s >= least_s]


def trace(
    device: Device, window_tuples: int, stream_tuples: int, batches: int, *, depth: int
) -> list[TraceEvent]:
    """What the lanes did in batches that each meet a whole window."""
    query = compile_query(_QUERY, SCHEMAS, time={"a": "t", "b": "t"})
    flow = Flow(running=Running(depth=depth, pruning=False, task_evaluations=_TASK_EVALUATIONS))
    rng = np.random.default_rng(3)
    with JoinStream(query, SCHEMAS, device, flow=flow, trace=True) as stream:
        stream.push("b", _batch(rng, window_tuples, 0))
        for _ in range(batches):
            stream.push("a", _batch(rng, stream_tuples, 0))
            stream.poll()
    # A lane notes a task's end after it has given the result, so not before the stream is closed.
    return stream.trace.spans


def _length(span: TraceEvent) -> float:
    return span.ended - span.began


def _batch(rng: np.random.Generator, rows: int, time: int) -> pa.RecordBatch:
    keys = rng.integers(0, _SPAN, (2, rows), np.int32)
    columns = [pa.array(column) for column in (np.full(rows, time, np.int64), *keys)]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
