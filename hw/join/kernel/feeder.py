"""Feeds a chain from memory: passes, stream tuples, and the window tuples that passes name."""

from __future__ import annotations

from amaranth.hdl import Module, ResetInserter, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out, connect, flipped

from ...kernel.axi import ReadPort, read_port
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
        readers = [self._reader(m, name, n) for n, name in enumerate(("pass", "tuple"))]
        passes, tuples = readers
        window = self._reader(m, "window", 0)
        self._share(m, readers)
        connect(m, window.o_port, flipped(self.o_window_port))
        m.d.comb += [
            self.o_idle.eq(passes.o_idle & tuples.o_idle & window.o_idle),
            self.o_read_error.eq(passes.o_error | tuples.o_error | window.o_error),
        ]
        self._passes(m, passes, window)
        self._tuples(m, tuples)
        return m

    def _add(self, m: Module, name: str, part: wiring.Component | SyncFIFO) -> None:
        """A part that starts afresh with each task."""
        m.submodules[name] = ResetInserter(self.i_clear)(part)

    def _reader(self, m: Module, name: str, ident: int) -> Reader:
        reader = Reader(self.config, ident)
        self._add(m, f"{name}_reader", reader)
        m.d.comb += reader.i_cancel.eq(self.i_cancel)
        return reader

    def _share(self, m: Module, readers: list[Reader]) -> None:
        """One port for two readers: requests take turns, words have IDs and room."""
        port, latest = self.o_task_port, Signal()
        first, second = (reader.o_port.burst for reader in readers)
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
        for reader in readers:
            m.d.comb += [
                reader.o_port.word.payload.eq(port.word.payload),
                reader.o_port.word.valid.eq(port.word.valid),
            ]

    def _begin(self, m: Module, port: stream.Interface, values: dict[str, object]) -> None:
        """Offer one item at the start of a task, until it is taken."""
        with m.If(self.i_start):
            m.d.sync += port.valid.eq(1)
            m.d.sync += [port.payload[name].eq(value) for name, value in values.items()]
        with m.Elif(port.ready | self.i_clear):
            m.d.sync += port.valid.eq(0)

    def _passes(self, m: Module, reader: Reader, window_reader: Reader) -> None:
        job, join, passes = self.i_job, self.config.join, pass_slots(self.config)
        items = Unpacker(passes, pass_item_layout(self.config))
        check = PassCheck(self.config)
        self._add(m, "pass_items", items)
        self._add(m, "pass_check", check)
        self._begin(
            m,
            reader.i_fetch,
            {"address": job.pass_address, "words": passes.words_of(job.passes)},
        )
        self._begin(m, items.i_run, {"first": 0, "count": job.passes})
        connect(m, reader.o, items.i)
        connect(m, items.o, check.i)
        m.d.comb += [
            check.i_start.eq(self.i_start),
            check.i_passes.eq(job.passes),
            check.i_tuples.eq(job.tuples),
            check.i_window.eq(job.window),
            self.o_bad_pass.eq(check.o_error),
        ]
        passes = check.o_pass.signature.create(path=("checked",))
        self._queue(m, "passes", check.o_pass, passes)
        self._staged(m, "pass", task_pass_layout(self.config), passes, self.o_pass)

        slots = window_slots(self.config)
        fetch = WindowFetch(slots)
        window = Unpacker(slots, max(join.window_bits, 1))
        self._add(m, "window_fetch", fetch)
        self._add(m, "window_items", window)
        spans = stream.Signature(SPAN).create(path=("spans",))
        self._queue(m, "spans", check.o_span, spans)
        connect(m, spans, fetch.i)
        runs = fetch.o_run.signature.create(path=("queued",))
        self._queue(m, "runs", fetch.o_run, runs)
        self._staged(m, "run", run_layout(slots), runs, window.i_run)
        connect(m, fetch.o_fetch, window_reader.i_fetch)
        connect(m, window_reader.o, window.i)
        self._staged(m, "window", max(join.window_bits, 1), window.o, self.o_window)
        m.d.comb += fetch.i_address.eq(job.window_address)

    def _staged(
        self, m: Module, name: str, shape: object, i: stream.Interface, o: stream.Interface
    ) -> None:
        """A stage where a path would be too long: from the head to memory, or behind a queue."""
        stage = Skid(shape)
        self._add(m, f"{name}_stage", stage)
        m.d.comb += [
            stage.i.payload.eq(i.payload),
            stage.i.valid.eq(i.valid),
            i.ready.eq(stage.i.ready),
            o.payload.eq(stage.o.payload),
            o.valid.eq(stage.o.valid),
            stage.o.ready.eq(o.ready),
        ]

    def _queue(self, m: Module, name: str, i: stream.Interface, o: stream.Interface) -> None:
        fifo = SyncFIFO(width=i.payload.as_value().shape().width, depth=PASSES_AHEAD)
        self._add(m, name, fifo)
        m.d.comb += [
            fifo.w_data.eq(i.payload),
            fifo.w_en.eq(i.valid),
            i.ready.eq(fifo.w_rdy),
            o.payload.eq(fifo.r_data),
            o.valid.eq(fifo.r_rdy),
            fifo.r_en.eq(o.ready),
        ]

    def _tuples(self, m: Module, reader: Reader) -> None:
        job, join = self.i_job, self.config.join
        slots = tuple_slots(self.config)
        items = Unpacker(slots, tuple_item_layout(join))
        self._add(m, "tuple_items", items)
        self._begin(
            m,
            reader.i_fetch,
            {"address": job.tuple_address, "words": slots.words_of(job.tuples)},
        )
        self._begin(m, items.i_run, {"first": 0, "count": job.tuples})
        connect(m, reader.o, items.i)
        given = stream.Signature(tuple_layout(join)).create(path=("given",))
        m.d.comb += [
            given.payload.start.eq(items.o.payload.start),
            given.payload.end.eq(items.o.payload.end),
            given.payload.keys.eq(items.o.payload["keys"]),
            given.valid.eq(items.o.valid),
            items.o.ready.eq(given.ready),
        ]
        self._staged(m, "tuple", tuple_layout(join), given, self.o_tuple)
