"""Figures of a micro-batch: the counts of its tasks, and of the rows that came in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from penstock.host.execute.stats import Stats
from penstock.host.metrics.report import LookupReport

#: Figures of a micro-batch that are sums over its tasks.
SUMS = ("rows", "evaluations", "pairs_pruned", "pairs_in_window")

#: Figures of what was looked up in a relation that are sums over tasks.
LOOKED_UP = (
    "sought", "hits", "absent", "null_keys", "pages", "page_bytes", "node_retries", "alone",
)  # fmt: skip


@dataclass(frozen=True)
class ShardFigures:
    """Counts of one task of the output.

    Parameters
    ----------
    shard : int
    device : str
    rows, evaluations, pairs_pruned, pairs_in_window : int
        As in :class:`penstock.host.execute.stats.Stats`.
    busy_s : float
        Seconds in which a device worked for the task.
    """

    shard: int
    device: str
    rows: int
    evaluations: int
    pairs_pruned: int
    pairs_in_window: int
    busy_s: float

    @staticmethod
    def from_stats(shard: int, stats: Stats) -> ShardFigures:
        """Figures from the counts of a step."""
        pairs = stats.pairs_evaluated, stats.pairs_pruned, stats.pairs_in_window
        return ShardFigures(shard, stats.device, stats.rows, *pairs, stats.busy_s)


@dataclass(frozen=True, kw_only=True)
class LookupFigures(LookupReport):
    """Counts of a micro-batch's look-ups in a relation, after which no row waits.

    Parameters
    ----------
    created : float
        When the version was written, in seconds since 1970.
    """

    created: float

    @property
    def waited(self) -> int:
        """Rows that had to wait for a page."""
        return self.sought - self.hits - self.absent


@dataclass(frozen=True, kw_only=True)
class BatchFigures:
    """Figures of a micro-batch of a join.

    Parameters
    ----------
    batch : int
        Spark's number of it.
    arrived, late : mapping of alias to int
        Rows of the batch, and late ones among them.
    rows, evaluations, pairs_pruned, pairs_in_window : int
        Rows of output; evaluations of the predicate; pairs that were ruled out before; pairs that
        the window admits.
    window_rows, window_bytes : int
        Rows that later batches may meet, and their size.
    watermark_lag : mapping of alias to int
        How far a source's watermark lies below its largest time, in the window's unit.
    unit : str
        That unit; "" for plain integers.
    busy_s : mapping of str to float
        Seconds of device work by device and shard, such as ``cpu-0``.
    seconds : float
        Duration of the batch in Spark, with its planning and its records.
    is_whole : bool
        Whether figures of all tasks of the output are here. A task writes them when its rows are
        read to the end, and some sinks do not do that.
    lookup : LookupFigures, optional
        Of a join with a relation. Its rows and memory are those of the window, and no row is late.
    routing : mapping of str to number, optional
        Of lanes that own keys, by field of :class:`penstock.host.metrics.report.RoutingReport`.
    """

    batch: int
    arrived: Mapping[str, int]
    late: Mapping[str, int]
    rows: int = 0
    evaluations: int = 0
    pairs_pruned: int = 0
    pairs_in_window: int = 0
    window_rows: int = 0
    window_bytes: int = 0
    watermark_lag: Mapping[str, int] = field(default_factory=dict)
    unit: str = ""
    busy_s: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    is_whole: bool = True
    lookup: LookupFigures | None = None
    routing: Mapping[str, Any] | None = None

    @property
    def busiest(self) -> float:
        """Seconds of the busiest shard's device over the mean; 1 if none has worked."""
        total = sum(self.busy_s.values())
        return max(self.busy_s.values()) * len(self.busy_s) / total if total else 1.0

    @property
    def utilisation(self) -> float:
        """Mean share of the batch's time in which a shard's device worked, 0 to 1."""
        possible = self.seconds * len(self.busy_s)
        return sum(self.busy_s.values()) / possible if possible else 0.0

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def add_up(shards: Iterable[ShardFigures]) -> dict[str, Any]:
    """Sums over shards, as fields of :class:`BatchFigures`."""
    shards = list(shards)
    totals: dict[str, Any] = {name: sum(getattr(one, name) for one in shards) for name in SUMS}
    totals["busy_s"] = {f"{one.device}-{one.shard}": one.busy_s for one in shards}
    return totals
