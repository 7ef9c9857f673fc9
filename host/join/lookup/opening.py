"""Opens the join with a relation that a query needs: by key, or by scanning."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.plan.lookup import LookupPlan

from ...device.base import Device
from ...metrics import Latency
from ...relation.border import Relation
from .join import LookupJoin
from .lookup_join import LookupOptions, RelationJoin
from .scan import ScanJoin


def open_lookup(
    plan: LookupPlan,
    schema: pa.Schema,
    relation: Relation,
    devices: Sequence[Device],
    options: LookupOptions | None = None,
    *,
    latency: Latency | None = None,
) -> RelationJoin:
    """Open the join of a plan; arguments as for :class:`~.lookup_join.RelationJoin`.

    Raises
    ------
    QueryError
        A key column is compared with a value of another type.
    UsageError
        The memory is too small.
    """
    path = ScanJoin if plan.sought_keys is None else LookupJoin
    return path(plan, schema, relation, devices, options, latency=latency)
