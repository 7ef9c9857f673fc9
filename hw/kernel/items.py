"""Items of one kind that a task reads: words out of memory, and the items out of them."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from .axi import ReadPort, read_port
from .reader import Reader
from .sizes import PortSizes
from .slots import Slots, Unpacker

#: Where items lie, and how many.
ITEMS = data.StructLayout({"address": 64, "count": 32})


class ItemReader(wiring.Component):
    """Reads the items of a task, one per cycle as long as memory keeps up. The output may stall.

    Parameters
    ----------
    sizes : PortSizes
    slots : Slots
        How items lie in words.
    shape : ShapeCastable
        What an item is.
    ident : int
        ID of its bursts.

    Members
    -------
    i_job, i_start : In
        What to read; high for one cycle, after a reset or when all was read.
    i_cancel, o_port, o_idle, o_error : In, Out
        See :class:`penstock.hw.kernel.reader.Reader`.
    o : Out(stream)
        Items.
    """

    i_job: data.View
    i_start: Signal
    i_cancel: Signal
    o: stream.Interface
    o_port: ReadPort
    o_idle: Signal
    o_error: Signal

    def __init__(self, sizes: PortSizes, slots: Slots, shape: Any, ident: int = 0) -> None:
        self.slots = slots
        self.reader = Reader(sizes, ident)
        self.items = Unpacker(slots, shape)
        super().__init__(
            {
                "i_job": In(ITEMS),
                "i_start": In(1),
                "i_cancel": In(1),
                "o": Out(stream.Signature(shape)),
                "o_port": Out(read_port(sizes.word_bits)),
                "o_idle": Out(1),
                "o_error": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.reader = reader = self.reader
        m.submodules.items = items = self.items
        connect(m, reader.o_port, flipped(self.o_port))
        connect(m, reader.o, items.i)
        connect(m, items.o, flipped(self.o))
        m.d.comb += [
            reader.i_cancel.eq(self.i_cancel),
            self.o_idle.eq(reader.o_idle),
            self.o_error.eq(reader.o_error),
        ]
        job, fetch, run = self.i_job, reader.i_fetch, items.i_run
        for port in (fetch, run):
            with m.If(self.i_start):
                m.d.sync += port.valid.eq(1)
            with m.Elif(port.ready):
                m.d.sync += port.valid.eq(0)
        with m.If(self.i_start):
            m.d.sync += [
                fetch.payload.address.eq(job.address),
                fetch.payload.words.eq(self.slots.words_of(job.count)),
                run.payload.count.eq(job.count),
            ]
        return m
