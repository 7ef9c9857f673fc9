"""Channels in memory that two processes of one machine map.

The memory is one sealed memfd: a page with what the ring is like and the consumer's count of
credits, and then the slots. Its descriptor is passed to the processes, which map it.
"""

from __future__ import annotations

import os
import secrets
import struct
from collections.abc import Callable

import numpy as np

from penstock.errors import DeviceError, UsageError

from ..device.fields import MalformedError
from ..wire.sealed import can_seal, create_sealed, map_memory, sealed_size
from .atomics import load_acquire, store_release
from .consumer import Consumer
from .filling import fill_slots, join_slots
from .message import FOOTER_BYTES, Footer
from .producer import Producer

#: Slots of a ring and bytes of each: enough for one to be filled while others are read, and
#: small enough for all to stay in a processor's cache (figures 10a, 10b of the paper).
SLOTS, SLOT_BYTES = 8, 1 << 16
MOST_SLOTS, MOST_SLOT_BYTES = 1 << 16, 1 << 26
#: Slots begin at multiples of this: a line of the cache, so that no two share one.
ALIGNMENT = 64

#: Bytes before the slots: a page.
_HEAD_BYTES = 4096
_HEAD = struct.Struct("<8sIIIIQ")
_MAGIC = b"penstkch"
_VERSION = 1
#: Word of the count of credits: in a line of its own, since the other side writes it.
_CREDIT_WORD = 2048 // 8
#: Footers without the sequence number.
_FOOTER = struct.Struct("<IHHQII")
_write_footer, _read_footer = _FOOTER.pack_into, _FOOTER.unpack_from
#: Bytes from which a copy lets other threads run: it takes longer than to wait for the lock again.
_LONG_COPY_BYTES = 1 << 18


class ShmMemory:
    """A ring of slots in mapped memory, as a producer's and a consumer's memory.

    Parameters
    ----------
    memory : array of uint8, shape (n,)
        A head and the slots.

    Raises
    ------
    MalformedError
        It is no ring of this version.
    """

    __slots__ = (
        "_bytes",
        "_capacity",
        "_footers",
        "_sequences",
        "_starts",
        "_view",
        "_words",
        "channel",
        "has_crc",
        "slot_bytes",
        "slots",
    )

    def __init__(self, memory: np.ndarray) -> None:
        if len(memory) < _HEAD_BYTES:
            raise MalformedError(f"a ring of {len(memory)} bytes has no place for a head")
        magic, version, slots, slot_bytes, has_crc, channel = _HEAD.unpack_from(memory.data)
        if (magic, version) != (_MAGIC, _VERSION) or len(memory) != _size(slots, slot_bytes):
            raise MalformedError(
                f"the shared memory offered is no ring of version {_VERSION}: start all processes "
                "with one version of Penstock"
            )
        self.slots: int = slots
        self.slot_bytes: int = slot_bytes
        self.channel: int = channel
        self.has_crc = bool(has_crc)
        self._bytes = memory
        self._capacity = slot_bytes - FOOTER_BYTES
        self._view = memory.data
        self._words = memory.view(np.uint64)
        self._starts = [_HEAD_BYTES + slot * slot_bytes for slot in range(slots)]
        self._footers = [start + slot_bytes - FOOTER_BYTES for start in self._starts]
        # Words, by slot: the last of each footer.
        self._sequences = [(start + slot_bytes) // 8 - 1 for start in self._starts]

    def write(self, slot: int, at: int, part: bytes | bytearray | memoryview) -> None:
        """Copy bytes into a slot."""
        start = self._starts[slot] + at
        end = start + len(part)
        if end - start < _LONG_COPY_BYTES:
            self._view[start:end] = part
        else:
            np.copyto(self._bytes[start:end], np.frombuffer(part, np.uint8))

    def publish(
        self, slot: int, length: int, kind: int, flags: int, crc: int, sequence: int
    ) -> None:
        """Write the footer, and then the sequence number by a release store."""
        _write_footer(self._view, self._footers[slot], length, kind, flags, self.channel, crc, 0)
        store_release(self._words, self._sequences[slot], sequence)

    def fill(
        self, slot: int, sequence: int, part: memoryview, count: int, kind: int, *, is_last: bool
    ) -> None:
        """Write and publish slots one after another, without the interpreter's lock."""
        fill_slots(
            self._bytes,
            self._words,
            _HEAD_BYTES,
            self.slots,
            self.slot_bytes,
            slot,
            sequence,
            np.frombuffer(part, np.uint8),
            count,
            self._capacity | kind << 32,
            self.channel,
            is_last,
        )

    def processed(self) -> int:
        """The consumer's count, by an acquire load."""
        return load_acquire(self._words, _CREDIT_WORD)

    def sequence(self, slot: int) -> int:
        """The sequence number of a slot, by an acquire load."""
        return load_acquire(self._words, self._sequences[slot])

    def footer(self, slot: int) -> Footer:
        """The rest of the footer."""
        return _read_footer(self._view, self._footers[slot])

    def payload(self, slot: int, length: int) -> memoryview:
        """A view of the first bytes of a slot."""
        start = self._starts[slot]
        return self._view[start : start + length]

    def join(
        self, slot: int, sequence: int, target: np.ndarray, at: int, count: int, kind: int
    ) -> int:
        """Copy the payloads of slots that have come, without the interpreter's lock."""
        return join_slots(
            self._bytes,
            self._words,
            _HEAD_BYTES,
            self.slots,
            self.slot_bytes,
            slot,
            sequence,
            target,
            at,
            count,
            self._capacity | kind << 32,
            self.channel,
        )

    def give(self, processed: int) -> None:
        """Write the count of credits by a release store."""
        store_release(self._words, _CREDIT_WORD, processed)


class Ends:
    """A new channel, before its two ends are given to processes.

    Parameters
    ----------
    file : int
        Descriptor of the memory. Pass it to both processes (``pass_fds`` of ``subprocess``,
        ``socket.send_fds``), which call :func:`attach_producer` and :func:`attach_consumer`; then
        close it here and there: mapped memory stays.
    """

    def __init__(self, file: int) -> None:
        self.file = file

    def producer(self, ring: Callable[[], None] | None = None) -> Producer:
        """The producer, in this process."""
        return attach_producer(self.file, ring)

    def consumer(self, ring: Callable[[], None] | None = None) -> Consumer:
        """The consumer, in this process."""
        return attach_consumer(self.file, ring)

    def close(self) -> None:
        """Close the descriptor; ends that are attached go on."""
        if self.file >= 0:
            os.close(self.file)
            self.file = -1


def create(
    slots: int = SLOTS,
    slot_bytes: int = SLOT_BYTES,
    *,
    crc: bool = False,
    channel: int | None = None,
) -> Ends:
    """Make a channel.

    Parameters
    ----------
    slots : int
        c, 1 to 65536.
    slot_bytes : int
        m, with the footer's 32 bytes; a multiple of 64, up to 64 MiB.
    crc : bool
        Whether each slot has a checksum. Memory of one machine is checked by its hardware; tests
        and doubts turn it on.
    channel : int, optional
        Number in each footer, 0 to 2**63 - 1, that tells slots of other channels; by chance if
        None.

    Raises
    ------
    UsageError
        A size is out of range.
    DeviceError
        There is no memory for it, or the system is not Linux.
    """
    if not 1 <= slots <= MOST_SLOTS:
        raise UsageError(f"a ring has 1 to {MOST_SLOTS} slots, not {slots!r}")
    if slot_bytes % ALIGNMENT or not ALIGNMENT <= slot_bytes <= MOST_SLOT_BYTES:
        raise UsageError(
            f"a slot has a multiple of {ALIGNMENT} bytes up to {MOST_SLOT_BYTES}, not {slot_bytes}"
        )
    number = secrets.randbits(63) if channel is None else channel
    size = _size(slots, slot_bytes)
    if not can_seal():
        raise DeviceError("channels in shared memory need Linux: run with one worker")
    try:
        file = create_sealed(f"penstock-channel-{number:x}", size)
    except OSError as cause:
        raise DeviceError(
            f"no shared memory of {size} bytes for a channel: {cause.strerror}; free memory or "
            "descriptors (ulimit -n), or start fewer workers"
        ) from cause
    try:
        memory = map_memory(file, size)
    except (OSError, ValueError) as cause:
        os.close(file)
        raise DeviceError(f"{size} bytes for a channel cannot be mapped: {cause}") from cause
    # All pages are made now: to make one takes longer than to fill a slot.
    memory[:] = 0
    _HEAD.pack_into(memory.data, 0, _MAGIC, _VERSION, slots, slot_bytes, crc, number)
    return Ends(file)


def attach_producer(file: int, ring: Callable[[], None] | None = None) -> Producer:
    """The producer of a channel that another process has made.

    Parameters
    ----------
    file : int
        Its descriptor, which may be closed afterwards.
    ring : callable, optional
        Wakes the consumer's process: :meth:`.Ringer.ring`.

    Raises
    ------
    MalformedError
        It is no channel of this version.
    DeviceError
        It cannot be mapped.
    """
    return Producer(_attach(file), ring=ring)


def attach_consumer(file: int, ring: Callable[[], None] | None = None) -> Consumer:
    """The consumer; the parameters and errors are those of :func:`attach_producer`.

    ``ring`` wakes the producer's process, which may wait for credits.
    """
    return Consumer(_attach(file), ring=ring)


def _attach(file: int) -> ShmMemory:
    try:
        return ShmMemory(map_memory(file, sealed_size(file)))
    except (OSError, ValueError) as cause:
        raise DeviceError(f"a channel's memory cannot be mapped: {cause}") from cause


def _size(slots: int, slot_bytes: int) -> int:
    return _HEAD_BYTES + slots * slot_bytes
