"""Bare puts of UCX in compiled loops: what the channel's own pattern of writes can do at most.

Payload and footer, fence, sequence number, and counts of credits, by the provider's compiled code;
no messages, kinds, checks or sleep. Both sides take a processor of their own.
"""

from __future__ import annotations

import time
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from numba import njit

from bench.channel import networks
from bench.channel.far import Far
from bench.channel.work import PATIENCE_S, Done, Job, Source, touch
from penstock.host.channel import FOOTER_BYTES, MessageKind
from penstock.host.channel.ucx import puts, transfer

#: What carries each, by its name.
ON_SHM, ON_TCP = "bare puts, ucx on shm", "bare puts, ucx on TCP"
_FIRST = 2  # number of the slot behind the first message
TRANSPORTS = {ON_SHM: networks.ON_SHM, ON_TCP: networks.ON_TCP}


class Near(networks.Near):
    """The near side.

    Parameters
    ----------
    name : str
        One of :data:`TRANSPORTS`.
    """

    module = __name__

    def __init__(self, name: str) -> None:
        super().__init__(TRANSPORTS[name])
        self.name = name

    def __call__(self, far: Far, job: Job, source: Source) -> float:
        link, producer = self._connect(far, job)
        memory, size, slots = producer.memory, job.message_bytes, job.slots
        places = len(source.memory) // size
        sent, number = producer.sent, 0
        began = time.perf_counter()
        while number < job.messages:
            place = number % places
            count = min(places - place, job.messages - number)
            part = source.memory[place * size : (place + count) * size].data
            slot = (sent + 1) % slots
            filled = memory.fill(slot, sent, part, count, MessageKind.ROWS, is_last=True)
            sent, number = sent + filled, number + filled
        return self._finish(far, link, began)


def consume(link: Connection, job: Job) -> Done:
    """Read all messages of a transfer where they lie; only the last one's time is known."""
    _, ends, consumer = networks.accept(link, job)
    memory: Any = consumer.memory
    ring = (memory.ring.address, job.slots, job.message_bytes)
    _read(memory.line, memory.ring.memory, ring, 0)  # compiled before it is needed
    total = _read(memory.line, memory.ring.memory, ring, job.messages)
    times = np.zeros(job.messages, np.int64)
    times[-1] = time.perf_counter_ns()
    ends.flush(PATIENCE_S)
    ends.close()
    return Done(int(total), times)


@njit(nogil=True)
def _read(line, memory, ring, count):
    address, slots, size = ring
    stride, share, total = size + FOOTER_BYTES, max(1, slots // 2), np.uint64(0)
    for number in range(_FIRST, _FIRST + count):
        at = number % slots * stride
        while puts.look(line, address + at + stride - puts.WORD_BYTES) != number:
            pass
        total += touch(memory[at : at + size])
        if number % share == 0 or number == _FIRST + count - 1:
            transfer.write_word(line, number)
    return total
