"""ROWS joins of two tables by the window-join operator of a device."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import DeviceError, QueryError, UsageError
from penstock.plan.forms import JoinForm
from penstock.plan.query import LEFT, RIGHT, JoinQuery, RowsWindow, other
from penstock.plan.ranges import arrival_order
from penstock.program import WindowProgram

from ...device.base import Device
from ...device.cut import TASK_EVALUATIONS
from ...device.window_join import Arrivals
from ...emit.delivery import Delivery
from ...emit.making import Making
from ...emit.output import RowsByArrival
from ...emit.tables import TablePairs
from ...execute.pairs import Pairs
from ...execute.room import MOST
from ...execute.run_window import run_window_join
from ...execute.traced import TracedDevice
from ...keys.prepare import Layout, layout, stream_values, window_keys
from ...metrics.report import LaneReport
from ...rows.sides import Loaded
from .table_join import EVERYTHING, TableJoin


class OperatorJoin(TableJoin):
    """Gives the pairs of a ROWS join: rows of both sides enter the operator in order of arrival.

    The left side is side A. Parameters as for :class:`TableJoin`, with one device.
    """

    def __init__(
        self,
        query: JoinQuery,
        tables: Mapping[str, pa.Table | Loaded],
        device: Device | Sequence[Device],
        **options: Any,
    ) -> None:
        if query.aggregation is not None:
            raise QueryError(
                "the window operator gives pairs; use the range operator for aggregates, or "
                "aggregate the pairs"
            )
        window = query.window
        if not isinstance(window, RowsWindow):
            raise QueryError(
                "the window operator is for ROWS windows, and this query has a time window; give "
                "it ROWS, or use the range operator"
            )
        if query.kind.is_existence:
            raise QueryError(
                f"a {query.kind.value} join gives no pairs; only the range operator runs it"
            )
        super().__init__(query, tables, device, **options)
        if len(self.devices) > 1:
            raise UsageError("the window operator runs on one device; give it one")
        self.device = TracedDevice(self.devices[0], self.trace)
        self.rows = (window.left, window.right)
        # By probing side: the form of its evaluation, whose window is over the other side.
        self.forms = {one.side: one.evaluation.form for one in self.directions}

    def lane_reports(self) -> tuple[LaneReport, ...]:
        return self.device.lane_reports()

    def run(self, delivery: Delivery) -> Iterator[RowsByArrival]:
        assert isinstance(delivery, TablePairs)
        at_end = delivery.begin(0, self.step_without_probes(), EVERYTHING)
        yield from self._rows(self._makings_of_pairs(delivery), delivery)
        if at_end is not None:
            yield from at_end()

    def _makings_of_pairs(self, delivery: TablePairs) -> Generator[Making, None, None]:
        window = self.tables.window(RIGHT)
        with closing(self._pairs()) as parts:
            for pairs in parts:
                yield from delivery.pairs(self.tables.arrivals[LEFT], window, pairs)
                delivery.noted(LEFT, pairs)
                self.progressed()

    def _pairs(self) -> Generator[Pairs, None, None]:
        layouts = {side: self._layout(form) for side, form in self.forms.items()}
        program = WindowProgram(layouts[LEFT].program, layouts[RIGHT].program, self.rows)
        reason = self.device.refuses(program)
        if reason is not None:
            raise DeviceError(
                f"device {self.device.name} cannot run this query with the window operator: "
                f"{reason}{self._why_general()}"
            )
        kernel = self.device.open(program)
        try:
            for result in run_window_join(
                kernel,
                self._arrivals(layouts),
                room=max(MOST, kernel.min_room),
                lanes=self.device.lanes,
                task_evaluations=self.device.task_evaluations or TASK_EVALUATIONS,
            ):
                self.stats.pairs_in_window += result.counters["evaluations"]
                self.stats.note(result)
                yield Pairs(result.i, result.j)
        finally:
            kernel.close()

    def _arrivals(self, layouts: Mapping[str, Layout]) -> Arrivals:
        """Return the tuples of both sides in order of arrival, with their keys."""
        sides = self.tables.sides
        before_left, before_right = arrival_order(sides[LEFT].time, sides[RIGHT].time)
        is_b = np.zeros(len(before_left) + len(before_right), bool)
        is_b[np.arange(len(before_right)) + before_right] = True
        window = [
            layout.window(window_keys(form, sides[side].columns, len(sides[side])))
            for side, layout, form in (
                (LEFT, layouts[RIGHT], self.forms[RIGHT]),
                (RIGHT, layouts[LEFT], self.forms[LEFT]),
            )
        ]
        stream = [
            layouts[side].stream(sides[side].columns, len(sides[side])).arrays
            for side in (LEFT, RIGHT)
        ]
        return Arrivals(is_b, (window[0], window[1]), (stream[0], stream[1]))

    def _layout(self, form: JoinForm) -> Layout:
        """Return the layout of one direction's keys."""
        stream = self.tables.sides[other(form.window)]
        window = self.tables.sides[form.window]
        return layout(
            form,
            window_keys(form, window.columns, len(window)),
            stream_values(form, stream.columns, len(stream)),
            self.device.key_widths,
        )

    def _why_general(self) -> str:
        texts = {form.why_general(self.query.names) for form in self.forms.values()} - {""}
        return f" ({'; '.join(sorted(texts))})" if texts else ""
