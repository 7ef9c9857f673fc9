"""Joins of two tables by operation of a device."""

from __future__ import annotations

from ...device.operator import Operator
from .operator_join import OperatorJoin
from .table_join import TableJoin


def table_join(operator: Operator = Operator.RANGE) -> type[TableJoin]:
    """Return the class that joins two tables by an operation.

    Its constructor raises QueryError if the operation does not support the query.
    """
    return OperatorJoin if operator is Operator.WINDOW else TableJoin
