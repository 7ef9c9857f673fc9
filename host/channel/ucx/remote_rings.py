"""Rings in the memory of another process, written by puts of UCX: a producer's and a consumer's."""

from __future__ import annotations

import ctypes
import struct
from functools import cache
from typing import NamedTuple

import numpy as np

from ..message import FOOTER_BYTES, Footer
from . import library, puts, transfer
from .end import End
from .network import Region
from .puts import WORD_BYTES

_FOOTER = struct.Struct("<IHHQII")
_ALWAYS = 1 << 62


class RingShape(NamedTuple):
    """Sizes of a ring, whether its slots have checksums, and its number, as its consumer chose."""

    slots: int
    slot_bytes: int
    has_crc: bool
    channel: int


class _RemoteMemory:
    """A side of a ring, which writes to the other side: compiled code does, by words of a *line*.

    Parameters
    ----------
    end : End
    key : int
        Key of the other side's memory, unpacked for this endpoint.
    remote : int
        Address of that memory, in its own process.
    shape : RingShape
    spin_s : float
        Seconds that compiled loops look at memory again and again before they return.

    Attributes
    ----------
    line : int
        See :mod:`.puts`.
    """

    def __init__(self, end: End, key: int, remote: int, shape: RingShape, spin_s: float) -> None:
        self.slots, self.slot_bytes, self.has_crc, self.channel = shape
        self._params = (
            library.RequestParams(mask=library.IMMEDIATE),
            library.RequestParams(mask=library.FLAGS_SET, flags=library.EAGER)
            if end.is_in_order
            else library.RequestParams(mask=0),
        )
        self._words = np.zeros(puts.LINE_BYTES // WORD_BYTES, np.int64)
        self.line: int = self._words.ctypes.data
        for place, name in (
            (puts.PUT, "put_nbx"),
            (puts.SEND, "am_send_nbx"),
            (puts.FENCE, "worker_fence"),
            (puts.PROGRESS, "worker_progress"),
            (puts.CHECK, "request_check_status"),
            (puts.FREE, "request_free"),
        ):
            self[place] = end.ucx.address(name)
        self[puts.CLOCK] = _clock()
        self[puts.WORKER], self[puts.ENDPOINT] = end.worker, end.handle.value or 0
        self[puts.KEY], self[puts.REMOTE] = key, remote
        self[puts.AT_ONCE], self[puts.LATER] = map(ctypes.addressof, self._params)
        self[puts.SLOTS], self[puts.SLOT_BYTES] = self.slots, self.slot_bytes
        self[puts.CHANNEL] = self.channel
        self[puts.SPIN_NS] = round(spin_s * 1e9)
        # Where writes are messages, one for a slot is worth a copy, always.
        self[puts.IN_ORDER], self[puts.STAGES] = end.is_in_order, end.is_in_order * _ALWAYS
        self[puts.STAGED_END] = -1
        of_slot = puts.SLOT_REQUESTS + self.slot_bytes // puts.MESSAGE_BYTES
        self[puts.MOST_REQUESTS] = of_slot * (self.slots + 1)
        self._requests = np.zeros(self[puts.MOST_REQUESTS] * puts.REQUEST_BYTES, np.uint8)
        self[puts.REQUESTS] = self._requests.ctypes.data
        # Bytes of a stream wake who reads it; a write into memory wakes nobody.
        self._wakes = not end.is_in_order

    def __getitem__(self, place: int) -> int:
        return int(self._words[place // WORD_BYTES])

    def __setitem__(self, place: int, value: int) -> None:
        self._words[place // WORD_BYTES] = value

    def wake(self) -> None:
        """Wake the process at the other end if it sleeps."""
        if self._wakes:
            puts.wake(self.line)

    def close(self) -> None:
        """Write nothing any more, and drop unfinished writes; arrived slots can still be read."""
        self[puts.FAILED] = 1
        self[puts.PROGRESS] = self[puts.CHECK] = 0


class UcxProducerMemory(_RemoteMemory):
    """A producer's memory: slots that lie in the consumer's process.

    Parameters
    ----------
    end, key, remote, shape, spin_s
        As for the base class: the consumer's ring is written.
    count : Region
        Memory into which the consumer writes its count.
    """

    def __init__(
        self, end: End, key: int, remote: int, shape: RingShape, spin_s: float, count: Region
    ) -> None:
        super().__init__(end, key, remote, shape, spin_s)
        # What is under way is read from here, since a caller's memory may change.
        self._stage = np.zeros(self.slots * self.slot_bytes, np.uint8)
        self._count = count
        self[puts.STAGE], self[puts.WORD] = self._stage.ctypes.data, count.address
        self._published = 0

    def write(self, slot: int, at: int, part: bytes | bytearray | memoryview) -> None:
        """Write bytes into a slot of the other side."""
        if len(part):
            at += slot * self.slot_bytes
            transfer.write_part(self.line, at, np.frombuffer(part, np.uint8))

    def publish(
        self, slot: int, length: int, kind: int, flags: int, crc: int, sequence: int
    ) -> None:
        """Write the footer, and behind a fence the sequence number."""
        at = (slot + 1) * self.slot_bytes - FOOTER_BYTES
        transfer.write_footer(self.line, at, length | kind << 32 | flags << 48, crc, sequence)
        self._published = sequence

    def fill(
        self, slot: int, sent: int, part: memoryview, count: int, kind: int, *, is_last: bool
    ) -> int:
        """Write and publish slots one after another, without the interpreter's lock."""
        filled: int = transfer.fill_slots(
            self.line,
            slot,
            sent,
            np.frombuffer(part, np.uint8),
            count,
            (self.slot_bytes - FOOTER_BYTES) | kind << 32,
            is_last,
        )
        self._published = sent + filled
        return filled

    def processed(self) -> int:
        """The consumer's count, up to slots whose bytes have left this process."""
        count = int(puts.look(self.line, self._count.address))
        done = self[puts.DONE_SLOTS]
        # An impossible count is for the producer to see.
        return done if done < count <= self._published else count


class UcxConsumerMemory(_RemoteMemory):
    """A consumer's memory: slots of its own, into which the producer's process writes.

    Parameters
    ----------
    end, key, remote, shape, spin_s
        As for the base class: the producer's word for counts is written.
    ring : Region
    """

    def __init__(
        self, end: End, key: int, remote: int, shape: RingShape, spin_s: float, ring: Region
    ) -> None:
        super().__init__(end, key, remote, shape, spin_s)
        self.ring = ring
        self._view = ring.memory.data
        self._count = np.zeros(1, np.uint64)
        self[puts.WORD] = self._count.ctypes.data

    def sequence(self, slot: int) -> int:
        """The sequence number of a slot, by an acquire load; arrivals go on."""
        at = self.ring.address + (slot + 1) * self.slot_bytes - WORD_BYTES
        return puts.look(self.line, at)

    def footer(self, slot: int) -> Footer:
        """The rest of the footer."""
        return _FOOTER.unpack_from(self._view, (slot + 1) * self.slot_bytes - FOOTER_BYTES)

    def payload(self, slot: int, length: int) -> memoryview:
        """A view of the first bytes of a slot."""
        start = slot * self.slot_bytes
        return self._view[start : start + length]

    def join(
        self, slot: int, received: int, target: np.ndarray, at: int, count: int, kind: int
    ) -> int:
        """Copy the payloads of slots as they come, without the interpreter's lock."""
        joined: int = transfer.join_slots(
            self.line,
            self.ring.address,
            slot,
            received,
            target,
            at,
            count,
            (self.slot_bytes - FOOTER_BYTES) | kind << 32,
        )
        return joined

    def give(self, processed: int) -> None:
        """Write the count of credits into the producer's memory."""
        transfer.write_word(self.line, processed)


@cache
def _clock() -> int:
    """Address of the C library's ``clock_gettime``."""
    return ctypes.cast(ctypes.CDLL(None).clock_gettime, ctypes.c_void_p).value or 0
