"""The state of a join of whole tables, as the report of a join that runs on and on."""

from __future__ import annotations

from collections.abc import Callable

from ...metrics.report import LaneReport, Report
from .table_join import TableJoin


def table_report(join: TableJoin, lanes: Callable[[], tuple[LaneReport, ...]]) -> Report:
    """What a join of tables has done so far.

    Parameters
    ----------
    join : TableJoin
    lanes : callable
        Gives what each lane does.

    Returns
    -------
    Report
        Its rows have all arrived and none is late; latency, lag and memory are empty.
    """
    aliases = {own.side: own.alias for own in join.query.sides}
    rows = {aliases[side]: table.num_rows for side, table in join.tables.items()}
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
        lanes=lanes(),
    )
