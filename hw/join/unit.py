# amaranth: UnusedElaboratable=no
"""The join unit: holds one stream tuple and tests it against each window tuple that passes."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..hls.datapath import Datapath
from .band import BandTester
from .config import JoinConfig
from .flit import Kind, flit_layout, registered, tail_layout
from .fold import Fold


def unit_controls(config: JoinConfig) -> list[str]:
    """What a unit must know of the task's mode."""
    folding = config.folding
    if folding is None:
        return []
    names = ["least"] if folding.adds and folding.keeps_least else []
    # A band build's operands are made in the head.
    return names if config.is_band or not folding.operand_bits else [*names, "one", "inverse"]


class Unit(wiring.Component):
    """One stage of the chain.

    Tuple i of a pass lives in unit ``i % units``. Load and retire flits carry the parity of lap
    ``i // units``; ``phase`` is the parity of the lap that the unit takes next, so the first unit
    whose phase fits is the right one, even where loads and retirements of different laps mix.

    A flit leaves one cycle after it came; one window tuple per cycle; never stalls.

    In a build with aggregates the unit folds its tuple's matches, from its load to its retirement
    or its COLLECT, which must be ``config.fold_cycles`` behind the last window flit that counts.

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
    least, one, inverse : In(1)
        How the task's mode folds, see :class:`penstock.hw.join.modes.Folding`; where it matters.
    hit : Out(1)
        Whether the window tuple matches that was at ``o`` ``config.test_cycles`` ago. Where there
        was none, it is low in a build with aggregates and in general form, and else anything.

    Attributes
    ----------
    active, phase, stored, held : Signal
        Whether it holds a tuple, parity of the lap it takes next, the parts of its tuple, and
        whether a COLLECT is due to come. No ports; proofs and simulations read them.
    fold : Fold
        What it folds, in a build with aggregates.
    """

    i: data.View
    o: data.View
    table: Signal
    least: Signal
    one: Signal
    inverse: Signal
    hit: Signal

    def __init__(self, config: JoinConfig, *, last: bool = False) -> None:
        self.config = config
        self.last = last
        flit = flit_layout(config)
        members = {
            "i": In(flit),
            "o": Out(tail_layout(config) if last else flit),
            "hit": Out(1),
        }
        if config.is_band and not config.table_in_units:
            members["table"] = In(config.table_bits)
        members |= {name: In(1) for name in unit_controls(config)}
        super().__init__(members)
        self.active = Signal()
        self.phase = Signal()
        self.stored = Signal(config.load_flits * config.part_bits, reset_less=True)
        if config.folding:
            self.held = Signal()
            self.fold = Fold(config.folding)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.config
        flit = registered(m, self.i)
        phase, stored = self.phase, self.stored
        m.d.comb += [self.o.kind.eq(flit.kind), self.o.lap.eq(flit.lap)]
        if config.folding or not self.last:
            m.d.comb += self.o.payload.eq(flit.payload)
        if config.value_bits and not self.last:
            m.d.comb += self.o.operand.eq(flit.operand)

        part = flit.payload[: config.part_bits]
        with m.Switch(flit.kind):
            with m.Case(Kind.LOAD, Kind.LOAD_LAST), m.If(flit.lap == phase):
                # Parts shift in from the top: no part number, no decoder.
                m.d.sync += stored.eq(Cat(stored, part)[config.part_bits :])
                m.d.comb += self.o.kind.eq(Kind.IDLE)
                with m.If(flit.kind == Kind.LOAD_LAST):
                    m.d.sync += [phase.eq(~phase), self.active.eq(1)]
            with m.Case(Kind.RETIRE), m.If(self.active & (flit.lap != phase)):
                m.d.sync += self.active.eq(0)
                m.d.comb += self.o.kind.eq(Kind.IDLE)
            with m.Case(Kind.CLEAR):
                m.d.sync += [phase.eq(0), self.active.eq(0)]
            if config.folding:
                with m.Case(Kind.COLLECT), m.If(self.held & (flit.lap != phase)):
                    m.d.sync += [self.held.eq(0), self.active.eq(0)]
                    # With the other lap it is nobody's turn behind this unit.
                    m.d.comb += self.o.lap.eq(phase)
                    m.d.comb += self.o.payload[: config.folding.layout.size].eq(self.fold.o)

        m.submodules.test = test = self._test(m, flit, stored)
        # No window flit makes a unit active or idle, so the next cycle knows as well; what a match
        # of another flit would be matters to folds only.
        times = not config.is_band or config.folding
        m.d.comb += [
            test.valid.eq(self.active & (flit.kind == Kind.WINDOW) if times else self.active),
            self.hit.eq(test.o),
        ]
        if config.folding:
            self._fold(m, flit, test)
        return m

    def _fold(self, m: Module, flit: data.View, test: BandTester | Datapath) -> None:
        """Fold the matches; the operand of a band build is in the flit register just then."""
        m.submodules.fold = fold = self.fold
        loaded = (flit.kind == Kind.LOAD_LAST) & (flit.lap == self.phase)
        with m.If(loaded):
            m.d.sync += self.held.eq(1)
        with m.If(flit.kind == Kind.CLEAR):
            m.d.sync += self.held.eq(0)
        m.d.comb += fold.clear.eq(loaded)
        if self.config.value_bits:
            m.d.comb += fold.operand.eq(flit.operand)
        if isinstance(test, Datapath) and self.config.operand_bits:
            wide = Signal.like(fold.operand)
            m.d.comb += wide.eq(test.value)
            operand = Mux(self.one, 1, wide ^ self.inverse.replicate(len(wide)))
            m.d.sync += [fold.operand.eq(operand), fold.hit.eq(test.o)]
            if fold.folding.places:
                m.d.sync += fold.live.eq(test.live)
        else:
            m.d.comb += fold.hit.eq(test.o)
        if "least" in fold.signature.members:
            m.d.comb += fold.least.eq(self.least)

    def _test(self, m: Module, flit: data.View, stored: Signal) -> BandTester | Datapath:
        config = self.config
        if config.program is not None:
            test = Datapath(config.schedule, config.program.stream, config.program.window)
            m.d.comb += [
                test.s.as_value().eq(stored),
                test.w.as_value().eq(flit.payload),
            ]
            return test
        test = BandTester(config, late=config.folding is None)
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
