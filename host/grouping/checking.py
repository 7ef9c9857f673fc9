"""Checks of rows before they are taken: expressions that can fail are computed first."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.errors import DataError
from penstock.expr.columns import evaluate_columns
from penstock.expr.node import Expr
from penstock.plan.group_query import GroupQuery, time_key

from ..emit.groups.closing import GroupClosing
from ..keys.prepare import check_casts
from ..rows.sides import SideRows, filtered, side_columns

#: A time far from the ends of 64 bits, in any unit.
_FAR = 1 << 62
#: Range of time keys.
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1


class RowChecks:
    """Refuses batches with rows that cannot be folded: casts, declared scales, large time keys.

    Where rows are looked up first, only the look-up's output could tell, so nothing is checked.
    """

    def __init__(self, query: GroupQuery) -> None:
        self._query = query
        self._checked = [] if query.lookup is not None else _failing(query)
        self._closing: GroupClosing | None = None
        #: Times whose keys certainly fit.
        self._safe = (_MOST, _LEAST)
        key = None if query.lookup is not None else time_key(query)
        if key is not None:
            dtype = query.aggregation.keys[key.index].type
            if dtype.lo < _LEAST or dtype.hi > _MOST:
                self._closing = GroupClosing(query, key)
                if not self._is_beyond(-_FAR) and not self._is_beyond(_FAR):
                    self._safe = (-_FAR, _FAR)

    def check(self, batch: pa.RecordBatch, times: np.ndarray) -> None:
        """Refuse a batch with a row that cannot be folded.

        Parameters
        ----------
        times : ndarray of int64
            Event times of its rows.

        Raises
        ------
        DataError
        """
        is_near_end = self._is_near_end(times)
        if not self._checked and not is_near_end:
            return
        side, rows = self._query.source, np.arange(batch.num_rows)
        known = side_columns(self._query, side.side, batch, self._query.columns_of(side.side))
        kept = filtered(side, SideRows(rows, rows, known))
        check_casts(self._checked, kept.columns, len(kept))
        if is_near_end:
            self._check_keys(kept)

    def _is_near_end(self, times: np.ndarray) -> bool:
        """Whether the time key of some row, which WHERE may leave out, needs more than 64 bits."""
        if self._closing is None or not len(times):
            return False
        first, last = int(times.min()), int(times.max())
        if self._safe[0] <= first and last <= self._safe[1]:
            return False
        return self._is_beyond(first) or self._is_beyond(last)

    def _is_beyond(self, time: int) -> bool:
        """Whether the key of a time needs more than 64 bits; keys never fall as times rise."""
        assert self._closing is not None
        key = self._closing.key_at(time)
        return isinstance(key, float) or not _LEAST <= key <= _MOST

    def _check_keys(self, kept: SideRows) -> None:
        assert self._closing is not None
        keys = evaluate_columns(self._closing.expr, kept.columns, len(kept))
        values = keys.values if keys.valid is None else keys.values[keys.valid]
        if values.dtype != object or not len(values):
            return
        if values.min() < _LEAST or values.max() > _MOST:
            raise DataError(
                f"a time of {self._query.source.alias} lies so near the end of 64 bits that its "
                "group begins or ends beyond; leave such rows out with WHERE"
            )


def _failing(query: GroupQuery) -> list[Expr]:
    """Return the expressions over single rows that can fail.

    With a declared scale they are all of them: a value off its scale fails when it is loaded.
    """
    aggregation = query.aggregation
    exprs = [query.source.filter, *aggregation.keys]
    exprs += [e for one in aggregation.aggregates for e in (one.value, one.by) if e is not None]
    if query.scale_of(query.source.side):
        return exprs
    return [expr for expr in exprs if expr.may_fail]
