"""The kernel with stream ports behind its registers: runs from start to stop."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, ResetInserter, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...kernel.control import arguments_layout
from ...kernel.counters import Counters
from ..config import WindowConfig
from ..layout import Side, State, tuple_layout, word_layout
from ..operator import WindowJoin
from .registers import STREAM_REGISTERS, register_map
from .state import operator_state
from .tables import write_tables

#: Counters, and the width of what each adds per cycle.
STEPS = {
    "cycles": 1,
    "admitted_a": 1,
    "admitted_b": 1,
    "shed_a": 1,
    "shed_b": 1,
    "results": 2,
    "output_waits": 1,
}


class StreamShell(wiring.Component):
    """Starts the operator with empty windows, and ends when it is told to.

    Between start and stop tuples are taken as the policy says, one per cycle and side at most;
    outside they wait. After the stop what was taken is finished: the run ends when the last result
    has left. Sizes of the windows and the policy may be changed on the way.

    Parameters
    ----------
    config : WindowConfig
        The build.

    Members
    -------
    i_arguments : In
        Arguments. The time window and the truth tables must not change during a run.
    i_start, o_done : In(1), Out(1)
        Begin; the run has ended (one cycle).
    o_idle : Out(1)
        Not running.
    i_a, i_b : In(stream)
        Tuples.
    o : Out(stream)
        Results.
    o_state : Out(32)
        Value of the register.
    o_cycles, ... : Out(48)
        Counters of the run, for each of :data:`STEPS`; they stay until the next one.
    """

    i_arguments: data.View
    i_start: Signal
    o_done: Signal
    o_idle: Signal
    i_a: stream.Interface
    i_b: stream.Interface
    o: stream.Interface
    o_state: Signal

    def __init__(self, config: WindowConfig) -> None:
        self.config = config
        self.counters = Counters(STEPS)
        super().__init__(
            {
                "i_arguments": In(arguments_layout(register_map(config, STREAM_REGISTERS))),
                "i_start": In(1),
                "o_done": Out(1),
                "o_idle": Out(1),
                "i_a": In(stream.Signature(tuple_layout(config, Side.A))),
                "i_b": In(stream.Signature(tuple_layout(config, Side.B))),
                "o": Out(stream.Signature(word_layout(config))),
                "o_state": Out(32),
                **{f"o_{name}": Out(len(self.counters.sum(name))) for name in STEPS},
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        given, clear, is_open = self.i_arguments, Signal(), Signal()
        operator = WindowJoin(self.config)
        m.submodules.operator = ResetInserter(clear)(operator)
        for outer, inner in ((self.i_a, operator.i_a), (self.i_b, operator.i_b)):
            m.d.comb += [
                inner.payload.eq(outer.payload),
                inner.valid.eq(outer.valid & is_open),
                outer.ready.eq(inner.ready & is_open),
            ]
        m.d.comb += [
            self.o.payload.eq(operator.o.payload),
            self.o.valid.eq(operator.o.valid),
            operator.o.ready.eq(self.o.ready),
            operator.rows_a.eq(self._rows(given.rows_a)),
            operator.rows_b.eq(self._rows(given.rows_b)),
            operator.shed.eq(given.shed[0]),
            self.o_state.eq(operator_state(operator)),
        ]
        if self.config.time_bits:
            m.d.comb += [operator.before.eq(given.before), operator.after.eq(given.after)]
        written = write_tables(m, operator, given) if self.config.is_band else None

        with m.FSM() as machine:
            with m.State("IDLE"):
                m.d.comb += self.o_idle.eq(~self.i_start)
                with m.If(self.i_start):
                    m.d.comb += clear.eq(1)
                    m.next = "RUN" if written is None else "TABLES"
            if written is not None:
                with m.State("TABLES"):
                    m.d.comb += operator.i_entry.valid.eq(1)
                    with m.If(written):
                        m.next = "RUN"
            with m.State("RUN"):
                m.d.comb += is_open.eq(~given.stop[0])
                with m.If(given.stop[0] & operator.o_idle):
                    m.next = "DONE"
            with m.State("DONE"):
                m.d.comb += self.o_done.eq(1)
                m.next = "IDLE"
        self._count(m, operator, machine.ongoing("RUN"), clear)
        return m

    def _rows(self, rows: Value) -> Value:
        """The size of a window, at most what its queue holds."""
        depth = self.config.depth
        return Mux(rows < depth, rows, depth)

    def _count(self, m: Module, operator: WindowJoin, running: Value, clear: Value) -> None:
        m.submodules.counters = counters = self.counters
        leaves = operator.o.valid & operator.o.ready
        waits = (operator.o_state_a == State.WAIT) | (operator.o_state_b == State.WAIT)
        present = [bit & leaves for bit in operator.o.payload.present]
        steps = {
            "cycles": running,
            "admitted_a": operator.o_admitted[0],
            "admitted_b": operator.o_admitted[1],
            "shed_a": operator.o_dropped[0],
            "shed_b": operator.o_dropped[1],
            "results": sum(
                (present[k] & leaves for k in range(1, len(present))), present[0] & leaves
            ),
            "output_waits": waits,
        }
        m.d.comb += counters.i_clear.eq(clear)
        for name, step in steps.items():
            m.d.comb += [
                counters.step(name).eq(step),
                getattr(self, f"o_{name}").eq(counters.sum(name)),
            ]
