"""The delivery for a query."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from penstock.host.postprocess.delivery import Delivery, ExistenceDelivery, PairDelivery
from penstock.host.postprocess.folding import FoldDelivery
from penstock.host.postprocess.grouping import GroupDelivery
from penstock.query.plan import JoinQuery


def open_delivery(query: JoinQuery, schemas: Mapping[str, pa.Schema]) -> Delivery:
    """What leaves a query's join; ``schemas`` are those of the base tables, by side."""
    if query.aggregation is not None:
        made = GroupDelivery if query.aggregation.side is None else FoldDelivery
        return made(query, schemas)
    return (ExistenceDelivery if query.kind.is_existence else PairDelivery)(query, schemas)
