# amaranth: UnusedElaboratable=no
"""A block: up to 32 units, their mask, and the FIFO of its records."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from ..instance import instantiated
from .config import JoinConfig
from .flit import Kind, entry_layout, flit_layout, record_layout, tail_layout
from .modes import keep_control
from .unit import Unit, unit_controls


def back_layout(config: JoinConfig) -> data.StructLayout:
    """What blocks report to the head, ANDed and registered in each block on the way.

    ``room``: every FIFO can take what may be in flight; ``quiet``: every FIFO is empty. In a build
    with aggregates also ``collect``: there is room for values at the chain's end.
    """
    fields = {"room": 1, "quiet": 1}
    if config.folding:
        fields["collect"] = 1
    return data.StructLayout(fields)


class Block(wiring.Component):
    """Part of the chain that shares a mask and a result FIFO.

    A match bit enters the mask at the lag of its unit, so the mask of a window tuple is whole
    when it leaves the last unit; bits count with window tuples only. A record is written for each
    window tuple with a match: ``len(units) + config.test_cycles + 1`` cycles after the tuple
    enters, up to one per cycle.
    A stalled result stream fills the FIFO; the head then stops in time, the units never do.

    Parameters
    ----------
    config : JoinConfig
        The build.
    index : int
        Number of the block.

    Members
    -------
    i, o : In, Out
        The chain; without a payload at its end.
    i_back, o_back : In, Out
        Reports from the next block, and to the previous one or the head.
    o_record : Out(stream)
        Records, in the order of their window tuples.
    """

    i: data.View
    o: data.View
    i_back: data.View
    o_back: data.View
    o_record: stream.Interface

    def __init__(self, config: JoinConfig, index: int) -> None:
        self.config = config
        self.index = index
        units = config.units_of(index)
        self.units = [Unit(config, last=unit == config.units - 1) for unit in units]
        self.fifo = SyncFIFOBuffered(
            width=record_layout(config).size, depth=config.fifo_depth(index)
        )
        last = index == config.blocks - 1
        super().__init__(
            {
                "i": In(flit_layout(config)),
                "o": Out(tail_layout(config) if last else flit_layout(config)),
                "i_back": In(back_layout(config)),
                "o_back": Out(back_layout(config)),
                "o_record": Out(stream.Signature(record_layout(config))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        folds = self._mode(m)
        mask, coming = self._chain(m, platform)
        window, ends, coming_window = self._tail(m)
        # A cycle ahead, since the FIFO's levels follow it. Bits of other flits mean nothing, and
        # after a reset those of no flit do.
        some = Signal()
        m.d.sync += some.eq(coming_window & coming.any())

        m.submodules.fifo = fifo = self.fifo
        record = Signal(record_layout(self.config))
        with m.If(window):
            m.d.sync += record.ordinal.eq(record.ordinal + 1)
        with m.Elif(ends):
            m.d.sync += record.ordinal.eq(0)
        m.d.comb += [
            record.mask.eq(mask),
            fifo.w_data.eq(record),
            fifo.w_en.eq(some if folds is None else some & ~folds),
            self.o_record.payload.eq(fifo.r_data),
            self.o_record.valid.eq(fifo.r_rdy),
            fifo.r_en.eq(self.o_record.ready),
        ]
        m.d.sync += [
            self.o_back.room.eq(self.i_back.room & (fifo.r_level <= self.config.spare_records)),
            self.o_back.quiet.eq(self.i_back.quiet & (fifo.r_level == 0)),
        ]
        if self.config.folding:
            m.d.sync += self.o_back.collect.eq(self.i_back.collect)
        return m

    def _mode(self, m: Module) -> Signal | None:
        """Keep what the task's mode tells this block; returns whether it folds matches."""
        config = self.config
        if config.folding is None:
            return None
        entry = data.View(entry_layout(config), self.i.payload[: config.entry_bits])
        names = unit_controls(config)
        told = {name: Signal(name=name) for name in ("folds", *names)}
        for name, signal in told.items():
            keep_control(m, config.folding, name, entry.mode, signal, self.i.kind == Kind.CONFIG)
        for unit in self.units:
            m.d.comb += [getattr(unit, name).eq(told[name]) for name in names]
        return told["folds"]

    def _chain(self, m: Module, platform: object) -> tuple[Value, Value]:
        """Connect the units; returns the mask behind the last one, and that of the next cycle."""
        table = self._table(m)
        flit, mask, coming = self.i, Signal(0), Const(0, 0)
        for number, unit in enumerate(self.units):
            kind = "last_unit" if unit.last else "unit"
            key = unit.config, unit.last
            m.submodules[f"unit_{number}"] = instantiated(unit, kind, key, platform)
            m.d.comb += unit.i.eq(flit)
            if table is not None:
                m.d.comb += unit.table.eq(table)
            # Without reset each bit's delay is a shift register in one LUT.
            wider = Signal(number + 1, name=f"mask_{number}", reset_less=True)
            coming = Cat(mask, unit.hit)
            m.d.sync += wider.eq(coming)
            flit, mask = unit.o, wider
        m.d.comb += self.o.eq(flit)
        return mask, coming

    def _table(self, m: Module) -> Signal | None:
        """The truth table of the block's units, where they do not keep their own."""
        if not self.config.is_band or self.config.table_in_units:
            return None
        table = Signal(self.config.table_bits)
        entry = data.View(entry_layout(self.config), self.i.payload[: self.config.entry_bits])
        with m.If(self.i.kind == Kind.CONFIG):
            m.d.sync += table.bit_select(entry.index, 1).eq(entry.value)
        return table

    def _tail(self, m: Module) -> tuple[Value, Value, Value]:
        """Whether the last unit's flit is a window tuple, or ends a task, as late as its mask; and
        the first a cycle before."""
        window = before = self.o.kind == Kind.WINDOW
        ends = (self.o.kind == Kind.CLEAR) & self.o.lap
        for cycle in range(self.config.test_cycles + 1):
            names = f"window_{cycle}", f"ends_{cycle}"
            later_window, later_ends = (Signal(name=name) for name in names)
            m.d.sync += [later_window.eq(window), later_ends.eq(ends)]
            window, ends, before = later_window, later_ends, window
        return window, ends, before
