"""Reports of joins with a relation."""

from __future__ import annotations

import time
from collections.abc import Mapping

from ...execute.executor import lane_names
from ...lookup.nodes.client import NodesRelation
from ...lookup.nodes.entrances import AskCounts
from ...metrics.report import LaneReport, LookupReport, Report
from .lookup_join import RelationJoin


def asked_of(join: RelationJoin) -> AskCounts:
    """Return counts of a join's requests to nodes; zeros without nodes."""
    return join.relation.ask_counts if isinstance(join.relation, NodesRelation) else AskCounts()


def report(join: RelationJoin, latency_s: Mapping[float, float]) -> Report:
    """Report the work of a join so far, with quantiles of the latency of its rows."""
    counts, version = join.counts, join.version
    alias = join.plan.outer.alias
    node_counts = asked_of(join)
    return Report(
        arrived={alias: join.rows_in},
        late={alias: 0},
        rows=join.stats.rows,
        evaluations=join.stats.pairs_evaluated,
        pairs_pruned=join.stats.pairs_pruned,
        pairs_in_window=join.stats.pairs_evaluated + join.stats.pairs_pruned,
        window_rows=version.rows,
        memory_bytes=join.memory_bytes(),
        watermark_lag={},
        latency_s=latency_s,
        lanes=tuple(LaneReport(name, 0, 0.0, 0, False) for name in lane_names(join.devices)),
        lookup=LookupReport(
            relation=join.relation.name,
            version=version.number,
            age_s=max(0.0, time.time() - version.created),
            sought=counts.rows,
            hits=counts.hits,
            absent=counts.absent,
            null_keys=join.null_keys,
            waiting=join.waiting,
            pages=counts.pages,
            page_bytes=counts.page_bytes,
            cached=join.cached,
            nodes=dict(node_counts.keys),
            node_retries=node_counts.retries,
            alone=node_counts.alone,
        ),
    )
