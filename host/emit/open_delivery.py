"""Opens the delivery for a plan."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from penstock.plan.plan import JoinPlan, Output
from penstock.plan.plan import plan as plan_of
from penstock.plan.query import JoinQuery, named_by_side

from .delivery import Delivery, ExistenceDelivery, InOrder, PairDelivery
from .grouped import FoldDelivery, PairGroupDelivery
from .groups.fold_groups import FoldGroups
from .groups.partial import PairGroups


def open_delivery(
    plan: JoinPlan,
    schemas: Mapping[str, pa.Schema],
    *,
    bounded: bool = False,
    numbered: bool = False,
) -> Delivery:
    """Open the delivery for a plan.

    Parameters
    ----------
    schemas : mapping of side to pyarrow.Schema
        Schemas of the base tables.
    bounded : bool
        Whether whole tables are joined: all rows come in one batch.
    numbered : bool
        Whether rows of whole tables leave in the order of arrival, in which tuples of both sides
        are numbered.
    """
    query = plan.query
    if plan.output is Output.FOLDS:
        groups = FoldGroups(query, schemas, by_first_row=True)
        return FoldDelivery(plan, groups, bounded=bounded)
    if plan.output is Output.PAIR_GROUPS:
        pair_groups = PairGroups(query, schemas)
        pairs = PairDelivery(pair_groups.pairs, schemas, bounded=bounded, numbered=False)
        return PairGroupDelivery(plan, pair_groups, pairs, bounded=bounded)
    if plan.output is Output.EXISTENCE:  # by arrival anyway
        return ExistenceDelivery(plan, schemas)
    pairs = PairDelivery(query, schemas, bounded=bounded, numbered=numbered or not bounded)
    return InOrder(pairs) if bounded and numbered else pairs


def joined_schema(query: JoinQuery, schemas: Mapping[str, pa.Schema]) -> pa.Schema:
    """Return the schema of a join's output.

    Parameters
    ----------
    schemas : mapping of side to pyarrow.Schema
        Schemas of the base tables.

    Raises
    ------
    QueryError
        A ROWS window has no order of rows.
    """
    plan = plan_of(named_by_side(query))
    plan.require_order()
    return open_delivery(plan, schemas, bounded=True).schema
