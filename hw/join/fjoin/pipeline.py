# amaranth: UnusedElaboratable=no
"""FJoin's join pipeline: units in a chain, a state machine, and filters at the result outlet."""

from __future__ import annotations

from itertools import pairwise

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ...hls.datapath import key_layout
from ...instance import instantiated
from .config import STALL_LEVEL, FJoinConfig
from .unit import FJoinUnit, channel, result_layout, window_layout


class FJoinPipeline(wiring.Component):
    """Load, join, clear.

    A task fills the units, then sends its window past them, one tuple per two cycles, then empties
    them. The filter at the outlet drops results outside the stream tuple's range. Window tuples
    follow the stream tuple loaded last without waiting for it to settle: they are no faster.

    Loading takes two cycles per stream tuple, and a cycle per unit each passes until the last
    window tuple has left and until all units are clear.

    Parameters
    ----------
    config : FJoinConfig
        The build.

    Members
    -------
    i_task : In(stream)
        Numbers of stream tuples (up to ``config.units``) and of window tuples of a task.
    i_tuple : In(stream)
        Stream tuples: keys, and the range of window tuples that they may join.
    i_window : In(stream)
        Window tuples: keys and a number.
    i_halt : In(1)
        Take no more tuples and clear when those inside have passed. Heard while a task runs.
    o_result : Out(stream)
        Results that pass the filter.
    o_done : Out(1)
        High for a cycle at the end of a task, when all its results were taken.
    o_loaded, o_sent : Out
        Stream and window tuples that the task took.
    o_waits : Out(1)
        The next item is a window tuple.
    o_stall : Out(1)
        Results are not taken fast enough, so the units keep theirs.
    o_quiet : Out(1)
        No window tuple and no result is inside.
    """

    i_task: stream.Interface
    i_tuple: stream.Interface
    i_window: stream.Interface
    i_halt: Signal
    o_result: stream.Interface
    o_done: Signal
    o_loaded: Signal
    o_sent: Signal
    o_waits: Signal
    o_stall: Signal
    o_quiet: Signal

    def __init__(self, config: FJoinConfig) -> None:
        self.config = config
        program = config.program
        assert program is not None  # the configuration insists on it
        ids, seq = config.position_bits, config.seq_bits
        self.units = [
            FJoinUnit(program, seq_bits=seq, id_bits=ids, last=number == config.units - 1)
            for number in range(config.units)
        ]
        self._task = data.StructLayout({"tuples": range(config.units + 1), "windows": ids})
        self._span = data.StructLayout({"start": ids, "end": ids})
        self._result = result_layout(seq, ids)
        entry = data.StructLayout({"keys": key_layout(program.stream), "start": ids, "end": ids})
        super().__init__(
            {
                "i_task": In(stream.Signature(self._task)),
                "i_tuple": In(stream.Signature(entry)),
                "i_window": In(stream.Signature(window_layout(program, ids))),
                "i_halt": In(1),
                "o_result": Out(stream.Signature(self._result)),
                "o_done": Out(1),
                "o_loaded": Out(range(config.units + 1)),
                "o_sent": Out(ids),
                "o_waits": Out(1),
                "o_stall": Out(1),
                "o_quiet": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.config
        self._connect(m, platform)
        first, last = self.units[0], self.units[-1]
        loaded, sent, passed = self.o_loaded, self.o_sent, Signal(config.position_bits)
        todo = Signal(self._task)
        wait = Signal(range(config.units + 3))
        halted = Signal()
        with m.If(wait != 0):
            m.d.sync += wait.eq(wait - 1)
        with m.If(last.o_window.valid):
            m.d.sync += passed.eq(passed + 1)
        with m.If(self.i_halt):
            m.d.sync += halted.eq(1)
        ends = self.i_halt | halted
        m.d.comb += [
            first.i_stream.item.seq.eq(loaded),
            first.i_stream.item["keys"].eq(self.i_tuple.payload["keys"]),
            first.i_stream.valid.eq(self.i_tuple.valid & self.i_tuple.ready),
            first.i_window.item.eq(self.i_window.payload),
            first.i_window.valid.eq(self.i_window.valid & self.i_window.ready),
        ]
        with m.If(first.i_stream.valid):
            m.d.sync += loaded.eq(loaded + 1)
        with m.If(first.i_window.valid):
            m.d.sync += sent.eq(sent + 1)
        empty = self._outlet(m)

        # A result of the window tuple that just left takes two cycles to the FIFO.
        leaving = Signal(2)
        m.d.sync += leaving.eq(Cat(last.o_window.valid, leaving))
        m.d.comb += self.o_quiet.eq((passed == sent) & (leaving == 0) & empty)

        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.i_task.ready.eq(1)
                m.d.sync += [
                    todo.eq(self.i_task.payload),
                    loaded.eq(0),
                    sent.eq(0),
                    passed.eq(0),
                    halted.eq(0),
                ]
                with m.If(self.i_task.valid):
                    m.next = "LOAD"
            with m.State("LOAD"):
                with m.If(ends | (loaded == todo.tuples)):
                    m.next = "JOIN"
                with m.Else():
                    m.d.comb += self.i_tuple.ready.eq(~first.o_stream_full)
            with m.State("JOIN"):
                m.d.comb += [
                    self.o_waits.eq((sent != todo.windows) & ~ends),
                    self.i_window.ready.eq(self.o_waits & first.o_window_empty),
                ]
                with m.If((passed == sent) & ~self.o_waits):
                    m.d.comb += first.i_clear.eq(1)
                    m.d.sync += wait.eq(config.units + 2)
                    m.next = "CLEAR"
            with m.State("CLEAR"), m.If((wait == 0) & empty):
                m.d.comb += self.o_done.eq(1)
                m.next = "IDLE"
        return m

    def _connect(self, m: Module, platform: object) -> None:
        """Put the units in a chain."""
        ends = self.units[0], self.units[-1]
        for number, unit in enumerate(self.units):
            # Some ports at the ends lead nowhere, so their modules are others.
            inner = unit if unit in ends else instantiated(unit, "unit", self.config, platform)
            m.submodules[f"unit_{number}"] = inner
        for unit, following in pairwise(self.units):
            m.d.comb += [
                following.i_stream.eq(unit.o_stream),
                following.i_window.eq(unit.o_window),
                following.i_result.eq(unit.o_result),
                following.i_clear.eq(unit.o_clear),
                unit.i_stream_full.eq(following.o_stream_full),
                unit.i_window_empty.eq(following.o_window_empty),
                unit.i_stall.eq(following.o_stall),
            ]
        last = self.units[-1]
        m.d.comb += [last.i_stream_full.eq(1), last.i_window_empty.eq(1)]

    def _outlet(self, m: Module) -> Signal:
        """Filter and FIFO behind the last unit; returns whether the FIFO is empty."""
        config, last = self.config, self.units[-1]
        m.submodules.ranges = ranges = Memory(shape=self._span, depth=config.units, init=[])
        write, read = ranges.write_port(), ranges.read_port()
        entry, span = self.i_tuple.payload, Signal(self._span)
        result = Signal(channel(self._result))
        m.d.sync += result.eq(last.o_result)
        m.d.comb += [
            write.addr.eq(self.o_loaded),
            write.data.start.eq(entry.start),
            write.data.end.eq(entry.end),
            write.en.eq(self.i_tuple.valid & self.i_tuple.ready),
            read.addr.eq(last.o_result.item.seq),
            read.en.eq(1),
            span.eq(read.data),
        ]
        m.submodules.fifo = fifo = SyncFIFOBuffered(
            width=self._result.size, depth=config.outlet_records
        )
        number = result.item.id
        empty = Signal()
        m.d.comb += [
            fifo.w_data.eq(result.item),
            fifo.w_en.eq(result.valid & (span.start <= number) & (number < span.end)),
            self.o_result.payload.eq(fifo.r_data),
            self.o_result.valid.eq(fifo.r_rdy),
            fifo.r_en.eq(self.o_result.ready),
            self.o_stall.eq(fifo.r_level > STALL_LEVEL),
            last.i_stall.eq(self.o_stall),
            empty.eq(fifo.r_level == 0),
        ]
        return empty
