"""The head: merges the ranges of the stream with the window into one chain of flits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amaranth.hdl import Module, Mux, Signal, ValueLike, signed
from amaranth.lib import data
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from penstock.passes import Pass

from .block import back_layout
from .chain import TaskPorts, task_members
from .config import JoinConfig
from .flit import Kind, flit_layout
from .modes import keep_control
from .occupancy import Closed, Turn, Values


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

    One flit per cycle, one cycle after its input; ``load_flits + 1`` flits per stream tuple, one
    per window tuple, and two cycles plus ``config.settle_cycles`` per pass. Window tuples wait
    while ``i_back.room`` is low; the other flits cause no records and do not wait.

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
        inputs stays there.
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

        todo = Signal(config.position_bits)  # tuples of the pass that are not loaded
        last = Signal()
        stop = Signal(config.position_bits)
        earliest = Signal(config.position_bits)  # end of the tuple loaded last
        report = self.o_report.payload
        position, loaded = Signal(config.position_bits), Signal(config.position_bits)
        part = Signal(range(config.load_flits))
        load = Turn(m, "load", config.units)
        retire = Turn(m, "retire", config.units)
        active = Signal(range(config.units + 1))
        closed = Closed(m, active, config)
        values = Values(m, config, self.i_entry, self.i_back) if config.folding else None
        wait = Signal(range(config.drain_cycles + config.settle_cycles + 1))
        with m.If(wait != 0):
            m.d.sync += wait.eq(wait - 1)

        # The read port always shows the end of the tuple that retires next.
        m.submodules.ends = ends = Memory(shape=config.position_bits, depth=config.units, init=[])
        write = ends.write_port()
        read = ends.read_port(transparent_for=(write,))
        m.d.comb += [
            write.addr.eq(load.slot),
            write.data.eq(self.i_tuple.payload.end),
            read.addr.eq(retire.next_slot),
            read.en.eq(1),
        ]

        def begin() -> None:
            new = self.i_pass.payload
            m.d.sync += [
                todo.eq(new.tuples),
                position.eq(new.begin),
                stop.eq(new.end),
                earliest.eq(new.begin),
                last.eq(new.last),
            ]
            m.next = "MERGE"

        def clear(*, ends_task: object) -> None:
            m.d.comb += [flit.kind.eq(Kind.CLEAR), flit.lap.eq(ends_task)]
            m.d.sync += [active.eq(0), part.eq(0)]
            load.restart()
            retire.restart()
            if values:
                values.restart()

        def finish() -> None:
            clear(ends_task=1)
            m.d.sync += [
                report.complete.eq(loaded - (values.kept(active) if values else active)),
                report.loaded.eq(loaded),
                report.position.eq(position),
                wait.eq(config.drain_cycles + config.settle_cycles),
            ]
            m.next = "REPORT"

        def fail() -> None:
            finish()
            m.d.sync += self.o_fault.eq(1)

        end = self.i_tuple.payload.end
        fits = (end > position) & (end >= earliest) & (end <= stop)

        def send_part() -> None:
            keys, size = self.i_tuple.payload.keys, config.part_bits
            m.d.comb += [flit.kind.eq(Kind.LOAD), flit.lap.eq(load.lap)]
            with m.Switch(part):
                for word in range(config.load_flits):
                    with m.Case(word):
                        m.d.comb += flit.payload.eq(keys[word * size : (word + 1) * size])
            m.d.sync += part.eq(part + 1)
            with m.If(part == config.load_flits - 1):
                m.d.comb += [
                    flit.kind.eq(Kind.LOAD_LAST),
                    self.i_tuple.ready.eq(1),
                    write.en.eq(1),
                ]
                m.d.sync += [
                    part.eq(0),
                    earliest.eq(end),
                    loaded.eq(loaded + 1),
                    todo.eq(todo - 1),
                    active.eq(active + 1),
                ]
                load.advance()
                if values:
                    m.d.comb += values.load.eq(1)

        def send_retire() -> None:
            m.d.comb += [flit.kind.eq(Kind.RETIRE), flit.lap.eq(retire.lap)]
            m.d.sync += active.eq(active - 1)
            m.d.comb += closed.enter.eq(1)
            retire.advance()
            if values:
                m.d.comb += values.stop.eq(1)

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
                ]
                m.d.sync += position.eq(position + 1)
                if values:
                    m.d.comb += values.window.eq(1)

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
                begins = self.i_pass.valid
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
                with m.Elif(wait == 0):
                    m.d.comb += [
                        self.i_pass.ready.eq(1),
                        self.o_starved.eq(~self.i_pass.valid),
                    ]
                    with m.If(self.i_pass.valid):
                        begin()
            with m.State("MERGE"):
                with m.If(self.i_halt & (part == 0)):
                    finish()
                with m.Elif((position == stop) & (todo != 0)):
                    fail()
                if values:
                    with m.Elif((position == stop) & values.some):
                        send_collect_if(values.settled)
                with m.Elif((position == stop) & last):
                    # All ranges end by here, so the tuples that are still active are complete.
                    finish()
                    m.d.sync += report.complete.eq(loaded)
                with m.Elif(position == stop):
                    clear(ends_task=0)
                    m.d.sync += wait.eq(config.settle_cycles)
                    m.next = "NEXT"
                with m.Elif((active != 0) & (read.data == position)):
                    send_retire()
                if values:
                    with m.Elif(values.due):
                        send_collect_if(1)
                with m.Elif((todo != 0) & ~self.i_tuple.valid):
                    m.d.comb += self.o_starved.eq(1)
                with m.Elif((todo != 0) & (self.i_tuple.payload.start == position)):
                    with m.If(~fits | (active == config.units)):
                        fail()
                    with m.Elif(~(closed.all | values.all if values else closed.all)):
                        send_part()
                with m.Else():
                    send_window()
            with m.State("REPORT"):
                m.d.comb += self.o_report.valid.eq((wait == 0) & self.i_back.quiet)
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
