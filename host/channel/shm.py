"""Channels in memory that two processes of one machine map.

The memory is one sealed memfd: a page with what the ring is like and the consumer's count of
credits, and then the slots. Its descriptor is passed to the processes, which map it. A memfd may
hold several rings, each from the beginning of a page: all rings that one process reads. So that
process needs one descriptor for them, not one for each process that sends to it.
"""

from __future__ import annotations

import mmap
import os
import secrets
from collections.abc import Callable

from penstock.errors import DeviceError, UsageError

from ..wire.sealed import can_seal, create_mapped, map_memory, memory_or_remedy, sealed_size
from .consumer import Consumer
from .producer import Producer
from .ring_memory import (
    ALIGNMENT,
    MOST_SLOT_BYTES,
    MOST_SLOTS,
    ShmMemory,
    ring_bytes,
    write_head,
)

#: Slots of a ring and bytes of each: enough for one to be filled while others are read, and
#: small enough for all to stay in a processor's cache (figures 10a, 10b of the paper).
SLOTS, SLOT_BYTES = 8, 1 << 16


class NewChannel:
    """A new channel, or several in one memory, before processes attach to their ends.

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
    rings: int = 1,
) -> NewChannel:
    """Make a channel, or several in one memory.

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
        None. Further rings have the numbers after it.
    rings : int
        Number of channels to make.

    Raises
    ------
    UsageError
        A size is out of range.
    DeviceError
        There is no memory for it, or the system is not Linux.
    """
    check_sizes(slots, slot_bytes)
    number = secrets.randbits(62) if channel is None else channel
    stride = _whole_pages(ring_bytes(slots, slot_bytes))
    size = stride * (rings - 1) + ring_bytes(slots, slot_bytes)
    if not can_seal():
        raise DeviceError("channels in shared memory need Linux: run with one worker")
    label = f"shared memory of {size:,} bytes for a channel"
    file, memory = create_mapped(f"penstock-channel-{number:x}", size, label)
    for at in range(rings):
        ring = memory[at * stride :][: ring_bytes(slots, slot_bytes)]
        write_head(ring, slots, slot_bytes, has_crc=crc, channel=number + at)
    return NewChannel(file)


def _whole_pages(size: int) -> int:
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE


def check_sizes(slots: int, slot_bytes: int) -> None:
    """Refuse impossible numbers and sizes of slots.

    Raises
    ------
    UsageError
    """
    if not 1 <= slots <= MOST_SLOTS:
        raise UsageError(f"a ring has 1 to {MOST_SLOTS} slots, not {slots!r}")
    if slot_bytes % ALIGNMENT or not ALIGNMENT <= slot_bytes <= MOST_SLOT_BYTES:
        raise UsageError(
            f"a slot has a multiple of {ALIGNMENT} bytes up to {MOST_SLOT_BYTES}, not {slot_bytes}"
        )


def attach_producer(
    file: int,
    ring: Callable[[], None] | None = None,
    *,
    spins: bool = True,
    place: tuple[int, int] = (0, 1),
) -> Producer:
    """Attach to a channel that another process has made, as its producer.

    Parameters
    ----------
    file : int
        Its descriptor, which may be closed afterwards.
    ring : callable, optional
        Wakes the consumer's process: :meth:`.Ringer.ring`.
    spins : bool
        Whether compiled loops look for credits again and again before they return.
    place : (int, int)
        Index of its ring, and how many rings the memory has.

    Raises
    ------
    MalformedError
        The memory is no channel of this version.
    DeviceError
        The memory cannot be mapped.
    """
    return Producer(_attach(file, spins, *place), ring=ring)


def attach_consumer(
    file: int,
    ring: Callable[[], None] | None = None,
    *,
    spins: bool = True,
    place: tuple[int, int] = (0, 1),
) -> Consumer:
    """Attach as the consumer; parameters and errors as for :func:`attach_producer`.

    ``ring`` wakes the producer's process, which may wait for credits.
    """
    return Consumer(_attach(file, spins, *place), ring=ring)


def _attach(file: int, spins: bool, at: int, rings: int) -> ShmMemory:
    with memory_or_remedy("shared memory of a channel can be mapped"):
        whole = sealed_size(file)
        stride = _whole_pages(-(-whole // rings))
        size = whole - stride * (rings - 1)  # of a ring without the last page's rest
        return ShmMemory(map_memory(file, size, at * stride), spins=spins)
