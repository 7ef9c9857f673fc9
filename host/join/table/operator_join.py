"""ROWS joins of two tables by the window-join operator of a device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import DeviceError, QueryError, UsageError
from penstock.plan.forms import JoinForm
from penstock.plan.query import LEFT, RIGHT, JoinQuery, RowsWindow, other
from penstock.plan.ranges import arrival_order
from penstock.program import WindowProgram

from ...device.base import Device
from ...device.window_join import Arrivals
from ...execute.arrivals import BoundArrivals
from ...execute.order import Order
from ...execute.prepared import Prepared
from ...keys.prepare import Layout, layout, stream_values, window_keys
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
        layouts = {side: self._layout(form) for side, form in self.forms.items()}
        program = WindowProgram(layouts[LEFT].program, layouts[RIGHT].program, self.rows)
        reason = self.device.refuses(program)
        if reason is not None:
            raise DeviceError(
                f"device {self.device.name} cannot run this query with the window operator: "
                f"{reason}{self._why_general()}"
            )
        none = np.zeros(0, np.int64)
        probe = Probe(self.tables.arrivals[LEFT], self.tables.window(RIGHT), none, none)
        bound = BoundArrivals(probe, program, self._arrivals(layouts))
        self.stats.pairs_in_window += bound.whole.evaluations
        for piece in bound.pieces(prepared.cutting):
            yield Order(0, bound, piece)

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
