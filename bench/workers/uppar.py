"""UpPar, the paper's light-weight integration (§8.2): repartitioning over the same channels.

Half of the workers, the first ones, filter, project and hash their rows, and write each into the
buffer of the worker it belongs to; the other half fold what comes. Channels, state and folds are
Penstock's. Each sender has the rows of two workers, so that n of these have as many as n of ours.
"""

from __future__ import annotations

import time
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from bench.peers.turns import Answer
from bench.workers.hand import MULTIPLIER
from bench.workers.jobs import Job, answer, result
from bench.workers.mate import Ends, Stint
from penstock.errors import PenstockError
from penstock.host.channel import Kind
from penstock.host.state import GroupState
from penstock.host.workers.local.memory import keep_memory
from penstock.plan.group_query import GroupQuery
from penstock.query.compiler import compile_select

if TYPE_CHECKING:
    from bench.workers.pair import Wiring

#: Rows of a message. Fewer cost the receiver's calls, more leave the cache.
BUFFER_ROWS = 1 << 15
_HALF = np.uint64(32)


def main(rank: int, line: Connection, wiring: Wiring, job: Job) -> None:
    """A process: makes rows if it sends, and does its part each time it is told to."""
    keep_memory()
    ends = wiring.attach(rank)
    senders = ends.size // 2
    if ends.size % 2 or senders & (senders - 1):
        raise PenstockError(f"UpPar runs on 2, 4, 8, ... workers, not on {ends.size}")
    if rank < senders:
        sender = Sender(ends, job, job.batches(rank) + job.batches(rank + senders))
        line.send(None)
        while line.recv():
            line.send(sender.turn())
    else:
        line.send(None)
        while line.recv():
            line.send(receive(ends, job))


class Sender:
    """Spreads rows over the receivers."""

    def __init__(self, ends: Ends, job: Job, batches: list[pa.RecordBatch]) -> None:
        self._ends, self._batches = ends, batches
        senders = ends.size // 2
        self._to = list(range(senders, ends.size))
        self._is_filtered = bool(job.where)
        schema = sent_schema(job)
        self._sent_bytes = 0
        self._filled = np.zeros(senders, np.int64)
        self._buffers = [
            np.empty((senders, BUFFER_ROWS), np.int64 if name == "t" else kind)
            for name, kind in ((field.name, field.type.to_pandas_dtype()) for field in schema)
        ]
        # A column that is only filtered by has a buffer in which nothing is written.
        self._columns = (*self._buffers, np.empty((0, 0), np.int64))[:3]

    def turn(self) -> Stint:
        """Send all rows, and to each receiver that there are no more."""
        began, cpu = time.perf_counter(), time.process_time()
        self._sent_bytes = 0
        for batch in self._batches:
            self._spread(batch)
        for place in range(len(self._to)):
            self._flush(place)
            self._send(place, b"")
        ended, cpu = time.perf_counter(), time.process_time() - cpu
        return Stint(began, ended, cpu, Answer(0, 0), 0, self._sent_bytes, 0)

    def _spread(self, batch: pa.RecordBatch) -> None:
        times = batch["t"].cast(pa.int64()).to_numpy()
        key, third = batch[0].to_numpy(), batch[2].to_numpy()
        first = 0
        while first < len(key):
            first = _spread(
                first, key, times, third, *self._columns, self._filled, self._is_filtered
            )
            if first < len(key):
                self._flush(int(self._filled.argmax()))

    def _flush(self, place: int) -> None:
        count = int(self._filled[place])
        if count:
            self._send(place, [own[place, :count] for own in self._buffers])
            self._filled[place] = 0

    def _send(self, place: int, parts: bytes | list[npt.NDArray]) -> None:
        """Send a buffer, which is written again afterwards."""
        producer = self._ends.producers[self._to[place]]
        assert producer is not None
        self._sent_bytes += sum(memoryview(part).nbytes for part in parts or ())
        is_sent = producer.send(Kind.ROWS, [memoryview(part).cast("B") for part in parts or ()])
        while not is_sent:
            self._ends.wait(lambda: producer.credits > 0)
            is_sent = producer.pump()


def receive(ends: Ends, job: Job) -> Stint:
    """Fold what all senders send, and give the groups."""
    began, cpu = time.perf_counter(), time.process_time()
    schema = sent_schema(job)
    state = GroupState(folded_query(job, schema), schema, ordered=False)
    senders = ends.size // 2
    first, is_open = [0] * senders, [True] * senders
    while any(is_open):
        has_moved = False
        for sender in range(senders):
            consumer = ends.consumers[sender]
            assert consumer is not None
            message = consumer.receive() if is_open[sender] else None
            if message is not None:
                batch = _batch(memoryview(message.payload), schema)
                is_open[sender] = batch.num_rows > 0
                state.fold(batch, feed=sender, first=first[sender])
                first[sender] += batch.num_rows
                consumer.done(message)
                has_moved = True
        if not has_moved:
            ends.wait(lambda: any(_has_arrived(ends, k) for k in range(senders) if is_open[k]))
    found = answer(result(pa.Table.from_batches([state.finish()])))
    ended, cpu = time.perf_counter(), time.process_time() - cpu
    return Stint(began, ended, cpu, found, 0, 0, sum(first))


def sent_schema(job: Job) -> pa.Schema:
    """Of the rows that are sent: a column that is only filtered by is not."""
    names = job.read[:2] if job.where else job.read
    return pa.schema([job.schema.field(name) for name in names])


def folded_query(job: Job, schema: pa.Schema) -> GroupQuery:
    """The job's query over rows that were filtered."""
    window = f"window(t, '{job.window_s} seconds')"
    text = (
        f"SELECT {job.key}, {window}.start AS w, {job.aggregate} AS value "
        f"FROM {job.stream} GROUP BY {job.key}, {window}"
    )
    query = compile_select(text, {job.stream: schema})
    assert isinstance(query, GroupQuery)
    return query


def _has_arrived(ends: Ends, sender: int) -> bool:
    consumer = ends.consumers[sender]
    return consumer is not None and consumer.has_arrived


def _batch(payload: memoryview, schema: pa.Schema) -> pa.RecordBatch:
    """Rows of a message, where they lie."""
    widths = [field.type.byte_width for field in schema]
    count, at, columns = len(payload) // sum(widths), 0, []
    for field, width in zip(schema, widths, strict=True):
        content = pa.py_buffer(payload[at : at + count * width])
        columns.append(pa.Array.from_buffers(field.type, count, [None, content]))
        at += count * width
    return pa.RecordBatch.from_arrays(columns, schema=schema)


@njit(nogil=True, cache=True)
def _spread(first, key, t, third, keys, times, thirds, filled, is_filtered):
    """Copy rows from the given one on; returns the first that finds its buffer full.

    With ``is_filtered`` rows whose third column is not 0 are left out, and so is that column.
    """
    receivers, capacity = keys.shape
    for row in range(first, len(key)):
        if is_filtered and third[row] != 0:
            continue
        to = np.int64((np.uint64(key[row]) * MULTIPLIER) >> _HALF) & (receivers - 1)
        at = filled[to]
        if at == capacity:
            return row
        keys[to, at], times[to, at] = key[row], t[row]
        if not is_filtered:
            thirds[to, at] = third[row]
        filled[to] = at + 1
    return len(key)
