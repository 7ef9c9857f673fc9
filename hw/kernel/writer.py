"""The write master: a stream of words becomes full bursts at ascending addresses."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFO, SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from .axi import WritePort, write_port
from .sizes import PortSizes

#: Bursts that may wait for their words, and bursts whose answer may be outstanding.
BURSTS_AHEAD = 8
BURSTS_OUT = 64


class Writer(wiring.Component):
    """Write master.

    A burst is asked for when all its words are there, so it never keeps memory waiting. Bursts
    end at multiples of ``sizes.burst_words``; shorter ones are written on ``i_flush``. One word
    per cycle, with the next burst asked for while one is written.

    Parameters
    ----------
    sizes : PortSizes

    Members
    -------
    i : In(stream)
        Words.
    i_start, i_address : In
        The next word goes to this address, a multiple of a word. Only while idle.
    i_flush : In(1)
        Write what is there, without waiting for full bursts.
    o_port : Out
        To memory.
    o_idle : Out(1)
        All words were written and answered.
    o_error : Out(1)
        Memory answered with an error since the last start.
    """

    i: stream.Interface
    i_start: Signal
    i_address: Signal
    i_flush: Signal
    o_port: WritePort
    o_idle: Signal
    o_error: Signal

    def __init__(self, sizes: PortSizes) -> None:
        self.sizes = sizes
        super().__init__(
            {
                "i": In(stream.Signature(sizes.word_bits)),
                "i_start": In(1),
                "i_address": In(64),
                "i_flush": In(1),
                "o_port": Out(write_port(sizes.word_bits)),
                "o_idle": Out(1),
                "o_error": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sizes = self.sizes
        depth, log2 = sizes.write_words, sizes.word_log2
        m.submodules.fifo = fifo = SyncFIFOBuffered(width=sizes.word_bits, depth=depth)
        m.submodules.lengths = lengths = SyncFIFO(width=8, depth=BURSTS_AHEAD)
        m.d.comb += [
            fifo.w_data.eq(self.i.payload),
            fifo.w_en.eq(self.i.valid),
            self.i.ready.eq(fifo.w_rdy),
        ]

        burst, word, answer = self.o_port.burst, self.o_port.word, self.o_port.done
        page = Signal(64 - log2)  # address in words
        fresh = Signal(range(depth + 1))  # words of no burst
        out = Signal(range(BURSTS_OUT + 1))  # bursts without an answer
        length = Signal(range(sizes.burst_words + 1))
        less = Signal(range(sizes.burst_words))
        until, asked = Signal.like(length), Signal.like(length)
        asks = burst.valid & burst.ready
        ends = answer.valid & answer.ready
        m.d.comb += [
            until.eq(sizes.burst_words - page[: sizes.burst_words.bit_length() - 1]),
            asked.eq(Mux(asks, length, 0)),
            burst.payload.address.eq(page << log2),
            less.eq(length - 1),
            burst.payload.length.eq(less),
            answer.ready.eq(1),
        ]
        m.d.sync += [
            fresh.eq(fresh + (self.i.valid & self.i.ready) - asked),
            out.eq(out + asks - ends),
        ]
        with m.If(ends & answer.payload.error):
            m.d.sync += self.o_error.eq(1)

        with m.FSM() as machine:
            with m.State("GATHER"):
                m.d.sync += length.eq(Mux(fresh < until, fresh, until))
                enough = (fresh >= until) | (self.i_flush & (fresh != 0))
                with m.If(self.i_start):
                    m.d.sync += [
                        page.eq(self.i_address[log2:]),
                        self.o_error.eq(0),
                    ]
                with m.Elif(enough & lengths.w_rdy & (out != BURSTS_OUT)):
                    m.next = "ASK"
            with m.State("ASK"):
                m.d.comb += burst.valid.eq(1)
                with m.If(burst.ready):
                    m.d.comb += [lengths.w_en.eq(1), lengths.w_data.eq(less)]
                    m.d.sync += page.eq(page + length)
                    m.next = "GATHER"

        # The burst that is written: words behind the next one, and whether there are none.
        writes = Signal()
        number = Signal(8)
        last = Signal()
        # Words of the burst that is written next, less one, if there is one.
        queued = Signal()
        behind = Signal(8)
        moves = word.valid & word.ready
        begins = ~writes | (moves & last)
        m.d.comb += [
            word.payload.data.eq(fifo.r_data),
            word.payload.last.eq(last),
            word.valid.eq(writes & fifo.r_rdy),
            fifo.r_en.eq(moves),
            lengths.r_en.eq(~queued),
        ]
        with m.If(~queued):
            m.d.sync += [queued.eq(lengths.r_rdy), behind.eq(lengths.r_data)]
        with m.If(begins):
            m.d.sync += [writes.eq(queued), number.eq(behind), last.eq(behind == 0)]
            with m.If(queued):
                m.d.sync += queued.eq(0)
        with m.Elif(moves):
            m.d.sync += [number.eq(number - 1), last.eq(number == 1)]
        comes = self.i.valid & self.i.ready
        done = machine.ongoing("GATHER") & (fresh == 0) & (out == 0)
        m.d.sync += self.o_idle.eq(done & ~comes)
        return m
