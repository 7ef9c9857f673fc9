"""The output layer: groups of results become single results, and both sides share a port."""

from __future__ import annotations

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from .config import IN_FLIGHT, WindowConfig
from .layout import Side, record_layout, result_layout, word_layout


class Expander(wiring.Component):
    """Holds groups of results of one side and gives their results one by one.

    One result per cycle, the lowest bank of a group first; the first two cycles after its group
    was written.

    Parameters
    ----------
    config : WindowConfig
        The build.
    side : Side
        Whose tuples were matched.

    Members
    -------
    i, write : In
        A group, and whether to take it.
    o_stop : Out(1)
        There is no room for one more group than those that may be on their way: one for each of
        the ``IN_FLIGHT - 1`` cycles before.
    o : Out(stream)
        Results.
    """

    i: data.View
    write: Signal
    o_stop: Signal
    o: stream.Interface

    def __init__(self, config: WindowConfig, side: Side) -> None:
        self.config = config
        self.side = side
        self.layout = record_layout(config, side)
        self.fifo = SyncFIFOBuffered(width=self.layout.size, depth=config.fifo_depth)
        super().__init__(
            {
                "i": In(self.layout),
                "write": In(1),
                "o_stop": Out(1),
                "o": Out(stream.Signature(result_layout(config))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        banks = self.config.banks
        m.submodules.fifo = fifo = self.fifo
        group = data.View(self.layout, fifo.r_data)
        sent = Signal(banks)
        rest, lowest = Signal(banks), Signal(banks)
        m.d.comb += [
            fifo.w_data.eq(self.i),
            fifo.w_en.eq(self.write),
            self.o_stop.eq(fifo.r_level > self.config.records - IN_FLIGHT),
            rest.eq(group.mask & ~sent),
            lowest.eq(rest & -rest),
            self.o.valid.eq(fifo.r_rdy),
        ]
        with m.If(self.o.valid & self.o.ready):
            with m.If(rest == lowest):
                m.d.comb += fifo.r_en.eq(1)
                m.d.sync += sent.eq(0)
            with m.Else():
                m.d.sync += sent.eq(sent | lowest)

        window = Signal(self.config.payload_bits[self.side.other.value])
        m.d.comb += window.eq(
            reduce(or_, (Mux(lowest[bank], group.window[bank], 0) for bank in range(banks)))
        )
        own, other = ("a", "b") if self.side is Side.A else ("b", "a")
        m.d.comb += [
            self.o.payload[own].eq(group.probe),
            self.o.payload[other].eq(window),
            self.o.payload.later.eq(self.side),
        ]
        return m


class OutputLayer(wiring.Component):
    """Results of both match units, through one port.

    With ``config.outputs`` 1 one result per cycle, the sides in turn where both have some; with 2
    one of each side. A word follows its results by one cycle and stays while the port stalls.

    Parameters
    ----------
    config : WindowConfig
        The build.

    Members
    -------
    i_a, write_a, i_b, write_b : In
        Groups of results, and whether to take them.
    o_stop : Out(2)
        See :class:`Expander`; bit 0 is side A.
    o : Out(stream)
        Results.
    o_idle : Out(1)
        No result waits.
    """

    i_a: data.View
    write_a: Signal
    i_b: data.View
    write_b: Signal
    o_stop: Signal
    o: stream.Interface
    o_idle: Signal

    def __init__(self, config: WindowConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i_a": In(record_layout(config, Side.A)),
                "write_a": In(1),
                "i_b": In(record_layout(config, Side.B)),
                "write_b": In(1),
                "o_stop": Out(2),
                "o": Out(stream.Signature(word_layout(config))),
                "o_idle": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.expand_a = a = Expander(self.config, Side.A)
        m.submodules.expand_b = b = Expander(self.config, Side.B)
        m.d.comb += [
            a.i.eq(self.i_a),
            a.write.eq(self.write_a),
            b.i.eq(self.i_b),
            b.write.eq(self.write_b),
            self.o_stop.eq(Cat(a.o_stop, b.o_stop)),
            self.o_idle.eq((a.fifo.r_level == 0) & (b.fifo.r_level == 0) & ~self.o.valid),
        ]
        with m.If(self.o.ready | ~self.o.valid):
            m.d.sync += self.o.valid.eq(a.o.valid | b.o.valid)
            if self.config.outputs == 1:
                self._take_one(m, a, b)
            else:
                self._take_both(m, a, b)
        return m

    def _take_one(self, m: Module, a: Expander, b: Expander) -> None:
        latest_is_a = Signal()
        takes_a = a.o.valid & ~(b.o.valid & latest_is_a)
        m.d.comb += [a.o.ready.eq(takes_a), b.o.ready.eq(~takes_a)]
        with m.If(a.o.valid | b.o.valid):
            m.d.sync += [
                latest_is_a.eq(takes_a),
                self.o.payload.present.eq(1),
                self.o.payload.results[0].eq(
                    Mux(takes_a, a.o.payload.as_value(), b.o.payload.as_value())
                ),
            ]

    def _take_both(self, m: Module, a: Expander, b: Expander) -> None:
        m.d.comb += [a.o.ready.eq(1), b.o.ready.eq(1)]
        m.d.sync += self.o.payload.present.eq(Cat(a.o.valid, b.o.valid))
        for place, expander in zip(self.o.payload.results, (a, b), strict=True):
            m.d.sync += place.eq(expander.o.payload)
