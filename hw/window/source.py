"""A source of tuples on the chip: settable interval, exact selectivity (paper 4, section 6.1.3)."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .config import WindowConfig
from .layout import Side, tuple_layout


class TupleSource(wiring.Component):
    """Sends tuples at a fixed interval; an exact share of their pairs is joined.

    Keys count from 0 to ``period - 1`` and around; payload and time are the tuple's number, cut to
    their widths.

    Band form: the bounds of each test are 0 and ``hits - 1``, so with a truth table that wants all
    tests met a tuple joins ``hits / period`` of any window of a multiple of ``period`` tuples.

    Equality: a tuple joins ``1 / period`` of such a window. With ``hits`` 0 the key's highest bit
    says the side, and no pair is joined; ``period`` must then be at most half of the keys.

    A tuple is offered every ``interval`` cycles. One that the operator makes wait delays those
    behind it, and none is left out.

    Parameters
    ----------
    config : WindowConfig
        The build.
    side : Side
        Whose tuples these are.

    Members
    -------
    run : In(1)
        Whether to send. A tuple that is on offer stays there.
    interval : In(32)
        Cycles from one tuple to the next; 0 counts as 1.
    hits, period : In
        See above; ``hits`` is 0 to ``period``, ``period`` at least 1. Change them only before the
        first tuple.
    o : Out(stream)
        Tuples.
    o_sent : Out(config.counter_bits)
        Number of tuples that were taken.
    """

    run: Signal
    interval: Signal
    hits: Signal
    period: Signal
    o: stream.Interface
    o_sent: Signal

    def __init__(self, config: WindowConfig, side: Side) -> None:
        self.config = config
        self.side = side
        #: Width of a code, and of ``hits`` and ``period``.
        self.share_bits = min(config.key_bits, 16)
        super().__init__(
            {
                "run": In(1),
                "interval": In(32),
                "hits": In(self.share_bits + 1),
                "period": In(self.share_bits + 1),
                "o": Out(stream.Signature(tuple_layout(config, side))),
                "o_sent": Out(config.counter_bits),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.config
        code, wait, number = Signal(self.share_bits), Signal(32), Signal(64)
        taken, due = self.o.valid & self.o.ready, wait == 0
        with m.If(taken | ~self.o.valid):
            m.d.sync += self.o.valid.eq(self.run & due)
            with m.If(self.run & due):
                m.d.sync += [
                    *self._keys(code),
                    self.o.payload.payload.eq(number),
                    number.eq(number + 1),
                    code.eq(Mux(code + 1 == self.period, 0, code + 1)),
                ]
                if config.time_bits:
                    m.d.sync += self.o.payload.time.eq(number)
        with m.If(self.run & due & (taken | ~self.o.valid)):
            m.d.sync += wait.eq(Mux(self.interval == 0, 0, self.interval - 1))
        with m.Elif(~due):
            m.d.sync += wait.eq(wait - 1)
        with m.If(taken):
            m.d.sync += self.o_sent.eq(self.o_sent + 1)
        return m

    def _keys(self, code: Signal) -> list:
        """The key fields of a tuple whose code is given."""
        payload, bits = self.o.payload, self.config.key_bits
        if not self.config.is_band:
            apart = (self.hits == 0) & self.side.value
            return [payload.key.eq(code | apart << bits - 1)]
        tests = range(self.config.tests)
        # Where nothing is to be met the low bound is above the high one.
        none = self.hits == 0
        return [
            assignment
            for test in tests
            for assignment in (
                payload.window[test].eq(code),
                payload.probe[0][test].eq(none),
                payload.probe[1][test].eq(Mux(none, 0, self.hits - 1)),
            )
        ]
