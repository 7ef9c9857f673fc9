"""Figures of joins with a relation, as observed metrics of Spark.

After its rows, a task sends a row that has figures only. Spark adds these up, counts each task once
however often it is tried, and reports the sums with the query's progress.
"""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.host.join.lookup.report import asked_of

from .figures import LOOKED_UP, BatchFigures, LookupFigures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.host.join.lookup.lookup_join import RelationJoin

#: Prefix of the names of our observed metrics.
PREFIX = "penstock-lookup "
#: Column of the figures, as JSON; NULL in the rows of the result.
COLUMN = "penstock figures"

#: Figures that are added over tasks, and those of which the largest counts.
_SUMS = (
    "arrived",
    "rows",
    "evaluations",
    "pairs_pruned",
    *LOOKED_UP,
    "cached",
    "memory_bytes",
)
_LARGEST = ("version", "created_us", "relation_rows")


@dataclass(frozen=True)
class TaskFigures:
    """Counts of a join in one task: the join may be kept, and counts on in later tasks."""

    before: Mapping[str, int]
    #: Keys requested from each node before.
    node_keys: Counter[str]

    @staticmethod
    def begin(join: RelationJoin) -> TaskFigures:
        """Note a join's counts as a task begins."""
        return TaskFigures(_counts(join), Counter(asked_of(join).keys))

    def row(self, join: RelationJoin, schema: pa.Schema) -> pa.RecordBatch:
        """The row of figures, without values in the columns of a schema."""
        counts = {name: count - self.before[name] for name, count in _counts(join).items()}
        version = join.version
        figures: dict[str, Any] = {
            **counts,
            "cached": join.cached,
            "memory_bytes": sum(join.memory_bytes().values()),
            "version": version.number,
            "created_us": int(version.created * 1e6),
            "relation_rows": version.rows,
        }
        if node_keys := asked_of(join).keys - self.node_keys:
            figures["nodes"] = dict(node_keys)
        nothing = pa.RecordBatch.from_arrays([pa.nulls(1, f.type) for f in schema], schema=schema)
        return _with(nothing, pa.array([json.dumps(figures)]))


def _counts(join: RelationJoin) -> dict[str, int]:
    counts, stats, nodes = join.counts, join.stats, asked_of(join)
    return {
        "arrived": join.rows_in,
        "rows": stats.rows,
        "evaluations": stats.pairs_evaluated,
        "pairs_pruned": stats.pairs_pruned,
        "sought": counts.rows,
        "hits": counts.hits,
        "absent": counts.absent,
        "null_keys": join.null_keys,
        "pages": counts.pages,
        "page_bytes": counts.page_bytes,
        "node_retries": nodes.retries,
        "alone": nodes.alone,
    }


def _with(rows: pa.RecordBatch, figures: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([*rows.columns, figures], schema=with_figures(rows.schema))


def with_figures(schema: pa.Schema) -> pa.Schema:
    """A schema with the column of figures."""
    return schema.append(pa.field(COLUMN, pa.string()))


def without_figures(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of the result, with NULLs in the column of figures."""
    return _with(rows, pa.nulls(rows.num_rows, pa.string()))


def observe(sent: DataFrame, alias: str, relation: str) -> DataFrame:
    """The rows of the result; figures go into the query's progress.

    Parameters
    ----------
    sent : DataFrame
        Rows and figures.
    alias : str
        What the query calls the stream.
    relation : str
    """
    from pyspark.sql import functions as F

    figures = F.col(f"`{COLUMN}`")

    def value(name: str):
        return F.get_json_object(figures, f"$.{name}").cast("long")

    watched = sent.observe(
        # A unique name: a query may have several joins.
        f"{PREFIX}{uuid.uuid4().hex[:8]}",
        *(F.sum(value(name)).alias(name) for name in _SUMS),
        *(F.max(value(name)).alias(name) for name in _LARGEST),
        # The names of nodes are known when they have answered.
        F.to_json(F.collect_list(F.get_json_object(figures, "$.nodes"))).alias("nodes"),
        F.max(F.lit(alias)).alias("alias"),
        F.max(F.lit(relation)).alias("relation"),
    )
    return watched.where(figures.isNull()).drop(figures)


def looked_up_in(batch: int, metrics: Mapping[str, Any]) -> BatchFigures | None:
    """Figures among the observed metrics of a micro-batch; None if there are none of lookups.

    If several relations are looked up, counts are added, and the version is that of the newest.
    """
    rows = [row.asDict() for name, row in metrics.items() if name.startswith(PREFIX)]
    if not rows:
        return None
    total: Counter[str] = Counter()
    arrived: Counter[str] = Counter()
    nodes: Counter[str] = Counter()
    for one in rows:
        total.update({name: one[name] or 0 for name in _SUMS})
        arrived[one["alias"] or ""] += one["arrived"] or 0
        for keys in json.loads(one["nodes"] or "[]"):
            nodes.update(json.loads(keys))
    newest = max(rows, key=lambda one: one["created_us"] or 0)
    created = (newest["created_us"] or 0) / 1e6
    lookup = LookupFigures(
        relation=", ".join(sorted(one["relation"] or "" for one in rows)),
        version=newest["version"] or 0,
        created=created,
        age_s=max(0.0, time.time() - created),
        waiting=0,
        **{name: total[name] for name in LOOKED_UP},
        cached=total["cached"],
        nodes=dict(nodes),
    )
    return BatchFigures(
        batch=batch,
        arrived=dict(arrived),
        late=dict.fromkeys(arrived, 0),
        rows=total["rows"],
        evaluations=total["evaluations"],
        pairs_pruned=total["pairs_pruned"],
        pairs_in_window=total["evaluations"] + total["pairs_pruned"],
        window_rows=sum(one["relation_rows"] or 0 for one in rows),
        window_bytes=total["memory_bytes"],
        lookup=lookup,
    )
