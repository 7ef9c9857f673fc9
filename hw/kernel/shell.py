"""Runs an engine's tasks, from start to done."""

from __future__ import annotations

from collections.abc import Mapping

from amaranth.hdl import Cat, Const, Module, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from .axi import WritePort, read_port, write_port
from .control import arguments_layout
from .engine import ROOM_BITS, Engine
from .registers import RESULTS
from .sizes import ALIGN_BYTES
from .skid import Skid
from .status import Status
from .writer import Writer

_ALIGN_LOG2 = (ALIGN_BYTES - 1).bit_length()


#: Width of a counter: ten days at 300 MHz.
COUNTER_BITS = 48


class Counters(wiring.Component):
    """Counters of a task.

    Parameters
    ----------
    steps : mapping of str to int
        Counters, and the width of what each adds per cycle.

    Members
    -------
    i_clear : In(1)
        Start from 0.
    i_steps : In
        What to add, for each counter.
    o_sums : Out, 48 bits each
        Sums up to two cycles before: sums of so many bits behind a handshake are too long a path.
    """

    i_clear: Signal
    i_steps: data.View
    o_sums: data.View

    def __init__(self, steps: Mapping[str, int]) -> None:
        self.steps = steps
        super().__init__(
            {
                "i_clear": In(1),
                "i_steps": In(data.StructLayout(dict(steps))),
                "o_sums": Out(data.StructLayout(dict.fromkeys(steps, COUNTER_BITS))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        step = data.View(self.i_steps.shape(), Signal(self.i_steps.shape()))
        m.d.sync += step.eq(self.i_steps)
        for name in self.steps:
            total = self.o_sums[name]
            with m.If(self.i_clear):
                m.d.sync += total.eq(0)
            with m.Else():
                m.d.sync += total.eq(total + step[name])
        return m


class Shell(wiring.Component):
    """Runs tasks.

    Arguments are judged, then the engine runs with the writer behind it. A task that runs out of
    result room, finds an error or gets one from memory is halted, drained and reported like any
    other. The header is written last, when all results were answered.

    Parameters
    ----------
    engine : Engine

    Members
    -------
    i_arguments : In
        Arguments; they must not change while a task runs.
    i_start, o_done : In(1), Out(1)
        Run a task; it has ended (one cycle).
    o_idle : Out(1)
        No task runs.
    o_status : Out
        How the latest task ended.
    o_result_port, o_m_axi_... : Out
        To memory: results; each port of the engine that reads.
    o_... : Out
        Each register of the engine that the host reads.
    """

    i_arguments: data.View
    i_start: Signal
    o_done: Signal
    o_idle: Signal
    o_status: Signal
    o_result_port: WritePort

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        description = engine.description
        word_bits = description.sizes.word_bits
        super().__init__(
            {
                "i_arguments": In(arguments_layout(description.registers)),
                "i_start": In(1),
                "o_done": Out(1),
                "o_idle": Out(1),
                "o_status": Out(Status),
                "o_result_port": Out(write_port(word_bits)),
                **{f"o_{name}": Out(read_port(word_bits)) for name in description.reads},
                **{f"o_{name}": Out(bits) for name, bits in description.watched.items()},
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        engine, description = self.engine, self.engine.description
        m.submodules.engine = engine
        m.submodules.writer = self._writer = writer = Writer(description.sizes)
        m.submodules.counters = self._counters = counters = Counters(description.counters)
        connect(m, writer.o_port, flipped(self.o_result_port))
        for name in description.reads:
            connect(m, engine.read(name), flipped(getattr(self, f"o_{name}")))
        for name in description.watched:
            m.d.comb += getattr(self, f"o_{name}").eq(engine.watched(name))
        m.d.comb += [
            engine.i_arguments.eq(self.i_arguments),
            counters.i_steps.eq(engine.o_steps),
        ]
        self._control(m, *self._judge(m), self._room(m), self._pour(m))
        return m

    def _judge(self, m: Module) -> tuple[Signal, Signal, Signal]:
        """What is wrong with the arguments: whether they are refused, the status, and whether a
        header cannot be written either.

        In registers: arguments have their values from cycles before a start on, so comparisons
        need not be made in the cycle that they decide.
        """
        engine, given = self.engine, self.i_arguments
        pointers = [
            given[pointer.name]
            for port in engine.description.ports.values()
            for pointer in port.pointers
        ]
        refusals = [
            (Cat(pointer[:_ALIGN_LOG2] for pointer in pointers).any(), Status.MISALIGNED),
            *engine.refusals(given),
            (engine.o_capacity < engine.o_least, Status.NO_ROOM),
        ]
        wrongs = Signal(len(refusals))
        refused, verdict, nowhere = Signal(), Signal(Status), Signal()
        m.d.sync += wrongs.eq(Cat(wrong for wrong, _ in refusals))
        m.d.sync += [refused.eq(1), nowhere.eq(given[RESULTS.name][:_ALIGN_LOG2].any())]
        for number, (_, status) in enumerate(refusals):
            with m.Elif(wrongs[number]) if number else m.If(wrongs[number]):
                m.d.sync += verdict.eq(status)
        with m.Else():
            m.d.sync += refused.eq(0)
        return refused, verdict, nowhere

    def _room(self, m: Module) -> Signal:
        """Whether the room that is left still takes all that may follow."""
        engine = self.engine
        limit, room = Signal(signed(ROOM_BITS + 1)), Signal()
        results = self._counters.o_sums[engine.description.room]
        m.d.sync += [
            limit.eq(engine.o_capacity - engine.o_reserve),
            room.eq(results.as_signed() <= limit),
        ]
        return room

    def _pour(self, m: Module) -> Signal:
        """The writer's words: the header's where the signal that it returns says so."""
        i, is_header = self._writer.i, Signal()
        m.submodules.stage = stage = Skid(len(i.payload))
        connect(m, self.engine.o, stage.i)
        words, self._waits = stage.o, stage.o.valid
        header = Signal(data.StructLayout(dict(self.engine.description.header)))
        for name in self.engine.description.header:
            m.d.comb += header[name].eq(self._field(name))
        word_bits = len(words.payload)
        parts = 8 * ALIGN_BYTES // word_bits
        padded = Cat(header.as_value(), Const(0, parts * word_bits - header.shape().size))
        number = Signal(range(parts))
        m.d.comb += [
            i.payload.eq(words.payload),
            i.valid.eq(words.valid),
            words.ready.eq(i.ready),
        ]
        with m.If(is_header):
            m.d.comb += [
                i.payload.eq(padded.word_select(number, word_bits)),
                i.valid.eq(1),
                words.ready.eq(0),
            ]
            with m.If(i.ready):
                m.d.sync += number.eq(number + 1)
        self._is_last = number == parts - 1
        return is_header

    def _field(self, name: str) -> Value:
        if name == "status":
            return self.o_status
        counted = name in self.engine.description.counters
        return self._counters.o_sums[name] if counted else self.engine.o_fields[name]

    def _control(
        self,
        m: Module,
        refused: Signal,
        verdict: Signal,
        nowhere: Signal,
        room: Signal,
        is_header: Signal,
    ) -> None:
        """The task's state machine."""
        engine, writer, status = self.engine, self._writer, self.o_status
        results, halted = self.i_arguments[RESULTS.name], Signal()
        beyond = Signal(64, reset_less=True)  # the header
        m.d.sync += beyond.eq(results + ALIGN_BYTES)
        empty, settled = engine.o_empty & ~self._waits, Signal()
        # These go far, so they are registers beside the states COLLECT and CLEAR.
        flushes, clears = Signal(), Signal()
        m.d.comb += [
            *(engine.i_halt.eq(halted), engine.i_room.eq(room)),
            *(engine.i_flush.eq(flushes), engine.i_clear.eq(clears)),
        ]
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += [self.o_idle.eq(~self.i_start), self._counters.i_clear.eq(1)]
                m.d.sync += halted.eq(0)
                with m.If(self.i_start):
                    m.next = "SETTLE"
            with m.State("SETTLE"):
                m.d.comb += self._counters.i_clear.eq(1)
                m.next = "CHECK"
            with m.State("CHECK"):
                m.next = "HEADER"
                with m.If(refused):
                    m.d.sync += status.eq(verdict)
                    with m.If(nowhere):
                        m.next = "DONE"
                with m.Else():
                    m.d.comb += [
                        engine.i_start.eq(1),
                        writer.i_start.eq(1),
                        writer.i_address.eq(beyond),
                    ]
                    m.next = "RUN"
            with m.State("RUN"):
                with m.If(engine.o_failed | writer.o_error | ~room):
                    m.d.sync += halted.eq(1)
                with m.If(engine.o_ended):
                    m.d.sync += flushes.eq(1)
                    m.next = "COLLECT"
            with m.State("COLLECT"):
                m.d.comb += writer.i_flush.eq(empty)
                m.d.sync += settled.eq(empty & writer.o_idle & engine.o_idle)
                with m.If(settled):
                    m.d.sync += [settled.eq(0), clears.eq(1)]
                    m.next = "CLEAR"
            with m.State("CLEAR"):
                m.d.sync += [flushes.eq(0), clears.eq(0), status.eq(engine.o_status)]
                with m.If(engine.o_read_error):
                    m.d.sync += status.eq(Status.READ_ERROR)
                with m.Elif(writer.o_error):
                    m.d.sync += status.eq(Status.WRITE_ERROR)
                m.next = "HEADER"
            with m.State("HEADER"):
                m.d.comb += [writer.i_start.eq(1), writer.i_address.eq(results)]
                m.next = "WRITE"
            with m.State("WRITE"):
                m.d.comb += is_header.eq(1)
                with m.If(writer.i.ready & self._is_last):
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
