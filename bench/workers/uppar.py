"""UpPar, the paper's light-weight integration (§8.2): repartitioning over the same channels.

Half of the workers, the first ones, filter, project and hash their rows, and write each into the
buffer of the worker it belongs to; the other half fold what comes. Channels, state and folds are
Penstock's. Each sender has the rows of two workers, so that n of these have as many as n of ours.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from bench.peers.turns import Answer
from bench.workers.hand import MULTIPLIER
from bench.workers.jobs import answer
from bench.workers.mate import Counts, Ends, Stint
from bench.workers.tasks import Inputs, Sent, Task
from penstock.errors import PenstockError
from penstock.host.channel import MessageKind
from penstock.host.workers.local.child import keep_memory
from penstock.plan.window import FOREVER

if TYPE_CHECKING:
    from bench.workers.pair import Wiring

#: Rows of a message. Fewer cost the receiver's calls, more leave the cache.
BUFFER_ROWS = 1 << 15
#: Messages of rows, by source.
KINDS = (MessageKind.ROWS, MessageKind.DELTA)
_HALF = np.uint64(32)


def main(rank: int, line: Connection, wiring: Wiring, job: Task) -> None:
    """A process: makes rows if it sends, and does its part each time it is told to."""
    keep_memory()
    ends = wiring.attach(rank)
    senders = ends.size // 2
    if ends.size % 2 or senders & (senders - 1):
        raise PenstockError(f"UpPar runs on 2, 4, 8, ... workers, not on {ends.size}")
    if rank < senders:
        sender = Sender(ends, job, job.inputs(rank) + job.inputs(rank + senders))
        line.send(None)
        while line.recv():
            line.send(sender.turn())
    else:
        line.send(None)
        while line.recv():
            line.send(receive(ends, job))


class Spread:
    """Rows of a source that wait in the buffer of the receiver that they belong to."""

    def __init__(self, sent: Sent, schema: pa.Schema, receivers: int) -> None:
        self._columns, self._filter = sent.columns, sent.filtered_by
        self.filled = np.zeros(receivers, np.int64)
        self._buffers = [
            np.empty((receivers, BUFFER_ROWS), f"i{field.type.byte_width}") for field in schema
        ]
        self._to, self._at = (np.empty(0, np.int64) for _ in range(2))

    def add(self, batch: pa.RecordBatch, flush: Callable[[int], None]) -> None:
        """Take in rows; a buffer that is full is flushed."""
        columns = [_bits_of(batch[name]) for name in self._columns]
        which = _bits_of(batch[self._filter]) if self._filter else np.zeros(0, np.int8)
        if len(self._to) < batch.num_rows:
            self._to, self._at = (np.empty(batch.num_rows, np.int64) for _ in range(2))
        first = 0
        while first < batch.num_rows:
            end = _places(first, columns[0], which, self.filled, BUFFER_ROWS, self._to, self._at)
            for column, buffer in zip(columns, self._buffers, strict=True):
                _copy(first, end, column, self._to, self._at, buffer)
            first = end
            if first < batch.num_rows:
                flush(int(self.filled.argmax()))

    def take(self, receiver: int) -> list[npt.NDArray]:
        """What waits for a receiver, until the next rows are taken in."""
        count = int(self.filled[receiver])
        self.filled[receiver] = 0
        return [own[receiver, :count] for own in self._buffers]


class Sender:
    """Spreads rows over the receivers."""

    def __init__(self, ends: Ends, job: Task, inputs: Inputs) -> None:
        self._ends, self._inputs = ends, inputs
        senders = ends.size // 2
        self._to = list(range(senders, ends.size))
        self._sent_bytes = 0
        self._counts = Counts()
        self._spreads = [
            Spread(sent, schema, senders)
            for sent, schema in zip(job.sent, job.sent_schemas.values(), strict=True)
        ]

    def turn(self) -> Stint:
        """Send all rows, and to each receiver that there are no more."""
        began, cpu = time.perf_counter(), time.process_time()
        self._sent_bytes, self._counts = 0, Counts()
        for source, batch in self._inputs:
            self._spreads[source].add(batch, partial(self._flush, source))
        for receiver in range(len(self._to)):
            for source in range(len(self._spreads)):
                self._flush(source, receiver)
            self._send(MessageKind.END, receiver, [])
        ended, cpu = time.perf_counter(), time.process_time() - cpu
        return Stint(began, ended, cpu, Answer(0, 0), 0, self._sent_bytes, 0, self._counts)

    def _flush(self, source: int, receiver: int) -> None:
        if self._spreads[source].filled[receiver]:
            self._send(KINDS[source], receiver, self._spreads[source].take(receiver))

    def _send(self, kind: MessageKind, receiver: int, parts: list[Any]) -> None:
        """Send a buffer, which is written again afterwards."""
        producer = self._ends.producers[self._to[receiver]]
        assert producer is not None
        self._sent_bytes += sum(part.nbytes for part in parts)
        self._counts.messages += 1
        is_sent = producer.send(kind, [memoryview(part).cast("B") for part in parts])
        while not is_sent:
            self._counts.credit_waits += 1
            self._ends.wait(lambda: producer.credits > 0)
            is_sent = producer.pump()


def receive(ends: Ends, job: Task) -> Stint:
    """Take in what all senders send, and give the rows of the query."""
    work = job.sent_work()
    schemas = list(job.sent_schemas.values())
    began, cpu = time.perf_counter(), time.process_time()
    state = work.state(0)
    senders, counts = ends.size // 2, Counts()
    first = [[0] * len(KINDS) for _ in range(senders)]
    is_open = [True] * senders
    while any(is_open):
        has_moved = False
        for sender in range(senders):
            consumer = ends.consumers[sender]
            assert consumer is not None
            message = consumer.receive() if is_open[sender] else None
            if message is None:
                continue
            has_moved = True
            if message.kind == MessageKind.END:
                is_open[sender] = False
            else:
                source = KINDS.index(message.kind)
                batch = _batch(memoryview(message.payload), schemas[source])
                batch = batch.select(work.dealt_schemas[source].names)
                feed = len(work.sides) * sender + source
                state.fold(batch, feed, first[sender][source])
                first[sender][source] += batch.num_rows
            consumer.done(message)
        if not has_moved:
            counts.waits += 1
            ends.wait(lambda: any(_has_arrived(ends, k) for k in range(senders) if is_open[k]))
    state.seal()
    rows = pa.Table.from_batches([state.release(work.limit(FOREVER))])
    found = answer(rows.select(work.output.names))
    ended, cpu = time.perf_counter(), time.process_time() - cpu
    work.close()
    return Stint(began, ended, cpu, found, 0, 0, sum(map(sum, first)), counts)


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


def _bits_of(column: pa.Array) -> npt.NDArray:
    """Values as whole numbers of their width, where they lie."""
    width = column.type.byte_width
    _, values = column.buffers()
    return np.frombuffer(values, f"i{width}", len(column), column.offset * width)


@njit(nogil=True, cache=True)
def _places(first, key, which, filled, capacity, to, at):
    """Give rows from one on their receivers and their places there; -1 to those not to be sent.

    Returns the first row that finds its buffer full. Rows are sent where ``which`` is 0, if it has
    values.
    """
    receivers = len(filled)
    for row in range(first, len(key)):
        if len(which) and which[row] != 0:
            to[row] = -1
            continue
        receiver = np.int64((np.uint64(key[row]) * MULTIPLIER) >> _HALF) & (receivers - 1)
        if filled[receiver] == capacity:
            return row
        to[row], at[row] = receiver, filled[receiver]
        filled[receiver] += 1
    return len(key)


@njit(nogil=True, cache=True)
def _copy(first, end, column, to, at, buffer):
    for row in range(first, end):
        if to[row] >= 0:
            buffer[to[row], at[row]] = column[row]
