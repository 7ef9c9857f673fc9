"""The head: merges the ranges of the stream with the window into one chain of flits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from operator import or_

from amaranth.hdl import Const, Module, Mux, Signal, ValueLike, signed
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from penstock.passes import Pass

from .block import back_layout
from .chain import TaskPorts, TaskSignature
from .config import JoinConfig
from .flit import Kind, flit_layout, registered, report_layout
from .modes import keep_control
from .occupancy import Closed, Count, HeldValues, Moves, Turn
from .ranges import Due, Ends, Next, Place


def merge(
    passes: Sequence[Pass], start: Sequence[int], end: Sequence[int], units: int, load_flits: int
) -> Iterator[tuple[Kind, int, int]]:
    """Reference: the flits of a task as (kind, lap, tuple or position), without idle ones.

    In a task that folds there are COLLECT flits besides, at the end of a pass in place of the
    retirements that the CLEAR stands for.
    """
    for number, part in enumerate(passes):
        loaded = retired = part.first
        for position in range(part.begin, part.end):
            while retired < loaded and end[retired] <= position:
                yield Kind.RETIRE, (retired - part.first) // units % 2, retired
                retired += 1
            while loaded < part.stop and start[loaded] == position:
                lap = (loaded - part.first) // units % 2
                for _ in range(load_flits - 1):
                    yield Kind.LOAD, lap, loaded
                yield Kind.LOAD_LAST, lap, loaded
                loaded += 1
            yield Kind.WINDOW, 0, position
        yield Kind.CLEAR, int(number == len(passes) - 1), part.end


class Head(TaskPorts):
    """Feeds the chain.

    At position p of a pass the head sends first a RETIRE for each tuple with ``end == p``, then
    the loads of tuples with ``start == p``, then window tuple p. A pass ends with a CLEAR, which
    also stands for the retirements at its end. Passes follow each other without draining.

    One flit per cycle, one cycle after a window tuple and two after a stream tuple, which is taken
    ahead of its load; ``load_flits + 1`` flits per stream tuple, one per window tuple, and two
    cycles plus ``config.settle_cycles`` per pass; one that comes after the CLEAR of the last one
    begins a cycle later. Window tuples wait while
    ``i_back.room`` is low; the other flits cause no records and do not wait.

    In a task that folds matches a unit stays occupied until its tuple's value was collected. A
    COLLECT is sent for each tuple, in their order, as soon as ``config.fold_cycles`` have passed
    since the last window tuple that counts and ``i_back.collect`` is high; the tuples that are
    left at the end of a pass are collected before its CLEAR.

    What the inputs must meet: no empty range; a pass's tuples start within it, in order, at most
    ``config.units`` of them active at a time; their ends do not decrease and lie within it. Where
    they do not, the task ends there and ``o_fault`` says so.

    Parameters
    ----------
    config : JoinConfig
        The build.

    Members
    -------
    i_pass, i_tuple, i_window : In(stream)
        Passes; stream tuples in the order of the passes; window tuples of the passes' positions.
    i_entry : In(stream)
        Entries of the truth table and the task's mode, taken between tasks. Only in band form and
        in builds with aggregates.
    i_back : In
        Reports of the blocks. ``room`` gates window tuples, ``quiet`` gates ``o_report``,
        ``collect`` gates collections.
    i_halt : In(1)
        Stop at the next boundary between flits of different tuples, a cycle later. What was not
        taken from the inputs stays there; one stream tuple may have been taken that was not loaded,
        and is lost. A pass may be withdrawn from the cycle after on, and when the report is taken.
    o : Out
        The chain.
    o_report : Out(stream)
        Where the task ended, once all its records were taken. The next task waits for it.
    o_fault : Out(1)
        With ``o_report``: the task ended at a tuple whose range does not fit.
    o_stalled, o_starved : Out(1)
        In this cycle a window tuple waits for room, or the head waits for an input.
    """

    i_back: data.View
    o: data.View

    def __init__(self, config: JoinConfig) -> None:
        self.config = config
        super().__init__(
            {
                **TaskSignature(config).members,
                "i_back": In(back_layout(config)),
                "o": Out(flit_layout(config)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.config
        flit = Signal(flit_layout(config))
        self._send(m, flit)

        moves = Moves()
        report = Signal(report_layout(config), reset_less=True)
        m.d.comb += self.o_report.payload.eq(report)
        loaded = Signal(config.position_bits)
        part, part_next = (Signal(range(config.load_flits), name=name) for name in ("part", "to"))
        place = Place(m, config, self.i_pass, moves, platform)
        tuples = self.i_pass.payload.tuples
        following = Next(m, config, self.i_tuple, tuples, place, moves, platform)
        units = config.units
        active = Count(m, "active", units, up=moves.load, down=moves.retire, clear=moves.clear)
        load = Turn(m, "load", units, step=moves.load, clear=moves.clear)
        retire = Turn(m, "retire", units, step=moves.retire, clear=moves.clear)
        end = following.payload.end
        ends = Ends(m, config, end, load.slot, active, place, moves, platform)
        due = Due(m, place, following, ends, active, units, moves)
        closed = Closed(m, config, moves)
        values = HeldValues(m, config, self.i_entry, self.i_back, moves) if config.folding else None
        rest = config.drain_cycles + config.settle_cycles
        wait, waits = Signal(range(rest + 1)), Signal()
        with m.If(waits):
            m.d.sync += [wait.eq(wait - 1), waits.eq(wait != 1)]
        # The states MERGE and STOP as registers, and the halt a cycle later: the paths of all moves
        # begin here, and end far away.
        names = ("merging", "stops", "halt", "goes", "configures")
        merging, stops, halt, goes, configures = (Signal(name=name) for name in names)
        # A tuple whose load has begun is loaded, whatever halts.
        halts, merges = self.i_halt & (part_next == 0), Signal(name="merges")
        m.d.sync += [halt.eq(halts), part.eq(part_next)]
        m.d.sync += [merging.eq(merges), goes.eq(merges & ~halts)]
        m.d.comb += [merges.eq(merging), part_next.eq(part)]

        def wait_for(cycles: int) -> None:
            m.d.sync += [wait.eq(cycles), waits.eq(cycles != 0)]

        def finish(kept: ValueLike) -> None:
            m.d.sync += [
                report.complete.eq(loaded - kept),
                report.loaded.eq(loaded),
            ]
            wait_for(rest)
            m.next = "REPORT"

        def stop(*, fault: bool) -> None:
            m.d.comb += merges.eq(0)
            m.d.sync += [self.o_fault.eq(fault), stops.eq(1)]
            m.next = "STOP"

        # A tuple's payload is chosen by what is due, not by what is done: the kind says the rest.
        keys, size = following.payload["keys"], config.part_bits
        m.d.comb += flit.payload.eq(self.i_window.payload[: config.key_bits_of_window])
        with m.If(due.load), m.Switch(part):
            for word in range(config.load_flits):
                with m.Case(word):
                    m.d.comb += flit.payload.eq(keys[word * size : (word + 1) * size])

        first = values.due if values else Const(0, 1)
        uncollected = values.some if values else Const(0, 1)
        shut = closed.all | values.all if values else closed.all
        sends_part = goes & due.load & ~(first | shut)
        can_send = goes & due.window & ~first
        m.d.comb += [
            moves.retire.eq(goes & due.retire),
            moves.load.eq(sends_part & (part == config.load_flits - 1)),
            moves.window.eq(can_send & self.i_window.valid & self.i_back.room),
            moves.clear.eq(stops | (goes & due.end & ~uncollected)),
            self.i_window.ready.eq(moves.window),
            self.o_starved.eq(goes & due.tuple | can_send & ~self.i_window.valid),
            self.o_stalled.eq(can_send & self.i_window.valid & ~self.i_back.room),
        ]
        with m.If(sends_part):
            m.d.comb += part_next.eq(part + 1)
        with m.If(moves.load):
            m.d.comb += part_next.eq(0)
            m.d.sync += loaded.eq(loaded + 1)
        # A pass begins a cycle after it is seen; here all others do.
        follows = self.i_pass.valid & ~self.i_halt
        m.d.sync += moves.begin.eq(0)
        with m.If(moves.begin):
            m.d.comb += merges.eq(1)
        with m.If(moves.clear):
            m.d.comb += [part_next.eq(0), merges.eq(0)]
            m.d.sync += stops.eq(0)
        # Whatever is due where a task stops, the CLEAR there is its last.
        m.d.comb += flit.lap.eq(
            stops | Mux(due.load, load.lap, Mux(due.retire, retire.lap, place.last))
        )
        kinds = {
            Kind.LOAD: sends_part & ~moves.load,
            Kind.LOAD_LAST: moves.load,
            Kind.WINDOW: moves.window,
            Kind.RETIRE: moves.retire,
            Kind.CLEAR: moves.clear,
            Kind.CONFIG: configures,
        }
        if values:
            last_ones = due.end & values.some & values.settled
            m.d.comb += values.collect.eq(
                goes & (last_ones | ~(place.at_stop | due.retire) & values.due)
            )
            kinds[Kind.COLLECT] = values.collect
            with m.If(values.collect):
                m.d.comb += flit.lap.eq(values.lap)

        # At most one of them is high.
        m.d.comb += flit.kind.eq(
            Kind(reduce(or_, (Mux(sent, kind.value, 0) for kind, sent in kinds.items())))
        )

        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += [loaded.eq(0), self.o_fault.eq(0)]
                m.d.comb += self.i_pass.ready.eq(1)
                if config.entry_bits:
                    m.d.comb += [
                        self.i_pass.ready.eq(~self.i_entry.valid),
                        self.i_entry.ready.eq(1),
                        flit.payload.eq(self.i_entry.payload),
                        configures.eq(self.i_entry.valid),
                    ]
                with m.If(self.i_pass.ready & self.i_pass.valid):
                    m.d.sync += moves.begin.eq(1)
                    m.next = "BEGIN"
            with m.State("BEGIN"):
                m.next = "MERGE"
            with m.State("NEXT"):
                with m.If(halt):
                    stop(fault=False)
                with m.Elif(moves.begin):
                    m.d.comb += self.i_pass.ready.eq(1)
                    m.next = "MERGE"
                with m.Else():
                    m.d.comb += self.o_starved.eq(~waits)
                    m.d.sync += moves.begin.eq(follows & (~waits | (wait == 1)))
            with m.State("MERGE"):
                m.d.sync += report.position.eq(place.position)
                with m.If(halt):
                    stop(fault=False)
                with m.Elif(due.fault):
                    stop(fault=True)
                with m.Elif(moves.clear & place.last):
                    # All ranges end by here, so the tuples that are still active are complete.
                    finish(0)
                with m.Elif(moves.clear):
                    wait_for(config.settle_cycles)
                    if not config.settle_cycles:
                        m.d.sync += moves.begin.eq(follows)
                    m.next = "NEXT"
            with m.State("STOP"):
                finish(values.kept(active.value) if values else active.value)
            with m.State("REPORT"):
                m.d.comb += self.o_report.valid.eq(~waits & self.i_back.quiet)
                with m.If(self.o_report.valid & self.o_report.ready):
                    m.next = "IDLE"
        return m

    def _send(self, m: Module, flit: data.View) -> None:
        """Register the flit; its operand a cycle later than the keys."""
        config = self.config
        m.d.comb += self.o.eq(registered(m, flit))
        if config.folding is None or not config.value_bits:
            return
        entry = self.i_entry
        told = {name: Signal(name=name) for name in ("one", "inverse")}
        for name, signal in told.items():
            written = entry.valid & entry.ready
            keep_control(m, config.folding, name, entry.payload.mode, signal, written)
        given = self.i_window.payload[config.key_bits_of_window :]
        operand = Signal(signed(config.value_bits), reset_less=True)
        inverted = given ^ told["inverse"].replicate(config.value_bits)
        m.d.sync += operand.eq(Mux(told["one"], 1, inverted))
        m.d.comb += flit.operand.eq(operand)
