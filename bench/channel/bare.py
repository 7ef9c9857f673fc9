"""A bare ring in compiled loops: what this machine can pass between two processes at all.

No messages, kinds, checks or sleep: two counters, memcpy, and a word of each line. Both sides take
a processor of their own for the whole transfer.
"""

from __future__ import annotations

import os
import time
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle

import numpy as np
from numba import njit, types

from bench.channel.far import Far
from bench.channel.work import Done, Job, Source, touch
from penstock.errors import ProcessError
from penstock.host.channel.atomics import load_word, store_word
from penstock.host.channel.filling import copy_bytes
from penstock.host.wire.sealed import create_sealed, map_memory, sealed_size

_HEAD_BYTES = 4096
#: Words of the counts of slots filled and of slots read, in lines of their own.
_FILLED, _READ = 0, 64


class Near:
    """The near side."""

    name = "bare ring"
    module, consume = __name__, "consume"

    def __call__(self, far: Far, job: Job, source: Source) -> float:
        file = create_sealed("penstock-bench", _HEAD_BYTES + job.slots * _stride(job))
        send_handle(far.link, file, far.pid)
        memory = map_memory(file, sealed_size(file))
        os.close(file)
        if far.tell() != "ready":
            raise ProcessError("the consumer of a benchmark is not ready")
        starts = np.array(source.starts(job), np.int64)
        ring = (_HEAD_BYTES, job.slots, _stride(job), job.message_bytes)
        _fill(memory, memory.view(np.uint64), ring, source.memory, starts[:0])
        began = time.perf_counter()
        _fill(memory, memory.view(np.uint64), ring, source.memory, starts)
        return began


def consume(link: Connection, job: Job) -> Done:
    """Read all messages of a transfer; only the last one's time is known."""
    file = recv_handle(link)
    memory = map_memory(file, sealed_size(file))
    os.close(file)
    memory[_HEAD_BYTES:] = 0
    ring = (_HEAD_BYTES, job.slots, _stride(job), job.message_bytes)
    words = memory.view(np.uint64)
    _read(memory, words, ring, 0)  # compiled before it is needed
    link.send("ready")
    total = _read(memory, words, ring, job.messages)
    times = np.zeros(job.messages, np.int64)
    times[-1] = time.perf_counter_ns()
    return Done(int(total), times)


def _stride(job: Job) -> int:
    return -(-job.message_bytes // 64) * 64


@njit(nogil=True)
def _fill(memory, words, ring, source, starts):
    begin, slots, stride, size = ring
    for number in range(len(starts)):
        while number - types.int64(load_word(words, _READ)) >= slots:
            pass
        copy_bytes(memory, begin + number % slots * stride, source, starts[number], size)
        store_word(words, _FILLED, types.uint64(number + 1))


@njit(nogil=True)
def _read(memory, words, ring, count):
    begin, slots, stride, size = ring
    total = np.uint64(0)
    for number in range(count):
        while types.int64(load_word(words, _FILLED)) <= number:
            pass
        at = begin + number % slots * stride
        total += touch(memory[at : at + size])
        store_word(words, _READ, types.uint64(number + 1))
    return total
