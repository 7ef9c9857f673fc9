"""Drives the join pipeline in Amaranth's simulator, one task at a time."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import numpy as np
from amaranth.hdl import Signal
from amaranth.lib import stream
from amaranth.sim import Simulator
from amaranth.sim._async import ProcessContext

from penstock.errors import DeviceError
from penstock.hw.join.config import JoinConfig
from penstock.hw.join.flit import Kind, entry_layout, pass_layout, tuple_layout
from penstock.hw.join.modes import CODES
from penstock.hw.join.pipeline import Chain, Pipeline
from penstock.passes import Pass, recover
from penstock.program import Mode

#: Simulated clock. Only waveforms show it.
PERIOD_S = 10e-9

#: A simulation counts as hung after this many cycles without a transfer, and those of a drain.
PATIENCE_CYCLES = 10_000


class Cycle(NamedTuple):
    """One cycle of a trace: the flit that leaves the head, and how many units are active."""

    kind: Kind
    active: int


@dataclass
class Run:
    """Result of a simulated task."""

    i: np.ndarray
    j: np.ndarray
    #: Tuples below ``complete`` are complete; those below ``loaded`` too, up to ``position``.
    complete: int
    loaded: int
    position: int
    passes: int
    window_flits: int
    cycles: int
    admission_stalls: int
    trace: list[Cycle]
    #: Fold of each tuple, in a task that folds (``config.folding.layout``).
    values: list[int]


@dataclass
class _Job:
    """The task that is in the pipeline."""

    passes: list[Pass]
    room: int
    records: list[tuple[int, int, int]] = field(default_factory=list)
    pairs: int = 0
    report: tuple[int, int, int] | None = None
    cycles: int = 0
    stalls: int = 0
    window_flits: int = 0
    #: Cycles since the last window flit, and window flits that may still cause records.
    since: int = 0
    in_flight: int = 0
    trace: list[Cycle] = field(default_factory=list)
    values: list[int] = field(default_factory=list)


class _Source:
    """Feeds payloads, packed into integers, to a stream."""

    def __init__(self, port: stream.Interface) -> None:
        self._payload = (
            port.payload if isinstance(port.payload, Signal) else port.payload.as_value()
        )
        self._valid = port.valid
        self.ready = port.ready
        self._items: Iterator[int] = iter(())
        self.presented = False
        #: Whether there is an item left.
        self.busy = False

    def feed(self, items: Iterable[int]) -> None:
        self._items = iter(items)
        self.busy = True

    def step(self, ctx: ProcessContext, ready: int, pause: bool) -> bool:
        """One clock edge; returns whether an item was taken."""
        taken = bool(self.presented and ready)
        if taken or not self.presented:
            item = None if pause else next(self._items, None)
            self.busy = pause or item is not None
            if item is not None:
                ctx.set(self._payload, item)
            if self.presented != (item is not None):
                self.presented = item is not None
                ctx.set(self._valid, self.presented)
        return taken

    def withdraw(self, ctx: ProcessContext) -> None:
        """Drop the items that are left, as a reader does when a task is halted."""
        self._items = iter(())
        self.presented = self.busy = False
        ctx.set(self._valid, 0)


class PipelineSimulator:
    """A pipeline in simulation; threads take turns.

    Parameters
    ----------
    config : JoinConfig
        The build.
    vcd : path, optional
        Where to write waveforms of everything this simulator runs.
    trace : bool
        Whether runs list every cycle. Slows the simulation down.
    gaps, stalls : float
        Share of cycles in which an input has no item, and in which the output is not ready.
    seed : int
        Seed of the gaps and stalls.
    """

    def __init__(
        self,
        config: JoinConfig,
        *,
        vcd: Path | str | None = None,
        trace: bool = False,
        gaps: float = 0.0,
        stalls: float = 0.0,
        seed: int = 0,
    ) -> None:
        self.config = config
        #: Upper bound of the window flits whose records are not out yet.
        self.reach = config.drain_cycles
        self._vcd = vcd
        self._trace = trace
        self._gaps, self._stalls = gaps, stalls
        self._random = random.Random(seed)
        #: Truth table and mode that the pipeline has.
        self._table: int | None = None
        self._mode = Mode.PAIRS
        self._job: _Job | None = None
        self._broken = False
        self._lock = Lock()
        self._files = ExitStack()
        self._simulator: Simulator | None = None
        self._take = self._collect = self._go = self._halt = False

    def _start(self) -> Simulator:
        """Build the pipeline; done at the first task, since many programs never run."""
        self._pipeline = pipeline = Pipeline(self.config)
        self._tuples = _Source(pipeline.i_tuple)
        self._window = _Source(pipeline.i_window)
        self._passes = _Source(pipeline.i_pass)
        self._entries = _Source(pipeline.i_entry) if self.config.entry_bits else None
        entries = [] if self._entries is None else [self._entries]
        self._sources = [*entries, self._tuples, self._window, self._passes]
        simulator = Simulator(pipeline)
        simulator.add_clock(PERIOD_S)
        simulator.add_process(self._drive)
        if self._vcd is not None:
            self._files.enter_context(simulator.write_vcd(str(self._vcd)))
        return simulator

    def close(self) -> None:
        """Finish the waveform file."""
        with self._lock:
            self._files.close()

    def run(
        self,
        *,
        tuples: Sequence[int],
        start: np.ndarray,
        end: np.ndarray,
        window: Sequence[int],
        table: int = 0,
        room: int | None = None,
        mode: Mode = Mode.PAIRS,
    ) -> Run:
        """Run one task until it ends or has no room left.

        Parameters
        ----------
        tuples : sequence of int
            Packed keys of the stream tuples.
        start, end : ndarray of int64
            Their ranges, none empty.
        window : sequence of int
            Packed keys of the window tuples; element 0 is position 0.
        table : int
            Truth table of a band build.
        room : int, optional
            Most pairs; at least ``config.units``. Unlimited by default.
        mode : Mode
            One of the build's modes.

        Raises
        ------
        DeviceError
            The simulation hangs.
        """
        config = self.config
        passes = config.plan(start, end)
        job = _Job(passes, room=room if room is not None else 1 << 62)
        keys = tuple_layout(config)["keys"].width
        ranges = zip(tuples, start.tolist(), end.tolist(), strict=True)
        positions = config.position_bits
        with self._lock:
            if self._broken:
                raise DeviceError("the simulated pipeline hung before; open the program again")
            if self._simulator is None:
                self._simulator = self._start()
            if self._entries is not None:
                self._entries.feed(self._news(table, mode))
            self._tuples.feed(k | s << keys | e << keys + positions for k, s, e in ranges)
            self._window.feed(window[j] for p in passes for j in range(p.begin, p.end))
            self._passes.feed(_packed_passes(config, passes))
            self._job = job
            try:
                while self._job is not None:
                    self._simulator.advance()
            except BaseException:
                self._broken = True
                self._job = None
                raise
        return self._finish(job, start)

    def _news(self, table: int, mode: Mode) -> list[int]:
        """Entries that set the pipeline's table and mode, if they differ from those it has."""
        config, layout = self.config, entry_layout(self.config)
        told = config.folding is None or self._mode == mode
        if table != self._table and config.is_band:
            indices = range(config.table_bits)
        else:
            indices = range(0 if told else 1)
        self._table, self._mode = table, mode
        code = CODES[mode] << layout["mode"].offset if config.folding else 0
        if not config.is_band:
            return [code for _ in indices]
        value = layout["value"].offset
        return [index | (table >> index & 1) << value | code for index in indices]

    def _finish(self, job: _Job, start: np.ndarray) -> Run:
        config = self.config
        unit, ordinal = [], []
        for block, count, mask in job.records:
            first = block * config.units_per_block
            for bit in range(mask.bit_length()):
                if mask >> bit & 1:
                    unit.append(first + bit)
                    ordinal.append(count)
        i, j = recover(
            job.passes,
            start,
            config.units,
            np.array(unit, dtype=np.int64),
            np.array(ordinal, dtype=np.int64),
        )
        complete, loaded, position = job.report or (0, 0, 0)
        return Run(
            i=i,
            j=j,
            complete=complete,
            loaded=loaded,
            position=position,
            passes=len(job.passes),
            window_flits=job.window_flits,
            cycles=job.cycles,
            admission_stalls=job.stalls,
            trace=job.trace,
            values=job.values,
        )

    # -- one clock edge ---------------------------------------------------------------------------

    async def _drive(self, ctx: ProcessContext) -> None:
        pipeline = self._pipeline
        result, report = pipeline.o_result, pipeline.o_report
        ctx.set(report.ready, 1)
        observed = [
            result.valid,
            result.payload.block,
            result.payload.record.ordinal,
            result.payload.record.mask,
            report.valid,
            report.payload.complete,
            report.payload.loaded,
            report.payload.position,
            pipeline.o_quiet,
            pipeline.o_stalled,
            *(source.ready for source in self._sources),
        ]
        if self.config.folding:
            observed += [pipeline.o_value.valid, pipeline.o_value.payload.as_value()]
        if self._trace:
            chain = pipeline.chain
            if not isinstance(chain, Chain):
                raise DeviceError("only a chain of flits has a trace")
            observed.append(chain.head.o.kind)
            observed += [unit.active for block in chain.blocks for unit in block.units]
        idle = 0
        async for _clock, _reset, *seen in ctx.tick().sample(*observed):  # pyright: ignore
            job = self._job
            if job is None:
                raise DeviceError("the simulation was driven without a task")
            moved = self._results(ctx, job, seen)
            more = seen[10 + len(self._sources) :]
            if self.config.folding:
                moved |= self._values(ctx, job, *more[:2])
                more = more[2:]
            if self._trace:
                job.trace.append(Cycle(Kind(more[0]), sum(more[1:])))
            moved |= self._inputs(ctx, job, seen[10:])
            idle = 0 if moved else idle + 1
            if idle > PATIENCE_CYCLES + self.reach:
                raise DeviceError(f"the simulated pipeline hangs after {job.cycles} cycles")

    def _results(self, ctx: ProcessContext, job: _Job, seen: list) -> bool:
        valid, block, ordinal, mask, ended, complete, loaded, position, quiet, stalled = seen[:10]
        job.cycles += 1
        job.stalls += stalled
        taken = bool(valid and self._take)
        if taken:
            job.records.append((block, ordinal, mask))
            job.pairs += mask.bit_count()
        take = self._random.random() >= self._stalls
        if take != self._take:
            self._take = take
            ctx.set(self._pipeline.o_result.ready, take)
        job.since += 1
        if job.since > self.reach and quiet and not valid:
            job.in_flight = 0
        if ended:
            job.report = (complete, loaded, position)
            for source in self._sources:
                source.withdraw(ctx)
            self._control(ctx, go=False, halt=False)
            self._job = None
        return taken

    def _values(self, ctx: ProcessContext, job: _Job, valid: int, value: int) -> bool:
        taken = bool(valid and self._collect)
        if taken:
            job.values.append(value)
        take = self._random.random() >= self._stalls
        if take != self._collect:
            self._collect = take
            ctx.set(self._pipeline.o_value.ready, take)
        return taken

    def _inputs(self, ctx: ProcessContext, job: _Job, ready: list) -> bool:
        if self._job is None:
            return True
        moved = False
        for source, is_ready in zip(self._sources, ready, strict=False):
            pause = self._random.random() < self._gaps
            if source is self._passes and self._entries is not None:
                # No pass begins with half a table.
                pause |= self._entries.busy
            taken = source.step(ctx, is_ready, pause)
            moved |= taken
            if taken and source is self._window:
                job.since = 0
                job.in_flight += 1
                job.window_flits += 1
        left = job.room - job.pairs
        go = left >= self.config.units * (job.in_flight + 1)
        # One window tuple per drain is slow, and only for tasks that could not go on otherwise.
        cramped = left < self.config.units * self.reach and job.pairs > 0
        self._control(ctx, go=go, halt=not go and cramped and job.in_flight == 0)
        return moved

    def _control(self, ctx: ProcessContext, *, go: bool, halt: bool) -> None:
        if go != self._go:
            self._go = go
            ctx.set(self._pipeline.i_room, go)
        if halt != self._halt:
            self._halt = halt
            ctx.set(self._pipeline.i_halt, halt)


def _packed_passes(config: JoinConfig, passes: Sequence[Pass]) -> Iterator[int]:
    layout = pass_layout(config)
    for number, part in enumerate(passes):
        yield (
            part.stop - part.first
            | part.begin << layout["begin"].offset
            | part.end << layout["end"].offset
            | (number == len(passes) - 1) << layout["last"].offset
        )
