"""Figures of the state design, as observed metrics of Spark.

Each shard sends, after its messages, a row with its figures. Spark adds these up, counts each task
once however often it is tried, and reports the sums with the query's progress.
"""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from .figures import SUMS, BatchFigures, ShardFigures, shard_name

#: Prefix of the names of our observed metrics.
PREFIX = "penstock "

#: Figures that are added over shards.
_SUMS = (*SUMS, "window_rows", "window_bytes")
#: Figures by side that are the same in every shard.
_SEEN = ("arrived", "late")

#: Columns of figures, beside a column of messages.
COLUMNS = {
    **{f"sum_{name}": "long" for name in _SUMS},
    **{f"{name}_{side}": "long" for name in _SEEN for side in ("l", "r")},
    "lane": "int",
    "device": "string",
    "busy_s": "double",
}


def columns_of(
    figures: ShardFigures, window: Mapping[str, int], **seen: Mapping[str, int]
) -> dict[str, Any]:
    """Values of the row that a shard sends.

    Parameters
    ----------
    figures : ShardFigures
    window : mapping
        Its ``window_rows`` and ``window_bytes``.
    **seen : mapping of side to int
        Rows that every shard has seen: ``arrived`` and ``late``.
    """
    sums = {**{name: getattr(figures, name) for name in SUMS}, **window}
    return {
        **{f"sum_{name}": value for name, value in sums.items()},
        **{f"{name}_{side}": rows for name, own in seen.items() for side, rows in own.items()},
        "lane": figures.shard,
        "device": figures.device,
        "busy_s": figures.busy_s,
    }


def observe(sent: DataFrame, names: Mapping[str, str], shards: int) -> DataFrame:
    """The shards' messages; their figures go into the query's progress.

    Parameters
    ----------
    sent : DataFrame
        Messages and rows of figures, with columns for both.
    names : mapping of side to str
        What the query calls the sides.
    shards : int
    """
    sums = [F.sum(f"sum_{name}").alias(name) for name in _SUMS]
    seen = [
        F.max(f"{name}_{side}").alias(f"{name} {alias}")
        for name in _SEEN
        for side, alias in names.items()
    ]
    busy = [
        F.max(F.when(F.col("lane") == k, F.struct("device", "busy_s"))).alias(f"busy {k}")
        for k in range(shards)
    ]
    # A unique name: a query may have several joins.
    watched = sent.observe(f"{PREFIX}{uuid.uuid4().hex[:8]}", *sums, *seen, *busy)
    return watched.where(F.col("lane").isNull()).drop(*COLUMNS)


def figures_in(batch: int, metrics: Mapping[str, Any]) -> BatchFigures | None:
    """Figures among the observed metrics of a micro-batch; None if there are none of ours."""
    own = [row.asDict() for name, row in metrics.items() if name.startswith(PREFIX)]
    if not own:
        return None
    totals: dict[str, Any] = {name: sum(one[name] or 0 for one in own) for name in _SUMS}
    seen: dict[str, Counter[str]] = {name: Counter() for name in _SEEN}
    busy: defaultdict[str, float] = defaultdict(float)
    for one in own:
        for key, value in one.items():
            kind, _, rest = key.partition(" ")
            if kind in seen:
                seen[kind][rest] += value or 0
            elif kind == "busy" and value is not None:
                busy[shard_name(value["device"], rest)] += value["busy_s"]
    counts = {name: dict(one) for name, one in seen.items()}
    return BatchFigures(batch=batch, busy_s=dict(busy), **counts, **totals)
