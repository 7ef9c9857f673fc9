"""The join of two tables for a plan, by range joins or by the window-join operator."""

from __future__ import annotations

from penstock.plan.plan import Output, plan
from penstock.plan.query import JoinQuery

from ...device.operator import Operator
from .aggregate import AggregateJoin
from .batch import BatchJoin
from .existence import ExistenceJoin
from .grouped import GroupedJoin
from .operator_join import OperatorJoin
from .table_join import TableJoin

_RANGE_JOINS: dict[Output, type[TableJoin]] = {
    Output.PAIRS: BatchJoin,
    Output.EXISTENCE: ExistenceJoin,
    Output.FOLDS: AggregateJoin,
    Output.PAIR_GROUPS: GroupedJoin,
}


def table_join(query: JoinQuery, operator: Operator = Operator.RANGE) -> type[TableJoin]:
    """The join that the query asks for, by an operation of the device.

    It raises QueryError when it is made, if the operation is not for such a query.
    """
    return OperatorJoin if operator is Operator.WINDOW else _RANGE_JOINS[plan(query).output]
