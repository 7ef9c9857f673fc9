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

    A pass takes three cycles: it is taken, judged, and given, since its sums and comparisons are
    too long for one. Either output may stall. A pass that is empty, that ends beyond the window,
    that does not add up with the number of stream tuples, or with which there are more window
    flits than ordinals ends the flow.

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
        item = data.View(self.i.payload.shape(), Signal(self.i.payload.shape(), reset_less=True))
        span, sound, shared = Signal(32), Signal(), Signal(init=1)
        there, judged, good = Signal(), Signal(), Signal()
        passes, tuples, last = Signal(32), Signal(32), Signal()
        ordinals = 1 << self.config.join.ordinal_bits
        room = Signal(range(ordinals + 1))  # ordinals without a window flit
        gives, given = Signal(), self.i.payload
        m.d.comb += [
            self.i.ready.eq(~there),
            gives.eq(judged & good & self.o_pass.ready & self.o_span.ready),
            self.o_pass.valid.eq(gives),
            self.o_pass.payload.tuples.eq(item.tuples),
            self.o_pass.payload.begin.eq(item.begin),
            self.o_pass.payload.end.eq(item.end),
            self.o_pass.payload.last.eq(last),
            self.o_span.valid.eq(gives),
            self.o_span.payload.begin.eq(item.begin),
            self.o_span.payload.end.eq(item.end),
        ]
        if self.config.pipelines > 1:
            m.d.comb += self.o_pass.payload.share.eq(item.share)
        with m.If(self.i_start):
            m.d.sync += [
                passes.eq(self.i_passes),
                last.eq(self.i_passes == 1),
                tuples.eq(self.i_tuples),
                room.eq(ordinals),
                self.o_error.eq(0),
                there.eq(0),
                judged.eq(0),
            ]
        with m.Elif(self.i.valid & ~there):
            m.d.sync += [
                there.eq(1),
                item.eq(given),
                span.eq(given.end - given.begin),
                sound.eq(
                    (given.begin < given.end) & (given.end <= self.i_window) & (given.tuples != 0)
                ),
            ]
            if self.config.pipelines > 1:
                m.d.sync += shared.eq(self._shared(given))
        with m.Elif(there & ~judged):
            fits = Mux(last, item.tuples == tuples, item.tuples < tuples)
            m.d.sync += [judged.eq(1), good.eq(sound & shared & fits & (span <= room))]
        with m.Elif(gives):
            m.d.sync += [
                there.eq(0),
                judged.eq(0),
                passes.eq(passes - 1),
                last.eq(passes == 2),
                tuples.eq(tuples - item.tuples),
                room.eq(room - span),
            ]
        with m.Elif(judged & ~good):
            m.d.sync += self.o_error.eq(1)
        return m

    def _shared(self, item: data.View) -> Value:
        """Whether the share is the tuples divided by the pipelines."""
        pipelines = self.config.pipelines
        # It wraps around where the share is too large.
        return (item.tuples - item.share * pipelines)[: 32 + pipelines.bit_length() + 1] < pipelines
