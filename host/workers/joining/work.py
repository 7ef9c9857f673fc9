"""Compiled join of two sources on workers: its intake and the state of each worker."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import ExitStack

import numpy as np
import pyarrow as pa

from penstock.plan.group_query import require_closing
from penstock.plan.plan import JoinPlan, plan
from penstock.plan.query import JoinQuery
from penstock.plan.window import FOREVER

from ...device.base import Device
from ...device.registry import open_device, parse_device
from ...emit.groups.closing import Limit
from ...emit.open_delivery import open_delivery
from ...grouping.event_times import EventTimes
from ...grouping.intake import RowIntake
from ...join.stream.intake import JoinChecks
from ...routing.base import WORKER_CELLS
from ...rows.sides import Arrival, filtered, read_side, side_columns
from ...windows.source import Span, StreamSource
from ..dealt import dealt_schema, projected
from ..job import Job
from ..members import fingerprint
from ..output_order import with_keys, with_rows, without_hidden
from ..work import Work
from .blocks import shipped_schema
from .heavy import heavy_cells
from .runs import HostRuns
from .sharing import cells_of, shared_keys, side_for_all
from .state import JoinState


class JoinIntake(RowIntake):
    """Intake of both sources of a join.

    Parameters
    ----------
    plan : JoinPlan
    schemas : mapping of side to pyarrow.Schema
        Of pushed rows.
    disorder, idle_s
        As for :class:`RowIntake`.
    """

    def __init__(
        self,
        plan: JoinPlan,
        schemas: Mapping[str, pa.Schema],
        *,
        disorder: Span | Mapping[str, Span],
        idle_s: float | None,
    ) -> None:
        self.query: JoinQuery = plan.query
        super().__init__(
            self.query.sides, schemas, self.query.time_zone, disorder=disorder, idle_s=idle_s
        )
        forms = [one.form for one in plan.evaluations.values()]
        self._checks = JoinChecks(self.query, forms)

    def check(self, source: StreamSource, batch: pa.RecordBatch, times: EventTimes) -> None:
        side = source.side.side
        is_placeless = self.query.is_rows and times.rows is not None
        if not (is_placeless or self.query.scale_of(side) or self._checks.may_fail(side)):
            return
        read = read_side(self.query, source.side, batch)
        timed = filtered(source.side, read.timed)
        self._checks.check(Arrival.of_batch(self.query, side, timed, batch))


class JoinWork(Work):
    """Compiled join of two sources.

    Parameters
    ----------
    job : Job
    query : JoinQuery

    Raises
    ------
    QueryError
        The query has no end in a stream, or cannot be joined in steps.
    DeviceError
        No device has that name.
    """

    def __init__(self, job: Job, query: JoinQuery) -> None:
        self._job = job
        self._named = parse_device(job.device)
        self._owned = ExitStack()
        self._runs: HostRuns | None = None
        self._plan = planned = plan(query)
        if job.is_table:
            planned.require_order()
        if query.sessions is None:
            planned.require_stepwise()
        else:
            require_closing(query)
        self._keys = shared_keys(query)
        self.shares_steps = self._keys is None and job.size > 1
        self.sides = query.by_event_time.sides
        self.dealt_schemas = tuple(
            dealt_schema(job.schemas[side.table], query.columns_of(side.side))
            for side in query.sides
        )
        if job.ordered:
            query = with_rows(query) if query.aggregation is None else with_keys(query)
        self._shown = query
        by_side = {
            side.side: one for side, one in zip(query.sides, self.dealt_schemas, strict=True)
        }
        shipped = {side: shipped_schema(one) for side, one in by_side.items()}
        self.hidden = open_delivery(plan(query.by_event_time), shipped, bounded=True).schema
        self.output = without_hidden(self.hidden)
        self.fingerprint = fingerprint(query)

    def intake(self, disorder: Span | Mapping[str, Span], idle_s: float | None) -> JoinIntake:
        by_side = {side.side: self._job.schemas[side.table] for side in self.sides}
        return JoinIntake(
            plan(self._plan.query.by_event_time), by_side, disorder=disorder, idle_s=idle_s
        )

    def limit(self, time: int) -> Limit:
        if self._job.is_table and time != FOREVER:
            return -math.inf
        return time

    def state(self, rank: int) -> JoinState:
        size, schemas, hidden = self._job.size, self.dealt_schemas, self.hidden
        heavy, runs = self._job.heavy, self._runs
        return JoinState(
            self._shown, self._keys, schemas, hidden, rank, size, self._device, heavy, runs
        )

    def share(self, board: int, count: int) -> None:
        if self.shares_steps and count > 1:
            self._runs = HostRuns(board, count)
            self._owned.callback(self._runs.close)

    def heavy(self, tables: Mapping[str, pa.Table]) -> tuple[int, ...]:
        size, query = self._job.size, self._shown.by_event_time
        if self._keys is None or size == 1 or side_for_all(self._shown) is None:
            return ()
        loads = np.zeros(WORKER_CELLS, np.int64)
        for side, schema in zip(self.sides, self.dealt_schemas, strict=True):
            names = sorted(self._keys.names(side.side))
            for batch in tables[side.table].select(names).to_batches():
                rows = projected(batch, pa.schema([schema.field(name) for name in names]))
                known = side_columns(query, side.side, rows, names)
                cells, has_key = cells_of(self._keys, side.side, known, rows.num_rows)
                loads += np.bincount(
                    cells if has_key is None else cells[has_key], minlength=WORKER_CELLS
                )
        return tuple(heavy_cells(loads, int(loads.sum()), size))

    def _device(self) -> Device:
        name, options = self._named
        if name == "cpu":
            options = {"threads": 1, **options}
        return self._owned.enter_context(open_device(name, **options))

    def close(self) -> None:
        self._owned.close()
