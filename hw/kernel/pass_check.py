"""Checks passes on their way to the head."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .config import KernelConfig
from .layout import pass_item_layout, task_pass_layout

#: Window positions of a pass.
SPAN = data.StructLayout({"begin": 32, "end": 32})


class PassCheck(wiring.Component):
    """Lets passes through that the head can run, to the head and to the window's reader.

    One pass per cycle, without delay; either output may stall. A pass that is empty, that ends
    beyond the window, that does not add up with the number of stream tuples, or with which there
    are more window flits than ordinals ends the flow.

    Members
    -------
    i : In(stream)
        Passes as they are in memory.
    i_start, i_passes, i_tuples, i_window : In
        At the start of a task: its passes, its stream tuples, the window's length.
    o_pass, o_span : Out(stream)
        Passes for the head, and their positions for the window's reader.
    o_error : Out(1)
        There was a pass that cannot be run, since the last start.
    """

    i: stream.Interface
    i_start: Signal
    i_passes: Signal
    i_tuples: Signal
    i_window: Signal
    o_pass: stream.Interface
    o_span: stream.Interface
    o_error: Signal

    def __init__(self, config: KernelConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(pass_item_layout(config))),
                "i_start": In(1),
                "i_passes": In(32),
                "i_tuples": In(32),
                "i_window": In(32),
                "o_pass": Out(stream.Signature(task_pass_layout(config))),
                "o_span": Out(stream.Signature(SPAN)),
                "o_error": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        item, last = self.i.payload, Signal()
        passes, tuples = Signal(32), Signal(32)
        ordinals = 1 << self.config.join.ordinal_bits
        flits, sum_of_flits = Signal(range(ordinals + 1)), Signal(34)
        m.d.comb += sum_of_flits.eq(flits + (item.end - item.begin)[:32])
        fits, both = Signal(), Signal()
        adds_up = (
            (item.begin < item.end)
            & (item.end <= self.i_window)
            & (item.tuples != 0)
            & Mux(last, item.tuples == tuples, item.tuples < tuples)
            & (sum_of_flits <= ordinals)
            & ~self.o_error
        )
        if self.config.pipelines > 1:
            adds_up = adds_up & self._shared(m)
        m.d.comb += [
            last.eq(passes == 1),
            fits.eq(adds_up),
            both.eq(self.i.valid & fits & self.o_pass.ready & self.o_span.ready),
            self.i.ready.eq(both),
            self.o_pass.valid.eq(both),
            self.o_pass.payload.tuples.eq(item.tuples),
            self.o_pass.payload.begin.eq(item.begin),
            self.o_pass.payload.end.eq(item.end),
            self.o_pass.payload.last.eq(last),
            self.o_span.valid.eq(both),
            self.o_span.payload.begin.eq(item.begin),
            self.o_span.payload.end.eq(item.end),
        ]
        with m.If(self.i_start):
            m.d.sync += [
                passes.eq(self.i_passes),
                tuples.eq(self.i_tuples),
                flits.eq(0),
                self.o_error.eq(0),
            ]
        with m.Elif(both):
            m.d.sync += [
                passes.eq(passes - 1),
                tuples.eq(tuples - item.tuples),
                flits.eq(sum_of_flits),
            ]
        with m.Elif(self.i.valid & ~fits):
            m.d.sync += self.o_error.eq(1)
        return m

    def _shared(self, m: Module) -> Value:
        """Whether the share is the tuples divided by the pipelines."""
        pipelines, item = self.config.pipelines, self.i.payload
        m.d.comb += self.o_pass.payload.share.eq(item.share)
        rest = Signal(32 + pipelines.bit_length() + 1)  # wraps around where the share is too large
        m.d.comb += rest.eq(item.tuples - item.share * pipelines)
        return rest < pipelines
