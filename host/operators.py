"""Which operation of a device joins two tables: range joins, or the window-join operator."""

from __future__ import annotations

from enum import Enum

from penstock.host.aggregate import range_join
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


def table_join(query: JoinQuery, operator: Operator = Operator.RANGE) -> type[TableJoin]:
    """The join that the query asks for, by an operation of the device.

    It raises QueryError when it is made, if the operation is not for such a query.
    """
    return OperatorJoin if operator is Operator.WINDOW else range_join(query)
