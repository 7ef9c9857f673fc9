"""Reports of GROUP BY over one source."""

from __future__ import annotations

from collections.abc import Mapping

from ..metrics.report import GroupsReport, Report
from .folding import GroupFolding


def report_of(
    folding: GroupFolding,
    rows: int,
    *,
    arrived: Mapping[str, int],
    late: Mapping[str, int],
    memory_bytes: Mapping[str, int],
    watermark_lag: Mapping[str, int] | None = None,
    latency_s: Mapping[float, float] | None = None,
) -> Report:
    """Make the report; pairs and lanes are empty, since groups have none.

    Parameters
    ----------
    rows : int
        Groups that were released.
    """
    return Report(
        arrived=arrived,
        late=late,
        rows=rows,
        evaluations=0,
        pairs_pruned=0,
        pairs_in_window=0,
        window_rows=0,
        memory_bytes=memory_bytes,
        watermark_lag=watermark_lag or {},
        latency_s=latency_s or {},
        lanes=(),
        groups=GroupsReport(folding.entries, folding.timeless, folding.filtered),
    )
