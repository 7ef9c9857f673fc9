"""Layout of the join kernel's memory.

Everything is made of words of the memory ports, little-endian, at addresses that are multiples of
64; items lie in slots (:class:`penstock.hw.kernel.slots.Slots`).

=========  =======================================================================================
passes     tuples, begin, end: 32 bits each, 128 bits a slot. With several pipelines a fourth
           field, share: the tuples divided by the pipelines, rounded down
tuples     start, end: 32 bits each; then the keys, the first lowest. Band form: all low bounds,
           then all high bounds
window     keys, the first lowest; then a band build's value, if it folds one
results    the header (:data:`HEADER`), 64 bytes; then words of records; in a task that folds
           matches what was folded for each stream tuple, in their order
=========  =======================================================================================

A record is 64 bits: the ordinal of the window tuple, the number of the block in its lane, and from
bit 32 on the mask. Record k of a word is from lane k of L, as many as fit in a word; block b is
number ``b // L`` of lane ``b % L``. A record whose mask is zero is none. Blocks of the first
pipeline come first. Where a task pauses with several pipelines, the header's position is an
ordinal: all matches below it are there, others do not count.
"""

from __future__ import annotations

from amaranth.lib import data

from ...kernel.slots import Slots
from ..config import JoinConfig
from ..flit import pass_layout
from .config import KernelConfig

#: Slot width of a pass.
PASS_BITS = 128


#: Header: fields and their widths, from bit 0 on.
HEADER = {
    "status": 32,
    "words": 32,
    "complete": 32,
    "loaded": 32,
    "position": 32,
    "passes": 32,
    "cycles": 64,
    "window_flits": 64,
    "admission_stalls": 64,
    "memory_waits": 64,
    "records": 64,
}

#: Counters, and the width of what each adds per cycle.
COUNTERS = {
    "cycles": 1,
    "window_flits": 1,
    "admission_stalls": 1,
    "memory_waits": 1,
    "records": 4,
    "passes": 1,
    "words": 1,
}


def pass_item_layout(config: KernelConfig) -> data.StructLayout:
    """A pass in memory."""
    share = {"share": 32} if config.pipelines > 1 else {}
    return data.StructLayout({"tuples": 32, "begin": 32, "end": 32, **share})


def task_pass_layout(config: KernelConfig) -> data.StructLayout:
    """A pass as it goes to the pipeline, or to the pipelines with the share of each."""
    layout = pass_layout(config.join)
    if config.pipelines == 1:
        return layout
    members = {name: field.shape for name, field in layout}
    return data.StructLayout({**members, "share": config.join.position_bits})


def tuple_item_layout(join: JoinConfig) -> data.StructLayout:
    """A stream tuple in memory."""
    return data.StructLayout({"start": 32, "end": 32, "keys": max(join.stream_bits, 1)})


def pass_slots(config: KernelConfig) -> Slots:
    return Slots(PASS_BITS, config.word_bits)


def window_slots(config: KernelConfig) -> Slots:
    return Slots(max(config.join.window_bits, 1), config.word_bits)


def tuple_slots(config: KernelConfig) -> Slots:
    return Slots(tuple_item_layout(config.join).size, config.word_bits)


def value_slots(config: KernelConfig) -> Slots:
    """What is folded for a stream tuple (``join.folding.layout``)."""
    folding = config.join.folding
    return Slots(folding.layout.size if folding else 1, config.word_bits)
