"""The consumer of a channel: takes slots in the order of their numbers, and gives credits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from penstock.errors import UsageError

from ..device.fields import MalformedError
from .checksums import has_come, slot_sum
from .cut import Cut, Rooms
from .message import (
    FOOTER_BYTES,
    KINDS,
    MODULUS,
    MORE,
    MOST_MESSAGE_BYTES,
    ConsumerMemory,
    Message,
    MessageKind,
)


class Consumer:
    """The receiving end: a pure state machine over a provider's memory (paper 2, section 6).

    It waits for exactly the next sequence number. Until that is there, the slot holds that of the
    lap before, or 0 in the first lap; anything else is damage.

    Parameters
    ----------
    memory : ConsumerMemory
    ring : callable, optional
        Called after credits were given: wakes the producer's process.
    modulus : int
        The same as the producer's.
    """

    __slots__ = (
        "_capacity",
        "_credited",
        "_cut",
        "_early",
        "_has_lapped",
        "_processed",
        "_received",
        "_ring",
        "_rooms",
        "_share",
        "_slot",
        "_wanted",
        "closed",
        "memory",
        "modulus",
        "slots",
    )

    def __init__(
        self,
        memory: ConsumerMemory,
        *,
        ring: Callable[[], None] | None = None,
        modulus: int = MODULUS,
    ) -> None:
        self.memory = memory
        self.slots = memory.slots
        self.modulus = modulus
        #: Whether CLOSE has been received.
        self.closed = False
        # Whether each slot has been taken at least once.
        self._has_lapped = False
        self._capacity = memory.slot_bytes - FOOTER_BYTES
        self._ring = ring
        # All modulo the modulus: credited <= processed <= received.
        self._received = 0
        self._processed = 0
        self._credited = 0
        self._wanted = 1 % modulus
        self._slot = 1 % memory.slots
        #: Processed slots after which credits are given even if the ring is not empty.
        self._share = max(1, memory.slots // 2)
        # Numbers of slots that were processed before earlier ones.
        self._early: set[int] = set()
        # The received part of a message cut over several slots, and memory for it.
        self._cut: Cut | None = None
        self._rooms = Rooms()

    @property
    def has_arrived(self) -> bool:
        """Whether the next slot is filled, or damaged; if neither, give all credits."""
        return not self._is_waiting(self.memory.sequence(self._slot))

    def receive(self, *, whole: bool = True) -> Message | None:
        """Take the next message, if all of it is there.

        Parameters
        ----------
        whole : bool
            False to get a message that is cut part by part, as it comes and without a copy. Then
            always, from the beginning of a message on.

        Returns
        -------
        Message or None
            Its payload is the slot itself until it is given to :meth:`done`. At most c messages
            can be taken and not done.

        Raises
        ------
        MalformedError
            The slot has content that no producer of this channel writes.
        """
        memory = self.memory
        while True:
            slot, sequence = self._slot, self._wanted
            number_found = memory.sequence(slot)
            if number_found != sequence:
                self._is_waiting(number_found)
                return None
            length, number, flags, channel, crc, reserved = memory.footer(slot)
            if (
                not 0 < number <= len(KINDS)
                or length > self._capacity
                or channel != memory.channel
                or flags > MORE
                or reserved
            ):
                raise self._malformed(
                    f"a footer of length {length}, kind {number}, flags {flags}, "
                    f"channel {channel:#x}"
                )
            if memory.has_crc and crc != slot_sum(memory, slot, sequence):
                raise self._malformed("its checksum does not fit its content")
            kind, payload = KINDS[number - 1], memory.payload(slot, length)
            content = None
            if flags or self._cut is not None:
                content = self._join(kind, payload, is_last=not flags, whole=whole)
            self._step(1)
            if kind is MessageKind.CLOSE and not flags:
                self.closed = True
            if content is None:
                return Message(kind, payload, sequence, flags != 0)
            # What was copied is processed.
            self._finish(sequence)
            if not flags:
                return Message(kind, content, sequence, is_copy=True)
            if self._credited != self._processed:
                # The producer may sleep with the ring full of what is joined now.
                self._give()
            if self._cut is not None:
                self._join_more(self._cut)

    def done(self, message: Message) -> None:
        """Mark a message as processed: its slots may be filled again.

        Messages may be done in any order; a credit is given when all before it are done, too.

        Raises
        ------
        UsageError
            The message was marked already.
        """
        if message.is_copy:
            return  # its slots are free already
        sequence = message.sequence
        if (
            sequence == (self._processed + 1) % self.modulus
            and self._processed != self._received
            and not self._early
        ):
            # The common case, in order.
            self._processed = sequence
            if (sequence - self._credited) % self.modulus >= self._share:
                self._give()
            return
        if not self._is_open(sequence) or sequence in self._early:
            raise UsageError(f"{message!r} is done already: call done() once for each message")
        self._finish(sequence)

    def check(self) -> None:
        """Look for a filled slot with a damaged sequence number; call it when a wait was too long.

        A damaged sequence number may look like that of the lap before. Then the next slot, which
        was published later, has its own already, or the checksum fits a number that is not there.

        Raises
        ------
        MalformedError
        """
        if self.has_arrived:
            return
        following = (self._wanted + 1) % self.modulus
        place = (self._slot + 1) % self.slots
        ahead = self.slots > 1 and self.memory.sequence(place) == following
        if ahead or (self.memory.has_crc and has_come(self.memory, self._slot, self._wanted)):
            raise self._malformed("a slot has come and its sequence number has not")

    def _is_waiting(self, number: int) -> bool:
        """Whether the next slot is still empty; if so, give all credits, since the ring is."""
        if number == self._wanted:
            return False
        before = (self._wanted - self.slots) % self.modulus if self._has_lapped else 0
        if number != before:
            raise self._malformed(f"sequence number {number} instead of {self._wanted} or {before}")
        if self._credited != self._processed:
            self._give()
        return True

    def _step(self, count: int) -> None:
        self._received = (self._received + count) % self.modulus
        self._wanted = (self._received + 1) % self.modulus
        slot = self._slot + count
        # The ring begins at place 1 (at 0 if that is all there is), so 0 is its last place.
        if slot > self.slots or self._slot == 0:
            self._has_lapped = True
        self._slot = slot if slot < self.slots else slot % self.slots

    def _join(
        self, kind: MessageKind, payload: memoryview, *, is_last: bool, whole: bool
    ) -> memoryview | None:
        """Add a slot to a cut message; returns its bytes so far, or None if parts are wanted."""
        cut = self._cut or Cut(kind, self._rooms.take())
        if kind is not cut.kind:
            raise self._malformed(f"{kind.name} within a message of kind {cut.kind.name}")
        is_full = len(payload) == self._capacity
        if not (is_last or is_full) or cut.size + len(payload) > MOST_MESSAGE_BYTES:
            raise self._malformed("a part of a message that is not full, or one too many")
        self._cut = None if is_last else cut
        if not whole:
            return None
        cut.add(payload)
        if is_last:
            self._rooms.keep(cut.memory)
        return cut.content()

    def _join_more(self, cut: Cut) -> None:
        """Copy further slots of a message cut over slots, as they are filled."""
        most = (MOST_MESSAGE_BYTES - cut.size) // self._capacity
        if count := self._joinable(min(self.slots, most)):
            target = cut.reserve(count * self._capacity)
            cut.size += self._join_slots(cut, target, cut.size, count)

    def read_into(self, target: np.ndarray) -> int:
        """Copy full slots of an unfinished message as they are filled; returns the number of bytes.

        Between calls of :meth:`receive` with ``whole=False``, when all that it gave is done. The
        last slot of a message is left to that.
        """
        count = self._joinable(len(target) // self._capacity)
        return self._join_slots(self._cut, target, 0, count) if count and self._cut else 0

    def _joinable(self, most: int) -> int:
        """Number of slots that compiled code may copy.

        None with checksums, or while credits wait for an earlier message to be done; and none whose
        numbers wrap.
        """
        if self.memory.has_crc or self._received != self._processed:
            return 0
        return max(0, min(most, self.modulus - 1 - self._received))

    def _join_slots(self, cut: Cut, target: np.ndarray, at: int, count: int) -> int:
        count = self.memory.join(self._slot, self._received, target, at, count, cut.kind)
        if count:
            self._step(count)
            self._processed = self._credited = self._received
            if self._ring is not None:
                self._ring()
        return count * self._capacity

    def _is_open(self, sequence: int) -> bool:
        """Whether a slot was received and is not processed."""
        behind = (self._received - sequence) % self.modulus
        return behind < (self._received - self._processed) % self.modulus

    def _finish(self, sequence: int) -> None:
        """Count a slot as processed; give credits once enough have gathered."""
        following = (self._processed + 1) % self.modulus
        if sequence != following:
            self._early.add(sequence)
            return
        self._processed = sequence
        while self._early:
            following = (self._processed + 1) % self.modulus
            if following not in self._early:
                break
            self._early.remove(following)
            self._processed = following
        if (self._processed - self._credited) % self.modulus >= self._share:
            self._give()

    def _give(self) -> None:
        self.memory.give(self._processed)
        self._credited = self._processed
        if self._ring is not None:
            self._ring()

    def _malformed(self, damage: str) -> MalformedError:
        return MalformedError(
            f"channel {self.memory.channel:#x}, slot {self._slot}: {damage}; the ring is damaged: "
            "restart both processes"
        )
