"""Opens the delivery for a plan."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from penstock.plan.plan import JoinPlan, Output

from .delivery import Delivery, ExistenceDelivery, PairDelivery
from .folding import FoldDelivery
from .grouping import GroupDelivery
from .testing import with_tester


def open_delivery(plan: JoinPlan, schemas: Mapping[str, pa.Schema]) -> Delivery:
    """Open the delivery for a plan; ``schemas`` are those of the base tables, by side."""
    return with_tester(_opened(plan, schemas), plan.query, schemas)


def _opened(plan: JoinPlan, schemas: Mapping[str, pa.Schema]) -> Delivery:
    if plan.output is Output.FOLDS:
        return FoldDelivery(plan, schemas)
    if plan.output is Output.PAIR_GROUPS:
        return GroupDelivery(plan, schemas)
    if plan.output is Output.EXISTENCE:
        return ExistenceDelivery(plan, schemas)
    return PairDelivery(plan.query, schemas)
