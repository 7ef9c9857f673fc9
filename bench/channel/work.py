"""What every contender carries: cold memory, cut into messages, of which each line is touched."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from penstock.host.channel.filling import copy_bytes

#: Bytes of a line of the cache: the consumer reads one word of each.
LINE_BYTES = 64
#: Bytes that a worker's deltas and batches have, about: what is sent by one call.
RUN_BYTES = 1 << 19
#: Seconds that any side waits for the other before the benchmark fails.
PATIENCE_S = 60.0


@dataclass(frozen=True)
class Job:
    """One transfer.

    Parameters
    ----------
    message_bytes, messages : int
        Size, a multiple of 64 less 32, and number.
    slots : int
        That may be in flight, where a contender can say.
    """

    message_bytes: int
    messages: int
    slots: int = 8

    @property
    def nbytes(self) -> int:
        return self.message_bytes * self.messages


@dataclass(frozen=True)
class Done:
    """What a consumer has seen.

    Parameters
    ----------
    total : int
        Sum of the first word of each line, modulo 2**64.
    times_ns : array of int64, shape (messages,)
        When each message was touched; the clock is the same in all processes.
    """

    total: int
    times_ns: np.ndarray


class Source:
    """Memory of random bytes that no cache holds, read from its beginning to its end in turns.

    Parameters
    ----------
    nbytes : int
        Several times the last cache.
    """

    def __init__(self, nbytes: int) -> None:
        self.memory = np.random.default_rng(20).integers(0, 256, nbytes, np.uint8)

    def starts(self, job: Job) -> list[int]:
        """Where each message of a transfer begins, one behind the other."""
        places = len(self.memory) // job.message_bytes
        return [number % places * job.message_bytes for number in range(job.messages)]

    def messages(self, job: Job) -> Iterator[memoryview]:
        """The messages, as views."""
        view = self.memory.data
        for start in self.starts(job):
            yield view[start : start + job.message_bytes]

    def runs(self, job: Job) -> Iterator[memoryview]:
        """Neighbouring messages together, each run about half a MiB."""
        view, size = self.memory.data, job.message_bytes
        places, many = len(self.memory) // size, max(1, RUN_BYTES // size)
        number = 0
        while number < job.messages:
            place = number % places
            count = min(many, places - place, job.messages - number)
            yield view[place * size : (place + count) * size]
            number += count

    def total(self, job: Job) -> int:
        """What the consumer's sum must be."""
        sums: dict[int, int] = {}
        total = 0
        for start in self.starts(job):
            if start not in sums:
                sums[start] = touch(self.memory[start : start + job.message_bytes])
            total += int(sums[start])
        return total % (1 << 64)


class Toucher:
    """Reads a word of each line of each message, and adds them up."""

    def __init__(self, job: Job) -> None:
        self._total = 0
        self._size = job.message_bytes
        self._times = np.zeros(job.messages, np.int64)
        self._count = 0
        self._all = threading.Event()

    def wait(self, timeout_s: float) -> bool:
        """Wait until all messages were taken, by another thread; whether they were."""
        return self._all.wait(timeout_s)

    @property
    def left(self) -> int:
        """Messages that have not come."""
        return len(self._times) - self._count

    def take(self, content: Any) -> None:
        """Touch one message, or several that came together."""
        memory = np.frombuffer(content, np.uint8)
        self._total += int(touch_messages(memory, self._size))
        first = self._count
        self._count += len(memory) // self._size
        self._times[first : self._count] = time.perf_counter_ns()
        if self._count == len(self._times):
            self._all.set()

    def done(self) -> Done:
        return Done(self._total % (1 << 64), self._times)


@njit
def touch(content):
    """Sum of the first word of each line; lines begin where the content does."""
    words = content[: len(content) // 8 * 8].view(np.uint64)
    total = np.uint64(0)
    for place in range(0, len(words), 8):
        total += words[place]
    return total


@njit(nogil=True)
def _copy_round(ring, stride, source, starts, nbytes):
    at = 0
    for start in starts:
        copy_bytes(ring, at, source, start, nbytes)
        at += stride
        if at + nbytes > len(ring):
            at = 0


@njit
def touch_messages(content, size):
    """The sum of :func:`touch` over messages behind one another."""
    total = np.uint64(0)
    for start in range(0, len(content), size):
        total += touch(content[start : start + size])
    return total


class Memcpy:
    """One thread that copies the messages into a ring: the most that any channel could do."""

    name = "memcpy"

    def __init__(self, source: Source) -> None:
        self._source = source

    def seconds(self, job: Job) -> float:
        """Time of a transfer's copies, by the C library in one compiled loop."""
        stride = -(-job.message_bytes // LINE_BYTES) * LINE_BYTES
        ring = np.zeros(job.slots * stride, np.uint8)
        starts = np.array(self._source.starts(job), np.int64)
        _copy_round(ring, stride, self._source.memory, starts[: job.slots], job.message_bytes)
        began = time.perf_counter()
        _copy_round(ring, stride, self._source.memory, starts, job.message_bytes)
        return time.perf_counter() - began
