"""A stage of a stream whose outputs all come from registers."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out


class Skid(wiring.Component):
    """Passes items on, a cycle later, one per cycle.

    Neither payload nor VALID nor READY goes through it in the same cycle, so that no path of logic
    does. An item that comes when the output has just stalled waits in a spare register.

    Parameters
    ----------
    shape : ShapeCastable
        What an item is.

    Members
    -------
    i, o : In(stream), Out(stream)
    """

    i: stream.Interface
    o: stream.Interface

    def __init__(self, shape: Any) -> None:
        self.shape = shape
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        item = Signal(self.shape, reset_less=True)
        spare = Signal(self.shape, reset_less=True)
        waits = Signal()
        m.d.comb += [
            self.i.ready.eq(~waits),
            self.o.payload.eq(item),
        ]
        with m.If(self.o.ready | ~self.o.valid):
            m.d.sync += [self.o.valid.eq(waits | self.i.valid), waits.eq(0)]
            with m.If(waits):
                m.d.sync += item.eq(spare)
            with m.Else():
                m.d.sync += item.eq(self.i.payload)
        with m.Elif(~waits):
            m.d.sync += waits.eq(self.i.valid)
        with m.If(~waits):
            m.d.sync += spare.eq(self.i.payload)
        return m
