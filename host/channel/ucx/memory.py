"""Rings in the memory of another process, written by puts of UCX: a producer's and a consumer's."""

from __future__ import annotations

import ctypes
import struct
from functools import cache

import numpy as np

from ..message import FOOTER_BYTES, Footer
from . import calls, library
from .end import End
from .network import Region

_FOOTER = struct.Struct("<IHHQII")


class _Way:
    """What compiled code needs to write to the other side."""

    def __init__(self, end: End, key: int, remote: int, most_requests: int, spin_s: float) -> None:
        self._params = (
            library.RequestParams(mask=library.IMMEDIATE),
            library.RequestParams(mask=0),
        )
        ucx = end.ucx
        self.line = np.zeros(calls.LINE, np.int64)
        for place, name in (
            (calls.PUT, "put_nbx"),
            (calls.FENCE, "worker_fence"),
            (calls.PROGRESS, "worker_progress"),
            (calls.CHECK, "request_check_status"),
            (calls.FREE, "request_free"),
        ):
            self.line[place] = ucx.address(name)
        self.line[calls.WORKER], self.line[calls.ENDPOINT] = end.worker, end.handle.value or 0
        self.line[calls.KEY], self.line[calls.REMOTE] = key, remote
        self.line[calls.CLOCK], self.line[calls.SPIN_NS] = _clock(), round(spin_s * 1e9)
        # One write for a slot is worth a copy where writes are messages.
        self.line[calls.IN_ORDER] = self.line[calls.STAGES] = end.is_in_order
        self.line[calls.STAGED] = self.line[calls.STAGED_END] = -1
        self.line[calls.AT_ONCE] = ctypes.addressof(self._params[0])
        self.line[calls.LATER] = ctypes.addressof(self._params[1])
        self.requests = np.zeros(most_requests, np.int64)
        self.ends = np.zeros(most_requests, np.int64)

    def close(self) -> None:
        """Write nothing any more, and forget what was not complete."""
        self.line[calls.FAILED] = 1
        self.line[calls.PROGRESS] = self.line[calls.CHECK] = 0


class UcxProducerMemory:
    """A producer's memory: slots that lie in the consumer's process.

    Parameters
    ----------
    end : End
    key : int
        Of the ring, for this end.
    remote : int
        Where the ring begins, in its own process.
    count : Region
        Into which the consumer writes its count.
    slots, slot_bytes, channel, has_crc
        As the consumer has them.
    spin_s : float
        Seconds that compiled loops look for a credit again and again before they return.
    """

    def __init__(
        self,
        end: End,
        key: int,
        remote: int,
        count: Region,
        *,
        slots: int,
        slot_bytes: int,
        channel: int,
        has_crc: bool,
        spin_s: float,
    ) -> None:
        self.slots, self.slot_bytes = slots, slot_bytes
        self.channel, self.has_crc = channel, has_crc
        self._way = _Way(end, key, remote, calls.REQUESTS * (slots + 1), spin_s)
        self._arrays = (self._way.line, self._way.requests, self._way.ends)
        # What is under way is read from here, since a caller's memory may change.
        self._stage = np.zeros(slots * slot_bytes, np.uint8)
        self._credit = count.memory.view(np.uint64)
        self._published = 0

    def write(self, slot: int, at: int, part: bytes | bytearray | memoryview) -> None:
        """Write bytes into a slot of the other side."""
        source = np.frombuffer(part, np.uint8) if len(part) else self._stage[:0]
        calls.write_part(*self._arrays, self._stage, slot * self.slot_bytes + at, source)

    def publish(
        self, slot: int, length: int, kind: int, flags: int, crc: int, sequence: int
    ) -> None:
        """Write the footer, and behind a fence the sequence number."""
        at = (slot + 1) * self.slot_bytes - FOOTER_BYTES
        _FOOTER.pack_into(self._stage.data, at, length, kind, flags, self.channel, crc, 0)
        calls.write_footer(*self._arrays, self._stage, at, sequence)
        self._published = sequence

    def fill(
        self, slot: int, sent: int, part: memoryview, count: int, kind: int, *, is_last: bool
    ) -> int:
        """Write and publish slots one after another, without the interpreter's lock."""
        filled: int = calls.fill_slots(
            *self._arrays,
            self._stage,
            self._credit,
            self.slots,
            self.slot_bytes,
            slot,
            sent,
            np.frombuffer(part, np.uint8),
            count,
            (self.slot_bytes - FOOTER_BYTES) | kind << 32,
            self.channel,
            is_last,
        )
        self._published = sent + filled
        return filled

    def processed(self) -> int:
        """The consumer's count, of slots whose bytes have left this process."""
        count = int(calls.read_count(*self._arrays, self._credit))
        done = int(self._way.line[calls.DONE_SLOTS])
        # An impossible count is for the producer to see.
        return done if done < count <= self._published else count

    def close(self) -> None:
        """Write nothing any more."""
        self._way.close()


class UcxConsumerMemory:
    """A consumer's memory: slots of its own, into which the producer's process writes.

    Parameters
    ----------
    end : End
    key : int
        Of the producer's word for counts, for this end.
    remote : int
        Where that word is, in its own process.
    ring : Region
    slots, slot_bytes, channel, has_crc
    spin_s : float
        Seconds that compiled loops look for a slot again and again before they return.
    """

    def __init__(
        self,
        end: End,
        key: int,
        remote: int,
        ring: Region,
        *,
        slots: int,
        slot_bytes: int,
        channel: int,
        has_crc: bool,
        spin_s: float,
    ) -> None:
        self.slots, self.slot_bytes = slots, slot_bytes
        self.channel, self.has_crc = channel, has_crc
        self._way = _Way(end, key, remote, calls.REQUESTS * (slots + 1), spin_s)
        self._arrays = (self._way.line, self._way.requests, self._way.ends)
        self._memory = ring.memory
        self._view = ring.memory.data
        self._words = ring.memory.view(np.uint64)
        self._given = np.zeros(1, np.uint64)

    def sequence(self, slot: int) -> int:
        """The sequence number of a slot, by an acquire load; arrivals go on."""
        place = (slot + 1) * self.slot_bytes // 8 - 1
        return calls.look(self._way.line, self._words, place)

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
        joined: int = calls.join_slots(
            *self._arrays,
            self._memory,
            self._words,
            self._given,
            self.slots,
            self.slot_bytes,
            slot,
            received,
            target,
            at,
            count,
            (self.slot_bytes - FOOTER_BYTES) | kind << 32,
            self.channel,
        )
        return joined

    def give(self, processed: int) -> None:
        """Write the count of credits into the producer's memory."""
        calls.write_word(*self._arrays, self._given, processed)

    def close(self) -> None:
        """Write nothing any more; what has come can still be read."""
        self._way.close()


@cache
def _clock() -> int:
    """Where the C library's ``clock_gettime`` is."""
    return ctypes.cast(ctypes.CDLL(None).clock_gettime, ctypes.c_void_p).value or 0
