"""The whole window-join operator: input, match and output layer."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from .config import WindowConfig
from .layout import Side, State, counters_layout, table_layout, tuple_layout, word_layout
from .match import MatchLayer, settings
from .output import OutputLayer


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


class WindowJoin(wiring.Component):
    """Joins each tuple with the latest tuples of the other stream (paper 4, with banks).

    Tuples count in the order in which the inputs take them, A first where both do in one cycle. A
    tuple joins the ``rows`` latest of the other side before it, as far as they meet the predicate
    and the time window. Results of one tuple leave oldest partner first, but for partners that are
    read in the same cycle, which leave in the order of their banks; results of both sides mix.

    One tuple per side every ``config.round_cycles`` cycles. A stalled output stops the matching,
    never loses a result. What happens to tuples meanwhile is the policy: with ``shed`` they are
    dropped and counted, without it the inputs wait.

    Parameters
    ----------
    config : WindowConfig
        The build.

    Members
    -------
    i_a, i_b : In(stream)
        Tuples.
    i_entry : In(stream)
        Entries of the truth tables, always taken. All are 0 after reset; they must not change while
        tuples are matched. Only in band form.
    rows_a, rows_b, before, after : In
        See :class:`penstock.hw.window.match.MatchLayer`. They may change at any time and hold for
        the tuples that the inputs take from the next cycle on, and for those before that no round
        has taken. ``before`` and ``after`` must not change while tuples are matched.
    shed : In(1)
        The policy; may change at any time.
    o : Out(stream)
        Results.
    o_state_a, o_state_b : Out(State)
        States of the match units; WAIT while the output has no room.
    o_idle : Out(1)
        All that was taken was matched, and all results have left.
    o_admitted, o_dropped : Out(2)
        In this cycle a tuple of the side is written into its queue, or the one that the input takes
        is dropped. Bit 0 is side A.
    o_counters : Out
        How many were, per side.
    """

    i_a: stream.Interface
    i_b: stream.Interface
    i_entry: stream.Interface
    rows_a: Signal
    rows_b: Signal
    before: Signal
    after: Signal
    shed: Signal
    o: stream.Interface
    o_state_a: Signal
    o_state_b: Signal
    o_idle: Signal
    o_admitted: Signal
    o_dropped: Signal
    o_counters: data.View

    def __init__(self, config: WindowConfig) -> None:
        self.config = config
        members = {
            "i_a": In(stream.Signature(tuple_layout(config, Side.A))),
            "i_b": In(stream.Signature(tuple_layout(config, Side.B))),
            **{name: member for name, member in settings(config).items() if name in _PLAIN},
            "shed": In(1),
            "o": Out(stream.Signature(word_layout(config))),
            "o_state_a": Out(State),
            "o_state_b": Out(State),
            "o_idle": Out(1),
            "o_admitted": Out(2),
            "o_dropped": Out(2),
            "o_counters": Out(counters_layout(config)),
        }
        if config.is_band:
            members["i_entry"] = In(stream.Signature(table_layout(config)))
        super().__init__(members)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.input = taken = InputLayer(self.config)
        m.submodules.match = match = MatchLayer(self.config)
        m.submodules.output = output = OutputLayer(self.config)
        connect(m, flipped(self.i_a), taken.i_a)
        connect(m, flipped(self.i_b), taken.i_b)
        connect(m, taken.o_a, match.i_a)
        connect(m, taken.o_b, match.i_b)
        connect(m, match.o_a, output.i_a)
        connect(m, match.o_b, output.i_b)
        connect(m, output.o, flipped(self.o))
        rests = Signal()
        m.d.sync += rests.eq(match.o_idle & output.o_idle)
        m.d.comb += [
            taken.shed.eq(self.shed),
            match.i_b_first.eq(taken.o_b_first),
            self.o_state_a.eq(match.state_a),
            self.o_state_b.eq(match.state_b),
            # What was at rest stays so until a tuple waits.
            self.o_idle.eq(~taken.o_a.valid & ~taken.o_b.valid & rests),
            self.o_admitted.eq(Cat(o.valid & o.ready for o in (taken.o_a, taken.o_b))),
            self.o_dropped.eq(taken.o_dropped),
        ]
        for name in _PLAIN:
            if name in match.signature.members:
                m.d.comb += getattr(match, name).eq(getattr(self, name))
        if self.config.is_band:
            m.d.comb += [
                self.i_entry.ready.eq(1),
                match.write.eq(self.i_entry.valid),
                match.i_entry.eq(self.i_entry.payload),
            ]
        for side, name in enumerate("ab"):
            for what, happens in (("admitted", self.o_admitted), ("shed", self.o_dropped)):
                counter = self.o_counters[f"{what}_{name}"]
                with m.If(happens[side]):
                    m.d.sync += counter.eq(counter + 1)
        return m


_PLAIN = ("rows_a", "rows_b", "before", "after")
