"""Feeds a chain from memory: passes, stream tuples, and the window tuples that passes name."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, ResetInserter, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out, connect, flipped

from ...kernel.axi import ReadPort, read_port
from ...kernel.items import ItemReader
from ...kernel.reader import FETCH, Reader
from ...kernel.skid import Skid
from ...kernel.slots import Slots, Unpacker, run_layout
from ..flit import tuple_layout
from .config import KernelConfig
from .layout import (
    pass_item_layout,
    pass_slots,
    task_pass_layout,
    tuple_item_layout,
    tuple_slots,
    window_slots,
)
from .pass_check import SPAN, PassCheck

#: Passes that are checked ahead of the head, so that their window tuples are fetched in time.
PASSES_AHEAD = 16

#: What a task reads, as its arguments say.
JOB = data.StructLayout(
    {
        "pass_address": 64,
        "tuple_address": 64,
        "window_address": 64,
        "passes": 32,
        "tuples": 32,
        "window": 32,
    }
)


class WindowFetch(wiring.Component):
    """Turns window positions into a range of words, and into a run of items in them.

    One pass per cycle, a cycle later, once both outputs take it.

    Members
    -------
    i : In(stream)
        Positions of a pass.
    i_address : In(64)
        Where position 0 is.
    o_fetch, o_run : Out(stream)
        For the reader and for the unpacker behind it.
    """

    i: stream.Interface
    i_address: Signal
    o_fetch: stream.Interface
    o_run: stream.Interface

    def __init__(self, slots: Slots) -> None:
        self.slots = slots
        super().__init__(
            {
                "i": In(stream.Signature(SPAN)),
                "i_address": In(64),
                "o_fetch": Out(stream.Signature(FETCH)),
                "o_run": Out(stream.Signature(run_layout(slots))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        slots, log2 = self.slots, self.slots.per_word_log2
        run = run_layout(slots)
        # Words from one to before another, and the items in them: a sum each in a cycle.
        parts = data.StructLayout({"word": 32, "until": 33, "run": run})
        m.submodules.stage = stage = Skid(parts)
        begin, end, part = self.i.payload.begin, self.i.payload.end, stage.o.payload
        both = stage.o.valid & self.o_fetch.ready & self.o_run.ready
        slot_bytes = slots.words * slots.word_bits // 8
        m.d.comb += [
            stage.i.payload.word.eq(begin >> log2),
            stage.i.payload.until.eq((end + (1 << log2) - 1) >> log2),
            stage.i.payload.run.first.eq(begin),
            stage.i.payload.run.count.eq(end - begin),
            stage.i.valid.eq(self.i.valid),
            self.i.ready.eq(stage.i.ready),
            self.o_fetch.payload.address.eq(self.i_address + part.word * slot_bytes),
            self.o_fetch.payload.words.eq((part.until - part.word) * slots.words),
            self.o_run.payload.eq(part.run),
            self.o_fetch.valid.eq(both),
            self.o_run.valid.eq(both),
            stage.o.ready.eq(both),
        ]
        return m


class Feeder(wiring.Component):
    """Reads a task's passes, stream tuples and window.

    Each output has one item per cycle as long as memory keeps up; the window of later passes is
    fetched while an earlier one flows. Outputs may stall.

    Parameters
    ----------
    config : KernelConfig
        The build.

    Members
    -------
    i_job, i_start : In
        A task; high for one cycle, when all is idle.
    i_cancel : In(1)
        Ask memory for no more.
    i_clear : In(1)
        Forget everything; after ``i_cancel``, when ``o_idle``.
    o_pass, o_tuple, o_window : Out(stream)
        For the head.
    o_task_port, o_window_port : Out
        To memory: passes and stream tuples; the window.
    o_idle : Out(1)
        No word is on its way.
    o_bad_pass, o_read_error : Out(1)
        Since the last clear: a pass that cannot be run; an error from memory.
    """

    i_job: data.View
    i_start: Signal
    i_cancel: Signal
    i_clear: Signal
    o_pass: stream.Interface
    o_tuple: stream.Interface
    o_window: stream.Interface
    o_task_port: ReadPort
    o_window_port: ReadPort
    o_idle: Signal
    o_bad_pass: Signal
    o_read_error: Signal

    def __init__(self, config: KernelConfig) -> None:
        self.config = config
        join = config.join
        super().__init__(
            {
                "i_job": In(JOB),
                "i_start": In(1),
                "i_cancel": In(1),
                "i_clear": In(1),
                "o_pass": Out(stream.Signature(task_pass_layout(config))),
                "o_tuple": Out(stream.Signature(tuple_layout(join))),
                "o_window": Out(stream.Signature(max(join.window_bits, 1))),
                "o_task_port": Out(read_port(config.word_bits)),
                "o_window_port": Out(read_port(config.word_bits)),
                "o_idle": Out(1),
                "o_bad_pass": Out(1),
                "o_read_error": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        job, slots = self.i_job, (pass_slots(self.config), tuple_slots(self.config))
        shapes = pass_item_layout(self.config), tuple_item_layout(self.config.join)
        passes, tuples = (
            ItemReader(self.config, slots[ident], shapes[ident], ident) for ident in range(2)
        )
        window = Reader(self.config)
        jobs = (job.pass_address, job.passes), (job.tuple_address, job.tuples)
        for reader, (address, count) in zip((passes, tuples), jobs, strict=True):
            m.d.comb += [
                reader.i_job.address.eq(address),
                reader.i_job.count.eq(count),
                reader.i_start.eq(self.i_start),
            ]
        parts = {"passes": passes, "tuples": tuples, "window_reader": window}
        for name, reader in parts.items():
            self._add(m, name, reader)
            m.d.comb += reader.i_cancel.eq(self.i_cancel)
        self._share(m, [passes.o_port, tuples.o_port])
        connect(m, window.o_port, flipped(self.o_window_port))
        m.d.comb += [
            self.o_idle.eq(Cat(reader.o_idle for reader in parts.values()).all()),
            self.o_read_error.eq(Cat(reader.o_error for reader in parts.values()).any()),
        ]
        self._passes(m, passes.o, window)
        self._tuples(m, tuples.o)
        return m

    def _add(self, m: Module, name: str, part: wiring.Component | SyncFIFO) -> None:
        """A part that starts afresh with each task."""
        m.submodules[name] = ResetInserter(self.i_clear)(part)

    def _share(self, m: Module, ports: list[ReadPort]) -> None:
        """One port for two readers: requests take turns, words have IDs and room."""
        port, latest = self.o_task_port, Signal()
        first, second = (its_port.burst for its_port in ports)
        with m.If(port.burst.ready):
            m.d.sync += port.burst.valid.eq(0)
        with m.If(~port.burst.valid | port.burst.ready):
            with m.If(first.valid & (latest | ~second.valid)):
                m.d.comb += first.ready.eq(1)
                m.d.sync += [
                    port.burst.payload.eq(first.payload),
                    port.burst.valid.eq(1),
                    latest.eq(0),
                ]
            with m.Elif(second.valid):
                m.d.comb += second.ready.eq(1)
                m.d.sync += [
                    port.burst.payload.eq(second.payload),
                    port.burst.valid.eq(1),
                    latest.eq(1),
                ]
        m.d.comb += port.word.ready.eq(1)
        for its_port in ports:
            m.d.comb += [
                its_port.word.payload.eq(port.word.payload),
                its_port.word.valid.eq(port.word.valid),
            ]

    def _passes(self, m: Module, items: stream.Interface, window_reader: Reader) -> None:
        job, width = self.i_job, max(self.config.join.window_bits, 1)
        check = PassCheck(self.config)
        self._add(m, "pass_check", check)
        connect(m, items, check.i)
        m.d.comb += [
            check.i_start.eq(self.i_start),
            check.i_passes.eq(job.passes),
            check.i_tuples.eq(job.tuples),
            check.i_window.eq(job.window),
            self.o_bad_pass.eq(check.o_error),
        ]
        checked = self._queued(m, "checked", check.o_pass)
        self._staged(m, "pass", task_pass_layout(self.config), checked, flipped(self.o_pass))

        slots = window_slots(self.config)
        fetch = WindowFetch(slots)
        window = Unpacker(slots, width)
        self._add(m, "window_fetch", fetch)
        self._add(m, "window_items", window)
        connect(m, self._queued(m, "spans", check.o_span), fetch.i)
        runs = self._queued(m, "runs", fetch.o_run)
        self._staged(m, "run", run_layout(slots), runs, window.i_run)
        connect(m, fetch.o_fetch, window_reader.i_fetch)
        connect(m, window_reader.o, window.i)
        self._staged(m, "window", width, window.o, flipped(self.o_window))
        m.d.comb += fetch.i_address.eq(job.window_address)

    def _staged(self, m: Module, name: str, shape: Any, i: Any, o: Any) -> None:
        """A stage where a path would be too long: from the head to memory, or behind a queue."""
        stage = Skid(shape)
        self._add(m, f"{name}_stage", stage)
        connect(m, i, stage.i)
        connect(m, stage.o, o)

    def _queued(self, m: Module, name: str, i: stream.Interface) -> Any:
        fifo = SyncFIFO(width=i.payload.as_value().shape().width, depth=PASSES_AHEAD)
        self._add(m, name, fifo)
        taken: Any = fifo.w_stream  # Amaranth's stubs take it for a signature
        connect(m, i, taken)
        return fifo.r_stream

    def _tuples(self, m: Module, items: stream.Interface) -> None:
        layout = tuple_layout(self.config.join)
        given = stream.Signature(layout).create(path=("given",))
        m.d.comb += [
            given.payload.start.eq(items.payload.start),
            given.payload.end.eq(items.payload.end),
            given.payload.keys.eq(items.payload["keys"]),
            given.valid.eq(items.valid),
            items.ready.eq(given.ready),
        ]
        self._staged(m, "tuple", layout, given, flipped(self.o_tuple))
