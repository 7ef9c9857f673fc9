"""The match layer: two match units with their queues, and the rounds in which they work."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Member, Out

from ..join.flit import entry_layout as band_entry_layout
from .config import WindowConfig
from .layout import (
    RecordPort,
    Side,
    State,
    entry_layout,
    probe_layout,
    record_port,
    table_layout,
    tuple_layout,
)
from .pair import PairTest
from .queue import Queue

#: Cycles from a row's tuples to the record of their results: comparisons, truth table.
_RECORD_CYCLES = 2


class MatchUnit(wiring.Component):
    """Matches tuples of one side with the queue of the other, P queue tuples per cycle.

    READY, MATCH and WAIT as in paper 4, figure 8. Results follow ``config.result_cycles`` after the
    step of the scan that reads their row; a stop holds back the next step and nothing else.

    Parameters
    ----------
    config : WindowConfig
        The build.
    side : Side
        Whose tuples are matched.

    Members
    -------
    i_probe, start : In
        A tuple to match, taken with ``start``. It must not follow while rows are read: the unit is
        READY, and was in the cycle before.
    i_window, push, rows, still : In
        See :class:`penstock.hw.window.queue.Queue`.
    before, after : In
        Times before and after that of a tuple at which tuples of the other side join it. Only with
        timestamps.
    i_entry, write : In
        An entry of the truth table, and whether to write it. Only in band form.
    state : Out(State)
    o_open : Out(1)
        In this cycle the other side's next tuple may be written: its slot is no longer of use. Not
        in sequential builds, which write a tuple only when nothing is matched.
    o_stale : Out(1)
        See :class:`penstock.hw.window.queue.Queue`.
    o : Out
        Results.
    o_busy : Out(1)
        Results may be on the way.
    """

    i_probe: data.View
    start: Signal
    i_window: data.View
    push: Signal
    rows: Signal
    still: Signal
    before: Signal
    after: Signal
    i_entry: data.View
    write: Signal
    state: Signal
    o_open: Signal
    o_stale: Signal
    o: RecordPort
    o_busy: Signal

    def __init__(self, config: WindowConfig, side: Side) -> None:
        self.config = config
        self.side = side
        self.queue = Queue(config, side.other)
        members = {
            "i_probe": In(probe_layout(config, side)),
            "start": In(1),
            "i_window": In(entry_layout(config, side.other)),
            "push": In(1),
            "rows": In(config.slot_bits + 1),
            "still": In(1),
            "state": Out(State),
            "o_stale": Out(1),
            "o": Out(record_port(config, side)),
            "o_busy": Out(1),
        }
        if config.parallel:
            members["o_open"] = Out(1)
        if config.time_bits:
            members |= {"before": In(config.time_bits), "after": In(config.time_bits)}
        if config.is_band:
            members |= {"i_entry": In(band_entry_layout(config.band)), "write": In(1)}
        super().__init__(members)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.queue = queue = self.queue
        probe = Signal(probe_layout(self.config, self.side), reset_less=True)
        m.d.comb += [
            queue.i.eq(self.i_window),
            queue.push.eq(self.push),
            queue.rows.eq(self.rows),
            queue.still.eq(self.still),
            queue.start.eq(self.start),
            self.o_stale.eq(queue.o_stale),
        ]
        if self.config.parallel:
            m.d.comb += self.o_open.eq(~queue.o_first)
        with m.If(self.start):
            m.d.sync += probe.eq(self.i_probe)

        with m.If(queue.o_left & self.o.stop):
            m.d.comb += self.state.eq(State.WAIT)
        with m.Elif(queue.o_left):
            m.d.comb += [self.state.eq(State.MATCH), queue.step.eq(1)]

        # The next tuple may come with the last row's comparison if the memory takes one cycle.
        waits = self.config.read_cycles - 1
        tests = self._tests(m, probe, _later(m, probe, "probe", waits))
        record = self.o.record
        m.d.sync += record.mask.eq(Cat(test.o for test in tests))
        payload = _later(m, probe.payload, "own", waits + _RECORD_CYCLES)
        m.d.comb += record.probe.eq(payload)
        for bank in range(self.config.banks):
            payload = _later(m, queue.o_tuples[bank].payload, f"payload_{bank}", _RECORD_CYCLES)
            m.d.comb += record.window[bank].eq(payload)
        busy, valid = queue.o_busy, queue.o_valid
        for stage in range(_RECORD_CYCLES):
            before, valid = valid, Signal(name=f"results_{stage}")
            m.d.sync += valid.eq(before)
            busy |= valid
        m.d.comb += [self.o.write.eq(valid), self.o_busy.eq(busy)]
        return m

    def _tests(self, m: Module, early: data.View, probe: data.View) -> list[PairTest]:
        """A test per bank; the tuple is there early for the arithmetic of its times."""
        config = self.config
        tests = [PairTest(config) for _ in range(config.banks)]
        for bank, test in enumerate(tests):
            m.submodules[f"test_{bank}"] = test
            m.d.comb += [
                test.probe.eq(probe.keys),
                test.window.eq(self.queue.o_tuples[bank].keys),
                test.valid.eq(self.queue.o_mask[bank]),
            ]
        if config.is_band:
            self._connect_table(m, tests)
        if config.time_bits:
            self._connect_times(m, tests, early)
        return tests

    def _connect_table(self, m: Module, tests: list[PairTest]) -> None:
        if self.config.band.table_in_units:
            for test in tests:
                m.d.comb += [test.entry.eq(self.i_entry), test.write.eq(self.write)]
            return
        table = Signal(self.config.band.table_bits)
        with m.If(self.write):
            m.d.sync += table.bit_select(self.i_entry.index, 1).eq(self.i_entry.value)
        m.d.comb += [test.table.eq(table) for test in tests]

    def _connect_times(self, m: Module, tests: list[PairTest], probe: data.View) -> None:
        bits = self.config.time_bits
        early, late = Signal(signed(bits + 1), reset_less=True), Signal(bits + 1, reset_less=True)
        earliest, latest = Signal(bits, reset_less=True), Signal(bits, reset_less=True)
        # The first queue tuple comes when both steps have the new tuple's times.
        m.d.sync += [
            early.eq(probe.time - self.before),
            late.eq(probe.time + self.after),
            earliest.eq(Mux(early < 0, 0, early)),
            latest.eq(Mux(late[bits], -1, late)),
        ]
        for bank, test in enumerate(tests):
            m.d.comb += [
                test.time.eq(self.queue.o_tuples[bank].time),
                test.earliest.eq(earliest),
                test.latest.eq(latest),
            ]


def _later(m: Module, value: data.View | Value, name: str, cycles: int) -> Any:
    """A value some cycles later."""
    for cycle in range(cycles):
        before, value = value, Signal(value.shape(), name=f"{name}_{cycle}", reset_less=True)
        m.d.sync += value.eq(before)
    return value


class MatchLayer(wiring.Component):
    """Takes waiting tuples, matches them, and writes them into their queues.

    Work goes in rounds. A round takes the tuple that waits, or both if both wait: each is matched
    with the other side's queue. The first tuple is written into its queue in the cycle in which the
    round starts; the second in the cycle after the other unit's first step, which reads the slot
    that it takes, so the first does not see it and still sees the oldest tuple. The second starts
    at the same time, one slot later, and sees the first last. So each pair is found once, by the
    tuple that was written later.

    A round's last results come when the next may have begun. With one bank a round takes ROWS + 2
    cycles for ROWS tuples in the larger queue (``config.round_cycles``), more where an output has
    no room.

    Parameters
    ----------
    config : WindowConfig
        The build.

    Members
    -------
    i_a, i_b, i_b_first : In
        See :class:`penstock.hw.window.operator.InputLayer`. A tuple is taken in the cycle in which
        it is written into its queue.
    rows_a, rows_b : In
        Sizes of the windows over A and over B. A change holds for the tuples that wait from the
        next cycle on, and for those before that no round has taken.
    before, after : In
        A tuple b joins a if ``-before <= b.time - a.time <= after``. Only with timestamps.
    i_entry, write : In
        An entry of a truth table, and whether to write it. Only in band form.
    state_a, state_b : Out(State)
    o_a, o_b : Out
        Results of both units.
    o_idle : Out(1)
        No round is under way, none starts, and the results of the last one were written.
    """

    i_a: stream.Interface
    i_b: stream.Interface
    i_b_first: Signal
    rows_a: Signal
    rows_b: Signal
    before: Signal
    after: Signal
    i_entry: data.View
    write: Signal
    state_a: Signal
    state_b: Signal
    o_a: RecordPort
    o_b: RecordPort
    o_idle: Signal

    def __init__(self, config: WindowConfig) -> None:
        self.config = config
        self.units = {side: MatchUnit(config, side) for side in Side}
        super().__init__(
            {
                "i_a": In(stream.Signature(tuple_layout(config, Side.A))),
                "i_b": In(stream.Signature(tuple_layout(config, Side.B))),
                "i_b_first": In(1),
                **settings(config),
                "state_a": Out(State),
                "state_b": Out(State),
                "o_a": Out(record_port(config, Side.A)),
                "o_b": Out(record_port(config, Side.B)),
                "o_idle": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        inputs = {Side.A: self.i_a, Side.B: self.i_b}
        a, b = self.units[Side.A], self.units[Side.B]
        # Whether a tuple of the side would be the first of a round.
        leads = {
            Side.A: ~(self.i_b.valid & self.i_b_first),
            Side.B: ~(self.i_a.valid & ~self.i_b_first),
        }
        open_ = Signal()
        still = Signal()
        stale = a.o_stale | b.o_stale
        waits = self.i_a.valid | self.i_b.valid
        calm = (a.state == State.READY) & (b.state == State.READY) & ~(open_ & waits)
        m.d.sync += [open_.eq(calm & ~stale), still.eq(calm & stale)]

        for side, unit in self.units.items():
            m.submodules[f"unit_{side.name.lower()}"] = unit
            own, other = inputs[side], inputs[side.other]
            # READY does not wait for VALID: much hangs on it.
            start, ready = open_ & own.valid, open_ & leads[side.other]
            if self.config.parallel:
                second = Signal(name=f"second_{side.other.name.lower()}")
                with m.If(start & other.valid & leads[side]):
                    m.d.sync += second.eq(1)
                with m.Elif(unit.o_open):
                    m.d.sync += second.eq(0)
                ready |= second & unit.o_open
            else:
                start &= leads[side]
            m.d.comb += [
                unit.start.eq(start),
                unit.push.eq(other.valid & ready),
                unit.still.eq(still),
                other.ready.eq(ready),
                unit.i_window.payload.eq(other.payload.payload),
                unit.i_probe.payload.eq(own.payload.payload),
            ]
            self._connect_keys(m, unit, own.payload, other.payload)
            self._connect_settings(m, unit)
        wiring.connect(m, a.o, wiring.flipped(self.o_a))
        wiring.connect(m, b.o, wiring.flipped(self.o_b))
        m.d.comb += [
            self.state_a.eq(a.state),
            self.state_b.eq(b.state),
            self.o_idle.eq(open_ & ~waits & ~a.o_busy & ~b.o_busy),
        ]
        return m

    def _connect_keys(self, m: Module, unit: MatchUnit, own: data.View, other: data.View) -> None:
        if self.config.is_band:
            m.d.comb += [unit.i_probe.keys.eq(own.probe), unit.i_window.keys.eq(other.window)]
        else:
            m.d.comb += [unit.i_probe.keys.eq(own.key), unit.i_window.keys.eq(other.key)]
        if self.config.time_bits:
            m.d.comb += [unit.i_probe.time.eq(own.time), unit.i_window.time.eq(other.time)]

    def _connect_settings(self, m: Module, unit: MatchUnit) -> None:
        is_a = unit.side is Side.A
        m.d.comb += unit.rows.eq(self.rows_b if is_a else self.rows_a)
        if self.config.time_bits:
            m.d.comb += [
                unit.before.eq(self.before if is_a else self.after),
                unit.after.eq(self.after if is_a else self.before),
            ]
        if self.config.is_band:
            m.d.comb += [
                unit.i_entry.index.eq(self.i_entry.index),
                unit.i_entry.value.eq(self.i_entry.value),
                unit.write.eq(self.write & (self.i_entry.side == unit.side)),
            ]


def settings(config: WindowConfig) -> dict[str, Member]:
    """The inputs that say what is joined."""
    members = {"rows_a": In(config.slot_bits + 1), "rows_b": In(config.slot_bits + 1)}
    if config.time_bits:
        members |= {"before": In(config.time_bits), "after": In(config.time_bits)}
    if config.is_band:
        members |= {"i_entry": In(table_layout(config)), "write": In(1)}
    return members
