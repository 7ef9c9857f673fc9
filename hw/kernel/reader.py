"""The read master: a range of memory words becomes bursts, and a stream of words."""

from __future__ import annotations

from collections.abc import Iterator

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from .axi import ReadPort, read_port
from .sizes import PortSizes

#: Words of memory to fetch, from an address that is a multiple of theirs.
FETCH = data.StructLayout({"address": 64, "words": 33})


def bursts(address: int, words: int, sizes: PortSizes) -> Iterator[tuple[int, int]]:
    """Reference: the bursts of a range as (address, words), none across a multiple of a burst."""
    while words:
        length = min(words, sizes.burst_words - address // sizes.word_bytes % sizes.burst_words)
        yield address, length
        address += length * sizes.word_bytes
        words -= length


class Reader(wiring.Component):
    """Read master.

    Asks for a burst only when its FIFO has room for all of it, so what memory returns is never
    kept waiting. One word per cycle; a burst takes three cycles to ask for, while others return.
    A burst ends at a multiple of ``sizes.burst_words``, so none crosses 4 KiB.

    Parameters
    ----------
    sizes : PortSizes
    ident : int
        ID of its bursts; words with another one are somebody else's.

    Members
    -------
    i_fetch : In(stream)
        Ranges, fetched one after another.
    o : Out(stream)
        Their words. May stall.
    o_port : Out
        To memory.
    i_cancel : In(1)
        Take no more ranges, and leave the one in progress where it is.
    o_idle : Out(1)
        No range is in progress and no word is on its way.
    o_error : Out(1)
        Memory answered with an error since the last reset.
    """

    i_fetch: stream.Interface
    o: stream.Interface
    o_port: ReadPort
    i_cancel: Signal
    o_idle: Signal
    o_error: Signal

    def __init__(self, sizes: PortSizes, ident: int = 0) -> None:
        self.sizes = sizes
        self.ident = ident
        super().__init__(
            {
                "i_fetch": In(stream.Signature(FETCH)),
                "o": Out(stream.Signature(sizes.word_bits)),
                "o_port": Out(read_port(sizes.word_bits)),
                "i_cancel": In(1),
                "o_idle": Out(1),
                "o_error": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sizes = self.sizes
        depth, log2 = sizes.read_words, sizes.word_log2
        m.submodules.fifo = fifo = SyncFIFOBuffered(width=sizes.word_bits, depth=depth)
        word = self.o_port.word
        ours = Signal()
        m.d.comb += [
            ours.eq(word.valid & (word.payload.id == self.ident)),
            word.ready.eq(1),
            fifo.w_data.eq(word.payload.data),
            fifo.w_en.eq(ours),
            self.o.payload.eq(fifo.r_data),
            self.o.valid.eq(fifo.r_rdy),
            fifo.r_en.eq(self.o.ready),
        ]
        with m.If(ours & word.payload.error):
            m.d.sync += self.o_error.eq(1)

        page = Signal(64 - log2, reset_less=True)  # address in words
        left = Signal(33)
        length = Signal(range(sizes.burst_words + 1))
        less = Signal(range(sizes.burst_words))
        burst = self.o_port.burst
        # Words asked for and not taken from the FIFO; those not yet returned.
        claimed, awaited = Signal(range(depth + 1)), Signal(range(depth + 1))
        asked = Signal(range(sizes.burst_words + 1))
        taken = self.o.valid & self.o.ready
        m.d.sync += [
            # Counted a cycle later, and a cycle before it is looked at.
            asked.eq(Mux(burst.valid & burst.ready, length, 0)),
            claimed.eq(claimed + asked - taken),
            awaited.eq(awaited + asked - ours),
        ]
        m.d.comb += [
            burst.payload.address.eq(page << log2),
            less.eq(length - 1),
            burst.payload.length.eq(less),
            burst.payload.id.eq(self.ident),
        ]
        until = Signal(range(sizes.burst_words + 1))  # words to the next boundary
        m.d.comb += until.eq(sizes.burst_words - page[: sizes.burst_words.bit_length() - 1])

        with m.FSM() as machine:
            with m.State("IDLE"):
                m.d.comb += self.i_fetch.ready.eq(~self.i_cancel)
                m.d.sync += [
                    page.eq(self.i_fetch.payload.address[log2:]),
                    left.eq(self.i_fetch.payload.words),
                ]
                with m.If(self.i_fetch.valid & ~self.i_cancel):
                    m.next = "CUT"
            with m.State("CUT"):
                m.d.sync += length.eq(Mux(left < until, left, until))
                with m.If(self.i_cancel | (left == 0)):
                    m.next = "IDLE"
                with m.Else():
                    m.next = "ROOM"
            with m.State("ROOM"):
                with m.If(self.i_cancel):
                    m.next = "IDLE"
                with m.Elif(claimed + length <= depth):
                    m.next = "ASK"
            with m.State("ASK"):
                m.d.comb += burst.valid.eq(1)
                with m.If(burst.ready):
                    m.d.sync += [page.eq(page + length), left.eq(left - length)]
                    m.next = "CUT"
        begins = self.i_fetch.valid & self.i_fetch.ready
        m.d.sync += self.o_idle.eq(machine.ongoing("IDLE") & (awaited == 0) & ~begins)
        return m
