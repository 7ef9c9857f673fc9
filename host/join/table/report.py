"""Reports of joins of whole tables, in the form of a stream's report."""

from __future__ import annotations

from ...metrics.report import Report
from .table_join import TableJoin


def table_report(join: TableJoin) -> Report:
    """Report the work of a join of tables so far.

    All of its rows have arrived and none is late; latency, lag and memory are empty.
    """
    aliases = {one.side: one.alias for one in join.query.sides}
    rows = {aliases[side]: table.num_rows for side, table in join.tables.base.items()}
    return Report(
        arrived=rows,
        late=dict.fromkeys(rows, 0),
        rows=join.stats.rows,
        evaluations=join.stats.pairs_evaluated,
        pairs_pruned=join.stats.pairs_pruned,
        pairs_in_window=join.pairs_in_window,
        window_rows=sum(rows.values()),
        memory_bytes={},
        watermark_lag={},
        latency_s={},
        lanes=join.lane_reports(),
    )
