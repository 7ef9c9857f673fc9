"""The input layer: one tuple per side, and which of them came first."""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .config import WindowConfig
from .layout import Side, tuple_layout


class InputLayer(wiring.Component):
    """Holds a tuple per side until the match layer takes it.

    A tuple is at the output one cycle after it was taken from the input; one per cycle and side.
    With ``shed`` both inputs are always ready, and a tuple that finds its place occupied is
    dropped. Without, the input waits.

    Parameters
    ----------
    config : WindowConfig
        The build.

    Members
    -------
    i_a, i_b : In(stream)
        Tuples.
    shed : In(1)
        The policy; may change at any time.
    o_a, o_b : Out(stream)
        The tuples that wait.
    o_b_first : Out(1)
        Of two tuples that wait, the one of B was taken first. Of two that were taken in the same
        cycle the first is that of A.
    o_dropped : Out(2)
        The tuple taken in this cycle is dropped; bit 0 is side A.
    """

    i_a: stream.Interface
    i_b: stream.Interface
    shed: Signal
    o_a: stream.Interface
    o_b: stream.Interface
    o_b_first: Signal
    o_dropped: Signal

    def __init__(self, config: WindowConfig) -> None:
        a, b = (stream.Signature(tuple_layout(config, side)) for side in Side)
        super().__init__(
            {
                "i_a": In(a),
                "i_b": In(b),
                "shed": In(1),
                "o_a": Out(a),
                "o_b": Out(b),
                "o_b_first": Out(1),
                "o_dropped": Out(2),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        ways = (self.i_a, self.o_a), (self.i_b, self.o_b)
        stores = Signal(2)
        for side, (i, o) in enumerate(ways):
            free = ~o.valid | o.ready
            m.d.comb += [
                i.ready.eq(free | self.shed),
                stores[side].eq(i.valid & free),
                self.o_dropped[side].eq(i.valid & self.shed & ~free),
            ]
            with m.If(free):
                m.d.sync += [o.valid.eq(i.valid), o.payload.eq(i.payload)]
        with m.If(stores[1]):
            m.d.sync += self.o_b_first.eq(0)
        with m.Elif(stores[0]):
            m.d.sync += self.o_b_first.eq(1)
        return m
