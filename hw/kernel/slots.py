"""Items in memory words: how they lie, and how they get out and in.

Items of one kind follow each other in slots: as many as fit in a word if slots are narrower than
that, else each in as many words as it takes. A slot's width is a power of two or a multiple of a
word, so that an address is a shift and never a division.
"""

from __future__ import annotations

from dataclasses import dataclass

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out


@dataclass(frozen=True)
class Slots:
    """How items of some width lie in memory words.

    Parameters
    ----------
    item_bits : int
        Width of an item.
    word_bits : int
        Width of a word.
    """

    item_bits: int
    word_bits: int

    @property
    def bits(self) -> int:
        """Width of a slot; at least a byte."""
        if self.item_bits > self.word_bits:
            return self.words * self.word_bits
        return max(8, 1 << (self.item_bits - 1).bit_length())

    @property
    def words(self) -> int:
        """Words that an item takes, 1 where it shares one."""
        return -(-self.item_bits // self.word_bits)

    @property
    def per_word_log2(self) -> int:
        """Logarithm of the items in a word."""
        return (max(self.word_bits // self.bits, 1) - 1).bit_length()

    def words_of(self, count: Value) -> Value:
        """Words that so many items take from a word's start."""
        if self.words > 1:
            return count * self.words
        return (count + (1 << self.per_word_log2) - 1) >> self.per_word_log2


def run_layout(slots: Slots) -> data.StructLayout:
    """So many items, the first of them in this slot of the next word."""
    return data.StructLayout({"first": slots.per_word_log2, "count": 32})


class Unpacker(wiring.Component):
    """Takes items out of words, one cycle after its word came, one item per cycle.

    An item of several words takes a cycle for each of them. Between two runs one cycle passes
    without an item; the rest of the last word of a run is dropped. A stalled output stalls the
    words.

    Parameters
    ----------
    slots : Slots
        How items lie in words.
    shape : ShapeCastable
        What an item is.

    Members
    -------
    i_run : In(stream)
        What to take out.
    i : In(stream)
        Words.
    o : Out(stream)
        Items.
    o_idle : Out(1)
        All items of the runs so far were taken.
    """

    i_run: stream.Interface
    i: stream.Interface
    o: stream.Interface
    o_idle: Signal

    def __init__(self, slots: Slots, shape: data.StructLayout | int) -> None:
        self.slots = slots
        super().__init__(
            {
                "i_run": In(stream.Signature(run_layout(slots))),
                "i": In(stream.Signature(slots.word_bits)),
                "o": Out(stream.Signature(shape)),
                "o_idle": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        slots = self.slots
        left = Signal(32)
        # What is asked of it, known a cycle before.
        some = Signal()
        one = Signal()
        m.d.comb += [
            self.i_run.ready.eq(~some),
            self.o_idle.eq(~some & ~self.o.valid),
        ]

        def begin() -> None:
            count = self.i_run.payload.count
            m.d.sync += [left.eq(count), some.eq(count != 0), one.eq(count == 1)]

        def take() -> None:
            m.d.sync += [left.eq(left - 1), some.eq(~one), one.eq(left == 2)]

        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        free = ~self.o.valid | self.o.ready
        target = Value.cast(self.o.payload)

        if slots.words == 1:
            index = Signal(slots.per_word_log2)
            is_last = Signal()
            last = (1 << slots.per_word_log2) - 1
            item = Signal(slots.item_bits)
            # A choice of slots, not a shift: a linter takes the bits that a shift drops for a slip.
            with m.Switch(index):
                for slot in range(1 << slots.per_word_log2):
                    with m.Case(slot):
                        low = slot * slots.bits
                        m.d.comb += item.eq(self.i.payload[low : low + slots.item_bits])
            with m.If(self.i_run.valid & self.i_run.ready):
                begin()
                first = self.i_run.payload.first
                m.d.sync += [index.eq(first), is_last.eq(first == last)]
            with m.Elif(some & self.i.valid & free):
                take()
                m.d.sync += [target.eq(item), self.o.valid.eq(1)]
                m.d.sync += [index.eq(index + 1), is_last.eq((index + 1)[: len(index)] == last)]
                m.d.comb += self.i.ready.eq(is_last | one)
        else:
            part = Signal(range(slots.words))
            words = Signal(slots.words * slots.word_bits, reset_less=True)
            m.d.comb += target.eq(words)
            with m.If(self.i_run.valid & self.i_run.ready):
                begin()
            with m.Elif(some & self.i.valid & free):
                m.d.comb += self.i.ready.eq(1)
                m.d.sync += [
                    words.eq(Cat(words, self.i.payload)[slots.word_bits :]),
                    part.eq(part + 1),
                ]
                with m.If(part == slots.words - 1):
                    take()
                    m.d.sync += [part.eq(0), self.o.valid.eq(1)]
        return m


class Packer(wiring.Component):
    """Puts items into words, the first lowest. One item per cycle.

    A word leaves when it is full, or when ``i_flush`` is high: then its other slots are 0. An item
    of several words leaves in as many. A stalled output stalls the items.

    Parameters
    ----------
    slots : Slots
        How items lie in words.
    shape : ShapeCastable
        What an item is.

    Members
    -------
    i : In(stream)
        Items.
    i_flush : In(1)
        No more items will come for the word that is being filled.
    o : Out(stream)
        Words.
    o_empty : Out(1)
        All items so far left.
    """

    i: stream.Interface
    i_flush: Signal
    o: stream.Interface
    o_empty: Signal

    def __init__(self, slots: Slots, shape: data.StructLayout | int) -> None:
        self.slots = slots
        super().__init__(
            {
                "i": In(stream.Signature(shape)),
                "i_flush": In(1),
                "o": Out(stream.Signature(slots.word_bits)),
                "o_empty": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        if self.slots.words == 1:
            self._fill(m)
        else:
            self._split(m)
        return m

    def _fill(self, m: Module) -> None:
        """Several items, or one, in a word."""
        bits, most = self.slots.bits, self.slots.word_bits // self.slots.bits
        filled = Signal(range(most + 1))
        word = Signal(self.slots.word_bits, reset_less=True)
        left = Signal.like(filled)  # slots that stay filled in this cycle
        leaves = self.o.valid & self.o.ready
        m.d.comb += [
            self.o.valid.eq(filled == most),
            self.o.payload.eq(word),
            left.eq(Mux(leaves, 0, filled)),
            self.i.ready.eq(left != most),
            self.o_empty.eq(filled == 0),
        ]
        item = Signal(bits)
        pads = self.i_flush & (left != 0) & (left != most)
        m.d.sync += filled.eq(left)
        with m.If(self.i.ready & (self.i.valid | pads)):
            m.d.comb += item.eq(Mux(self.i.valid, self.i.payload, 0))
            m.d.sync += [word.eq(Cat(word, item)[bits:]), filled.eq(left + 1)]

    def _split(self, m: Module) -> None:
        """Several words for an item."""
        words, bits = self.slots.words, self.slots.word_bits
        item = Signal(words * bits, reset_less=True)
        left = Signal(range(words + 1))  # words of it that are still here
        m.d.comb += [
            self.o.valid.eq(left != 0),
            self.o.payload.eq(item[:bits]),
            self.i.ready.eq(left == 0),
            self.o_empty.eq(left == 0),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [item.eq(self.i.payload), left.eq(words)]
        with m.Elif(self.o.valid & self.o.ready):
            m.d.sync += [item.eq(item[bits:]), left.eq(left - 1)]
