"""The head: merges the ranges of the stream with the window into one chain of flits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amaranth.hdl import Module, Mux, Signal, ValueLike, signed
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from penstock.passes import Pass

from .block import back_layout
from .chain import TaskPorts, task_members
from .config import JoinConfig
from .flit import Kind, flit_layout
from .modes import keep_control
from .occupancy import Closed, Count, Moves, Turn, Values
from .ranges import Ends, Next, Place


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
    cycles plus ``config.settle_cycles`` per pass; a pass that was not there before the CLEAR of
    the last one begins a cycle later. Window tuples wait while ``i_back.room`` is low; the other
    flits cause no records and do not wait.

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
        Stop at the next boundary between flits of different tuples. What was not taken from the
        inputs stays there; one stream tuple may have been taken that was not loaded, and is lost.
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
                **task_members(config),
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
        new = self.i_pass.payload
        last = Signal()
        report = self.o_report.payload
        loaded = Signal(config.position_bits)
        part = Signal(range(config.load_flits))
        place = Place(m, config, self.i_pass, moves)
        following = Next(m, config, self.i_tuple, new.tuples, place, moves)
        units = config.units
        active = Count(m, "active", units, up=moves.load, down=moves.retire, clear=moves.clear)
        full = active.at_least(units)
        load = Turn(m, "load", units, step=moves.load, clear=moves.clear)
        retire = Turn(m, "retire", units, step=moves.retire, clear=moves.clear)
        ends = Ends(m, config, following.payload.end, load.slot, active, place, moves)
        closed = Closed(m, config, moves)
        values = Values(m, config, self.i_entry, self.i_back, moves) if config.folding else None
        rest = config.drain_cycles + config.settle_cycles
        wait, waits = Signal(range(rest + 1)), Signal()
        with m.If(waits):
            m.d.sync += [wait.eq(wait - 1), waits.eq(wait != 1)]

        def wait_for(cycles: int) -> None:
            m.d.sync += [wait.eq(cycles), waits.eq(cycles != 0)]

        def begin() -> None:
            m.d.comb += moves.begin.eq(1)
            m.d.sync += last.eq(new.last)
            m.next = "MERGE"

        def clear(*, ends_task: object) -> None:
            m.d.comb += [
                flit.kind.eq(Kind.CLEAR),
                flit.lap.eq(ends_task),
                moves.clear.eq(1),
            ]
            m.d.sync += part.eq(0)

        def finish() -> None:
            clear(ends_task=1)
            kept = values.kept(active.value) if values else active.value
            m.d.sync += [
                report.complete.eq(loaded - kept),
                report.loaded.eq(loaded),
            ]
            wait_for(rest)
            m.next = "REPORT"

        def send_part() -> None:
            keys, size = following.payload["keys"], config.part_bits
            m.d.comb += [flit.kind.eq(Kind.LOAD), flit.lap.eq(load.lap)]
            with m.Switch(part):
                for word in range(config.load_flits):
                    with m.Case(word):
                        m.d.comb += flit.payload.eq(keys[word * size : (word + 1) * size])
            m.d.sync += part.eq(part + 1)
            with m.If(part == config.load_flits - 1):
                m.d.comb += [flit.kind.eq(Kind.LOAD_LAST), moves.load.eq(1)]
                m.d.sync += [part.eq(0), loaded.eq(loaded + 1)]

        def send_retire() -> None:
            m.d.comb += [
                flit.kind.eq(Kind.RETIRE),
                flit.lap.eq(retire.lap),
                moves.retire.eq(1),
            ]

        def send_window() -> None:
            with m.If(~self.i_window.valid):
                m.d.comb += self.o_starved.eq(1)
            with m.Elif(~self.i_back.room):
                m.d.comb += self.o_stalled.eq(1)
            with m.Else():
                m.d.comb += [
                    flit.kind.eq(Kind.WINDOW),
                    flit.payload.eq(self.i_window.payload[: config.key_bits_of_window]),
                    self.i_window.ready.eq(1),
                    moves.window.eq(1),
                ]

        def send_collect_if(possible: ValueLike) -> None:
            assert values is not None
            with m.If(possible):
                m.d.comb += [
                    flit.kind.eq(Kind.COLLECT),
                    flit.lap.eq(values.lap),
                    values.collect.eq(1),
                ]

        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += [loaded.eq(0), self.o_fault.eq(0)]
                begins = place.shown
                if config.entry_bits:
                    begins = begins & ~self.i_entry.valid
                    m.d.comb += self.i_entry.ready.eq(1)
                    with m.If(self.i_entry.valid):
                        m.d.comb += [
                            flit.kind.eq(Kind.CONFIG),
                            flit.payload.eq(self.i_entry.payload),
                        ]
                with m.If(begins):
                    m.d.comb += self.i_pass.ready.eq(1)
                    begin()
            with m.State("NEXT"):
                with m.If(self.i_halt):
                    finish()
                with m.Elif(~waits):
                    m.d.comb += [
                        self.i_pass.ready.eq(place.shown),
                        self.o_starved.eq(~self.i_pass.valid),
                    ]
                    with m.If(place.shown):
                        begin()
            with m.State("MERGE"):
                m.d.sync += report.position.eq(place.position)
                with m.If(self.i_halt & (part == 0)):
                    finish()
                with m.Elif(place.at_stop & (following.valid | following.more)):
                    m.next = "FAULT"
                if values:
                    with m.Elif(place.at_stop & values.some):
                        send_collect_if(values.settled)
                with m.Elif(place.at_stop & last):
                    # All ranges end by here, so the tuples that are still active are complete.
                    finish()
                    m.d.sync += report.complete.eq(loaded)
                with m.Elif(place.at_stop):
                    clear(ends_task=0)
                    wait_for(config.settle_cycles)
                    m.next = "NEXT"
                with m.Elif(ends.here):
                    send_retire()
                if values:
                    with m.Elif(values.due):
                        send_collect_if(1)
                with m.Elif(following.missing):
                    m.d.comb += self.o_starved.eq(1)
                with m.Elif(following.starts):
                    with m.If(~following.fits | full):
                        m.next = "FAULT"
                    with m.Elif(~(closed.all | values.all if values else closed.all)):
                        send_part()
                with m.Else():
                    send_window()
            with m.State("FAULT"):
                finish()
                m.d.sync += self.o_fault.eq(1)
            with m.State("REPORT"):
                m.d.comb += self.o_report.valid.eq(~waits & self.i_back.quiet)
                with m.If(self.o_report.valid & self.o_report.ready):
                    m.next = "IDLE"
        return m

    def _send(self, m: Module, flit: data.View) -> None:
        """Register the flit; its operand a cycle later than the keys."""
        config = self.config
        m.d.sync += self.o.eq(flit)
        if config.folding is None or not config.value_bits:
            return
        entry = self.i_entry
        told = {name: Signal(name=name) for name in ("one", "inverse")}
        for name, signal in told.items():
            written = entry.valid & entry.ready
            keep_control(m, config.folding, name, entry.payload.mode, signal, written)
        given = self.i_window.payload[config.key_bits_of_window :]
        operand = Signal(signed(config.value_bits))
        inverted = given ^ told["inverse"].replicate(config.value_bits)
        m.d.sync += [
            operand.eq(Mux(told["one"], 1, inverted)),
            self.o.operand.eq(operand),
        ]
