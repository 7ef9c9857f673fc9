"""Channels in simulated memory: writes arrive late, and in any order that is not excluded.

A write waits in a buffer until it arrives on the other side. Two rules order arrivals, those of
release stores: a sequence number, or a count of credits, arrives after all that was written before
it; and of two writes to the same bytes, the later one arrives later. Nothing else is ordered: a
payload may overtake the sequence number of the slot before. A side that dies loses what has not
arrived.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from penstock.errors import UsageError
from penstock.host.channel.consumer import Consumer
from penstock.host.channel.message import FOOTER_BYTES, MORE, Footer
from penstock.host.channel.producer import Producer


@dataclass(frozen=True)
class Write:
    """A write that has not arrived.

    Parameters
    ----------
    part : str
        What it changes: ``payload``, ``footer``, ``sequence`` or ``credit``.
    slot, at : int
        Where.
    value : bytes, tuple or int
        What the place holds afterwards.
    """

    part: str
    slot: int
    at: int
    value: bytes | Footer | int

    @property
    def is_release(self) -> bool:
        """Whether all that was written before must arrive before."""
        return self.part in ("sequence", "credit")

    def overlaps(self, other: Write) -> bool:
        """Whether two writes change the same bytes."""
        if (self.part, self.slot) != (other.part, other.slot):
            return False
        if isinstance(self.value, bytes) and isinstance(other.value, bytes):
            return self.at < other.at + len(other.value) and other.at < self.at + len(self.value)
        return True


class SimChannel:
    """The memory of both sides of a channel, and what is on its way between them.

    It is a producer's memory and a consumer's.

    Parameters
    ----------
    slots, slot_bytes : int
        c and m; m with the footer's 32 bytes.
    channel : int
    has_crc : bool
    grain_bytes : int
        A payload is written in parts of so many bytes, each of which arrives by itself.
    """

    def __init__(
        self,
        slots: int = 8,
        slot_bytes: int = 1 << 16,
        *,
        channel: int = 1,
        has_crc: bool = False,
        grain_bytes: int = 64,
    ) -> None:
        if slots < 1 or slot_bytes <= FOOTER_BYTES or grain_bytes < 1:
            raise UsageError(f"no channel of {slots} slots of {slot_bytes} bytes")
        self.slots, self.slot_bytes = slots, slot_bytes
        self.channel, self.has_crc = channel, has_crc
        self.grain_bytes = grain_bytes
        #: What the consumer sees.
        self.payloads = [bytearray(slot_bytes - FOOTER_BYTES) for _ in range(slots)]
        self.footers: list[Footer] = [(0, 0, 0, 0, 0, 0)] * slots
        self.sequences = [0] * slots
        #: What the producer sees.
        self.credit = 0
        #: Writes of the producer and of the consumer that have not arrived, the oldest first.
        self.forward: list[Write] = []
        self.backward: list[Write] = []

    def write(self, slot: int, at: int, part: bytes | bytearray | memoryview) -> None:
        """Copy bytes into a slot, grain by grain."""
        content = bytes(part)
        for start in range(0, len(content), self.grain_bytes):
            grain = content[start : start + self.grain_bytes]
            self.forward.append(Write("payload", slot, at + start, grain))

    def publish(
        self, slot: int, length: int, kind: int, flags: int, crc: int, sequence: int
    ) -> None:
        """Write the footer and the sequence number."""
        footer = (length, int(kind), flags, self.channel, crc, 0)
        self.forward.append(Write("footer", slot, 0, footer))
        self.forward.append(Write("sequence", slot, 0, sequence))

    def fill(
        self, slot: int, sent: int, part: memoryview, count: int, kind: int, *, is_last: bool
    ) -> int:
        """Write and publish slots one after another, as far as credits have come."""
        size = self.slot_bytes - FOOTER_BYTES
        for number in range(count):
            if not 0 <= sent + number - self.processed() < self.slots:
                return number
            flags = 0 if is_last and number == count - 1 else MORE
            place = (slot + number) % self.slots
            self.write(place, 0, part[number * size : (number + 1) * size])
            self.publish(place, size, kind, flags, 0, sent + number + 1)
        return count

    def processed(self) -> int:
        """The count of credits that has arrived."""
        return self.credit

    def sequence(self, slot: int) -> int:
        """The sequence number that has arrived."""
        return self.sequences[slot]

    def footer(self, slot: int) -> Footer:
        """The footer that has arrived."""
        return self.footers[slot]

    def payload(self, slot: int, length: int) -> memoryview:
        """The payload that has arrived."""
        return memoryview(self.payloads[slot])[:length].toreadonly()

    def join(
        self,
        slot: int,
        received: int,
        target: np.ndarray,
        at: int,
        count: int,
        kind: int,
    ) -> int:
        """Copy the payloads of slots that have come, and give their credits."""
        size = self.slot_bytes - FOOTER_BYTES
        for number in range(count):
            place, sequence = (slot + number) % self.slots, received + number + 1
            footer = (size, kind, MORE, self.channel, 0, 0)
            if self.sequence(place) != sequence or self.footer(place) != footer:
                return number
            start = at + number * size
            target[start : start + size] = np.frombuffer(self.payload(place, size), np.uint8)
            self.give(sequence)
        return count

    def give(self, processed: int) -> None:
        """Write the count of credits."""
        self.backward.append(Write("credit", 0, 0, processed))

    @staticmethod
    def ready(writes: list[Write]) -> list[int]:
        """Places in a buffer of those writes that may arrive next."""
        return [
            place
            for place, write in enumerate(writes)
            if not (write.is_release and place)
            and not any(write.overlaps(earlier) for earlier in writes[:place])
        ]

    def arrive(self, writes: list[Write], place: int) -> None:
        """Let a write of :attr:`forward` or :attr:`backward` arrive."""
        write = writes.pop(place)
        if isinstance(write.value, bytes):
            self.payloads[write.slot][write.at : write.at + len(write.value)] = write.value
        elif isinstance(write.value, tuple):
            self.footers[write.slot] = write.value
        elif write.part == "sequence":
            self.sequences[write.slot] = write.value
        else:
            self.credit = write.value


class Delays:
    """Lets writes of channels arrive by chance.

    Parameters
    ----------
    seed : int
    channels : SimChannel
        All that one clock moves.
    """

    def __init__(self, seed: int, *channels: SimChannel) -> None:
        self._draw = random.Random(seed)
        self._channels = channels
        self._ended: str | None = None

    def kill(self, name: str, *writes: list[Write]) -> None:
        """End a side: what it has written and has not arrived is lost.

        Parameters
        ----------
        name : str
            What errors call it.
        writes : lists of Write
            Those of its channels that it writes to.
        """
        self._ended = name
        for lost in writes:
            lost.clear()

    def step(self) -> bool:
        """Let one write arrive, by chance which; False if none is on its way."""
        waiting = [
            (channel, writes)
            for channel in self._channels
            for writes in (channel.forward, channel.backward)
            if writes
        ]
        if not waiting:
            return False
        channel, writes = self._draw.choice(waiting)
        channel.arrive(writes, self._draw.choice(channel.ready(writes)))
        return True

    def pass_time(self) -> None:
        """Let a few writes arrive, or none."""
        while self._draw.random() < 0.75 and self.step():
            pass

    def wait(self, ready: Callable[[], bool], most_steps: int = 1_000_000) -> bool:
        """Let writes arrive until something is ready; whether it is."""
        for _ in range(most_steps):
            if ready():
                return True
            if not self.step():
                return ready()
        return False


def create(
    slots: int = 8,
    slot_bytes: int = 1 << 16,
    *,
    crc: bool = False,
    channel: int = 1,
    grain_bytes: int = 64,
) -> tuple[SimChannel, Producer, Consumer]:
    """Make a channel and its two ends.

    Parameters
    ----------
    slots, slot_bytes, channel, grain_bytes
        Those of :class:`SimChannel`.
    crc : bool
        Whether each slot has a checksum.
    """
    memory = SimChannel(slots, slot_bytes, channel=channel, has_crc=crc, grain_bytes=grain_bytes)
    return memory, Producer(memory), Consumer(memory)
