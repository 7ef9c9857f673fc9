"""The window-join operator as an engine: from its arguments to words of results."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, ResetInserter, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import connect, flipped

from ...kernel.engine import Engine
from ...kernel.items import ItemReader
from ...kernel.skid import Skid
from ...kernel.slots import Packer
from ...kernel.status import Status
from ..layout import State
from ..operator import WindowJoin
from .config import TUPLES_IN_FLIGHT, WindowKernelConfig
from .describe import describe
from .feeder import Dealer
from .layout import RESULT, item_layout, item_slots, result_slots
from .tables import write_tables


class WindowTaskEngine(Engine):
    """Runs tasks of the window-join operator.

    A task starts with empty windows. Its history goes in while both windows count as empty, so
    that nothing is matched; the tuples behind it are matched as the sizes of the windows say. When
    the room that is left might not take the results of one more tuple, no more are let in; what
    was let in is finished, and the header says how many tuples that were.

    Parameters
    ----------
    config : WindowKernelConfig
        The build.
    """

    def __init__(self, config: WindowKernelConfig) -> None:
        self.config = config
        super().__init__(describe(config))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config, given = self.config, self.i_arguments
        matching = Signal()  # the history is in its windows
        # In a register: what starts a task comes from afar, and goes far.
        self._start = start = Signal()
        m.d.sync += start.eq(self.i_start)
        self._operator = operator = WindowJoin(config.window)
        m.submodules.operator = ResetInserter(start)(operator)
        shape, clear = item_layout(config.window), ResetInserter(self.i_clear)
        self._reader = reader = ItemReader(config, item_slots(config), shape)
        # The operator takes tuples at the end of long paths, and the reader begins others.
        stage = Skid(shape)
        m.submodules.reader, m.submodules.stage = clear(reader), clear(stage)
        m.submodules.dealer = self._dealer = dealer = Dealer(config)
        m.submodules.packer = self._packer = packer = Packer(result_slots(config), RESULT)
        connect(m, reader.o_port, flipped(self.read("m_axi_gmem0")))
        connect(m, reader.o, stage.i)
        connect(m, stage.o, dealer.i)
        connect(m, dealer.o_a, operator.i_a)
        connect(m, dealer.o_b, operator.i_b)
        connect(m, packer.o, flipped(self.o))
        m.d.comb += [
            reader.i_job.address.eq(given.tuples),
            reader.i_job.count.eq(given.tuple_count),
            reader.i_start.eq(start),
            reader.i_cancel.eq(self.i_flush),
            dealer.i_clear.eq(start),
            operator.rows_a.eq(Mux(matching, given.rows_a, 0)),
            operator.rows_b.eq(Mux(matching, given.rows_b, 0)),
            operator.shed.eq(0),
            packer.i_flush.eq(self.i_flush),
            self.o_idle.eq(reader.o_idle),
            self.o_read_error.eq(reader.o_error),
            self.o_failed.eq(reader.o_error),
            self.o_empty.eq(packer.o_empty),
            self.watched("state").eq(self._state()),
        ]
        if config.window.time_bits:
            m.d.comb += [operator.before.eq(given.before), operator.after.eq(given.after)]
        self._results(m)
        self._room(m)
        self._count(m, self._run(m, matching))
        return m

    def refusals(self, given: data.View) -> list[tuple[Value, Status]]:
        depth = self.config.window.depth
        return [
            (given.tuple_count == 0, Status.EMPTY),
            (given.history_count > given.tuple_count, Status.BAD_HISTORY),
            ((given.rows_a > depth) | (given.rows_b > depth), Status.BAD_ROWS),
        ]

    def _state(self) -> Value:
        """Bits of the register with the operator's state."""
        operator = self._operator
        states = (operator.o_state_a, operator.o_state_b)
        return Cat(
            *(bit for state in states for bit in (state != State.READY, state == State.WAIT)),
            operator.o.valid & ~operator.o.ready,
            operator.o_idle,
        )

    def _results(self, m: Module) -> None:
        o, i = self._operator.o, self._packer.i
        result = o.payload.results[0]
        m.d.comb += [
            i.payload.a.eq(result.a),
            i.payload.b.eq(result.b),
            i.valid.eq(o.valid),
            o.ready.eq(i.ready),
        ]

    def _room(self, m: Module) -> None:
        """Room is in results, of as many as one more tuple and all in flight may have."""
        given, config = self.i_arguments, self.config
        rows = Signal(config.window.slot_bits + 1)
        # Shifted values: a multiplier would be a DSP slice, too slow without a register.
        bits = range(TUPLES_IN_FLIGHT.bit_length())
        product = sum((rows << k for k in bits if TUPLES_IN_FLIGHT >> k & 1), Const(0))
        # Arguments are there long before they count.
        m.d.sync += [
            rows.eq(Mux(given.rows_a < given.rows_b, given.rows_b, given.rows_a)),
            self.o_reserve.eq(product + config.spare_results),
        ]
        m.d.comb += [
            self.o_capacity.eq(given.result_words << result_slots(config).per_word_log2),
            self.o_least.eq(self.o_reserve),
        ]

    def _run(self, m: Module, matching: Signal) -> Value:
        """The history, then the rest; returns whether tuples are wanted."""
        given, operator, dealer = self.i_arguments, self._operator, self._dealer
        fetched, (some, more) = Signal(), self._history(m)
        # Nothing is in the operator if no tuple is on offer now: none was in the cycle before.
        rests = Signal()
        m.d.sync += [
            fetched.eq(dealer.o_number == given.tuple_count),
            rests.eq(operator.o_idle & ~dealer.o_offers),
        ]
        m.d.comb += [
            self.o_status.eq(Mux(fetched, Status.OK, Status.PAUSED)),
            self.o_fields.tuples.eq(dealer.o_number),
        ]
        written = write_tables(m, operator, given) if self.config.window.is_band else None
        with m.FSM() as machine:
            with m.State("IDLE"), m.If(self._start):
                m.d.sync += matching.eq(0)
                m.next = "FILL" if written is None else "TABLES"
            if written is not None:
                with m.State("TABLES"):
                    m.d.comb += operator.i_entry.valid.eq(1)
                    with m.If(written):
                        m.next = "FILL"
            with m.State("FILL"):
                m.d.comb += dealer.i_open.eq(more & ~self.i_halt)
                with m.If(self.i_halt):
                    m.next = "DRAIN"
                with m.Elif(~some & rests):
                    m.d.sync += matching.eq(1)
                    m.next = "RUN"
            with m.State("RUN"):
                m.d.comb += dealer.i_open.eq(self.i_room & ~self.i_halt)
                with m.If(self.i_halt | fetched):
                    m.next = "DRAIN"
            with m.State("DRAIN"):
                m.d.comb += self.o_ended.eq(~dealer.o_offers & rests)
                with m.If(self.o_ended):
                    m.next = "IDLE"
        return (machine.ongoing("FILL") | machine.ongoing("RUN")) & ~fetched

    def _history(self, m: Module) -> tuple[Signal, Value]:
        """Whether tuples of the history were not taken; the same without one taken just now."""
        given, dealer = self.i_arguments, self._dealer
        left = Signal(32)
        some, one = Signal(), Signal()
        with m.If(self._start):
            count = given.history_count
            m.d.sync += [left.eq(count), some.eq(count != 0), one.eq(count == 1)]
        with m.Elif(dealer.o_taken):
            m.d.sync += [left.eq(left - 1), some.eq(some & ~one), one.eq(left == 2)]
        return some, some & ~(one & dealer.o_taken)

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
        m.d.comb += [self.o_steps[name].eq(value) for name, value in steps.items()]
