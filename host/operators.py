"""Which operation of a device joins two tables: range joins, or the window-join operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum

import pyarrow as pa

from penstock.host.aggregate import open_join
from penstock.host.completeness.source import Span
from penstock.host.device.base import Device
from penstock.host.operator_join import OperatorJoin
from penstock.host.table_join import TableJoin
from penstock.query.plan import JoinQuery


class Operator(Enum):
    """An operation of the device contract (docs/device-contract.md)."""

    #: Range joins: the host finds what each row may meet. Every query.
    RANGE = "range"
    #: The window-join operator: rows enter in order of arrival, and the device keeps the windows.
    #: ROWS windows and band form.
    WINDOW = "window"


def open_table_join(
    query: JoinQuery,
    tables: Mapping[str, pa.Table],
    device: Device,
    *,
    operator: Operator = Operator.RANGE,
    band: bool = True,
    disorder: Span | Mapping[str, Span] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> TableJoin:
    """The join that the query asks for, by an operation of the device.

    Arguments are those of :class:`penstock.host.table_join.TableJoin`.

    Raises
    ------
    QueryError
        The operation is not for such a query.
    """
    made = OperatorJoin if operator is Operator.WINDOW else open_join
    return made(query, tables, device, band=band, disorder=disorder, on_progress=on_progress)
