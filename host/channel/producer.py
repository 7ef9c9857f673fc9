"""The producer of a channel: takes slots for which it has credits, fills and publishes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.errors import UsageError

from ..device.fields import MalformedError
from .checksums import checked_bytes
from .crc32c import crc32c
from .message import (
    FOOTER_BYTES,
    MODULUS,
    MORE,
    MOST_MESSAGE_BYTES,
    MessageKind,
    ProducerMemory,
)


class Producer:
    """The sending end: a pure state machine over a provider's memory (paper 2, section 6).

    Slot s = 1, 2, .. of the channel lies in place s mod c of the ring. It is written only while
    fewer than c slots are sent and not processed, so no slot is written before its credit.

    Parameters
    ----------
    memory : ProducerMemory
    ring : callable, optional
        Called after slots were published: wakes the consumer's process.
    modulus : int
        Sequence numbers are taken modulo this; above the number of slots. Tests let it be small.
    """

    __slots__ = (
        "_capacity",
        "_kind",
        "_processed",
        "_ring",
        "_sent",
        "_slot",
        "_unsent",
        "closed",
        "memory",
        "modulus",
        "slots",
    )

    def __init__(
        self,
        memory: ProducerMemory,
        *,
        ring: Callable[[], None] | None = None,
        modulus: int = MODULUS,
    ) -> None:
        self.memory = memory
        self.slots = memory.slots
        self.modulus = modulus
        #: Whether CLOSE was sent.
        self.closed = False
        self._capacity = memory.slot_bytes - FOOTER_BYTES
        self._ring = ring
        # Both modulo the modulus; their difference, 0 to c, is the number of slots in flight.
        self._sent = 0
        self._processed = 0
        self._slot = 0
        # The unsent part of a message that waits for credits: views, the first one cut.
        self._unsent: list[memoryview] | None = None
        self._kind = MessageKind.CONTROL

    @property
    def credits(self) -> int:
        """Slots that can be filled now, 0 to c.

        Raises
        ------
        MalformedError
            The consumer's count is impossible.
        """
        return self.slots - self._in_flight()

    @property
    def sent(self) -> int:
        """Sequence number of the last slot sent."""
        return self._sent

    @property
    def pending(self) -> bool:
        """Whether part of a message waits for credits: call :meth:`pump`."""
        return self._unsent is not None

    @property
    def capacity(self) -> int:
        """Bytes of payload that one slot takes."""
        return self._capacity

    def send(self, kind: MessageKind, payload: Any = b"") -> bool:
        """Send a message; without credits it is kept until :meth:`pump` can send it.

        Parameters
        ----------
        kind : Kind
        payload : buffer or sequence of buffers
            Contiguous; several are sent as one. They must stay as they are until nothing is
            pending.

        Returns
        -------
        bool
            Whether all of it was sent; otherwise :meth:`pump` goes on when there are credits.

        Raises
        ------
        UsageError
            A message is pending, the channel is closed, or the message is too large.
        MalformedError
            The consumer's count is impossible.
        """
        if self._unsent is not None or self.closed:
            raise UsageError(
                "a message of this channel waits for credits: call pump() until it returns True"
                if self._unsent is not None
                else "the channel is closed: nothing can be sent behind CLOSE"
            )
        if kind is MessageKind.CLOSE:
            self.closed = True
        # The common case, one slot and a credit that is known of, without lists and views.
        if (
            (type(payload) is bytes or _is_plain(payload))
            and len(payload) <= self._capacity
            and (self._sent - self._processed) % self.modulus < self.slots
        ):
            self._put((payload,), kind, 0)
            if self._ring is not None:
                self._ring()
            return True
        self._unsent = _views(payload)
        self._kind = kind
        return self.pump()

    def pump(self) -> bool:
        """Send more of a message that waits for credits; returns whether all of it is sent.

        Raises
        ------
        MalformedError
            The consumer's count is impossible.
        """
        if self._unsent is None:
            return True
        # One slot by itself, so that the consumer wakes while the others are filled.
        is_first = True
        while self._unsent is not None and self._has_credit():
            if is_first or not self._fill_several(self._unsent):
                self._fill(self._unsent)
            is_first = False
            if not self._unsent:
                self._unsent = None
            if self._ring is not None:
                self._ring()
        return self._unsent is None

    def _fill(self, unsent: list[memoryview]) -> None:
        """Fill the next slot with unsent bytes of a message, and publish it."""
        room, parts = self._capacity, []
        while unsent and room:
            parts.append(self._cut(unsent, room))
            room -= len(parts[-1])
        self._put(parts, self._kind, MORE if unsent else 0)

    def _fill_several(self, unsent: list[memoryview]) -> bool:
        """Fill slots from one large buffer while there are credits; returns whether any was."""
        # Numbers that wrap are left to the other way, and so are checksums.
        if not unsent or self.memory.has_crc:
            return False
        count = min(len(unsent[0]) // self._capacity, self.modulus - 1 - self._sent)
        if count < 2:
            return False
        part = unsent[0][: count * self._capacity]
        is_last = len(part) == len(unsent[0]) and len(unsent) == 1
        slot = self._slot + 1 if self._slot + 1 < self.slots else 0
        count = self.memory.fill(slot, self._sent, part, count, self._kind, is_last=is_last)
        if not count:
            return False
        self._cut(unsent, count * self._capacity)
        self._slot = (self._slot + count) % self.slots
        self._sent += count
        # The credits that were used may have come meanwhile.
        self._in_flight()
        return True

    @staticmethod
    def _cut(buffers: list[memoryview], most: int) -> memoryview:
        """Take at most ``most`` bytes from the first of several buffers."""
        first = buffers[0]
        if len(first) <= most:
            return buffers.pop(0)
        buffers[0] = first[most:]
        return first[:most]

    def _put(self, parts: Sequence[bytes | memoryview], kind: int, flags: int) -> None:
        """Write a slot: first its payload, then its footer."""
        memory = self.memory
        sequence = (self._sent + 1) % self.modulus
        slot = self._slot + 1 if self._slot + 1 < self.slots else 0
        at = crc = 0
        for part in parts:
            memory.write(slot, at, part)
            at += len(part)
        if memory.has_crc:
            crc = self._sum(parts, at, kind, flags, sequence)
        memory.publish(slot, at, kind, flags, crc, sequence)
        self._slot = slot
        self._sent = sequence

    def _sum(self, parts: Sequence[Any], length: int, kind: int, flags: int, sequence: int) -> int:
        crc = 0
        for part in parts:
            crc = crc32c(part, crc)
        return crc32c(checked_bytes(length, kind, flags, self.memory.channel, sequence), crc)

    def _has_credit(self) -> bool:
        known = (self._sent - self._processed) % self.modulus
        return known < self.slots or self._in_flight() < self.slots

    def _in_flight(self) -> int:
        """Number of slots sent and not processed, by the consumer's newest count."""
        in_flight = (self._sent - self._processed) % self.modulus
        count = self.memory.processed()
        if count == self._processed:
            return in_flight
        if count < self.modulus and (count - self._processed) % self.modulus <= in_flight:
            self._processed = count
            return (self._sent - count) % self.modulus
        # A count that comes again, or late, tells nothing new.
        if count < self._processed:
            return in_flight
        raise MalformedError(
            f"channel {self.memory.channel:#x}: the consumer says that {count} slots are processed "
            f"when {self._sent} were sent; its memory is damaged: restart both processes"
        )


def _is_plain(payload: Any) -> bool:
    """Whether a buffer is a view of contiguous bytes: then its length is its number of bytes."""
    return (
        type(payload) is memoryview
        and payload.format == "B"
        and payload.ndim == 1
        and payload.c_contiguous
    )


def _views(payload: Any) -> list[memoryview]:
    """Buffers as bytes, without empty ones.

    Raises
    ------
    UsageError
        The buffers are too large together.
    """
    single = not isinstance(payload, list | tuple)
    views = [memoryview(part) for part in ((payload,) if single else payload)]
    views = [view.cast("B") for view in views if view.nbytes]
    size = sum(map(len, views))
    if size > MOST_MESSAGE_BYTES:
        raise UsageError(
            f"a message of {size} bytes is above the limit of {MOST_MESSAGE_BYTES}: send parts"
        )
    return views
