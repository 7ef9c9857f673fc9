"""Which operation of a device joins two tables: range joins, or the window-join operator."""

from __future__ import annotations

from penstock.host.aggregate import range_join
from penstock.host.device.operator import Operator
from penstock.host.operator_join import OperatorJoin
from penstock.host.table_join import TableJoin
from penstock.query.plan import JoinQuery


def table_join(query: JoinQuery, operator: Operator = Operator.RANGE) -> type[TableJoin]:
    """The join that the query asks for, by an operation of the device.

    It raises QueryError when it is made, if the operation is not for such a query.
    """
    return OperatorJoin if operator is Operator.WINDOW else range_join(query)
