"""The kernel behind its registers: runs a task from start to done."""

from __future__ import annotations

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value, ValueLike
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from penstock.program import Mode

from ..join.flit import report_layout
from ..join.modes import CODES, one_of
from .axi import READ_PORT, WRITE_PORT, ReadPort, WritePort
from .config import WORD_BYTES, KernelConfig, register_map
from .control import arguments_layout, judge
from .counters import STEPS, Counters
from .feeder import Feeder
from .lanes import Lanes
from .layout import HEADER, Status, header_layout, value_slots
from .pipelines import Pipelines
from .registers import Passes, Register, Results, Tuples, Window
from .slots import Packer
from .writer import Writer


class Shell(wiring.Component):
    """Runs tasks.

    The truth table is written while the first words come from memory; then window tuples flow at
    one per cycle as memory, result room and result port allow. A task that runs out of result
    room, finds an error or gets one from memory is halted, drained and reported like any other.
    One that folds matches needs room for all its values and never runs out of it.
    The header is written last, when all results were answered.

    Parameters
    ----------
    config : KernelConfig
        The build.

    Members
    -------
    i_arguments : In
        Arguments; they must not change while a task runs.
    i_start, o_done : In(1), Out(1)
        Run a task; it has ended (one cycle).
    o_idle : Out(1)
        No task runs.
    o_status : Out(32)
        How the latest task ended.
    o_task_port, o_window_port, o_result_port : Out
        To memory: passes and stream tuples; window; results.
    """

    i_arguments: data.View
    i_start: Signal
    o_done: Signal
    o_idle: Signal
    o_status: Signal
    o_task_port: ReadPort
    o_window_port: ReadPort
    o_result_port: WritePort

    def __init__(self, config: KernelConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i_arguments": In(arguments_layout(register_map(config))),
                "i_start": In(1),
                "o_done": Out(1),
                "o_idle": Out(1),
                "o_status": Out(32),
                "o_task_port": Out(READ_PORT),
                "o_window_port": Out(READ_PORT),
                "o_result_port": Out(WRITE_PORT),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.config
        self._begun = Signal()  # the head took a pass of this task
        self._report = Signal(report_layout(config.join))
        self._chain = chain = Pipelines(config) if config.pipelines > 1 else config.join.chain()
        m.submodules.chain = chain
        m.submodules.feeder = self._feeder = feeder = Feeder(config)
        m.submodules.lanes = self._lanes = lanes = Lanes(config)
        m.submodules.writer = self._writer = writer = Writer(config)
        m.submodules.counters = self._counters = Counters()
        connect(m, feeder.o_task_port, flipped(self.o_task_port))
        connect(m, feeder.o_window_port, flipped(self.o_window_port))
        connect(m, writer.o_port, flipped(self.o_result_port))
        for record, taken in zip(chain.o_record, lanes.i, strict=True):
            connect(m, record, taken)
        connect(m, feeder.o_tuple, chain.i_tuple)
        connect(m, feeder.o_window, chain.i_window)
        m.d.comb += chain.i_quiet.eq(1)
        self._packer = None
        if folding := config.join.folding:
            self._packer = packer = Packer(value_slots(config.join), folding.layout)
            m.submodules.packer = packer
            connect(m, chain.o_value, packer.i)
        self._job(m)
        if config.join.entry_bits:
            self._entries(m)
        self._room(m)
        running = self._control(m)
        self._count(m, running)
        return m

    def _argument(self, register: type[Register]) -> Signal:
        return self.i_arguments[register.name]

    def _job(self, m: Module) -> None:
        given, job = self.i_arguments, self._feeder.i_job
        m.d.comb += [
            job.pass_address.eq(given.passes),
            job.tuple_address.eq(given.tuples),
            job.window_address.eq(given.window),
            job.passes.eq(given.pass_count),
            job.tuples.eq(given.tuple_count),
            job.window.eq(given.window_count),
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
        with m.If(self._feeder.i_start):
            m.d.sync += [index.eq(0), entry.valid.eq(1)]
        with m.Elif(entry.valid & entry.ready):
            m.d.sync += [index.eq(index + 1), entry.valid.eq(index != entries - 1)]

    def _room(self, m: Module) -> None:
        """Stop the head while the room that is left still takes all that may follow.

        Values have their room from the start.
        """
        room = self._chain.i_room
        needed = self._counters.sum("words") + self.config.reserve_words
        enough = needed <= self.i_arguments.result_words
        m.d.sync += room.eq(enough if self._packer is None else enough | self._folds())

    def _folds(self) -> Value:
        """Whether the task folds its matches."""
        return self.i_arguments.mode != CODES[Mode.PAIRS]

    def _refusals(self) -> list[tuple[Value, Status]]:
        """What may be wrong with the arguments, but for a misaligned address."""
        given, config = self.i_arguments, self.config
        empty = (given.pass_count == 0) | (given.tuple_count == 0) | (given.window_count == 0)
        known = one_of(given.mode, config.join.modes)
        least: ValueLike = config.least_result_words
        if self._packer is not None:
            packed = value_slots(config.join).per_word_log2
            values = (given.tuple_count + (1 << packed) - 1) >> packed
            least = Mux(self._folds(), values, least)
        return [
            (empty, Status.EMPTY),
            (~known, Status.BAD_MODE),
            (given.result_words < least, Status.NO_ROOM),
        ]

    def _misaligned(self) -> Value:
        addresses = [self._argument(r) for r in (Passes, Tuples, Window, Results)]
        low = Cat(address[: WORD_BYTES.bit_length() - 1] for address in addresses)
        return low.any()

    def _control(self, m: Module) -> Signal:
        """The task's state machine; returns whether the head runs."""
        chain, feeder, lanes, writer = self._chain, self._feeder, self._lanes, self._writer
        counters, status, report = self._counters, self.o_status, self._report
        results = self._argument(Results)
        running = Signal()
        refused, verdict, nowhere = judge(
            m,
            results[: WORD_BYTES.bit_length() - 1].any(),
            [(self._misaligned(), Status.MISALIGNED), *self._refusals()],
        )
        header = Signal()  # the word for the writer is the header
        failed = feeder.o_read_error | writer.o_error | feeder.o_bad_pass
        packer = self._packer
        gathered = lanes.o_empty & packer.o_empty if packer else lanes.o_empty

        # The head gets no pass once the task is being halted.
        m.d.comb += [
            chain.i_pass.payload.eq(feeder.o_pass.payload),
            chain.o_report.ready.eq(running),
            self._pour(header),
        ]
        with m.If(chain.i_pass.valid & chain.i_pass.ready):
            m.d.sync += self._begun.eq(1)

        def end_run() -> None:
            with m.If(chain.o_fault):
                m.d.sync += status.eq(Status.BAD_RANGE)
            with m.Elif(chain.o_report.payload.complete == self.i_arguments.tuple_count):
                m.d.sync += status.eq(Status.OK)
            m.d.sync += report.eq(chain.o_report.payload)
            m.next = "COLLECT"

        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += [self.o_idle.eq(~self.i_start), counters.i_clear.eq(1)]
                m.d.sync += [self._begun.eq(0), report.eq(0)]
                with m.If(self.i_start):
                    m.next = "CHECK"
            with m.State("CHECK"):
                m.next = "HEADER"
                with m.If(refused):
                    m.d.sync += status.eq(verdict)
                    with m.If(nowhere):
                        m.next = "DONE"
                with m.Else():
                    m.d.sync += status.eq(Status.PAUSED)
                    m.d.comb += [
                        feeder.i_start.eq(1),
                        writer.i_start.eq(1),
                        writer.i_address.eq(results + WORD_BYTES),
                    ]
                    m.next = "RUN"
            with m.State("RUN"):
                m.d.comb += [
                    running.eq(1),
                    chain.i_pass.valid.eq(feeder.o_pass.valid),
                    feeder.o_pass.ready.eq(chain.i_pass.ready),
                ]
                with m.If(chain.o_report.valid):
                    end_run()
                with m.Elif(failed | ~chain.i_room):
                    m.next = "HALT"
            with m.State("HALT"):
                m.d.comb += [running.eq(1), chain.i_halt.eq(1), feeder.i_cancel.eq(1)]
                with m.If(chain.o_report.valid):
                    end_run()
                with m.Elif(~self._begun):
                    m.next = "COLLECT"
            with m.State("COLLECT"):
                m.d.comb += [
                    feeder.i_cancel.eq(1),
                    lanes.i_flush.eq(1),
                    writer.i_flush.eq(gathered),
                ]
                if packer:
                    m.d.comb += packer.i_flush.eq(1)
                with m.If(gathered & writer.o_idle & feeder.o_idle):
                    m.next = "CLEAR"
            with m.State("CLEAR"):
                m.d.comb += [feeder.i_cancel.eq(1), feeder.i_clear.eq(1)]
                with m.If(feeder.o_read_error):
                    m.d.sync += status.eq(Status.READ_ERROR)
                with m.Elif(writer.o_error):
                    m.d.sync += status.eq(Status.WRITE_ERROR)
                with m.Elif(feeder.o_bad_pass):
                    m.d.sync += status.eq(Status.BAD_PASS)
                m.next = "HEADER"
            with m.State("HEADER"):
                m.d.comb += [writer.i_start.eq(1), writer.i_address.eq(results)]
                m.next = "WRITE"
            with m.State("WRITE"):
                m.d.comb += header.eq(1)
                with m.If(writer.i.ready):
                    m.next = "ANSWER"
            with m.State("ANSWER"):
                m.d.comb += writer.i_flush.eq(1)
                with m.If(writer.o_idle):
                    with m.If(writer.o_error):
                        m.d.sync += status.eq(Status.WRITE_ERROR)
                    m.next = "DONE"
            with m.State("DONE"):
                m.d.comb += self.o_done.eq(1)
                m.next = "IDLE"
        return running

    def _pour(self, header: Signal) -> list:
        """The writer's word: the header in its cycle, else from the lanes or of values."""
        i, records = self._writer.i, self._lanes.o
        valid, payload, values = records.valid, records.payload, []
        if self._packer is not None:
            # A task gives records or values.
            packed = self._packer.o
            payload = Mux(packed.valid, packed.payload, payload)
            valid = valid | packed.valid
            values = [packed.ready.eq(i.ready & ~header)]
        return [
            i.payload.eq(Mux(header, self._header().as_value(), payload)),
            i.valid.eq(valid | header),
            records.ready.eq(i.ready & ~header),
            *values,
        ]

    def _header(self) -> data.View:
        header = data.View(header_layout(), Signal(header_layout().size, name="header"))
        self._header_view = header
        return header

    def _count(self, m: Module, running: Signal) -> None:
        chain, counters, lanes = self._chain, self._counters, self._lanes
        word = lanes.o.valid & lanes.o.ready
        records, words = Mux(word, lanes.o_records, 0), word
        if (packer := self._packer) is not None:
            records = records | (packer.i.valid & packer.i.ready)
            words = word | (packer.o.valid & packer.o.ready)
        steps = {
            "cycles": 1,
            "window_flits": chain.i_window.valid & chain.i_window.ready,
            "admission_stalls": chain.o_stalled,
            "memory_waits": running & (chain.o_starved | ~self._begun),
            "records": records,
            "passes": chain.i_pass.valid & chain.i_pass.ready,
            "words": words,
        }
        # Counted a cycle later: sums of so many bits behind a handshake are too long a path.
        m.d.sync += [counters.step(name).eq(value) for name, value in steps.items()]
        own = {"status": self.o_status}
        own |= {name: self._report[name] for name in ("complete", "loaded", "position")}
        for name in HEADER:
            source = counters.sum(name) if name in STEPS else own[name]
            m.d.comb += self._header_view[name].eq(source)
