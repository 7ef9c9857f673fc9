"""The state of a running join at one moment, and the latency of its rows."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from penstock.types import UNIT_NS


@dataclass(frozen=True)
class LaneReport:
    """One lane.

    Parameters
    ----------
    name : str
    queued : int
        Orders that wait for it or run on it.
    busy_s : float
        Seconds that its tasks were on the device, added up.
    failures : int
        Tasks that failed or hung; each was run again.
    parked : bool
        Whether it is out of service.
    """

    name: str
    queued: int
    busy_s: float
    failures: int
    parked: bool


@dataclass(frozen=True)
class LookupReport:
    """Counts of a join's look-ups in a relation.

    Parameters
    ----------
    relation : str
    version : int
        Of the relation, that rows of the stream meet now.
    age_s : float
        Seconds since that version was written.
    sought, hits : int
        Rows of the stream with a key, and those that kept rows answered.
    absent : int
        Rows whose key a filter or a page lacked.
    null_keys : int
        Rows of the stream whose key is NULL, which match nothing.
    waiting : int
        Rows that wait for a page.
    pages, page_bytes : int
        Pages of the relation that were read, and their bytes.
    cached : int
        Keys whose rows are kept.
    nodes : mapping of str to int
        Keys that each node of the relation was asked for; empty if none is asked.
    node_retries, alone : int
        Requests that another node was asked, since one failed; those that none has answered, so
        that the relation itself was read.
    """

    relation: str
    version: int
    age_s: float
    sought: int
    hits: int
    absent: int
    null_keys: int
    waiting: int
    pages: int
    page_bytes: int
    cached: int
    nodes: Mapping[str, int] = field(default_factory=dict)
    node_retries: int = 0
    alone: int = 0


@dataclass(frozen=True, kw_only=True)
class RoutingReport:
    """How keys were dealt to lanes, by the latest plan.

    Parameters
    ----------
    busiest : float
        The busiest lane's planned work over the mean.
    entries, split : int
        Cells of keys in the routing table, and those of them that several lanes have.
    copies : int
        Work of split cells, in rows, once for each lane but the first.
    moved : int
        Window rows of the cells that moved.
    seconds : float
        That the plan took.
    """

    busiest: float
    entries: int
    split: int
    copies: int
    moved: int
    seconds: float


@dataclass(frozen=True)
class GroupsReport:
    """Groups of the rows of one source.

    Parameters
    ----------
    open : int
        Groups that have not left.
    timeless, filtered : int
        Rows that are in no group, since they have no event time, or did not pass WHERE.
    """

    open: int
    timeless: int
    filtered: int


@dataclass(frozen=True, kw_only=True)
class WorkerReport:
    """One worker process of a stream, since it began.

    Parameters
    ----------
    rank : int
    rows : int
        Rows that it has folded.
    epochs : int
        Epochs that it has ended.
    delta_bytes : int
        Bytes of changes that it has sent to other workers.
    entries : int
        Groups that it leads.
    credit_waits : int
        Times that it had changes to send and no credit.
    clock_lag : int
        How far the last worker's promise is behind its own, in the unit of the window.
    clock_lag_s : float or None
        The same in seconds; None where times are plain integers.
    checkpoint : int
        Number of its last part, 0 if there is none.
    checkpoint_age_s : float or None
        Seconds since the last record; None without checkpoints.
    """

    rank: int
    rows: int
    epochs: int
    delta_bytes: int
    entries: int
    credit_waits: int
    clock_lag: int
    checkpoint: int
    checkpoint_age_s: float | None
    clock_lag_s: float | None = None


@dataclass(frozen=True)
class ClockReport:
    """The event times of a join's sources, in the unit of the window.

    Parameters
    ----------
    watermarks : mapping of alias to int
        Times below which no row of a source comes; sources that have none yet, or have ended, are
        left out.
    reach : int, optional
        Greatest difference of the times of rows that meet; None without one.
    """

    watermarks: Mapping[str, int]
    reach: int | None


@dataclass(frozen=True)
class Report:
    """A running query.

    Parameters
    ----------
    arrived, late : mapping of alias to int
        Rows that arrived, and how many of them were late.
    rows : int
        Rows delivered.
    evaluations, pairs_pruned, pairs_in_window : int
        Predicate tests executed, pairs that pruning left out, and pairs that the window admits.
    window_rows : int
        Rows that later ones may still meet.
    memory_bytes : mapping of str to int
        Main memory by purpose.
    watermark_lag : mapping of alias to int
        How far a source's watermark lies behind its largest event time, in the unit of the window;
        sources without a time are left out.
    unit : str
        Unit of ``watermark_lag``: "s", "ms", "us", "ns" or "D" (days); "" where times are plain
        integers, or there are none.
    latency_s : mapping of float to float
        Quantiles of the latency in seconds.
    lanes : tuple of LaneReport
    lookup : LookupReport, optional
        Of a join with a relation.
    routing : RoutingReport, optional
        Of a join whose lanes own keys.
    groups : GroupsReport, optional
        Of a query over one source.
    workers : tuple of WorkerReport
        Of a query on workers.
    clock : ClockReport, optional
        Of a join of streams over a time window.
    memory_limit : int, optional
        Bytes that the parts of ``memory_bytes`` may take together.
    """

    arrived: Mapping[str, int]
    late: Mapping[str, int]
    rows: int
    evaluations: int
    pairs_pruned: int
    pairs_in_window: int
    window_rows: int
    memory_bytes: Mapping[str, int]
    watermark_lag: Mapping[str, int]
    latency_s: Mapping[float, float]
    lanes: tuple[LaneReport, ...]
    lookup: LookupReport | None = None
    routing: RoutingReport | None = None
    groups: GroupsReport | None = None
    workers: tuple[WorkerReport, ...] = ()
    clock: ClockReport | None = None
    memory_limit: int | None = None
    unit: str = ""


#: Upper bounds of the buckets, in seconds: 10 us to 1,000 s, each 10 % above the one before.
BOUNDS = 1e-5 * 1.1 ** np.arange(194)
_QUANTILES = (0.5, 0.95, 0.99)
#: Arrivals to remember; a pair with an older later tuple counts as unknown.
_MOST_ARRIVALS = 1 << 16


def lag_s(lag: int, unit: str) -> float | None:
    """Convert a lag in a unit of the window to seconds; None where times are plain integers."""
    return lag * UNIT_NS[unit] / 1e9 if unit else None


class Latency:
    """A histogram of latencies. Times are seconds on the clock of all calls."""

    def __init__(self) -> None:
        self.counts = np.zeros(len(BOUNDS) + 1, np.int64)
        self.total_s = 0.0
        self.unknown = 0
        # The last number of each arrival and its time, the newest at the end of the used part; when
        # the arrays are full, the entries to remember move to their front.
        self._last = np.empty(2 * _MOST_ARRIVALS, np.int64)
        self._times = np.empty(2 * _MOST_ARRIVALS)
        self._used = 0
        self._lock = threading.Lock()

    def arrived(self, ids: np.ndarray, now: float) -> None:
        """Note when tuples of these arrival numbers came."""
        if len(ids):
            with self._lock:
                if self._used == len(self._last):
                    for column in (self._last, self._times):
                        column[:_MOST_ARRIVALS] = column[_MOST_ARRIVALS:]
                    self._used = _MOST_ARRIVALS
                self._last[self._used], self._times[self._used] = ids[-1], now
                self._used += 1

    def left(self, later: np.ndarray, now: float) -> None:
        """Count pairs that can be polled now, by the arrival numbers of their later tuples."""
        if not len(later):
            return
        with self._lock:
            if not self._used:
                self.unknown += len(later)
                return
            first = max(0, self._used - _MOST_ARRIVALS)
            last, times = self._last[first : self._used], self._times[first : self._used]
            known = (later > last[0]) | (len(last) < _MOST_ARRIVALS)
            self.unknown += int(len(later) - known.sum())
            waits = now - times[np.minimum(np.searchsorted(last, later[known]), len(last) - 1)]
            self.total_s += float(waits.sum())
            buckets = np.searchsorted(BOUNDS, waits)
            self.counts += np.bincount(buckets, minlength=len(self.counts))

    def quantile(self, share: float) -> float:
        """The latency in seconds that ``share`` of the rows do not exceed, to 10 %; NaN for none.

        Parameters
        ----------
        share : float
            0 to 1.
        """
        with self._lock:
            upto = np.cumsum(self.counts)
        if not upto[-1]:
            return math.nan
        bucket = int(np.searchsorted(upto, share * upto[-1]))
        return float(BOUNDS[min(bucket, len(BOUNDS) - 1)])

    def quantiles(self) -> dict[float, float]:
        """Return the quantiles of a report, in seconds by their shares."""
        return {share: self.quantile(share) for share in _QUANTILES}
