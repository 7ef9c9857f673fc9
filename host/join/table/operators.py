"""The operations of a device by which two tables can be joined."""

from __future__ import annotations

from ...device.operator import Operator
from .operator_join import OperatorJoin
from .table_join import TableJoin


def table_join(operator: Operator = Operator.RANGE) -> type[TableJoin]:
    """The join of two tables by an operation.

    It raises QueryError when it is made, if the operation is not for its query.
    """
    return OperatorJoin if operator is Operator.WINDOW else TableJoin
