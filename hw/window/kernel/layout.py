"""Layout of the window kernel's memory.

Everything is made of words of the memory ports, little-endian, at addresses that are multiples of
64; items lie in slots (:class:`penstock.hw.kernel.slots.Slots`).

=========  =======================================================================================
tuples     of both sides in order of arrival: in band form D codes, D low bounds and D high bounds,
           else the key; the time, in builds with timestamps; the side, 1 bit (0 is A)
results    the header (:data:`HEADER`), 64 bytes; then words of results: the number of the tuple of
           A and that of B, 32 bits each. The last word is filled up with zeros
=========  =======================================================================================

A tuple's number is its place in the task, from 0. The larger number of a result is the later tuple.
"""

from __future__ import annotations

from amaranth.lib import data

from ...kernel.slots import Slots
from ..config import WindowConfig
from ..layout import Side, tuple_layout
from .config import NUMBER_BITS, WindowKernelConfig

#: Counters, and the width of what each adds per cycle.
COUNTERS = {
    "cycles": 1,
    "results": 1,
    "words": 1,
    "output_waits": 1,
    "memory_waits": 1,
}

#: Header: fields and their widths, from bit 0 on.
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


def item_layout(config: WindowConfig) -> data.StructLayout:
    """A tuple in memory: what enters the operator, with its side in the place of its payload."""
    fields = {str(name): field.shape for name, field in tuple_layout(config, Side.A)}
    del fields["payload"]
    return data.StructLayout({**fields, "side": Side})


def item_slots(config: WindowKernelConfig) -> Slots:
    return Slots(item_layout(config.window).size, config.word_bits)


def result_slots(config: WindowKernelConfig) -> Slots:
    return Slots(RESULT.size, config.word_bits)
