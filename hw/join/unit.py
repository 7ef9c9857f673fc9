"""The join unit: holds one stream tuple and tests it against each window tuple that passes."""

from __future__ import annotations

from dataclasses import dataclass, field

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from penstock.hw.hls.datapath import Datapath
from penstock.hw.join.band import BandTest
from penstock.hw.join.config import JoinConfig
from penstock.hw.join.flit import TAIL_LAYOUT, Kind, flit_layout


@dataclass
class UnitModel:
    """Reference of a unit's state, one call per flit and no latency."""

    phase: int = 0
    active: bool = False
    #: Payloads of the tuple's load flits, the newest last.
    parts: list[int] = field(default_factory=list)

    def step(self, kind: Kind, lap: int, payload: int) -> Kind:
        """Take a flit; returns the kind that the next unit sees."""
        if kind in (Kind.LOAD, Kind.LOAD_LAST) and lap == self.phase:
            self.parts.append(payload)
            if kind is Kind.LOAD_LAST:
                self.phase, self.active = 1 - self.phase, True
            return Kind.IDLE
        if kind is Kind.RETIRE and self.active and lap != self.phase:
            self.active, self.parts = False, []
            return Kind.IDLE
        if kind is Kind.CLEAR:
            self.phase, self.active, self.parts = 0, False, []
        return kind


class Unit(wiring.Component):
    """One stage of the chain.

    Tuple i of a pass lives in unit ``i % units``. Load and retire flits carry the parity of lap
    ``i // units``; ``phase`` is the parity of the lap that the unit takes next, so the first unit
    whose phase fits is the right one, even where loads and retirements of different laps mix.

    A flit leaves one cycle after it came; one window tuple per cycle; never stalls.

    Parameters
    ----------
    config : JoinConfig
        The build.
    last : bool
        Whether the chain ends here, where keys are of no more use.

    Members
    -------
    i, o : In, Out
        The chain; without a payload at its end.
    table : In
        The block's truth table, in builds where it is not in the units.
    hit : Out(1)
        Whether the window tuple matches that was at ``o`` ``config.test_cycles`` ago.
    active : Out(1)
        Whether the unit holds a tuple.

    Attributes
    ----------
    phase, stored : Signal
        Parity of the lap it takes next, and the parts of its tuple. No ports; proofs read them.
    """

    i: data.View
    o: data.View
    table: Signal
    hit: Signal
    active: Signal

    def __init__(self, config: JoinConfig, *, last: bool = False) -> None:
        self.config = config
        self.last = last
        flit = flit_layout(config)
        members = {
            "i": In(flit),
            "o": Out(TAIL_LAYOUT if last else flit),
            "hit": Out(1),
            "active": Out(1),
        }
        if config.is_band and not config.table_in_units:
            members["table"] = In(config.table_bits)
        super().__init__(members)
        self.phase = Signal()
        self.stored = Signal(config.load_flits * config.payload_bits, reset_less=True)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.config
        flit = Signal(flit_layout(config))
        phase, stored = self.phase, self.stored
        m.d.sync += flit.eq(self.i)
        m.d.comb += [self.o.kind.eq(flit.kind), self.o.lap.eq(flit.lap)]
        if not self.last:
            m.d.comb += self.o.payload.eq(flit.payload)

        with m.Switch(flit.kind):
            with m.Case(Kind.LOAD, Kind.LOAD_LAST), m.If(flit.lap == phase):
                # Parts shift in from the top: no part number, no decoder.
                m.d.sync += stored.eq(Cat(stored, flit.payload)[config.payload_bits :])
                m.d.comb += self.o.kind.eq(Kind.IDLE)
                with m.If(flit.kind == Kind.LOAD_LAST):
                    m.d.sync += [phase.eq(~phase), self.active.eq(1)]
            with m.Case(Kind.RETIRE), m.If(self.active & (flit.lap != phase)):
                m.d.sync += self.active.eq(0)
                m.d.comb += self.o.kind.eq(Kind.IDLE)
            with m.Case(Kind.CLEAR):
                m.d.sync += [phase.eq(0), self.active.eq(0)]

        m.submodules.test = test = self._test(m, flit, stored)
        m.d.comb += [
            test.valid.eq(self.active & (flit.kind == Kind.WINDOW)),
            self.hit.eq(test.o),
        ]
        return m

    def _test(self, m: Module, flit: data.View, stored: Signal) -> BandTest | Datapath:
        config = self.config
        if config.program is not None:
            test = Datapath(config.schedule, config.program.stream, config.program.window)
            m.d.comb += [
                test.s.as_value().eq(stored),
                test.w.as_value().eq(flit.payload),
            ]
            return test
        test = BandTest(config)
        m.d.comb += [
            test.keys.as_value().eq(flit.payload),
            test.bounds.as_value().eq(stored),
        ]
        if config.table_in_units:
            m.d.comb += [
                test.entry.as_value().eq(flit.payload),
                test.write.eq(flit.kind == Kind.CONFIG),
            ]
        else:
            m.d.comb += test.table.eq(self.table)
        return test
