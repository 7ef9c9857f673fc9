"""The basic join unit of FJoin, after Algorithm 1 of its paper."""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from penstock.program import GeneralProgram

from ...hls.datapath import key_layout, plain_logic
from ...hls.lower import lower


def stream_layout(program: GeneralProgram, seq_bits: int) -> data.StructLayout:
    """A stream tuple: its number in the task, and its keys."""
    return data.StructLayout({"seq": seq_bits, "keys": key_layout(program.stream)})


def window_layout(program: GeneralProgram, id_bits: int) -> data.StructLayout:
    """A window tuple: its number, and its keys."""
    return data.StructLayout({"id": id_bits, "keys": key_layout(program.window)})


def result_layout(seq_bits: int, id_bits: int) -> data.StructLayout:
    """A result: the stream tuple's sequence field, and the window tuple's number."""
    return data.StructLayout({"seq": seq_bits, "id": id_bits})


def channel(layout: data.StructLayout) -> data.StructLayout:
    """An item and whether there is one."""
    return data.StructLayout({"valid": 1, "item": layout})


class FJoinUnit(wiring.Component):
    """Algorithm 1: one stream tuple, one window register, one result register.

    A window tuple stays until the register behind it is empty, so a window register is full in
    every other cycle: one window tuple per two cycles. A new result gives way to one that comes
    from the unit before, and the window tuple waits for it. While ``i_stall`` is seen, no new
    result enters the result register.

    Parameters
    ----------
    program : GeneralProgram
        The predicate; it is evaluated in one cycle, behind the window register.
    seq_bits, id_bits : int
        Widths of the sequence field and of a window tuple's number.
    last : bool
        Whether the pipeline ends here, where window tuples are of no more use.

    Members
    -------
    i_stream, o_stream : In, Out
        Stream tuples on their way to the last empty unit, with a valid bit.
    i_stream_full, o_stream_full : In(1), Out(1)
        Whether the stream register of the next unit, and of this unit, is taken.
    i_window, o_window : In, Out
        Window tuples, with a valid bit; that alone leaves the last unit.
    i_window_empty, o_window_empty : In(1), Out(1)
        Whether the window register of the next unit, and of this unit, can be written.
    i_result, o_result : In, Out
        Results, with a valid bit. They move in every cycle.
    i_stall, o_stall : In(1), Out(1)
        From the end of the pipeline to its head, a register per unit.
    i_clear, o_clear : In(1), Out(1)
        Empties the stream register, a register per unit.
    """

    i_stream: data.View
    o_stream: data.View
    i_stream_full: Signal
    o_stream_full: Signal
    i_window: data.View
    o_window: data.View
    i_window_empty: Signal
    o_window_empty: Signal
    i_result: data.View
    o_result: data.View
    i_stall: Signal
    o_stall: Signal
    i_clear: Signal
    o_clear: Signal

    def __init__(
        self, program: GeneralProgram, *, seq_bits: int, id_bits: int, last: bool = False
    ) -> None:
        self.program = program
        self.last = last
        ports = {
            "stream": stream_layout(program, seq_bits),
            "window": window_layout(program, id_bits),
            "result": result_layout(seq_bits, id_bits),
        }
        members = {}
        for name, layout in ports.items():
            members |= {f"i_{name}": In(channel(layout)), f"o_{name}": Out(channel(layout))}
        if last:
            members["o_window"] = Out(data.StructLayout({"valid": 1}))
        for name in ("stream_full", "window_empty", "stall", "clear"):
            members |= {f"i_{name}": In(1), f"o_{name}": Out(1)}
        super().__init__(members)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        joined = Signal()
        held, window, result = self.o_stream, Signal.like(self.i_window), self.o_result
        matches = plain_logic(m, lower(self.program), held.item.keys, window.item.keys, platform)
        m.d.comb += [
            self.o_stream_full.eq(held.valid),
            self.o_window_empty.eq(~window.valid),
        ]
        if not self.last:
            m.d.comb += self.o_window.item.eq(window.item)
        m.d.sync += [self.o_stall.eq(self.i_stall), self.o_clear.eq(self.i_clear)]

        # Load: a tuple goes on as long as the next unit is empty.
        with m.If(~held.valid):
            m.d.sync += held.eq(self.i_stream)
        with m.Elif(~self.i_stream_full):
            m.d.sync += held.valid.eq(0)
        with m.If(self.i_clear):
            m.d.sync += held.valid.eq(0)

        m.d.sync += result.eq(self.i_result)
        waits = Signal()
        with m.If(window.valid):
            m.d.comb += waits.eq(~self.i_window_empty)
            with m.If(held.valid & matches & ~joined):
                with m.If(self.i_result.valid | self.o_stall):
                    m.d.comb += waits.eq(1)
                with m.Else():
                    m.d.sync += [
                        result.valid.eq(1),
                        result.item.seq.eq(held.item.seq),
                        result.item.id.eq(window.item.id),
                        joined.eq(~self.i_window_empty),
                    ]
            with m.If(~waits):
                m.d.comb += self.o_window.valid.eq(1)
                m.d.sync += [window.valid.eq(0), joined.eq(0)]
        with m.Elif(self.i_window.valid):
            m.d.sync += window.eq(self.i_window)
        return m
