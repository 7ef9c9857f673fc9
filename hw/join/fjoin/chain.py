"""The paper's pipeline with the ports of a chain, so that kernel and simulators run it too."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data

from ..chain import BaseChain
from ..flit import pass_layout
from .config import FJoinConfig
from .pipeline import FJoinPipeline


class FJoinChain(BaseChain):
    """Runs each pass of a task as a task of :class:`FJoinPipeline`.

    Passes hold at most ``config.units`` stream tuples. Window tuples are numbered by position, so
    the filter at the outlet is for the range of each stream tuple. A result leaves as a record
    with one bit. Two cycles per pass beyond what the pipeline takes.

    Parameters
    ----------
    config : FJoinConfig
        The build.
    """

    config: FJoinConfig

    def __init__(self, config: FJoinConfig) -> None:
        self.pipeline = FJoinPipeline(config)
        super().__init__(config)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.pipeline = pipeline = self.pipeline
        part = Signal(pass_layout(self.config))
        self._tuples(m, part)
        self._windows(m, part)
        self._records(m, part)
        self._control(m, part)
        m.d.comb += self.o_quiet.eq(pipeline.o_quiet)
        return m

    def _tuples(self, m: Module, part: data.View) -> None:
        """Stream tuples whose ranges lie in the pass; another one ends the task."""
        pipeline, given = self.pipeline, self.i_tuple.payload
        entry, fits = pipeline.i_tuple, Signal()
        m.d.comb += [
            fits.eq(
                (part.begin <= given.start) & (given.start < given.end) & (given.end <= part.end)
            ),
            entry.payload["keys"].as_value().eq(given["keys"]),
            entry.payload.start.eq(given.start),
            entry.payload.end.eq(given.end),
            entry.valid.eq(self.i_tuple.valid & fits),
            self.i_tuple.ready.eq(entry.ready & fits),
            pipeline.i_halt.eq(self.i_halt | self.o_fault),
        ]
        with m.If(self.i_tuple.valid & entry.ready & ~fits):
            m.d.sync += self.o_fault.eq(1)

    def _windows(self, m: Module, part: data.View) -> None:
        """Window tuples and their positions, as long as there is room for their results."""
        pipeline, window = self.pipeline, self.pipeline.i_window
        waiting = self.i_window.valid & pipeline.o_waits
        m.d.comb += [
            window.payload["keys"].as_value().eq(self.i_window.payload),
            window.payload.id.eq(part.begin + pipeline.o_sent),
            window.valid.eq(self.i_window.valid & self.i_room),
            self.i_window.ready.eq(window.ready & self.i_room),
            self.o_stalled.eq(waiting & (~self.i_room | pipeline.o_stall)),
        ]

    def _records(self, m: Module, part: data.View) -> None:
        """A result as a record: the ordinal counts the task's window tuples."""
        config, result = self.config, self.pipeline.o_result
        bits = min((config.units_per_block - 1).bit_length(), config.seq_bits)
        seq = result.payload.seq
        #: Window tuples of the passes before, minus the first position of this one.
        shift, before = Signal(config.ordinal_bits), Signal(config.ordinal_bits)
        m.d.comb += shift.eq(before - part.begin)
        with m.If(self.o_report.valid & self.o_report.ready):
            m.d.sync += before.eq(0)
        with m.Elif(self.pipeline.o_done):
            m.d.sync += before.eq(before + self.pipeline.o_sent)
        for number, record in enumerate(self.o_record):
            m.d.comb += [
                record.payload.ordinal.eq(result.payload.id + shift),
                record.payload.mask.eq(1 << seq[:bits]),
                record.valid.eq(result.valid & (seq[bits:] == number)),
            ]
            with m.If(seq[bits:] == number):
                m.d.comb += result.ready.eq(record.ready)

    def _control(self, m: Module, part: data.View) -> None:
        """Passes one after another, and the report."""
        config, pipeline, task = self.config, self.pipeline, self.pipeline.i_task
        report = self.o_report.payload
        complete = Signal(config.position_bits)  # stream tuples of the passes before
        cut = Signal()
        fits = part.tuples <= config.units
        m.d.comb += [
            task.payload.tuples.eq(part.tuples),
            task.payload.windows.eq(part.end - part.begin),
            cut.eq(
                (pipeline.o_loaded != part.tuples)
                | (pipeline.o_sent != (part.end - part.begin)[: config.position_bits])
            ),
        ]

        def take_pass() -> None:
            m.d.comb += self.i_pass.ready.eq(1)
            with m.If(self.i_pass.valid):
                m.d.sync += part.eq(self.i_pass.payload)
                m.next = "START"

        def finish(done: object, loaded: object, position: object) -> None:
            m.d.sync += [
                report.complete.eq(done),
                report.loaded.eq(loaded),
                report.position.eq(position),
            ]
            m.next = "REPORT"

        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += [complete.eq(0), self.o_fault.eq(0)]
                take_pass()
            with m.State("NEXT"):
                with m.If(self.i_halt):
                    finish(complete, complete, part.end)
                with m.Else():
                    m.d.comb += self.o_starved.eq(~self.i_pass.valid)
                    take_pass()
            with m.State("START"):
                with m.If(fits):
                    m.d.comb += task.valid.eq(1)
                    m.next = "RUN"
                with m.Else():
                    m.d.sync += self.o_fault.eq(1)
                    finish(complete, complete, part.begin)
            with m.State("RUN"):
                m.d.comb += self.o_starved.eq(
                    (pipeline.i_tuple.ready & ~self.i_tuple.valid)
                    | (pipeline.i_window.ready & ~self.i_window.valid)
                )
                loaded = (complete + pipeline.o_loaded)[: config.position_bits]
                with m.If(pipeline.o_done):
                    m.d.sync += complete.eq(loaded)
                    with m.If(cut | part.last):
                        position = part.begin + pipeline.o_sent
                        finish(Mux(cut, complete, loaded), loaded, position)
                    with m.Else():
                        m.next = "NEXT"
            with m.State("REPORT"):
                m.d.comb += self.o_report.valid.eq(self.i_quiet)
                with m.If(self.o_report.valid & self.o_report.ready):
                    m.next = "IDLE"
