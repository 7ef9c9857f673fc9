"""Event times of rows, by which late rows are found."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.errors import DataError
from penstock.expr.columns import evaluate_columns
from penstock.plan.query import Side, columns

from ..rows.columns import load


@dataclass(frozen=True)
class EventTimes:
    """Event times of a batch.

    Parameters
    ----------
    times : ndarray of int64, shape (n,)
        Of the rows whose event time is not NULL.
    rows : ndarray of int64, shape (n,), or None
        The numbers of these rows; None for all.
    are_checked : bool
        Whether the rows have passed :class:`~.checking.RowChecks`.
    """

    times: np.ndarray
    rows: np.ndarray | None
    are_checked: bool = False


def read_times(side: Side, batch: pa.RecordBatch | pa.Table) -> EventTimes:
    """Read the event times of a batch; there are none if its source has no time column.

    Raises
    ------
    SchemaError
        The column is missing.
    DataError
        A time does not fit 64 bits in the unit of the source.
    """
    if side.time is None:
        return EventTimes(np.zeros(0, np.int64), None)
    names = sorted(name for _, name in columns(side.time))
    loaded = load(batch, names, {}, side.alias)
    known = {(side.side, name): vector for name, vector in loaded.items()}
    computed = evaluate_columns(side.time, known, batch.num_rows)
    if computed.values.dtype == object:
        raise DataError(f"a time of {side.shown} needs more than 64 bits; use a coarser unit")
    times = computed.values.astype(np.int64, copy=False)
    if computed.valid is None or computed.valid.all():
        return EventTimes(times, None)
    rows = np.flatnonzero(computed.valid)
    return EventTimes(times[rows], rows)
