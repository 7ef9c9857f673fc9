"""Counters of a task."""

from __future__ import annotations

from collections.abc import Mapping

from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

#: Width of a counter: ten days at 300 MHz.
COUNTER_BITS = 48


class Counters(wiring.Component):
    """Counters of a task.

    Parameters
    ----------
    steps : mapping of str to int
        Counters, and the width of what each adds per cycle.

    Members
    -------
    i_clear : In(1)
        Start from 0.
    i_steps : In
        What to add, for each counter.
    o_sums : Out, 48 bits each
        Sums up to two cycles before: sums of so many bits behind a handshake are too long a path.
    """

    i_clear: Signal
    i_steps: data.View
    o_sums: data.View

    def __init__(self, steps: Mapping[str, int]) -> None:
        self.steps = steps
        super().__init__(
            {
                "i_clear": In(1),
                "i_steps": In(data.StructLayout(dict(steps))),
                "o_sums": Out(data.StructLayout(dict.fromkeys(steps, COUNTER_BITS))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        step = data.View(self.i_steps.shape(), Signal(self.i_steps.shape()))
        m.d.sync += step.eq(self.i_steps)
        for name in self.steps:
            total = self.o_sums[name]
            with m.If(self.i_clear):
                m.d.sync += total.eq(0)
            with m.Else():
                m.d.sync += total.eq(total + step[name])
        return m
