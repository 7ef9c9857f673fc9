"""The consumer of a channel: takes slots in the order of their numbers, and gives credits."""

from __future__ import annotations

from collections.abc import Callable

from penstock.errors import UsageError

from ..device.fields import MalformedError
from .crc32c import crc32c
from .message import (
    FOOTER_BYTES,
    KINDS,
    MODULUS,
    MORE,
    MOST_MESSAGE_BYTES,
    ConsumerMemory,
    Kind,
    Message,
)
from .producer import checked_bytes


class Consumer:
    """A pure state machine over a provider's memory (section 6 of the paper).

    It waits for exactly the next sequence number. Until that is there, the slot holds that of the
    lap before, or 0 in the first lap; anything else is damage.

    Parameters
    ----------
    memory : ConsumerMemory
    ring : callable, optional
        Called after credits were given: wakes the producer's process.
    modulus : int
        As the producer's.
    """

    __slots__ = (
        "_capacity",
        "_cut",
        "_early",
        "_given",
        "_has_lapped",
        "_processed",
        "_received",
        "_ring",
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
        #: Whether CLOSE has come.
        self.closed = False
        # Whether each slot has been taken at least once.
        self._has_lapped = False
        self._capacity = memory.slot_bytes - FOOTER_BYTES
        self._ring = ring
        # All modulo the modulus: given <= processed <= received.
        self._received = 0
        self._processed = 0
        self._given = 0
        self._wanted = 1 % modulus
        self._slot = 1 % memory.slots
        #: Slots after which credits are given even if the ring is not empty.
        self._share = max(1, memory.slots // 2)
        # Numbers of slots that were processed before earlier ones.
        self._early: set[int] = set()
        # A message that is cut over slots: its kind, and what has come of it.
        self._cut: tuple[Kind, bytearray] | None = None

    @property
    def has_arrived(self) -> bool:
        """Whether :meth:`receive` has something to look at. If not, all credits are given."""
        return self._look()

    def receive(self) -> Message | None:
        """Take the next message, if all of it is there.

        Returns
        -------
        Message or None
            Its payload is the slot itself until it is given to :meth:`done`. At most c messages
            can be taken and not done.

        Raises
        ------
        MalformedError
            The slot holds what no producer of this channel writes.
        """
        while self._look():
            message = self._take()
            if message is not None:
                return message
        return None

    def done(self, message: Message) -> None:
        """Say that a message was processed: its payload is not looked at any more.

        Messages may be done in any order; a credit is given when all before it are done, too.

        Raises
        ------
        UsageError
            It is done already.
        """
        if type(message.payload) is bytearray:
            return  # its slots were copied, and are free already
        sequence = message.sequence
        if not self._is_open(sequence) or sequence in self._early:
            raise UsageError(f"{message!r} is done already: call done() once for each message")
        self._finish(sequence)

    def check(self) -> None:
        """Look for a slot that has come and cannot be seen: call it when a wait was too long.

        A damaged sequence number may look like that of the lap before. Then the next slot, which
        was published later, has its own already, or the checksum fits a number that is not there.

        Raises
        ------
        MalformedError
        """
        if self._look():
            return
        following = (self._wanted + 1) % self.modulus
        place = (self._slot + 1) % self.slots
        ahead = self.slots > 1 and self.memory.sequence(place) == following
        if ahead or (self.memory.has_crc and self._fits()):
            raise self._malformed("a slot has come and its sequence number has not")

    def _fits(self) -> bool:
        """Whether a slot's checksum is that of the sequence number that is wanted."""
        length = self.memory.footer(self._slot)[0]
        return length <= self._capacity and self._sum() == (self.memory.footer(self._slot)[4])

    def _sum(self) -> int:
        length, kind, flags, channel, _, _ = self.memory.footer(self._slot)
        payload = crc32c(self.memory.payload(self._slot, length))
        return crc32c(checked_bytes(length, kind, flags, channel, self._wanted), payload)

    def _look(self) -> bool:
        """Whether the next slot has come; gives all credits if not, since the ring is empty."""
        found = self.memory.sequence(self._slot)
        if found == self._wanted:
            return True
        before = (self._wanted - self.slots) % self.modulus if self._has_lapped else 0
        if found != before:
            raise self._malformed(f"sequence number {found} instead of {self._wanted} or {before}")
        if self._given != self._processed:
            self._give()
        return False

    def _take(self) -> Message | None:
        """Take the slot that has come; None if its message goes on in the next one."""
        memory, slot, sequence = self.memory, self._slot, self._wanted
        length, number, flags, channel, crc, reserved = memory.footer(slot)
        kind = KINDS[number] if number < len(KINDS) else None
        if (
            kind is None
            or length > self._capacity
            or channel != memory.channel
            or flags > MORE
            or reserved
        ):
            raise self._malformed(
                f"a footer of length {length}, kind {number}, flags {flags}, channel {channel:#x}"
            )
        if memory.has_crc and crc != self._sum():
            raise self._malformed("its checksum does not fit its content")
        payload = memory.payload(slot, length)
        if not flags and self._cut is None:
            whole = payload
        else:
            whole = self._join(kind, payload, is_last=not flags)
        self._received = sequence
        self._wanted = (sequence + 1) % self.modulus
        self._slot = slot + 1
        if self._slot == self.slots:
            self._slot = 0
        # The ring begins at place 1 (at 0 if that is all there is), so 0 is its last place.
        if slot == 0:
            self._has_lapped = True
        if whole is not payload:
            self._finish(sequence)
        if whole is None:
            return None
        if kind is Kind.CLOSE:
            self.closed = True
        return Message(kind, whole, sequence)

    def _join(self, kind: Kind, payload: memoryview, *, is_last: bool) -> bytearray | None:
        """Add a slot to a message that is cut; the message if that is all of it."""
        if self._cut is None:
            self._cut = (kind, bytearray())
        first, content = self._cut
        if kind is not first:
            raise self._malformed(f"{kind.name} within a message of kind {first.name}")
        is_full = len(payload) == self._capacity
        if not (is_last or is_full) or len(content) + len(payload) > MOST_MESSAGE_BYTES:
            raise self._malformed("a part of a message that is not full, or one too many")
        content += payload
        if not is_last:
            return None
        self._cut = None
        return content

    def _is_open(self, sequence: int) -> bool:
        """Whether a slot was taken and is not processed."""
        behind = (self._received - sequence) % self.modulus
        return behind < (self._received - self._processed) % self.modulus

    def _finish(self, sequence: int) -> None:
        """Count a slot as processed, and give credits if there are enough."""
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
        if (self._processed - self._given) % self.modulus >= self._share:
            self._give()

    def _give(self) -> None:
        self.memory.give(self._processed)
        self._given = self._processed
        if self._ring is not None:
            self._ring()

    def _malformed(self, what: str) -> MalformedError:
        return MalformedError(
            f"channel {self.memory.channel:#x}, slot {self._slot}: {what}; the ring is damaged: "
            "restart both processes"
        )
