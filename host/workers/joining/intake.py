"""Judges the rows of a join's sources before workers get them."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from penstock.plan.plan import JoinPlan
from penstock.plan.query import JoinQuery

from ...grouping.event_times import EventTimes
from ...grouping.intake import RowIntake
from ...join.stream.checks import JoinChecks
from ...rows.sides import Arrival, filtered, read_side
from ...windows.source import Source, Span


class JoinIntake(RowIntake):
    """Takes the rows and promises of both sources.

    Parameters
    ----------
    plan : JoinPlan
    schemas : mapping of side to pyarrow.Schema
        Of what is pushed.
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

    def check(self, own: Source, batch: pa.RecordBatch, times: EventTimes) -> None:
        side = own.side.side
        is_placeless = self.query.is_rows and times.rows is not None
        if not (is_placeless or self.query.scale_of(side) or self._checks.may_fail(side)):
            return
        read = read_side(self.query, own.side, batch)
        self._checks.check(Arrival.of(self.query, side, filtered(own.side, read.timed), batch))
