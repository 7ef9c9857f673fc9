"""Several chains side by side, each with its own head, behind one set of readers."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from amaranth.hdl import Cat, Const, Module, Mux, ResetInserter, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFO, SyncFIFOBuffered
from amaranth.lib.wiring import connect

from ..chain import TaskPorts, TaskSignature
from ..flit import pass_layout
from ..modes import keep_control
from .config import KernelConfig
from .layout import task_pass_layout

#: Passes that wait for a head, so that one head may begin a pass while another ends the last one.
PASSES_READY = 4

#: Passes whose values were not all taken: those that wait for a head, and those under way.
PASSES_VALUED = 2 * PASSES_READY

#: Stream tuples that wait for a head. A head that loads takes one in two cycles or more.
TUPLES_READY = 8


def deal(tuples: int, pipelines: int) -> list[int]:
    """Reference: how many tuples of a pass each pipeline gets."""
    return [(tuples - index + pipelines - 1) // pipelines for index in range(pipelines)]


class Pipelines(TaskPorts):
    """Several chains that share the readers.

    Tuple i of a pass goes to chain ``i % pipelines``; every window tuple goes to all of them. The
    window moves on when all queues have space, so one chain may be ahead of another by
    ``config.lead_tuples``, not more. Together they are as one chain of ``pipelines * units`` units
    to the host: unit u of chain k is unit ``u * pipelines + k``.

    One window tuple per cycle, two cycles later than a single chain; one stream tuple per cycle.
    Where one chain ends early, because a range does not fit, all are halted.

    Parameters
    ----------
    config : KernelConfig
        The build, with two pipelines or more.

    Members
    -------
    i_pass : In(stream)
        Passes (:func:`penstock.hw.join.kernel.layout.task_pass_layout`).
    i_entry, i_tuple, i_window, i_halt, i_room, i_quiet : In
        See :class:`penstock.hw.join.chain.BaseChain`. Window and stream tuples are taken from the
        first pass on until the report.
    o_record : Out(stream), one per block
        Records of the first chain's blocks, then of the second one's, and so on.
    o_value : Out(stream)
        What was folded for each tuple, in the order in which they were dealt. Values of a task
        that is halted are dropped.
    o_report : Out(stream)
        Where the task ended, after its last record. ``complete`` and ``loaded`` are sums over the
        chains; ``position`` is the number of window flits that all of them took.
    o_quiet, o_fault, o_stalled, o_starved : Out(1)
        See :class:`penstock.hw.join.head.Head`; of any chain, or of all for ``o_quiet``. A chain
        that waits for another one is not starved.
    """

    def __init__(self, config: KernelConfig) -> None:
        self.config = config
        self.chains = [config.join.chain() for _ in range(config.pipelines)]
        passes = task_pass_layout(config)
        super().__init__(TaskSignature(config.join, passes=passes, blocks=config.blocks))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for number, chain in enumerate(self.chains):
            m.submodules[f"chain_{number}"] = chain
        ended, live = Signal(), Signal()  # the report is taken; between first pass and report
        m.d.comb += ended.eq(self.o_report.valid & self.o_report.ready)
        with m.If(self.i_pass.valid & self.i_pass.ready):
            m.d.sync += live.eq(1)
        with m.Elif(ended):
            m.d.sync += live.eq(0)

        if self.config.join.entry_bits:
            self._entries(m)
        valued = None
        if self.config.join.folding:
            valued = ResetInserter(ended)(SyncFIFO(width=32, depth=PASSES_VALUED))
            m.submodules.valued = valued
            self._values(m, valued, ended)
        counts = self._passes(m, valued, ended)
        self._tuples(m, counts, live, ended)
        windows = self._windows(m, live)
        self._records(m)
        self._reports(m, windows, live)
        self._states(m, windows)
        return m

    def _all(self, name: str, part: str = "") -> list[Signal]:
        ports = [getattr(chain, name) for chain in self.chains]
        return [getattr(port, part) for port in ports] if part else ports

    def _entries(self, m: Module) -> None:
        """All heads take an entry at the same time: they begin and end tasks together."""
        for chain in self.chains:
            m.d.comb += [
                chain.i_entry.payload.eq(self.i_entry.payload),
                chain.i_entry.valid.eq(self.i_entry.valid),
            ]
        m.d.comb += self.i_entry.ready.eq(Cat(self._all("i_entry", "ready")).all())

    def _values(self, m: Module, passes: SyncFIFO, ended: Signal) -> None:
        """Take the values of each pass in the order in which its tuples were dealt."""
        folding, entry = self.config.join.folding, self.i_entry
        assert folding is not None
        folds = Signal()
        keep_control(m, folding, "folds", entry.payload.mode, folds, entry.valid & entry.ready)
        taken = self.o_value.valid & self.o_value.ready
        turns = self._turns(m, "value", passes, taken, ended, counted=folds)
        halted = self.i_halt | self.o_fault
        for chain, its_turn in zip(self.chains, turns, strict=True):
            value = chain.o_value
            m.d.comb += value.ready.eq(halted)
            with m.If(its_turn & ~halted):
                m.d.comb += [
                    self.o_value.payload.eq(value.payload),
                    self.o_value.valid.eq(value.valid),
                    value.ready.eq(self.o_value.ready),
                ]

    def _turns(
        self,
        m: Module,
        name: str,
        passes: SyncFIFO,
        step: Value,
        ended: Signal,
        *,
        counted: Value | None = None,
    ) -> list[Value]:
        """Whose turn it is, as the tuples of a pass are dealt; at each step it is the next one's.

        ``passes`` gives the number of tuples of each pass; it does not matter while ``counted`` is
        low.
        """
        left = Signal(32, name=f"{name}s_left")
        turn = Signal(range(self.config.pipelines), name=f"{name}_turn")
        with m.If(left == 0):
            m.d.comb += passes.r_en.eq(1)
            m.d.sync += turn.eq(0)
            with m.If(passes.r_rdy if counted is None else passes.r_rdy & counted):
                m.d.sync += left.eq(passes.r_data)
        with m.Elif(step):
            m.d.sync += left.eq(left - 1)
            m.d.sync += turn.eq(Mux(turn == self.config.pipelines - 1, 0, turn + 1))
        with m.If(ended):
            m.d.sync += left.eq(0)
        return [(left != 0) & (turn == number) for number in range(self.config.pipelines)]

    def _passes(self, m: Module, valued: SyncFIFO | None, ended: Signal) -> SyncFIFO:
        """Give every chain its part of a pass; returns the queue of all passes' tuples."""
        new, pipelines = self.i_pass.payload, self.config.pipelines
        queues = []
        for number, chain in enumerate(self.chains):
            layout = pass_layout(self.config.join)
            queue = ResetInserter(ended)(SyncFIFO(width=layout.size, depth=PASSES_READY))
            m.submodules[f"passes_{number}"] = queue
            part = Signal(layout, name=f"part_{number}")
            rest = Signal(range(pipelines), name=f"rest_{number}")
            # The last chain never gets one of them; a linter takes the comparison for a slip.
            more = rest > number if number < pipelines - 1 else Const(0)
            m.d.comb += [
                # The share was checked: what is left of the pass is less than a tuple per chain.
                rest.eq(new.tuples - new.share * pipelines),
                part.tuples.eq(new.share + more),
                part.begin.eq(new.begin),
                part.end.eq(new.end),
                part.last.eq(new.last),
                queue.w_data.eq(part),
                chain.i_pass.payload.eq(queue.r_data),
                chain.i_pass.valid.eq(queue.r_rdy),
                queue.r_en.eq(chain.i_pass.ready),
            ]
            queues.append(queue)
        counts = ResetInserter(ended)(SyncFIFO(width=32, depth=PASSES_READY))
        m.submodules.counts = counts
        m.d.comb += counts.w_data.eq(new.tuples)
        queues.append(counts)
        if valued is not None:
            m.d.comb += valued.w_data.eq(new.tuples)
            queues.append(valued)
        self._fork(m, self.i_pass, queues, Const(1))
        return counts

    @staticmethod
    def _fork(
        m: Module, i: stream.Interface, queues: Iterable[SyncFIFO | SyncFIFOBuffered], gate: Value
    ) -> None:
        """Write an item to all queues once all have space."""
        queues = list(queues)
        space = Cat(queue.w_rdy for queue in queues).all() & gate
        m.d.comb += i.ready.eq(space)
        m.d.comb += [queue.w_en.eq(i.valid & space) for queue in queues]

    def _tuples(self, m: Module, counts: SyncFIFO, live: Signal, ended: Signal) -> None:
        """Deal the tuples of each pass, the first one to the first chain."""
        dealt = self.i_tuple.valid & self.i_tuple.ready
        turns = self._turns(m, "tuple", counts, dealt, ended)
        width = self.i_tuple.payload.as_value().shape().width
        for number, chain in enumerate(self.chains):
            queue = ResetInserter(~live)(SyncFIFO(width=width, depth=TUPLES_READY))
            m.submodules[f"tuples_{number}"] = queue
            chosen = live & turns[number]
            with m.If(chosen):
                m.d.comb += self.i_tuple.ready.eq(queue.w_rdy)
            m.d.comb += [
                queue.w_data.eq(self.i_tuple.payload),
                queue.w_en.eq(self.i_tuple.valid & chosen),
                chain.i_tuple.payload.eq(queue.r_data),
                chain.i_tuple.valid.eq(queue.r_rdy),
                queue.r_en.eq(chain.i_tuple.ready),
            ]

    def _windows(self, m: Module, live: Signal) -> list[SyncFIFOBuffered]:
        """Give all chains the window, each at its own pace; returns the queues."""
        queues = []
        width = len(Value.cast(self.i_window.payload))
        for number, chain in enumerate(self.chains):
            queue = SyncFIFOBuffered(width=width, depth=self.config.lead_tuples)
            m.submodules[f"window_{number}"] = ResetInserter(~live)(queue)
            m.d.comb += [
                queue.w_data.eq(self.i_window.payload),
                chain.i_window.payload.eq(queue.r_data),
                chain.i_window.valid.eq(queue.r_rdy),
                queue.r_en.eq(chain.i_window.ready),
            ]
            queues.append(queue)
        self._fork(m, self.i_window, queues, live)
        return queues

    def _records(self, m: Module) -> None:
        records = [record for chain in self.chains for record in chain.o_record]
        for record, taken in zip(records, self.o_record, strict=True):
            connect(m, record, wiring.flipped(taken))

    def _reports(self, m: Module, windows: list[SyncFIFOBuffered], live: Signal) -> None:
        """One report of all chains, once all have one."""
        given = Signal(self.config.join.ordinal_bits + 1)  # window tuples given to the chains
        with m.If(~live):
            m.d.sync += given.eq(0)
        with m.Elif(self.i_window.valid & self.i_window.ready):
            m.d.sync += given.eq(given + 1)
        reports = [chain.o_report for chain in self.chains]
        report = self.o_report
        m.d.comb += [
            report.valid.eq(Cat(r.valid for r in reports).all()),
            report.payload.complete.eq(sum(r.payload.complete for r in reports)),
            report.payload.loaded.eq(sum(r.payload.loaded for r in reports)),
            report.payload.position.eq(given - reduce(_larger, (w.r_level for w in windows))),
        ]
        m.d.comb += [r.ready.eq(report.ready & report.valid) for r in reports]

    def _states(self, m: Module, windows: list[SyncFIFOBuffered]) -> None:
        full = ~Cat(queue.w_rdy for queue in windows).all()
        m.d.comb += [
            self.o_fault.eq(Cat(self._all("o_fault")).any()),
            self.o_quiet.eq(Cat(self._all("o_quiet")).all()),
            self.o_stalled.eq(Cat(self._all("o_stalled")).any()),
            self.o_starved.eq(Cat(self._all("o_starved")).any() & ~self.o_stalled & ~full),
        ]
        for chain in self.chains:
            m.d.comb += [
                chain.i_room.eq(self.i_room),
                chain.i_quiet.eq(self.i_quiet),
                chain.i_halt.eq(self.i_halt | self.o_fault),
            ]


def _larger(one: Value, other: Value) -> Value:
    return Mux(one > other, one, other)
