"""Lets rows into a stream: their feeds, late rows, counts. It knows nothing of what follows."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import UsageError
from penstock.plan.query import Side
from penstock.plan.window import FOREVER, NEVER

from ...windows.feeds import ONLY, Feeds
from ...windows.source import Moment, Source, Span, check_names
from .handover import Handover


@dataclass(frozen=True)
class Admitted:
    """How the next rows of a feed are judged; nothing has changed yet.

    Parameters
    ----------
    on_time : ndarray of bool, shape (n,)
    largest : int or None
        Largest time; None if there are no rows.
    feeds : Feeds
        State of the source's feeds once the rows have been taken.
    """

    on_time: np.ndarray
    largest: int | None
    feeds: Feeds


class Entrance:
    """Judges the rows of all sources, in one thread.

    Parameters
    ----------
    sides : sequence of Side
    schemas : mapping of side to pyarrow.Schema
    disorder : int, timedelta, or mapping of source to either
    idle_s : float, optional
        Seconds of silence after which a feed no longer holds up the others.
    time_zone : str, optional
        Of the session.
    """

    def __init__(
        self,
        sides: Sequence[Side],
        schemas: Mapping[str, pa.Schema],
        *,
        disorder: Span | Mapping[str, Span],
        idle_s: float | None,
        time_zone: str | None,
    ) -> None:
        check_names(disorder, sides)
        self.schemas = schemas
        self.sources = {s.side: Source(s, disorder, time_zone) for s in sides}
        self.arrived = {s.alias: 0 for s in sides}
        self.late = {s.alias: 0 for s in sides}
        self._feeds = {
            side: Feeds(own.side.alias, own.disorder, idle_s) for side, own in self.sources.items()
        }
        for feeds in self._feeds.values():
            feeds.register(ONLY, time.monotonic())
        self._largest: dict[str, int] = {}
        self._taken: Counter[tuple[str, str]] = Counter()
        self._rows: Counter[tuple[str, str]] = Counter()
        self._late: Handover[tuple[str, pa.RecordBatch]] = Handover()

    def find(self, name: str) -> Source:
        """Return the source with this alias, or else with this table.

        Raises
        ------
        UsageError
        """
        for attribute in ("alias", "table"):
            found = [
                own
                for own in self.sources.values()
                if getattr(own.side, attribute).lower() == name.lower()
            ]
            if len(found) == 1:
                return found[0]
        names = [own.side.alias for own in self.sources.values()]
        has = f"joins {' and '.join(names)}" if len(names) > 1 else f"reads {names[0]}"
        raise UsageError(f"unknown source {name!r}; the query {has}")

    def register(self, own: Source, feed: str, disorder: Span | None) -> None:
        """Begin a feed of a source; see :meth:`JoinStream.register`."""
        if feed == ONLY:
            raise UsageError("a feed needs a name that is not empty")
        span = None if disorder is None else own.span(disorder)
        feeds = self._feeds[own.side.side]
        feeds.register(feed, time.monotonic(), span)
        if ONLY in feeds.names:
            feeds.deregister(ONLY)

    def deregister(self, own: Source, feed: str) -> None:
        """End a feed of a source."""
        self._feeds[own.side.side].deregister(feed)

    def signal(self, own: Source, feed: str, moment: Moment) -> None:
        """Promise that no later row of a feed has a time below ``moment``."""
        self._feeds[own.side.side].signal(feed, own.moment(moment), time.monotonic())

    def end(self) -> None:
        """End all feeds of all sources."""
        for feeds in self._feeds.values():
            feeds.end()

    def has_feed(self, own: Source, feed: str) -> bool:
        """Whether a source has a registered feed of this name."""
        return feed in self._feeds[own.side.side].names

    def admit(self, own: Source, feed: str, times: np.ndarray) -> Admitted:
        """Judge the next rows of a feed that have a time.

        Parameters
        ----------
        times : ndarray of int64, shape (n,)
            In the window's unit, in order of arrival.

        Raises
        ------
        UsageError
            The feed is unknown.
        """
        feeds = self._feeds[own.side.side].copy()
        on_time = feeds.admit(feed, times, time.monotonic())
        return Admitted(on_time, int(times.max()) if len(times) else None, feeds)

    def take(
        self,
        own: Source,
        feed: str,
        batch: pa.RecordBatch,
        admitted: Admitted | None,
        late: np.ndarray,
    ) -> None:
        """Take a batch that was judged just now.

        Parameters
        ----------
        admitted : Admitted or None
            None for a source without a time.
        late : ndarray of int64
            Late rows of the batch.
        """
        side, alias = own.side.side, own.side.alias
        if admitted is not None:
            self._feeds[side] = admitted.feeds
            if admitted.largest is not None:
                largest = admitted.largest
                self._largest[side] = max(largest, self._largest.get(side, largest))
        self.arrived[alias] += batch.num_rows
        self._taken[alias, feed] += 1
        self._rows[alias, feed] += batch.num_rows
        if len(late):
            rows = batch.take(pa.array(late))
            self._late.put((alias, rows), rows.num_rows, rows.nbytes)
            self.late[alias] += rows.num_rows

    def taken(self, own: Source, feed: str | None) -> int:
        """Return the number of batches taken of one feed of a source, or of all."""
        return _of(self._taken, own, feed)

    def rows(self, own: Source, feed: str | None) -> int:
        """Return the number of rows taken of one feed of a source, or of all; late ones, too."""
        return _of(self._rows, own, feed)

    def late_rows(self) -> dict[str, pa.Table]:
        """Take the late rows per source since the last call; as :meth:`Handover.take`."""

        def tables(parts: Sequence[tuple[str, pa.RecordBatch]]) -> dict[str, pa.Table]:
            return {
                own.side.alias: pa.Table.from_batches(
                    [rows for alias, rows in parts if alias == own.side.alias], self.schemas[side]
                )
                for side, own in self.sources.items()
            }

        return self._late.take(tables)

    def promised(self, side: str) -> int:
        """Return the time below which no later row of a side comes."""
        return self._feeds[side].watermark(time.monotonic())

    def lags(self, watermarks: Mapping[str, int]) -> dict[str, int]:
        """Return per source how far a watermark is behind its largest time."""
        return {
            self.sources[side].side.alias: largest - watermarks[side]
            for side, largest in self._largest.items()
            if NEVER < watermarks[side] < FOREVER
        }

    def next_idle(self, now: float) -> list[float]:
        """Return when the next feed of each side becomes idle, unless it sends before."""
        moments = [feeds.next_idle(now) for feeds in self._feeds.values()]
        return [moment for moment in moments if moment is not None]

    def state(self) -> dict[str, Any]:
        """Return feeds and counts, for JSON."""
        return {
            own.side.alias: {
                "feeds": self._feeds[side].state(),
                "largest": self._largest.get(side),
                "late": self.late[own.side.alias],
                "taken": {f: n for (a, f), n in self._taken.items() if a == own.side.alias},
                "rows": {f: n for (a, f), n in self._rows.items() if a == own.side.alias},
            }
            for side, own in self.sources.items()
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from :meth:`state`."""
        for side, own in self.sources.items():
            alias, known = own.side.alias, state[own.side.alias]
            self._feeds[side].restore(known["feeds"], time.monotonic())
            if known["largest"] is not None:
                self._largest[side] = known["largest"]
            self.late[alias] = known["late"]
            self._taken.update({(alias, f): n for f, n in known["taken"].items()})
            self._rows.update({(alias, f): n for f, n in known["rows"].items()})
            self.arrived[alias] = sum(known["rows"].values())


def _of(counts: Counter[tuple[str, str]], own: Source, feed: str | None) -> int:
    return sum(
        count
        for (alias, name), count in counts.items()
        if alias == own.side.alias and feed in (None, name)
    )
