"""A ROWS join of two tables by the window-join operator of a device."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from penstock.errors import DeviceError, QueryError
from penstock.plan.forms import JoinForm
from penstock.plan.query import LEFT, RIGHT, JoinQuery, RowsWindow, other
from penstock.plan.ranges import arrival_order
from penstock.program import WindowProgram

from ...device.cut import TASK_EVALUATIONS
from ...device.window_join import Arrivals
from ...execute.probe import ROOM
from ...execute.run_window import run_window_join
from ...keys.prepare import Layout, layout, stream_values, window_keys
from .pair_join import PairJoin


class OperatorJoin(PairJoin):
    """Gives the pairs of a ROWS join: rows of both sides enter an operator in order of arrival.

    The left side is side A. See :class:`penstock.host.join.table.table_join.TableJoin`.
    """

    def _check(self, query: JoinQuery) -> None:
        if query.aggregation is not None:
            raise QueryError(
                "the window operator gives pairs; use the range operator for aggregates, or "
                "aggregate the pairs"
            )
        if not isinstance(query.window, RowsWindow):
            raise QueryError(
                "the window operator is for ROWS windows, and this query has a time window; give "
                "it ROWS, or use the range operator"
            )
        super()._check(query)

    def _prepare(self) -> None:
        super()._prepare()
        window = self.query.window
        assert isinstance(window, RowsWindow)
        self.rows = (window.left, window.right)
        # By which tuples of each side are matched: the window is over the other one.
        self.forms = {side: self.plan.pairs(other(side)).form for side in (LEFT, RIGHT)}
        self.arrivals_of = {side: len(self.sides[side]) for side in (LEFT, RIGHT)}
        self._places = self._order()
        start, end = self._shape().met(self.rows)
        self.pairs_in_window = int((end - start).sum())

    def _order(self) -> dict[str, np.ndarray]:
        """Place of each tuple in the order of arrival, per side."""
        before = arrival_order(self.sides[LEFT].time, self.sides[RIGHT].time)
        return {
            side: np.arange(len(others)) + others
            for side, others in zip((LEFT, RIGHT), before, strict=True)
        }

    def _shape(self) -> Arrivals:
        """The arrivals without their keys."""
        is_b = np.zeros(sum(self.arrivals_of.values()), bool)
        is_b[self._places[RIGHT]] = True
        return Arrivals(is_b, ((), ()), ((), ()))

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        yield from self.restored(LEFT, self._pairs())
        yield from self.alone()
        self.stats.stop()

    def _pairs(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        layouts = {side: self._layout(form) for side, form in self.forms.items()}
        program = WindowProgram(layouts[LEFT].program, layouts[RIGHT].program, self.rows)
        reason = self.device.refuses(program)
        if reason is not None:
            raise DeviceError(
                f"device {self.device.name} cannot run this query with the window operator: "
                f"{reason}{self._why_general()}"
            )
        window = self._keys(layouts[RIGHT], LEFT), self._keys(layouts[LEFT], RIGHT)
        stream = tuple(
            layouts[side].stream(self.sides[side].columns, len(self.sides[side])).arrays
            for side in (LEFT, RIGHT)
        )
        arrivals = Arrivals(self._shape().is_b, window, (stream[0], stream[1]))
        kernel = self.device.open(program)
        try:
            for result in run_window_join(
                kernel,
                arrivals,
                room=max(ROOM, kernel.min_room),
                lanes=self.device.lanes,
                task_evaluations=self.device.task_evaluations or TASK_EVALUATIONS,
            ):
                self.stats.pairs_in_window += result.counters["evaluations"]
                self.stats.add(result.counters)
                yield result.i, result.j
        finally:
            kernel.close()

    def _layout(self, form: JoinForm) -> Layout:
        """How one direction is encoded."""
        stream, window = self.sides[other(form.window)], self.sides[form.window]
        return layout(
            form,
            window_keys(form, window.columns, len(window)),
            stream_values(form, stream.columns, len(stream)),
            self.device.key_widths,
        )

    def _keys(self, made: Layout, side: str) -> list[np.ndarray]:
        """Window keys of a side's tuples."""
        rows, form = self.sides[side], self.forms[other(side)]
        return made.window(window_keys(form, rows.columns, len(rows)))

    def _why_general(self) -> str:
        texts = {form.why_general(self.names) for form in self.forms.values()} - {""}
        return f" ({'; '.join(sorted(texts))})" if texts else ""
