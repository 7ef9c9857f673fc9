"""The end of the chain, where values leave it."""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from .config import JoinConfig
from .flit import Kind, tail_layout


class Outlet(wiring.Component):
    """The end of the chain in a build with aggregates: queues the values that COLLECT flits bring.

    One value per cycle, in the order of tuples; nothing stalls as long as the head collects only
    while it sees room.

    Parameters
    ----------
    config : JoinConfig
        A build with aggregates.

    Members
    -------
    i : In
        What leaves the last unit.
    o : Out(stream)
        Values.
    o_room, o_quiet : Out(1)
        It can take what may be on its way; it is empty.
    """

    i: data.View
    o: stream.Interface
    o_room: Signal
    o_quiet: Signal

    def __init__(self, config: JoinConfig) -> None:
        assert config.folding is not None
        self.config = config
        self.fifo = SyncFIFOBuffered(width=config.folding.layout.size, depth=config.outlet_depth)
        super().__init__(
            {
                "i": In(tail_layout(config)),
                "o": Out(stream.Signature(config.folding.layout)),
                "o_room": Out(1),
                "o_quiet": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.fifo = fifo = self.fifo
        m.d.comb += [
            fifo.w_data.eq(self.i.payload),
            # Each of them was taken by the unit whose turn it was.
            fifo.w_en.eq(self.i.kind == Kind.COLLECT),
            self.o.payload.eq(fifo.r_data),
            self.o.valid.eq(fifo.r_rdy),
            fifo.r_en.eq(self.o.ready),
            self.o_room.eq(fifo.r_level <= self.config.spare_records),
            self.o_quiet.eq(fifo.r_level == 0),
        ]
        return m
