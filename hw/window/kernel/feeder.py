"""Lets tuples into the operator one by one, in order."""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..layout import Side, tuple_layout
from .config import WindowKernelConfig
from .layout import item_layout


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
