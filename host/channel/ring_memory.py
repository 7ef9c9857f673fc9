"""A ring of slots in memory that two processes map: a head, and the slots behind it."""

from __future__ import annotations

import struct

import numpy as np

from ..device.fields import MalformedError
from .atomics import load_acquire, store_release
from .filling import fill_slots, join_slots
from .message import FOOTER_BYTES, Footer

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
#: The footer without the sequence number.
_FOOTER = struct.Struct("<IHHQII")
_write_footer, _read_footer = _FOOTER.pack_into, _FOOTER.unpack_from
#: Looks at a word that does not change, in all, before compiled code returns: at most 50 us, since
#: each takes a nanosecond or two, as long as a doorbell spins.
_SPINS = 20_000
#: Bytes from which a copy lets other threads run: it takes longer than to wait for the lock again.
_LONG_COPY_BYTES = 1 << 18


class ShmMemory:
    """A ring of slots in mapped memory, as a producer's and a consumer's memory.

    Parameters
    ----------
    memory : array of uint8, shape (n,)
        A head and the slots.
    spins : bool
        Whether compiled loops look at a word again and again before they return.

    Raises
    ------
    MalformedError
        The memory is no ring of this version.
    """

    __slots__ = (
        "_bytes",
        "_capacity",
        "_footers",
        "_sequences",
        "_spins",
        "_starts",
        "_view",
        "_words",
        "channel",
        "has_crc",
        "slot_bytes",
        "slots",
    )

    def __init__(self, memory: np.ndarray, *, spins: bool = True) -> None:
        if len(memory) < _HEAD_BYTES:
            raise MalformedError(f"a ring of {len(memory)} bytes has no place for a head")
        magic, version, slots, slot_bytes, has_crc, channel = _HEAD.unpack_from(memory.data)
        is_ring = (magic, version) == (_MAGIC, _VERSION) and can_be(slots, slot_bytes)
        if not is_ring or len(memory) != ring_bytes(slots, slot_bytes):
            raise MalformedError(
                f"the shared memory offered is no ring of version {_VERSION}: start all processes "
                "with one version of Penstock"
            )
        self.slots: int = slots
        self.slot_bytes: int = slot_bytes
        self.channel: int = channel
        self.has_crc = bool(has_crc)
        self._bytes = memory
        self._spins = _SPINS if spins else 0
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
        self, slot: int, sent: int, part: memoryview, count: int, kind: int, *, is_last: bool
    ) -> int:
        """Write and publish slots one after another, without the interpreter's lock."""
        return fill_slots(
            self._bytes,
            self._words,
            _HEAD_BYTES,
            self.slots,
            self.slot_bytes,
            slot,
            sent,
            np.frombuffer(part, np.uint8),
            count,
            self._capacity | kind << 32,
            self.channel,
            is_last,
            _CREDIT_WORD,
            self._spins,
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
        self,
        slot: int,
        received: int,
        target: np.ndarray,
        at: int,
        count: int,
        kind: int,
    ) -> int:
        """Copy the payloads of slots as they come, without the interpreter's lock."""
        return join_slots(
            self._bytes,
            self._words,
            _HEAD_BYTES,
            self.slots,
            self.slot_bytes,
            slot,
            received,
            target,
            at,
            count,
            self._capacity | kind << 32,
            self.channel,
            _CREDIT_WORD,
            self._spins,
        )

    def give(self, processed: int) -> None:
        """Write the count of credits by a release store."""
        store_release(self._words, _CREDIT_WORD, processed)


def can_be(slots: int, slot_bytes: int) -> bool:
    """Whether this number and size of slots are possible."""
    return (
        1 <= slots <= MOST_SLOTS
        and slot_bytes % ALIGNMENT == 0
        and ALIGNMENT <= slot_bytes <= MOST_SLOT_BYTES
    )


def ring_bytes(slots: int, slot_bytes: int) -> int:
    """Bytes of a ring, with its head."""
    return _HEAD_BYTES + slots * slot_bytes


def write_head(
    memory: np.ndarray, slots: int, slot_bytes: int, *, has_crc: bool, channel: int
) -> None:
    """Write the head of a ring into new memory.

    All its pages are made now: to make one takes longer than to fill a slot.
    """
    memory[:] = 0
    _HEAD.pack_into(memory.data, 0, _MAGIC, _VERSION, slots, slot_bytes, has_crc, channel)
