"""Reports of streams on workers."""

from __future__ import annotations

import time
from collections.abc import Mapping

from ..grouping.intake import RowIntake
from ..metrics import Latency, Report
from ..metrics.report import GroupsReport, WorkerReport
from .driving import StreamDriver


def report_of(
    driver: StreamDriver, intake: RowIntake, parts: Mapping[str, int], latency: Latency, rows: int
) -> Report:
    """Make the report of a stream.

    Parameters
    ----------
    parts : mapping of str to int
        Bytes that this process holds, by purpose; workers come on top.
    rows : int
        Output rows so far.
    """
    is_join = len(intake.sources) > 1
    return Report(
        arrived=dict(intake.arrived),
        late=dict(intake.late),
        rows=rows,
        evaluations=driver.statuses.sum("pairs_evaluated"),
        pairs_pruned=driver.statuses.sum("pairs_pruned"),
        pairs_in_window=driver.statuses.sum("pairs_in_window"),
        window_rows=driver.statuses.sum("entries") if is_join else 0,
        memory_bytes={**parts, "workers": driver.statuses.sum("state_bytes")},
        watermark_lag=intake.lag(),
        latency_s=latency.quantiles(),
        lanes=(),
        groups=None if is_join else groups_report(driver),
        workers=worker_reports(driver),
    )


def groups_report(driver: StreamDriver) -> GroupsReport:
    """Report groups, and rows that are in no group, as of the latest statuses."""
    counts = driver.statuses
    return GroupsReport(counts.sum("entries"), counts.sum("timeless"), counts.sum("filtered"))


def worker_reports(driver: StreamDriver) -> tuple[WorkerReport, ...]:
    """Report each worker whose status this process gets."""
    age = time.monotonic() - driver.committed_at if driver.job.folder is not None else None
    return tuple(
        WorkerReport(
            rank=rank,
            rows=round(counts.get("rows", 0)),
            epochs=round(counts.get("epochs", 0)),
            delta_bytes=round(counts.get("delta_bytes", 0)),
            entries=round(counts.get("entries", 0)),
            credit_waits=round(counts.get("credit_waits", 0)),
            clock_lag=round(counts.get("lag", 0)),
            checkpoint=round(counts.get("checkpoint", 0)),
            checkpoint_age_s=age,
        )
        for rank, counts in enumerate(driver.statuses.latest)
        if rank in driver.reported
    )
