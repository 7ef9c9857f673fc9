"""Reads a task's tuples, and lets them into the operator one by one, in order."""

from __future__ import annotations

from amaranth.hdl import Module, ResetInserter, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ...kernel.axi import ReadPort, read_port
from ...kernel.reader import Reader
from ...kernel.skid import Skid
from ...kernel.slots import Unpacker
from ..layout import Side, tuple_layout
from .config import WindowKernelConfig
from .layout import item_layout, item_slots

#: What a task reads, as its arguments say.
JOB = data.StructLayout({"address": 64, "tuples": 32})


class TupleReader(wiring.Component):
    """Tuples out of memory, one per cycle as long as memory keeps up. The output may stall.

    Parameters
    ----------
    config : WindowKernelConfig
        The build.

    Members
    -------
    i_job, i_start : In
        A task; high for one cycle, when all is idle.
    i_cancel : In(1)
        Ask memory for no more.
    i_clear : In(1)
        Forget everything; after ``i_cancel``, when ``o_idle``.
    o : Out(stream)
        Tuples.
    o_port : Out
        To memory.
    o_idle : Out(1)
        No word is on its way.
    o_error : Out(1)
        Memory answered with an error since the last clear.
    """

    i_job: data.View
    i_start: Signal
    i_cancel: Signal
    i_clear: Signal
    o: stream.Interface
    o_port: ReadPort
    o_idle: Signal
    o_error: Signal

    def __init__(self, config: WindowKernelConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i_job": In(JOB),
                "i_start": In(1),
                "i_cancel": In(1),
                "i_clear": In(1),
                "o": Out(stream.Signature(item_layout(config.window))),
                "o_port": Out(read_port(config.word_bits)),
                "o_idle": Out(1),
                "o_error": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        slots = item_slots(self.config)
        reader = Reader(self.config)
        items = Unpacker(slots, item_layout(self.config.window))
        clear = ResetInserter(self.i_clear)
        m.submodules.reader = clear(reader)
        m.submodules.items = clear(items)
        connect(m, reader.o_port, flipped(self.o_port))
        connect(m, reader.o, items.i)
        # The operator takes tuples at the end of long paths, and the reader begins others.
        stage = Skid(item_layout(self.config.window))
        m.submodules.stage = clear(stage)
        connect(m, items.o, stage.i)
        connect(m, stage.o, flipped(self.o))
        m.d.comb += [
            reader.i_cancel.eq(self.i_cancel),
            self.o_idle.eq(reader.o_idle),
            self.o_error.eq(reader.o_error),
        ]
        for port, values in (
            (
                reader.i_fetch,
                {"address": self.i_job.address, "words": slots.words_of(self.i_job.tuples)},
            ),
            (items.i_run, {"first": 0, "count": self.i_job.tuples}),
        ):
            with m.If(self.i_start):
                m.d.sync += port.valid.eq(1)
                m.d.sync += [port.payload[name].eq(value) for name, value in values.items()]
            with m.Elif(port.ready | self.i_clear):
                m.d.sync += port.valid.eq(0)
        return m


class Dealer(wiring.Component):
    """Gives each tuple to the input of its side, numbered, one per cycle and in order.

    A tuple waits until ``i_open``. Once it may go it stays on offer until it is taken, so
    ``i_open`` must leave room for one more.

    Parameters
    ----------
    config : WindowKernelConfig
        The build.

    Members
    -------
    i : In(stream)
        Tuples of both sides in order of arrival.
    i_open : In(1)
        Tuples may go.
    i_clear : In(1)
        Count from 0.
    o_a, o_b : Out(stream)
        Tuples for the operator.
    o_taken : Out(1)
        A tuple goes in this cycle.
    o_number : Out(32)
        How many went.
    o_offers : Out(1)
        A tuple is on offer, or the next one to come will be.
    """

    i: stream.Interface
    i_open: Signal
    i_clear: Signal
    o_a: stream.Interface
    o_b: stream.Interface
    o_taken: Signal
    o_number: Signal
    o_offers: Signal

    def __init__(self, config: WindowKernelConfig) -> None:
        self.config = config
        a, b = (stream.Signature(tuple_layout(config.window, side)) for side in Side)
        super().__init__(
            {
                "i": In(stream.Signature(item_layout(config.window))),
                "i_open": In(1),
                "i_clear": In(1),
                "o_a": Out(a),
                "o_b": Out(b),
                "o_taken": Out(1),
                "o_number": Out(32),
                "o_offers": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        item = self.i.payload
        for side, o in ((Side.A, self.o_a), (Side.B, self.o_b)):
            is_own = item.side == side
            m.d.comb += o.valid.eq(self.i.valid & self.o_offers & is_own)
            with m.If(is_own & self.o_offers):
                m.d.comb += self.i.ready.eq(o.ready)
            for name, _ in tuple_layout(self.config.window, side):
                value = self.o_number if name == "payload" else item[name]
                m.d.comb += o.payload[name].eq(value)
        m.d.comb += self.o_taken.eq(self.i.valid & self.i.ready)
        with m.If(self.o_taken):
            m.d.sync += self.o_number.eq(self.o_number + 1)
        with m.If(self.o_taken | ~(self.o_offers & self.i.valid)):
            m.d.sync += self.o_offers.eq(self.i_open)
        with m.If(self.i_clear):
            m.d.sync += [self.o_number.eq(0), self.o_offers.eq(0)]
        return m
