"""Reports of workers."""

from __future__ import annotations

import time

from ..metrics.report import WorkerReport
from .driver import Driver


def worker_reports(driver: Driver) -> tuple[WorkerReport, ...]:
    """Report each worker, as of its latest status."""
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
        for rank, counts in enumerate(driver.statuses)
    )
