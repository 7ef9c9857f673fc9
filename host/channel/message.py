"""Messages, and the slots that carry them: a payload, and a footer that marks it as complete."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, Protocol

import numpy as np

#: Bytes at the end of each slot: the footer of :data:`FOOTER`, and the sequence number last.
FOOTER_BYTES: Final = 32
#: Modulus of sequence numbers and counts of credits: words of 64 bits.
MODULUS: Final = 1 << 64
#: Bytes of one message over all its slots, at most. A consumer allocates what a producer sends.
MOST_MESSAGE_BYTES: Final = 1 << 30
#: Flag of a slot whose message goes on in the next one.
MORE: Final = 1


class MessageKind(IntEnum):
    """Kind of a message; 16 bits in the footer."""

    #: The producer's name and its protocol.
    HELLO = 1
    #: Rows of a feed, or of a result.
    ROWS = 2
    #: Changes of state, for the leader of their keys.
    DELTA = 3
    #: An epoch's end, with the promises that it carries.
    END = 4
    #: A cut: messages that follow belong to the next checkpoint.
    MARK = 5
    #: Anything else that two sides have agreed on.
    CONTROL = 6
    #: Nothing follows.
    CLOSE = 7


#: Kinds, number 1 first.
KINDS: Final = tuple(MessageKind)

#: A footer without its sequence number: payload length, kind, flags, channel, CRC, reserved (0).
Footer = tuple[int, int, int, int, int, int]


class Message:
    """A message that has arrived.

    Parameters
    ----------
    kind : MessageKind
    payload : memoryview
        Bytes. The slot itself, to be read only, which the producer fills again once the message is
        given to :meth:`.Consumer.done`; a copy if it was cut over slots. (A view that refuses
        writes would cost each call of compiled code a microsecond.)
    sequence : int
        Sequence number of its last slot.
    goes_on : bool
        Whether this is a part of a message, and not its last one.
    is_copy : bool
        Whether the payload is no slot, and stays.
    """

    __slots__ = ("goes_on", "is_copy", "kind", "payload", "sequence")

    def __init__(
        self,
        kind: MessageKind,
        payload: memoryview,
        sequence: int,
        goes_on: bool = False,
        is_copy: bool = False,
    ) -> None:
        self.kind = kind
        self.payload = payload
        self.sequence = sequence
        self.goes_on = goes_on
        self.is_copy = is_copy

    def __repr__(self) -> str:
        return f"Message({self.kind.name}, {len(self.payload)} bytes, sequence {self.sequence})"


class ProducerMemory(Protocol):
    """Memory as a producer sees it: slots to write, and a count of credits to read.

    A slot has ``slot_bytes`` bytes, the last :data:`FOOTER_BYTES` of them its footer. Whoever sees
    a sequence number that was published sees all that was written before it (release).
    """

    slots: int
    slot_bytes: int
    channel: int
    has_crc: bool

    def write(self, slot: int, at: int, part: bytes | bytearray | memoryview) -> None:
        """Copy bytes into a slot, from byte ``at`` on."""
        ...

    def publish(
        self, slot: int, length: int, kind: int, flags: int, crc: int, sequence: int
    ) -> None:
        """Write the footer, and after all that was written before, the sequence number."""
        ...

    def fill(
        self, slot: int, sent: int, part: memoryview, count: int, kind: int, *, is_last: bool
    ) -> int:
        """Write and publish slots one after another while there are credits.

        It may wait for credits as long as a doorbell spins.

        Parameters
        ----------
        slot, sent : int
            The first one, and the sequence number before its own; the numbers do not wrap.
        part : memoryview
            ``count`` times as many bytes as a slot takes.
        count : int
        kind : int
        is_last : bool
            Whether the message ends with them; otherwise it goes on.

        Returns
        -------
        int
            Slots filled; where it stopped there was no credit, or an impossible count.
        """
        ...

    def processed(self) -> int:
        """The newest count of processed slots from the consumer (acquire)."""
        ...


class ConsumerMemory(Protocol):
    """Memory as a consumer sees it: slots to read, and a count of credits to write."""

    slots: int
    slot_bytes: int
    channel: int
    has_crc: bool

    def sequence(self, slot: int) -> int:
        """Sequence number of a slot; all that was written before it can be read (acquire)."""
        ...

    def footer(self, slot: int) -> Footer:
        """The rest of the slot's footer."""
        ...

    def payload(self, slot: int, length: int) -> memoryview:
        """A view of the first bytes of a slot, which must only be read."""
        ...

    def join(
        self,
        slot: int,
        received: int,
        target: np.ndarray,
        at: int,
        count: int,
        kind: int,
    ) -> int:
        """Copy the payloads of slots behind one another as they come, and give their credits.

        It may wait for them as long as a doorbell spins.

        Parameters
        ----------
        slot, received : int
            The first one, and the sequence number before its own, up to which all are processed;
            the numbers do not wrap.
        target : array of uint8
            Filled from byte ``at`` on; it has room for them.
        count : int
            Slots, at most.
        kind : int
            The message's kind: slots of others, and the message's last slot, are not copied.

        Returns
        -------
        int
            Slots copied.
        """
        ...

    def give(self, processed: int) -> None:
        """Tell the producer the count of processed slots, after all reads of slots (release)."""
        ...
