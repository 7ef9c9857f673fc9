"""The sources of a stream: their feeds, promises, late rows and counts."""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import UsageError
from penstock.plan.query import Side
from penstock.plan.window import FOREVER, NEVER, TimeWindow
from penstock.types import UNIT_NS

from ...metrics.report import ClockReport
from ...windows.feeds import HOLD, ONLY, Feeds
from ...windows.probe import Watermarks
from ...windows.source import Moment, Span, StreamSource, check_names, sides_named
from .outlet import Handover

_log = logging.getLogger("penstock.stream")


@dataclass(frozen=True)
class Admitted:
    """Times of a batch, judged; nothing has changed yet.

    Parameters
    ----------
    feeds : Feeds
        State of the source's feeds once the batch has been taken.
    on_time : ndarray of bool, shape (n,)
    largest : int or None
        Largest of the times; None if there are none.
    """

    feeds: Feeds
    on_time: np.ndarray
    largest: int | None


class Sources(ABC):
    """The sources of a stream, in one thread.

    Parameters
    ----------
    sides : sequence of Side
        Sides with the event times by which their rows are judged.
    schemas : mapping of side to pyarrow.Schema
    time_zone : str, optional
        Time zone of the query.
    disorder : int, timedelta, or mapping of source to either
    idle_s : float, optional
        Seconds of silence after which a feed no longer holds up the others.
    """

    def __init__(
        self,
        sides: Sequence[Side],
        schemas: Mapping[str, pa.Schema],
        time_zone: str | None,
        *,
        disorder: Span | Mapping[str, Span],
        idle_s: float | None,
    ) -> None:
        self.schemas = schemas
        check_names(disorder, sides)
        self.sources = {s.side: StreamSource(s, disorder, time_zone) for s in sides}
        self.arrived = {s.alias: 0 for s in sides}
        self.late = {s.alias: 0 for s in sides}
        self._feeds = {
            side: Feeds(source.side.alias, source.disorder, idle_s)
            for side, source in self.sources.items()
        }
        for feeds in self._feeds.values():
            feeds.register(ONLY, time.monotonic())
        self._largest: dict[str, int] = {}
        self._batches: Counter[tuple[str, str]] = Counter()
        self._rows: Counter[tuple[str, str]] = Counter()
        self._silent: set[str] = set()
        self._late: Handover[tuple[str, pa.RecordBatch]] = Handover()

    @abstractmethod
    def bytes_of(self, source: StreamSource, batch: pa.RecordBatch) -> int:
        """Return about the most bytes that rows take once they have been taken."""

    @abstractmethod
    def cannot_fail(self, source: StreamSource, feed: str) -> bool:
        """Whether no row of a feed can be refused, so that a push need not wait to be judged."""

    def find(self, name: str) -> list[StreamSource]:
        """Return the sources of this name; see :func:`.sides_named`.

        Raises
        ------
        UsageError
            There is none.
        """
        sides = sides_named(name, [source.side for source in self.sources.values()])
        if sides:
            return [self.sources[side.side] for side in sides]
        names = " and ".join(source.side.shown for source in self.sources.values())
        does = "joins" if len(self.sources) > 1 else "groups"
        raise UsageError(f"unknown source {name!r}; the query {does} {names}")

    def aliased(self, alias: str) -> StreamSource:
        """Return the one source with an alias that the query has."""
        return next(s for s in self.sources.values() if s.side.alias.lower() == alias.lower())

    def register(self, source: StreamSource, feed: str, disorder: Span | None) -> None:
        """Begin a feed of a source; see :meth:`~.running_query.RunningQuery.register`."""
        if feed == ONLY:
            raise UsageError("a feed needs a name that is not empty")
        span = None if disorder is None else source.span(disorder)
        feeds = self._feeds[source.side.side]
        feeds.register(feed, time.monotonic(), span)
        if ONLY in feeds.names:
            feeds.deregister(ONLY)

    def deregister(self, source: StreamSource, feed: str) -> None:
        """End a feed of a source."""
        self._feeds[source.side.side].deregister(feed)

    def _let_go(self, side: str) -> None:
        if HOLD in self._feeds[side].names:
            self._feeds[side].deregister(HOLD)

    def begun_elsewhere(self, source: StreamSource, feed: str) -> None:
        """Forget a recorded feed that another process has begun, and that holds us up there.

        Raises
        ------
        UsageError
            It was begun here, too.
        """
        feeds = self._feeds[source.side.side]
        if feed in feeds.recorded:
            feeds.deregister(feed)
        elif feed in feeds.names:
            raise UsageError(
                f"feed {feed!r} of {source.side.shown} was registered by two ranks; give each "
                "feed a name of its own"
            )

    def signal(self, source: StreamSource, feed: str, moment: Moment) -> None:
        """Promise that no later row of a feed has a time below ``moment``."""
        self._let_go(source.side.side)
        self._feeds[source.side.side].signal(feed, source.moment(moment), time.monotonic())

    def end(self) -> None:
        """End all feeds of all sources."""
        for feeds in self._feeds.values():
            feeds.end()

    def has_feed(self, source: StreamSource, feed: str) -> bool:
        """Whether a source has such a feed."""
        return feed in self._feeds[source.side.side].names

    def require_feed(self, source: StreamSource, feed: str) -> None:
        """Refuse a feed that is not registered.

        Raises
        ------
        UsageError
        """
        self._feeds[source.side.side].require(feed)

    def admitted(self, source: StreamSource, feed: str, times: np.ndarray) -> Admitted:
        """Judge the next times of a feed; rows of a source without a time are all on time.

        Raises
        ------
        UsageError
            The feed is unknown.
        """
        Sources.watermarks(self)  # by which rows of a side that was silent may be late
        feeds = self._feeds[source.side.side].copy()
        if source.side.time is None:
            return Admitted(feeds, np.ones(len(times), bool), None)
        on_time = feeds.admit(feed, times, time.monotonic())
        return Admitted(feeds, on_time, int(times.max()) if len(times) else None)

    def note_taken(
        self,
        source: StreamSource,
        feed: str,
        batch: pa.RecordBatch,
        admitted: Admitted,
        late: np.ndarray,
    ) -> None:
        """Note that a batch has been taken, except its ``late`` rows, which are handed out."""
        side, alias = source.side.side, source.side.alias
        self._feeds[side] = admitted.feeds
        self._let_go(side)
        self.arrived[alias] += batch.num_rows
        self._batches[alias, feed] += 1
        self._rows[alias, feed] += batch.num_rows
        largest = admitted.largest
        if largest is not None:
            self._largest[side] = max(largest, self._largest.get(side, largest))
        if len(late):
            rows = batch.take(pa.array(late))
            self._late.put((alias, rows), rows.num_rows, rows.nbytes)
            self.late[alias] += rows.num_rows

    def batches(self, source: StreamSource, feed: str | None) -> int:
        """Return the number of batches taken of one feed of a source, or of all."""
        return _total(self._batches, source, feed)

    def rows(self, source: StreamSource, feed: str | None) -> int:
        """Return the number of rows taken of one feed of a source, or of all; late ones, too."""
        return _total(self._rows, source, feed)

    @property
    def recorded(self) -> list[tuple[str, str]]:
        """Source and name of feeds that a checkpoint has and that nobody has named since."""
        return [
            (self.sources[side].side.alias, feed)
            for side, feeds in self._feeds.items()
            for feed in sorted(feeds.recorded)
        ]

    def state(self) -> dict[str, Any]:
        """Return feeds and counts, for JSON."""
        return {
            source.side.alias: {
                "feeds": self._feeds[side].state(),
                "largest": self._largest.get(side),
                "late": self.late[source.side.alias],
                "taken": {f: n for (a, f), n in self._batches.items() if a == source.side.alias},
                "rows": {f: n for (a, f), n in self._rows.items() if a == source.side.alias},
            }
            for side, source in self.sources.items()
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from :meth:`state`, before anything is taken."""
        for side, source in self.sources.items():
            alias, known = source.side.alias, state[source.side.alias]
            self._feeds[side].restore(known["feeds"], time.monotonic())
            if known["largest"] is not None:
                self._largest[side] = known["largest"]
            self.late[alias] = known["late"]
            self._batches.update({(alias, feed): n for feed, n in known["taken"].items()})
            self._rows.update({(alias, feed): n for feed, n in known["rows"].items()})
            self.arrived[alias] = sum(known["rows"].values())

    def late_rows(self) -> dict[str, pa.Table]:
        """Take the late rows per source since the last call; as :meth:`Handover.take`."""

        def tables(parts: Sequence[tuple[str, pa.RecordBatch]]) -> dict[str, pa.Table]:
            return {
                source.side.alias: pa.Table.from_batches(
                    [rows for alias, rows in parts if alias == source.side.alias],
                    self.schemas[side],
                )
                for side, source in self.sources.items()
            }

        return self._late.take(tables)

    def watermarks(self) -> Watermarks:
        """Return the watermarks of the sides; a silent side gets the other side's watermark."""
        now = time.monotonic()
        by_side = {side: feeds.watermark(now) for side, feeds in self._feeds.items()}
        since = {side: feeds.silent_since() for side, feeds in self._feeds.items()}
        silent = {side: moment for side, moment in since.items() if moment is not None}
        if len(silent) == len(by_side):  # the last one to fall silent counted until then
            del silent[max(silent, key=silent.__getitem__)]
        for side in silent.keys() - self._silent:
            name = self.sources[side].side.shown
            _log.info("%s has sent nothing for its idle time; no output waits for it", name)
        self._silent = set(silent)
        for side in silent:
            self._feeds[side].raise_to(min(w for s, w in by_side.items() if s not in silent))
            by_side[side] = self._feeds[side].watermark(now)
        return by_side

    @property
    def unit(self) -> str:
        """Unit of times in the window, the finest of its sides; "" for plain integers."""
        units = [s.side.unit for s in self.sources.values() if s.side.time is not None]
        return min(units, key=UNIT_NS.__getitem__) if units and all(units) else ""

    def lag(self) -> dict[str, int]:
        """Return per source how far its watermark is behind its largest time."""
        return self.lag_behind(self.watermarks())

    def lag_behind(self, watermarks: Watermarks) -> dict[str, int]:
        """Return per source how far these watermarks are behind its largest time."""
        return {
            self.sources[side].side.alias: largest - watermarks[side]
            for side, largest in self._largest.items()
            if NEVER < watermarks[side] < FOREVER
        }

    def clock(self, window: TimeWindow) -> ClockReport:
        """Report the watermarks of a join over a time window."""
        known = {s: w for s, w in Sources.watermarks(self).items() if NEVER < w < FOREVER}
        bounds = (window.before, window.after)
        reach = max((abs(one) for one in bounds if one is not None), default=0)
        by_alias = {self.sources[side].side.alias: time for side, time in known.items()}
        return ClockReport(by_alias, None if None in bounds else reach)

    def next_idle(self, now: float) -> list[float]:
        """Return when the next feed of each side becomes idle, unless it sends before."""
        moments = [feeds.next_idle(now) for feeds in self._feeds.values()]
        return [moment for moment in moments if moment is not None]


def _total(counts: Counter[tuple[str, str]], source: StreamSource, feed: str | None) -> int:
    return sum(
        count
        for (alias, name), count in counts.items()
        if alias == source.side.alias and feed in (None, name)
    )
