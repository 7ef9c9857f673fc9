"""FJoin's join pipeline: units in a chain, a state machine, and filters at the result outlet."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from penstock.hw.hls.datapath import key_layout
from penstock.hw.join.fjoin.unit import FJoinUnit, channel, result_layout, window_layout
from penstock.program import GeneralProgram


@dataclass(frozen=True, kw_only=True)
class FJoinConfig:
    """One build of the paper's pipeline.

    Parameters
    ----------
    program : GeneralProgram
        The predicate.
    units : int
        Join units, which is the most stream tuples of a task.
    id_bits : int
        Width of a window tuple's number.
    """

    program: GeneralProgram
    units: int = 64
    id_bits: int = 32

    def __post_init__(self) -> None:
        if not 2 <= self.units <= 1 << 16:
            raise ValueError(f"units must be 2 to 65536, not {self.units!r}")

    @property
    def seq_bits(self) -> int:
        return (self.units - 1).bit_length()

    @property
    def fifo_depth(self) -> int:
        """Results that may come after a stall is given: a register and a new one per unit."""
        return 2 * self.units + 8


class FJoinPipeline(wiring.Component):
    """Load, join, clear.

    A task fills the units, then sends its window past them, one tuple per two cycles, then empties
    them. The filter at the outlet drops results outside the stream tuple's range.

    Parameters
    ----------
    config : FJoinConfig
        The build.

    Members
    -------
    i_task : In(stream)
        Numbers of stream tuples (at most ``config.units``) and of window tuples of a task.
    i_tuple : In(stream)
        Stream tuples: keys, and the range of window tuples that they may join.
    i_window : In(stream)
        Window tuples.
    o_result : Out(stream)
        Results that pass the filter.
    o_done : Out(1)
        High for a cycle at the end of a task.
    """

    i_task: stream.Interface
    i_tuple: stream.Interface
    i_window: stream.Interface
    o_result: stream.Interface
    o_done: Signal

    def __init__(self, config: FJoinConfig) -> None:
        self.config = config
        ids, seq = config.id_bits, config.seq_bits
        keys = key_layout(config.program.stream)
        self.units = [
            FJoinUnit(config.program, seq_bits=seq, id_bits=ids) for _ in range(config.units)
        ]
        self._task = data.StructLayout({"tuples": range(config.units + 1), "windows": ids})
        self._span = data.StructLayout({"start": ids, "end": ids})
        entry = data.StructLayout({"keys": keys, "start": ids, "end": ids})
        super().__init__(
            {
                "i_task": In(stream.Signature(self._task)),
                "i_tuple": In(stream.Signature(entry)),
                "i_window": In(stream.Signature(window_layout(config.program, ids))),
                "o_result": Out(stream.Signature(result_layout(seq, ids))),
                "o_done": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config, units = self.config, self.units
        first, last = units[0], units[-1]
        for number, unit in enumerate(units):
            m.submodules[f"unit_{number}"] = unit
        for unit, following in pairwise(units):
            m.d.comb += [
                following.i_stream.eq(unit.o_stream),
                following.i_window.eq(unit.o_window),
                following.i_result.eq(unit.o_result),
                following.i_clear.eq(unit.o_clear),
                unit.i_stream_full.eq(following.o_stream_full),
                unit.i_window_empty.eq(following.o_window_empty),
                unit.i_stall.eq(following.o_stall),
            ]
        m.d.comb += [last.i_stream_full.eq(1), last.i_window_empty.eq(1)]

        loaded = Signal(range(config.units + 1))
        sent, passed = Signal(config.id_bits), Signal(config.id_bits)
        wait = Signal(range(2 * config.units + 8))
        todo = Signal(self._task)
        with m.If(wait != 0):
            m.d.sync += wait.eq(wait - 1)
        with m.If(last.o_window.valid):
            m.d.sync += passed.eq(passed + 1)
        m.d.comb += [
            first.i_stream.item.seq.eq(loaded),
            first.i_stream.item["keys"].eq(self.i_tuple.payload["keys"]),
            first.i_window.item.eq(self.i_window.payload),
        ]
        empty = self._outlet(m, loaded)

        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.i_task.ready.eq(1)
                m.d.sync += [
                    todo.eq(self.i_task.payload),
                    loaded.eq(0),
                    sent.eq(0),
                    passed.eq(0),
                ]
                with m.If(self.i_task.valid):
                    m.next = "LOAD"
            with m.State("LOAD"):
                with m.If(loaded == todo.tuples):
                    # The tuple loaded last walks to its unit, a step in two cycles at the most.
                    m.d.sync += wait.eq(2 * config.units)
                    m.next = "SETTLE"
                with m.Elif(self.i_tuple.valid & ~first.o_stream_full):
                    m.d.comb += [self.i_tuple.ready.eq(1), first.i_stream.valid.eq(1)]
                    m.d.sync += loaded.eq(loaded + 1)
            with m.State("SETTLE"), m.If(wait == 0):
                m.next = "JOIN"
            with m.State("JOIN"):
                with m.If((sent != todo.windows) & first.o_window_empty & self.i_window.valid):
                    m.d.comb += [self.i_window.ready.eq(1), first.i_window.valid.eq(1)]
                    m.d.sync += sent.eq(sent + 1)
                with m.If(passed == todo.windows):
                    m.d.comb += first.i_clear.eq(1)
                    m.d.sync += wait.eq(config.units + 2)
                    m.next = "CLEAR"
            with m.State("CLEAR"), m.If((wait == 0) & empty):
                m.d.comb += self.o_done.eq(1)
                m.next = "IDLE"
        return m

    def _outlet(self, m: Module, loaded: Signal) -> Signal:
        """Filter and FIFO behind the last unit; returns whether the FIFO is empty."""
        config, last = self.config, self.units[-1]
        ids = config.id_bits
        m.submodules.ranges = ranges = Memory(shape=self._span, depth=config.units, init=[])
        write, read = ranges.write_port(), ranges.read_port()
        entry, span = self.i_tuple.payload, Signal(self._span)
        result = Signal(channel(result_layout(config.seq_bits, ids)))
        m.d.sync += result.eq(last.o_result)
        m.d.comb += [
            write.addr.eq(loaded),
            write.data.start.eq(entry.start),
            write.data.end.eq(entry.end),
            write.en.eq(self.i_tuple.ready),
            read.addr.eq(last.o_result.item.seq),
            read.en.eq(1),
            span.eq(read.data),
        ]
        m.submodules.fifo = fifo = SyncFIFOBuffered(
            width=result_layout(config.seq_bits, ids).size, depth=config.fifo_depth
        )
        number = result.item.id
        empty = Signal()
        m.d.comb += [
            fifo.w_data.eq(result.item),
            fifo.w_en.eq(result.valid & (span.start <= number) & (number < span.end)),
            self.o_result.payload.eq(fifo.r_data),
            self.o_result.valid.eq(fifo.r_rdy),
            fifo.r_en.eq(self.o_result.ready),
            last.i_stall.eq(fifo.r_level > 4),
            empty.eq(fifo.r_level == 0),
        ]
        return empty
