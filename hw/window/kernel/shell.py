"""The memory-fed kernel behind its registers: runs a task from start to done."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, ResetInserter, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ...kernel.axi import READ_PORT, WRITE_PORT, ReadPort, WritePort
from ...kernel.config import LANES, WORD_BYTES
from ...kernel.control import arguments_layout, judge
from ...kernel.counters import Counters
from ...kernel.slots import Packer
from ...kernel.writer import Writer
from ..layout import State
from ..operator import WindowJoin
from .config import TUPLES_IN_FLIGHT, WindowKernelConfig
from .feeder import Dealer, TupleReader
from .layout import HEADER, RESULT, RESULT_SLOTS, STEPS, Status, header_layout
from .registers import MEMORY_REGISTERS, register_map
from .state import operator_state
from .tables import write_tables


class WindowShell(wiring.Component):
    """Runs tasks: tuples from memory through the operator, results to memory.

    A task starts with empty windows. Its history goes in while both windows count as empty, so
    that nothing is matched; the tuples behind it are matched as the sizes of the windows say. When
    the room that is left might not take the results of one more tuple, no more are let in; what
    was let in is finished, and the header says how many tuples that were. The header is written
    last, when all results were answered.

    Parameters
    ----------
    config : WindowKernelConfig
        The build.

    Members
    -------
    i_arguments : In
        Arguments; they must not change while a task runs.
    i_start, o_done : In(1), Out(1)
        Run a task; it has ended (one cycle).
    o_idle : Out(1)
        No task runs.
    o_status, o_state : Out(32)
        Values of the status registers.
    o_tuple_port, o_result_port : Out
        To memory.
    """

    i_arguments: data.View
    i_start: Signal
    o_done: Signal
    o_idle: Signal
    o_status: Signal
    o_state: Signal
    o_tuple_port: ReadPort
    o_result_port: WritePort

    def __init__(self, config: WindowKernelConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i_arguments": In(arguments_layout(register_map(config.window, MEMORY_REGISTERS))),
                "i_start": In(1),
                "o_done": Out(1),
                "o_idle": Out(1),
                "o_status": Out(32),
                "o_state": Out(32),
                "o_tuple_port": Out(READ_PORT),
                "o_result_port": Out(WRITE_PORT),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.config
        self._clear = Signal()
        self._matching = Signal()  # the history is in its windows
        self._operator = operator = WindowJoin(config.window)
        m.submodules.operator = ResetInserter(self._clear)(operator)
        m.submodules.reader = self._reader = reader = TupleReader(config)
        m.submodules.dealer = self._dealer = dealer = Dealer(config)
        m.submodules.packer = self._packer = Packer(RESULT_SLOTS, RESULT)
        m.submodules.writer = self._writer = writer = Writer(config)
        m.submodules.counters = self._counters = Counters(STEPS)
        connect(m, reader.o_port, flipped(self.o_tuple_port))
        connect(m, writer.o_port, flipped(self.o_result_port))
        connect(m, reader.o, dealer.i)
        connect(m, dealer.o_a, operator.i_a)
        connect(m, dealer.o_b, operator.i_b)
        given = self.i_arguments
        m.d.comb += [
            reader.i_job.address.eq(given.tuples),
            reader.i_job.tuples.eq(given.tuple_count),
            dealer.i_clear.eq(self._clear),
            operator.rows_a.eq(Mux(self._matching, given.rows_a, 0)),
            operator.rows_b.eq(Mux(self._matching, given.rows_b, 0)),
            operator.shed.eq(0),
            self.o_state.eq(operator_state(operator)),
        ]
        if config.window.time_bits:
            m.d.comb += [operator.before.eq(given.before), operator.after.eq(given.after)]
        self._results(m)
        limit, room = self._room(m)
        written = write_tables(m, operator, given) if config.window.is_band else None
        self._control(m, limit, room, written)
        return m

    def _results(self, m: Module) -> None:
        o, i = self._operator.o, self._packer.i
        result = o.payload.results[0]
        m.d.comb += [
            i.payload.a.eq(result.a),
            i.payload.b.eq(result.b),
            i.valid.eq(o.valid),
            o.ready.eq(i.ready),
        ]

    def _room(self, m: Module) -> tuple[Signal, Signal]:
        """Most results with which one more tuple may be let in; whether there are no more."""
        given, config = self.i_arguments, self.config
        limit, room = Signal(signed(37)), Signal()
        rows = Signal(config.window.slot_bits + 1)
        reserve = Signal(signed(37))
        # Arguments are there long before they count.
        m.d.sync += [
            rows.eq(Mux(given.rows_a < given.rows_b, given.rows_b, given.rows_a)),
            reserve.eq(rows * TUPLES_IN_FLIGHT + config.spare_results),
            limit.eq(given.result_words * LANES - reserve),
            room.eq(self._counters.sum("results").as_signed() <= limit),
        ]
        return limit, room

    def _refusals(self) -> list[tuple[Value, Status]]:
        """What may be wrong with the arguments, but for room and the results' address."""
        given, depth = self.i_arguments, self.config.window.depth
        return [
            (_misaligned(given.tuples), Status.MISALIGNED),
            (given.tuple_count == 0, Status.EMPTY),
            (given.history_count > given.tuple_count, Status.BAD_HISTORY),
            ((given.rows_a > depth) | (given.rows_b > depth), Status.BAD_ROWS),
        ]

    def _control(self, m: Module, limit: Signal, room: Signal, written: Value | None) -> None:
        """The task's state machine."""
        given, status = self.i_arguments, self.o_status
        operator, reader, dealer = self._operator, self._reader, self._dealer
        packer, writer, counters = self._packer, self._writer, self._counters
        running, header = Signal(), Signal()  # the word for the writer is the header
        misaligned = _misaligned(given.results)
        refused, verdict, nowhere = judge(
            m, misaligned, [(misaligned, Status.MISALIGNED), *self._refusals()]
        )
        failed = reader.o_error | writer.o_error
        fetched = dealer.o_number == given.tuple_count
        m.d.comb += self._pour(m, header)

        def leave_check() -> None:
            m.d.sync += status.eq(Status.PAUSED)
            m.d.comb += [
                reader.i_start.eq(1),
                writer.i_start.eq(1),
                writer.i_address.eq(given.results + WORD_BYTES),
            ]
            m.next = "FILL" if written is None else "TABLES"

        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += [
                    self.o_idle.eq(~self.i_start),
                    counters.i_clear.eq(1),
                    self._clear.eq(self.i_start),
                ]
                m.d.sync += self._matching.eq(0)
                with m.If(self.i_start):
                    m.next = "SETTLE"
            with m.State("SETTLE"):
                m.next = "CHECK"
            with m.State("CHECK"):
                m.next = "HEADER"
                with m.If(refused):
                    m.d.sync += status.eq(verdict)
                    with m.If(nowhere):
                        m.next = "DONE"
                with m.Elif(limit < 0):
                    m.d.sync += status.eq(Status.NO_ROOM)
                with m.Else():
                    leave_check()
            if written is not None:
                with m.State("TABLES"):
                    m.d.comb += operator.i_entry.valid.eq(1)
                    with m.If(written):
                        m.next = "FILL"
            with m.State("FILL"):
                m.d.comb += [
                    running.eq(1),
                    dealer.i_open.eq(dealer.o_number + dealer.o_taken < given.history_count),
                ]
                with m.If(failed):
                    m.next = "DRAIN"
                with m.Elif((dealer.o_number == given.history_count) & operator.o_idle):
                    m.d.sync += self._matching.eq(1)
                    m.next = "RUN"
            with m.State("RUN"):
                m.d.comb += [running.eq(1), dealer.i_open.eq(room & ~failed)]
                with m.If(failed | ~room | fetched):
                    m.next = "DRAIN"
            with m.State("DRAIN"), m.If(~dealer.o_offers & operator.o_idle):
                with m.If(fetched):
                    m.d.sync += status.eq(Status.OK)
                m.next = "COLLECT"
            with m.State("COLLECT"):
                m.d.comb += [
                    reader.i_cancel.eq(1),
                    packer.i_flush.eq(1),
                    writer.i_flush.eq(packer.o_empty),
                ]
                with m.If(packer.o_empty & writer.o_idle & reader.o_idle):
                    m.next = "CLEAR"
            with m.State("CLEAR"):
                m.d.comb += [reader.i_cancel.eq(1), reader.i_clear.eq(1)]
                with m.If(reader.o_error):
                    m.d.sync += status.eq(Status.READ_ERROR)
                with m.Elif(writer.o_error):
                    m.d.sync += status.eq(Status.WRITE_ERROR)
                m.next = "HEADER"
            with m.State("HEADER"):
                m.d.comb += [writer.i_start.eq(1), writer.i_address.eq(given.results)]
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
        self._count(m, running & ~fetched)

    def _pour(self, m: Module, header: Signal) -> list:
        """The writer's word: the header in its cycle, else one of results."""
        i, words = self._writer.i, self._packer.o
        fields = Signal(header_layout())
        own = {"status": self.o_status, "tuples": self._dealer.o_number, "reserved": 0}
        for name in HEADER:
            m.d.comb += fields[name].eq(self._counters.sum(name) if name in STEPS else own[name])
        return [
            i.payload.eq(Mux(header, fields.as_value(), words.payload)),
            i.valid.eq(words.valid | header),
            words.ready.eq(i.ready & ~header),
        ]

    def _count(self, m: Module, wants_tuples: Value) -> None:
        operator, dealer, packer = self._operator, self._dealer, self._packer
        waits = (operator.o_state_a == State.WAIT) | (operator.o_state_b == State.WAIT)
        steps = {
            "cycles": 1,
            "results": packer.i.valid & packer.i.ready,
            "words": packer.o.valid & packer.o.ready,
            "output_waits": waits,
            "memory_waits": wants_tuples & dealer.o_offers & ~dealer.i.valid,
        }
        m.d.comb += [self._counters.step(name).eq(value) for name, value in steps.items()]


def _misaligned(address: Value) -> Value:
    return address[: WORD_BYTES.bit_length() - 1].any()
