"""Joins of two whole tables: one step, whose output is pulled batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import replace
from functools import cached_property
from itertools import chain

import numpy as np
import pyarrow as pa

from penstock.errors import UsageError
from penstock.plan.plan import Evaluation, JoinPlan, Output, plan
from penstock.plan.query import LEFT, RIGHT, JoinQuery, named_by_side, other
from penstock.plan.window import FOREVER, SESSION

from ...device.base import Device, device_list
from ...device.cut import Cutting
from ...emit.delivery import Delivery
from ...emit.open_delivery import open_delivery
from ...emit.output import Making, RowsByArrival, make_rows, timed
from ...execute.chunk import Chunk, with_many_pairs
from ...execute.executor import lane_names
from ...execute.order import Order
from ...execute.prepared import Prepared
from ...execute.pulling import Pulling
from ...execute.residence import Residence
from ...execute.running import Running
from ...execute.stats import Stats
from ...execute.trace import Trace
from ...metrics.report import LaneReport, Report
from ...prune.costed import Costed
from ...prune.sizes import DEFAULT_PRUNING, Pruning
from ...rows.sides import Arrival, Loaded, filtered, read_side
from ...rows.stretches import window_parts
from ...sessions.numbering import KeyCodes, session_numbers
from ...windows.probe import Evaluated, Probe, ProbePart, Watermarks, WindowStep
from ...windows.source import Span, StreamSource, check_names
from ..filtering import with_filter
from .directions import Direction, directions
from .loading import Tables, check_order

#: Watermarks after the last row of both sides.
EVERYTHING: Watermarks = {LEFT: FOREVER, RIGHT: FOREVER}
#: Least pairs whose rows are made together: if matches are rare, a batch per task would cost more
#: than finding its rows.
LEAST_PAIRS = 1 << 15


def in_sessions(
    query: JoinQuery,
    tables: Mapping[str, pa.Table | Loaded],
    disorder: Span | Mapping[str, Span] | None,
) -> tuple[JoinQuery, dict[str, pa.Table | Loaded]]:
    """Number the session of each row, in a column beside; tables are then named by side.

    Raises
    ------
    DataError
        As for :class:`~.loading.Tables`.
    """
    sessions, judged = query.sessions, query.by_event_time
    assert sessions is not None
    check_names(disorder, judged.sides)
    keys = KeyCodes(sessions)
    read_tables: list[tuple[pa.Table, np.ndarray]] = []
    codes, times = [], []
    for side in judged.sides:
        table = tables[side.table]
        assert not isinstance(table, Loaded)
        whole = table.combine_chunks()
        read = read_side(judged, side, whole)
        if disorder is not None:
            check_order(StreamSource(side, disorder), read.timed)
        # By time, so that rows of a session are in its order.
        rows = filtered(side, read.timed).in_time_order()
        known, numbered = keys.encode(side.side, rows)
        read_tables.append((whole, rows.row[known]))
        codes.append(numbered)
        times.append(rows.time[known])
    numbers = session_numbers(np.concatenate(codes), np.concatenate(times), sessions.gap)
    parts = np.split(numbers, [len(codes[0])])
    with_sessions: dict[str, pa.Table | Loaded] = {}
    for side, (table, rows), numbered in zip(judged.sides, read_tables, parts, strict=True):
        column, is_null = np.zeros(table.num_rows, np.int64), np.ones(table.num_rows, bool)
        column[rows], is_null[rows] = numbered, False
        with_sessions[side.side] = table.append_column(SESSION, pa.array(column, mask=is_null))
    return named_by_side(query), with_sessions


class TableJoin:
    """Joins two tables on some devices; iterate to get the output.

    Parameters
    ----------
    tables : mapping of table name to pyarrow.Table or Loaded
    device : Device, or sequence of Device
        All lanes of all devices share the work.
    band : bool
        False switches the band form off, to compare with the general form.
    about : str, optional
        As for :class:`~penstock.plan.plan.JoinPlan`.
    disorder : int, timedelta, or mapping of alias to either, optional
        Disorder of a table's rows; unlimited by default.
    pruning : Pruning or None
        None evaluates every pair that the window admits.
    running : Running, optional
        Order, policy and limits of tasks; its ``pruning`` is not used.
    probing : mapping of side to slice, optional
        The tuples of a side that probe, by place in the order of time; all by default. The others
        are window tuples only.
    residence : Residence, optional
        Keeps blocks of the tables' rows from join to join.
    trace : Trace, optional
        Records the work of the lanes.
    on_progress : callable, optional
        Called after each result with (pairs evaluated or pruned, most pairs to evaluate).

    Raises
    ------
    DataError
        A time is NULL though the order of rows depends on it, a value is off its declared grid, or
        a row lies further behind than ``disorder``.
    DeviceError
        A device cannot run the predicate.
    """

    def __init__(
        self,
        query: JoinQuery,
        tables: Mapping[str, pa.Table | Loaded],
        device: Device | Sequence[Device],
        *,
        band: bool = True,
        about: str | None = None,
        disorder: Span | Mapping[str, Span] | None = None,
        pruning: Pruning | None = DEFAULT_PRUNING,
        running: Running | None = None,
        probing: Mapping[str, slice] | None = None,
        residence: Residence | None = None,
        trace: Trace | None = None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> None:
        if query.sessions is not None:
            query, tables = in_sessions(query, tables, disorder)
            disorder = None
        self.query = query
        self.devices = device_list(device)
        if not self.devices:
            raise UsageError("a join needs at least one device")
        self.pruning = pruning
        self.running = running or Running()
        self.trace = trace or Trace()
        self.on_progress = on_progress
        self.stats = Stats.for_devices(self.devices)
        self.tables = Tables(query, tables, disorder, numbered=self.running.ordered)
        self.plan = self._plan(band, about)
        stretches = {} if residence is None else self.tables.stretches
        named = [side for side, some in stretches.items() if some]
        self._residence = residence if named else None
        self.directions = directions(
            self.plan, self.tables.sides, probing or {}, named, self.devices
        )
        self._pulling: Pulling | None = None
        #: By forms, once they are probed: the orders of windows that were costed.
        self.costed: dict[str, Costed] = {}

    def _plan(self, band: bool, about: str | None) -> JoinPlan:
        join_plan = plan(self.query, band=band, about=about)
        join_plan = with_filter(join_plan, self.tables.schemas, self.devices)
        if join_plan.output is not Output.FOLDS:
            return join_plan
        sides = self.tables.sides
        return join_plan.without_null(lambda column: sides[column[0]].columns[column].valid is None)

    @cached_property
    def schema(self) -> pa.Schema:
        """Schema of the output."""
        return self.delivery().schema

    @property
    def evaluations(self) -> list[Evaluation]:
        """Evaluations for devices, one for each direction or fold."""
        return [one.evaluation for one in self.directions]

    @property
    def pairs_in_window(self) -> int:
        """Number of pairs that the window admits, each once, however many folds test it."""
        return sum(one.pairs for one in self.directions if not one.fold)

    @property
    def pairs_to_evaluate(self) -> int:
        """Most predicate tests of the whole join."""
        return sum(one.pairs * len(one.evaluation.modes) for one in self.directions)

    def lane_reports(self) -> tuple[LaneReport, ...]:
        """Return the state of each lane."""
        if self._pulling is not None:
            return self._pulling.executor.lane_reports()
        return tuple(LaneReport(name, 0, 0.0, 0, False) for name in lane_names(self.devices))

    def report(self) -> Report:
        """Report the work so far.

        All rows have arrived and none is late; latency, lag and memory are empty.
        """
        aliases = {one.side: one.alias for one in self.query.sides}
        rows = {aliases[side]: table.num_rows for side, table in self.tables.base.items()}
        return Report(
            arrived=rows,
            late=dict.fromkeys(rows, 0),
            rows=self.stats.rows,
            evaluations=self.stats.pairs_evaluated,
            pairs_pruned=self.stats.pairs_pruned,
            pairs_in_window=self.pairs_in_window,
            window_rows=sum(rows.values()),
            memory_bytes={},
            watermark_lag={},
            latency_s={},
            lanes=self.lane_reports(),
        )

    # -- running ----------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for one in self.run(self.delivery()):
            self.stats.rows += one.batch.num_rows
            yield one.batch
        self.stats.stop()

    def delivery(self) -> Delivery:
        """Open the delivery for one run."""
        schemas, numbered = self.tables.schemas, self.running.ordered
        return open_delivery(self.plan, schemas, bounded=True, numbered=numbered)

    def run(self, delivery: Delivery) -> Iterator[RowsByArrival]:
        """Run the join's one step; give the rows of a delivery, made while devices find pairs."""
        lanes = sum(device.lanes for device in self.devices)
        with ExitStack() as stack:
            prepared = stack.enter_context(self._prepared())
            step = self.step(prepared)
            after_batch = delivery.begin(0, step, EVERYTHING) or tuple
            makings = self._makings(delivery, self._chunks(prepared, step), stack)
            with closing(makings), closing(make_rows(makings, lanes, after_batch)) as rows:
                yield from rows

    def _makings(
        self, delivery: Delivery, chunks: Generator[Chunk, None, None], stack: ExitStack
    ) -> Generator[Making, None, None]:
        """Tell how to make the rows of chunks; close a stack after the last one."""
        with stack, closing(chunks):
            for chunk in with_many_pairs(map(delivery.matches, chunks), LEAST_PAIRS):
                for making in delivery.rows(chunk):
                    yield timed(making, self.stats.note_rows)
                delivery.note(chunk)

    def _chunks(self, prepared: Prepared, step: WindowStep) -> Generator[Chunk, None, None]:
        pulling = Pulling(prepared.memories, self.running, trace=self.trace)
        self._pulling = pulling
        orders = self.orders(prepared, step)
        with closing(pulling), closing(pulling.chunks(orders)) as chunks:
            for chunk in chunks:
                self.stats.note_chunk(chunk)
                self.progressed()
                yield chunk

    def orders(self, prepared: Prepared, step: WindowStep) -> Iterator[Order]:
        """Make the orders of a step, one after the other."""
        by_form = {one.form: one.evaluation for one in self.directions}
        for probe in step.probes:
            maker = prepared.maker(by_form[probe.form])
            self.costed[probe.form] = maker.costed
            yield from maker.orders(0, probe, self.stats)

    def progressed(self) -> None:
        """Report progress to the caller."""
        if self.on_progress is not None:
            done = self.stats.pairs_evaluated + self.stats.pairs_pruned
            self.on_progress(min(done, self.pairs_to_evaluate), self.pairs_to_evaluate)

    def _prepared(self) -> AbstractContextManager[Prepared]:
        cutting = Cutting.for_devices(self.devices, self.running.task_evaluations)
        options = (self.query.names, cutting, self.pruning)
        if self._residence is None:
            return closing(Prepared(self.devices, *options))
        return self._residence.prepared(self.devices, *options)

    # -- the step ---------------------------------------------------------------------------------

    def step_without_probes(self) -> WindowStep:
        """Make the step, but no probes: rows that leave without one, and rows probed once."""
        preserved = self.query.kind.unmatched if self.plan.output is Output.PAIRS else ()
        is_probing = self.plan.probing is not None
        return WindowStep(
            entered=tuple(self.tables.arrivals[side] for side in preserved),
            probing=(self._stream(self.directions[0]),) if is_probing else (),
            timeless=self.tables.alone,
        )

    def step(self, prepared: Prepared) -> WindowStep:
        """Make the step, with the probes of each direction."""
        probes = (self._probes(one, prepared) for one in self.directions)
        return replace(self.step_without_probes(), probes=tuple(chain.from_iterable(probes)))

    def _stream(self, one: Direction) -> Arrival:
        every = self.tables.arrivals[one.side]
        return every if len(one.start) == len(every.ids) else every.pick(one.rows)

    def _probes(self, one: Direction, prepared: Prepared) -> Iterator[Probe]:
        if not (one.end > one.start).any():
            return
        side = other(one.side)
        rows, stretches = self.tables.sides[side], self.tables.stretches[side]
        stream, window = self._stream(one), self.tables.window(side)
        probe = Probe(stream, window, one.start, one.end, one.fold)
        if not stretches or one.evaluation.in_order or self._residence is None:
            run = prepared.run(one.evaluation, rows)
            yield replace(probe, window=replace(window, run=run.run, keys=run.keys))
            return
        for part in window_parts(rows, stretches):
            low, high = part.ranges(one.start, one.end)
            met = np.flatnonzero(high > low)
            if len(met):
                span = slice(int(met[0]), int(met[-1]) + 1)
                run = prepared.run_of(one.evaluation, part)
                columns = stream.rows.pick(span).columns
                evaluated = Evaluated(run, columns, low[span], high[span])
                yield replace(probe, part=ProbePart(evaluated, span.start, part))
