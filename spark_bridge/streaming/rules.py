"""Decides whether lanes of a stream own keys."""

from __future__ import annotations

from penstock.errors import UsageError

from ..key_choice import require_keys, why_not_by_keys
from ..request import Request
from .spec import Rules

PARTITIONINGS = ("auto", "rows", "keys")

#: New rows of a micro-batch from which on ``auto`` deals by keys. A lane that reads all of fewer
#: rows is done sooner than one that reads its own from parts of files.
LEAST_ROWS = 1 << 15


def rules_of(request: Request, partitioning: str | None) -> Rules | None:
    """Settings of lanes that own keys; None if a query's lanes own none.

    Raises
    ------
    UsageError
        The partitioning is unknown, or impossible.
    """
    if partitioning is None:
        partitioning = "auto" if request.wanted is None else "keys"
    if partitioning not in PARTITIONINGS:
        raise UsageError(
            f"partitioning of a stream must be one of {', '.join(PARTITIONINGS)}, not "
            f"{partitioning!r}"
        )
    query, wanted, conf = request.query, request.wanted, request.conf
    if partitioning == "keys":
        require_keys(query, wanted, stepwise=True)
    if partitioning == "rows" or why_not_by_keys(query, wanted, stepwise=True) is not None:
        return None
    return Rules(
        conf.routing_planner,
        conf.routing_tolerance,
        conf.routing_cells,
        wanted,
        LEAST_ROWS if partitioning == "auto" else 0,
    )
