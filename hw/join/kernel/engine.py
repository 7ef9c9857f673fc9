"""The join pipeline as an engine: from its arguments to words of results."""

from __future__ import annotations

from amaranth.hdl import Array, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import connect, flipped

from penstock.program import Mode

from ...kernel.engine import Engine
from ...kernel.slots import Packer
from ...kernel.status import Status
from ..flit import report_layout
from ..modes import CODES, one_of
from .config import KernelConfig
from .describe import describe
from .feeder import Feeder
from .lanes import Lanes
from .layout import value_slots
from .pipelines import Pipelines


class JoinEngine(Engine):
    """Runs tasks of the join pipeline.

    The truth table is written while the first words come from memory; then window tuples flow at
    one per cycle as memory, result room and result port allow. A task that folds matches needs
    room for all its values and never runs out of it.

    Parameters
    ----------
    config : KernelConfig
        The build.
    """

    def __init__(self, config: KernelConfig) -> None:
        self.config = config
        super().__init__(describe(config))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.config
        self._running = Signal()
        self._begun = Signal()  # the head took a pass of this task
        self._chain = chain = Pipelines(config) if config.pipelines > 1 else config.join.chain()
        m.submodules.chain = chain
        m.submodules.feeder = self._feeder = feeder = Feeder(config)
        m.submodules.lanes = self._lanes = lanes = Lanes(config)
        connect(m, feeder.o_task_port, flipped(self.read("m_axi_gmem0")))
        connect(m, feeder.o_window_port, flipped(self.read("m_axi_gmem1")))
        for record, taken in zip(chain.o_record, lanes.i, strict=True):
            connect(m, record, taken)
        connect(m, feeder.o_tuple, chain.i_tuple)
        connect(m, feeder.o_window, chain.i_window)
        m.d.comb += [
            chain.i_quiet.eq(1),
            lanes.i_flush.eq(self.i_flush),
        ]
        self._packer = None
        if folding := config.join.folding:
            self._packer = packer = Packer(value_slots(config), folding.layout)
            m.submodules.packer = packer
            connect(m, chain.o_value, packer.i)
            m.d.comb += packer.i_flush.eq(self.i_flush)
        self._job(m)
        if config.join.entry_bits:
            self._entries(m)
        self._run(m)
        self._pour(m)
        self._room(m)
        self._count(m)
        return m

    def refusals(self, given: data.View) -> list[tuple[Value, Status]]:
        empty = (given.pass_count == 0) | (given.tuple_count == 0) | (given.window_count == 0)
        return [
            (empty, Status.EMPTY),
            (~one_of(given.mode, self.config.join.modes), Status.BAD_MODE),
        ]

    def _job(self, m: Module) -> None:
        given, feeder = self.i_arguments, self._feeder
        job = feeder.i_job
        m.d.comb += [
            job.pass_address.eq(given.passes),
            job.tuple_address.eq(given.tuples),
            job.window_address.eq(given.window),
            job.passes.eq(given.pass_count),
            job.tuples.eq(given.tuple_count),
            job.window.eq(given.window_count),
            feeder.i_start.eq(self.i_start),
            feeder.i_cancel.eq(self.i_halt | self.i_flush),
            feeder.i_clear.eq(self.i_clear),
            self.o_idle.eq(feeder.o_idle),
            self.o_read_error.eq(feeder.o_read_error),
            self.o_failed.eq(feeder.o_read_error | feeder.o_bad_pass),
        ]

    def _entries(self, m: Module) -> None:
        """Write the truth table and the mode at the start of each task, an entry per cycle."""
        entry, join = self._chain.i_entry, self.config.join
        entries = max(join.table_bits, 1)
        index = Signal(range(entries))
        if join.is_band:
            words = [self.i_arguments[f"table_{k}"] for k in range(self.config.table_words)]
            table = Signal(32 * len(words))
            m.d.comb += [
                *(table[32 * k : 32 * k + 32].eq(word) for k, word in enumerate(words)),
                entry.payload.index.eq(index),
                entry.payload.value.eq(Array(table[:entries])[index]),
            ]
        if join.folding:
            m.d.comb += entry.payload.mode.eq(self.i_arguments.mode)
        with m.If(self.i_start):
            m.d.sync += [index.eq(0), entry.valid.eq(1)]
        with m.Elif(entry.valid & entry.ready):
            m.d.sync += [index.eq(index + 1), entry.valid.eq(index != entries - 1)]

    def _run(self, m: Module) -> None:
        """Run the head, which gets no pass once the task is being halted."""
        chain, feeder = self._chain, self._feeder
        running, begun = self._running, self._begun
        report = Signal(report_layout(self.config.join), reset_less=True)
        # A cycle later than told to: the head is at the end of long paths. It may still take a pass
        # in the cycle in which it is told to halt.
        opened, halts, fault = Signal(), Signal(), Signal()
        m.d.comb += [
            chain.i_pass.payload.eq(feeder.o_pass.payload),
            chain.i_pass.valid.eq(feeder.o_pass.valid & opened),
            feeder.o_pass.ready.eq(chain.i_pass.ready & opened),
            chain.i_halt.eq(halts),
            chain.o_report.ready.eq(running),
            self.o_ended.eq(running & (chain.o_report.valid | (halts & ~(opened | begun)))),
            *(self.o_fields[name].eq(report[name]) for name in self.o_fields.shape().members),
        ]
        with m.If(feeder.o_bad_pass):
            m.d.comb += self.o_status.eq(Status.BAD_PASS)
        with m.Elif(fault):
            m.d.comb += self.o_status.eq(Status.BAD_RANGE)
        with m.Elif(report.complete != self.i_arguments.tuple_count):
            m.d.comb += self.o_status.eq(Status.PAUSED)
        with m.If(chain.i_pass.valid & chain.i_pass.ready):
            m.d.sync += begun.eq(1)
        with m.If(self.i_start):
            m.d.sync += [
                *(running.eq(1), opened.eq(1), begun.eq(0)),
                *(fault.eq(0), report.eq(0)),
            ]
        with m.Elif(self.o_ended):
            m.d.sync += [running.eq(0), opened.eq(0), halts.eq(0)]
        with m.Else():
            m.d.sync += [opened.eq(running & ~halts), halts.eq(running & self.i_halt)]
        with m.If(running & chain.o_report.valid):
            m.d.sync += [report.eq(chain.o_report.payload), fault.eq(chain.o_fault)]

    def _pour(self, m: Module) -> None:
        """Words of records, or of values: a task gives one of them."""
        records, o, packer = self._lanes.o, self.o, self._packer
        m.d.comb += [
            o.payload.eq(records.payload),
            o.valid.eq(records.valid),
            records.ready.eq(o.ready),
            self.o_empty.eq(self._lanes.o_empty),
        ]
        if packer is not None:
            m.d.comb += [
                packer.o.ready.eq(o.ready),
                self.o_empty.eq(self._lanes.o_empty & packer.o_empty),
            ]
            with m.If(packer.o.valid):
                m.d.comb += [o.payload.eq(packer.o.payload), o.valid.eq(1)]

    def _room(self, m: Module) -> None:
        """Room is in words. Values have theirs from the start, and need none in reserve."""
        given, config = self.i_arguments, self.config
        m.d.comb += [
            self.o_capacity.eq(given.result_words),
            self.o_reserve.eq(config.reserve_words),
            self.o_least.eq(config.least_result_words),
            self._chain.i_room.eq(self.i_room),
        ]
        if self._packer is not None:
            with m.If(given.mode != CODES[Mode.PAIRS]):
                values = value_slots(config).words_of(given.tuple_count)
                m.d.comb += [self.o_reserve.eq(0), self.o_least.eq(values)]

    def _count(self, m: Module) -> None:
        chain, lanes, packer = self._chain, self._lanes, self._packer
        word = lanes.o.valid & lanes.o.ready
        records, words = Mux(word, lanes.o_records, 0), word
        if packer is not None:
            records = records | (packer.i.valid & packer.i.ready)
            words = word | (packer.o.valid & packer.o.ready)
        steps = {
            "cycles": 1,
            "window_flits": chain.i_window.valid & chain.i_window.ready,
            "admission_stalls": chain.o_stalled,
            "memory_waits": self._running & (chain.o_starved | ~self._begun),
            "records": records,
            "passes": chain.i_pass.valid & chain.i_pass.ready,
            "words": words,
        }
        m.d.comb += [self.o_steps[name].eq(value) for name, value in steps.items()]
