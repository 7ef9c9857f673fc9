"""Layout of the memory of the memory-fed window kernel.

Everything is made of 512-bit words, little-endian, at addresses that are multiples of 64; slots are
those of :class:`penstock.hw.kernel.layout.Slots`.

=========  =======================================================================================
tuples     of both sides in order of arrival: in band form D codes, D low bounds and D high bounds,
           else the key; the time, in builds with timestamps; the side, 1 bit (0 is A)
results    one header word (:data:`HEADER`), then words of eight results: the number of the tuple of
           A and that of B, 32 bits each. The last word is filled up with zeros
=========  =======================================================================================

A tuple's number is its place in the task, from 0. The larger number of a result is the later tuple.
"""

from __future__ import annotations

from enum import IntEnum

from amaranth.lib import data

from ...kernel.layout import Slots
from ...kernel.layout import Status as JoinStatus
from ..config import WindowConfig
from ..layout import Side, tuple_layout
from .config import NUMBER_BITS


class Status(IntEnum):
    """How a task ended; codes of what both kernels have are the same."""

    #: Complete.
    OK = JoinStatus.OK
    #: Out of room for results. All results of the first ``tuples`` tuples are there, no others.
    PAUSED = JoinStatus.PAUSED
    #: An address is not a multiple of 64. A misaligned results address leaves no header.
    MISALIGNED = JoinStatus.MISALIGNED
    #: No tuples.
    EMPTY = JoinStatus.EMPTY
    #: Less room for results than the kernel needs for progress.
    NO_ROOM = JoinStatus.NO_ROOM
    #: Memory answered a read with an error.
    READ_ERROR = JoinStatus.READ_ERROR
    #: Memory answered a write with an error.
    WRITE_ERROR = JoinStatus.WRITE_ERROR
    #: More tuples of history than tuples.
    BAD_HISTORY = 16
    #: A window larger than the depth of the build.
    BAD_ROWS = 17


#: Counters, and the width of what each adds per cycle.
STEPS = {
    "cycles": 1,
    "results": 1,
    "words": 1,
    "output_waits": 1,
    "memory_waits": 1,
}

#: Header word: fields and their widths, from bit 0 on.
HEADER = {
    "status": 32,
    "words": 32,
    "tuples": 32,
    "reserved": 32,
    "results": 64,
    "cycles": 64,
    "output_waits": 64,
    "memory_waits": 64,
}

#: A result in memory.
RESULT = data.StructLayout({"a": NUMBER_BITS, "b": NUMBER_BITS})

RESULT_SLOTS = Slots(RESULT.size)


def header_layout() -> data.StructLayout:
    """The header as hardware sees it."""
    return data.StructLayout(dict(HEADER))


def item_layout(config: WindowConfig) -> data.StructLayout:
    """A tuple in memory: what enters the operator, with its side in the place of its payload."""
    fields = {str(name): field.shape for name, field in tuple_layout(config, Side.A)}
    del fields["payload"]
    return data.StructLayout({**fields, "side": Side})


def item_slots(config: WindowConfig) -> Slots:
    return Slots(item_layout(config).size)
