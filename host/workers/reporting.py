"""Reports of streams on workers."""

from __future__ import annotations

import time
from collections.abc import Mapping

from ..metrics import Report
from ..metrics.report import GroupsReport, WorkerReport, lag_s
from .driving import StreamDriver


def report_of(
    driver: StreamDriver,
    rows: int,
    parts: Mapping[str, int],
    arrived: Mapping[str, int],
    late: Mapping[str, int],
    watermark_lag: Mapping[str, int] | None = None,
    latency_s: Mapping[float, float] | None = None,
    memory_limit: int | None = None,
    unit: str = "",
) -> Report:
    """Make the report of a query whose rows a driver's workers compute.

    Parameters
    ----------
    rows : int
        Output rows so far.
    parts : mapping of str to int
        Bytes that this process holds, by purpose; those of other processes come on top.
    """
    counts = driver.statuses
    is_join = len(arrived) > 1
    groups = GroupsReport(counts.sum("entries"), counts.sum("timeless"), counts.sum("filtered"))
    place = "workers" if driver.reported else "groups"
    return Report(
        arrived=dict(arrived),
        late=dict(late),
        rows=rows,
        evaluations=counts.sum("pairs_evaluated"),
        pairs_pruned=counts.sum("pairs_pruned"),
        pairs_in_window=counts.sum("pairs_in_window"),
        window_rows=counts.sum("entries") if is_join else 0,
        memory_bytes={**parts, place: counts.sum("state_bytes")},
        watermark_lag=watermark_lag or {},
        latency_s=latency_s or {},
        lanes=(),
        groups=None if is_join else groups,
        workers=_worker_reports(driver, unit),
        memory_limit=memory_limit,
        unit=unit,
    )


def _worker_reports(driver: StreamDriver, unit: str) -> tuple[WorkerReport, ...]:
    """Report each worker whose status this process gets."""
    age = time.monotonic() - driver.committed_at if driver.parent.saves else None
    return tuple(
        WorkerReport(
            rank=rank,
            rows=round(counts.get("rows", 0)),
            epochs=round(counts.get("epochs", 0)),
            delta_bytes=round(counts.get("delta_bytes", 0)),
            entries=round(counts.get("entries", 0)),
            credit_waits=round(counts.get("credit_waits", 0)),
            clock_lag=round(counts.get("lag", 0)),
            clock_lag_s=lag_s(round(counts.get("lag", 0)), unit),
            checkpoint=round(counts.get("checkpoint", 0)),
            checkpoint_age_s=age,
        )
        for rank, counts in enumerate(driver.statuses.latest)
        if rank in driver.reported
    )
