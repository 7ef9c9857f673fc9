"""ROWS joins of two tables by the window-join operator of a device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import DeviceError, QueryError, UsageError
from penstock.plan.query import LEFT, RIGHT, JoinQuery, RowsWindow, other
from penstock.plan.ranges import arrival_numbers
from penstock.program import WindowProgram

from ...device.base import Device
from ...device.operator import Operator
from ...device.window_join import Arrivals
from ...execute.order import BoundArrivals, Order
from ...execute.prepared import Prepared
from ...keys.prepare import layout, stream_values, window_keys
from ...rows.sides import Loaded
from ...windows.probe import Probe, WindowStep
from .table_join import TableJoin


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
        (self.device,) = self.devices
        self.rows = (window.left, window.right)
        # By probing side: the form of its evaluation, whose window is over the other side.
        self.forms = {one.side: one.evaluation.form for one in self.directions}

    def step(self, prepared: Prepared) -> WindowStep:
        """Make the step, without probes: the operator matches tuples as they arrive."""
        return self.step_without_probes()

    def orders(self, prepared: Prepared, step: WindowStep) -> Iterator[Order]:
        sides, layouts, window, stream = self.tables.sides, {}, {}, {}
        for side, form in self.forms.items():
            rows, met = sides[side], sides[other(side)]
            keys = window_keys(form, met.columns, len(met))
            values = stream_values(form, rows.columns, len(rows))
            layouts[side] = layout(form, keys, values, self.device.key_widths)
            window[other(side)] = layouts[side].window(keys)
            stream[side] = layouts[side].stream(rows.columns, len(rows)).arrays
        program = WindowProgram(layouts[LEFT].program, layouts[RIGHT].program, self.rows)
        reason = self.device.refuses(program)
        if reason is not None:
            raise DeviceError(
                f"device {self.device.name} cannot run this query with the window operator: "
                f"{reason}{self._why_general()}"
            )
        arrivals = Arrivals(
            self._is_right(), (window[LEFT], window[RIGHT]), (stream[LEFT], stream[RIGHT])
        )
        none = np.zeros(0, np.int64)
        probe = Probe(self.tables.arrivals[LEFT], self.tables.window(RIGHT), none, none)
        bound = BoundArrivals(probe, program, arrivals)
        self.stats.pairs_in_window += bound.whole.evaluations
        for piece in bound.pieces(prepared.cutting):
            yield Order(0, bound, piece)

    def _is_right(self) -> np.ndarray:
        """Return the side of each tuple in order of arrival: whether it is the right one."""
        sides = self.tables.sides
        left, right = arrival_numbers(sides[LEFT].time, sides[RIGHT].time)
        is_right = np.zeros(len(left) + len(right), bool)
        is_right[right] = True
        return is_right

    def _why_general(self) -> str:
        texts = {form.why_general(self.query.names) for form in self.forms.values()} - {""}
        return f" ({'; '.join(sorted(texts))})" if texts else ""


def table_join(operator: Operator = Operator.RANGE) -> type[TableJoin]:
    """Return the class that joins two tables by an operation of a device.

    Its constructor raises QueryError if the operation does not support the query.
    """
    return OperatorJoin if operator is Operator.WINDOW else TableJoin
