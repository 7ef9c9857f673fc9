"""Layout of the kernel's memory.

Everything is made of 512-bit words, little-endian, at addresses that are multiples of 64. Items
of one kind follow each other in slots: as many as fit in a word if slots are narrower than that,
else each in as many words as it takes. A slot's width is a power of two or a multiple of 512, so
that an address is a shift and never a division.

=========  =======================================================================================
passes     tuples, begin, end: 32 bits each, 128 bits a slot. With several pipelines a fourth
           field, share: the tuples divided by the pipelines, rounded down
tuples     start, end: 32 bits each; then the keys, the first lowest. Band form: all low bounds,
           then all high bounds
window     keys, the first lowest; then a band build's value, if it folds one
results    one header word (:class:`Header`), then words of eight records; in a task that folds
           matches what was folded for each stream tuple, in their order
=========  =======================================================================================

A record is 64 bits: the ordinal of the window tuple, the number of the block in its lane, and from
bit 32 on the mask. Record k of a word is from lane k; block b is number ``b // 8`` of lane
``b % 8``. A record whose mask is zero is none. Blocks of the first pipeline come first.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from amaranth.lib import data

from ..join.config import JoinConfig
from ..join.flit import pass_layout
from .config import WORD_BITS, KernelConfig

#: Slot width of a pass.
PASS_BITS = 128


class Status(IntEnum):
    """How a task ended."""

    #: Complete.
    OK = 0
    #: Out of room for results; complete, loaded and position say where to go on. With several
    #: pipelines position is an ordinal: all matches below it are there, others do not count.
    PAUSED = 1
    #: An address is not a multiple of 64. A misaligned results address leaves no header.
    MISALIGNED = 2
    #: No stream tuples, no passes, or an empty window.
    EMPTY = 3
    #: Less room for results than the kernel needs for progress, or for all aggregates.
    NO_ROOM = 4
    #: A pass is empty, beyond the window, or does not add up with the number of stream tuples or
    #: with its share.
    BAD_PASS = 5
    #: A stream tuple's range does not fit its pass, or comes too early for a free unit.
    BAD_RANGE = 6
    #: Memory answered a read with an error.
    READ_ERROR = 7
    #: Memory answered a write with an error.
    WRITE_ERROR = 8
    #: The build does not have the mode.
    BAD_MODE = 9


#: Header word: fields and their widths, from bit 0 on.
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


def header_layout() -> data.StructLayout:
    """The header as hardware sees it."""
    return data.StructLayout(dict(HEADER))


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


@dataclass(frozen=True)
class Slots:
    """How items of some width lie in memory words.

    Parameters
    ----------
    item_bits : int
        Width of an item.
    """

    item_bits: int

    @property
    def bits(self) -> int:
        """Width of a slot; at least a byte."""
        if self.item_bits > WORD_BITS:
            return self.words * WORD_BITS
        return max(8, 1 << (self.item_bits - 1).bit_length())

    @property
    def words(self) -> int:
        """Words that an item takes, 1 where it shares one."""
        return -(-self.item_bits // WORD_BITS)

    @property
    def per_word_log2(self) -> int:
        """Logarithm of the items in a word."""
        return 0 if self.bits >= WORD_BITS else (WORD_BITS // self.bits).bit_length() - 1


def window_slots(join: JoinConfig) -> Slots:
    return Slots(max(join.window_bits, 1))


def tuple_slots(join: JoinConfig) -> Slots:
    return Slots(tuple_item_layout(join).size)


def value_slots(join: JoinConfig) -> Slots:
    """What is folded for a stream tuple (``join.folding.layout``)."""
    return Slots(join.folding.layout.size if join.folding else 1)


PASS_SLOTS = Slots(PASS_BITS)
