"""Counters of a task."""

from __future__ import annotations

from collections.abc import Mapping

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

#: Width of a counter: ten days at 300 MHz.
COUNTER_BITS = 48

#: Counters of the join kernel, and the width of what each adds per cycle.
STEPS = {
    "cycles": 1,
    "window_flits": 1,
    "admission_stalls": 1,
    "memory_waits": 1,
    "records": 4,
    "passes": 1,
    "words": 1,
}


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
    i_cycles, i_window_flits, ... : In
        What to add in this cycle, for each counter.
    o_cycles, o_window_flits, ... : Out(48)
        Sums up to the cycle before.
    """

    i_clear: Signal

    def __init__(self, steps: Mapping[str, int] = STEPS) -> None:
        self.steps = steps
        super().__init__(
            {
                "i_clear": In(1),
                **{f"i_{name}": In(bits) for name, bits in steps.items()},
                **{f"o_{name}": Out(COUNTER_BITS) for name in steps},
            }
        )

    def step(self, name: str) -> Signal:
        """The input of a counter."""
        return getattr(self, f"i_{name}")

    def sum(self, name: str) -> Signal:
        """The output of a counter."""
        return getattr(self, f"o_{name}")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for name in self.steps:
            total = self.sum(name)
            with m.If(self.i_clear):
                m.d.sync += total.eq(0)
            with m.Else():
                m.d.sync += total.eq(total + self.step(name))
        return m
