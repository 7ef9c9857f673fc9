"""The feeds of one side of a join, and their common watermark: a pure state machine.

Paper 1, section 3.3: feeds register, each signals its watermark, and the least of these is the
watermark of the side. A feed that is silent for long need not hold up the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.errors import UsageError
from penstock.plan.ranges import shifted
from penstock.plan.window import FOREVER, NEVER

#: Name of the feed of rows pushed without a feed's name.
ONLY = ""
#: Name of a feed without rows that a restored state may have. It keeps the watermark where it is
#: until the first rows or promises come, while feeds are registered one after the other: the first
#: may be far ahead of the next ones.
HOLD = "\0hold"


class Admission:
    """Watermark of one source, and which of its rows are on time: a pure state machine.

    A signal ``t`` promises that no later row has a time below ``t``. A source signals explicitly,
    and implicitly by its disorder: after a row of time ``x``, none below ``x - disorder`` may come.
    Each row is judged at its place in its source, so the result does not depend on how the source
    is cut into batches.

    Parameters
    ----------
    disorder : int
        How far below the largest time before it a row may lie, in the window's unit.
    """

    def __init__(self, disorder: int) -> None:
        self.disorder = disorder
        self.watermark = NEVER
        self.arrived = 0
        self.late = 0

    def copy(self) -> Admission:
        """Return a copy, so that changes can be undone."""
        other = Admission(self.disorder)
        other.watermark, other.arrived, other.late = self.watermark, self.arrived, self.late
        return other

    def admit(self, times: np.ndarray) -> np.ndarray:
        """Judge the next rows of the source, in order.

        Parameters
        ----------
        times : ndarray of int64, shape (n,)

        Returns
        -------
        ndarray of bool, shape (n,)
            True where the row is on time.
        """
        self.arrived += len(times)
        if not len(times):
            return np.zeros(0, dtype=bool)
        if self.watermark == FOREVER:
            self.late += len(times)
            return np.zeros(len(times), dtype=bool)
        if times[0] >= self.watermark and np.all(times[1:] >= times[:-1]):
            self.watermark = max(self.watermark, int(times[-1]) - self.disorder)
            return np.ones(len(times), dtype=bool)
        implied = shifted(np.maximum.accumulate(times), -self.disorder)
        watermarks = np.empty(len(times), dtype=np.int64)
        watermarks[0] = self.watermark
        np.maximum(implied[:-1], self.watermark, out=watermarks[1:])
        on_time = times >= watermarks
        self.watermark = max(self.watermark, int(implied[-1]))
        self.late += int(len(times) - on_time.sum())
        return on_time

    def signal(self, time: int) -> None:
        """Promise that no later row has a time below ``time``; an older signal changes nothing."""
        self.watermark = max(self.watermark, time)


@dataclass
class _Feed:
    admission: Admission
    heard: float
    idle: bool = False


class Feeds:
    """The feeds of one side.

    Parameters
    ----------
    name : str
        Name of the side in the query, for messages.
    disorder : int
        How far below the largest time before it a row of a feed may lie, in the window's unit.
    idle_s : float, optional
        Seconds of silence after which a feed no longer counts; by default it always counts.
    """

    def __init__(self, name: str, disorder: int, idle_s: float | None = None) -> None:
        self.name = name
        self.disorder = disorder
        self.idle_s = idle_s
        self._feeds: dict[str, _Feed] = {}
        self._watermark = NEVER
        self._closed = False
        #: Names of feeds that a checkpoint has and that nobody has named since: each counts as it
        #: stood, since its rows may have to be sent again.
        self.recorded: set[str] = set()

    def copy(self) -> Feeds:
        """Return a copy, so that changes can be undone."""
        other = Feeds(self.name, self.disorder, self.idle_s)
        other._watermark, other._closed = self._watermark, self._closed
        other.recorded = set(self.recorded)
        other._feeds = {
            name: _Feed(feed.admission.copy(), feed.heard, feed.idle)
            for name, feed in self._feeds.items()
        }
        return other

    @property
    def names(self) -> list[str]:
        """Names of the registered feeds."""
        return list(self._feeds)

    def register(self, feed: str, now: float, disorder: int | None = None) -> None:
        """Begin a feed. None of its rows may lie below the side's watermark.

        Raises
        ------
        UsageError
            The feed is registered already, or the side has ended.
        """
        if self._closed:
            raise UsageError(f"{self.name} has ended; open a new stream for feed {feed!r}")
        if feed in self.recorded:
            self.recorded.remove(feed)
            self._feeds[feed].heard = now
            if disorder is not None:
                self._feeds[feed].admission.disorder = disorder
            return
        if feed in self._feeds:
            raise UsageError(
                f"feed {feed!r} of {self.name} is registered already; deregister it first, or "
                "give the second one a name of its own"
            )
        chosen = self.disorder if disorder is None else disorder
        self._feeds[feed] = _Feed(Admission(chosen), now)

    def deregister(self, feed: str) -> None:
        """End a feed; its watermark no longer holds up the others.

        Raises
        ------
        UsageError
            There is no such feed.
        """
        self._get(feed)
        del self._feeds[feed]
        self.recorded.discard(feed)

    def require(self, feed: str) -> None:
        """Refuse a feed that is not registered.

        Raises
        ------
        UsageError
        """
        self._get(feed)

    def admit(self, feed: str, times: np.ndarray, now: float) -> np.ndarray:
        """Judge the next rows of a feed, in order.

        A row is late below the watermark of its feed, or of the side when the row came: a feed that
        was idle, or registered late, cannot lower the side's watermark.

        Parameters
        ----------
        times : ndarray of int64, shape (n,)
        now : float
            Seconds, on the clock of all other calls.

        Returns
        -------
        ndarray of bool, shape (n,)
            True where the row is on time.
        """
        floor = self.watermark(now)
        heard = self._heard(feed, now)
        on_time = heard.admission.admit(times)
        return on_time & (times >= floor) if floor > NEVER else on_time

    def signal(self, feed: str, time: int, now: float) -> None:
        """Promise that no later row of a feed has a time below ``time``."""
        self._heard(feed, now).admission.signal(time)

    def end(self) -> None:
        """End all feeds: no further row comes."""
        self._closed = True
        self._watermark = FOREVER

    def state(self) -> dict[str, Any]:
        """Return the state of each feed, for JSON."""
        feeds = {
            name: [f.admission.disorder, f.admission.watermark, f.admission.late, f.idle]
            for name, f in self._feeds.items()
        }
        return {"feeds": feeds, "watermark": self._watermark, "closed": self._closed}

    def restore(self, state: Mapping[str, Any], now: float) -> None:
        """Go on from :meth:`state`; feeds that are not silent count as heard of now."""
        self._watermark, self._closed = state["watermark"], state["closed"]
        self._feeds = {}
        for name, (disorder, watermark, late, idle) in state["feeds"].items():
            admission = Admission(disorder)
            admission.watermark, admission.late = watermark, late
            self._feeds[name] = _Feed(admission, now, idle)
        self.recorded = {name for name in self._feeds if name not in (ONLY, HOLD)}

    def watermark(self, now: float) -> int:
        """Return the time below which no later row of the side comes; it never falls."""
        self._count_watermarks()
        if self.idle_s is None:
            return self._watermark
        # In the order in which they fell silent, however late this is called: each one's watermark
        # counted until then.
        silent = [f for f in self._feeds.values() if not f.idle and now - f.heard > self.idle_s]
        for moment in sorted({feed.heard for feed in silent}):
            for feed in silent:
                feed.idle = feed.idle or feed.heard == moment
            self._count_watermarks()
        return self._watermark

    def _count_watermarks(self) -> None:
        """Raise the side's watermark to the least of all feeds that are not silent."""
        live = [f.admission.watermark for f in self._feeds.values() if not f.idle]
        if live:
            self._watermark = max(self._watermark, min(live))

    def next_idle(self, now: float) -> float | None:
        """Return when the next feed will have been silent for too long, unless it sends before."""
        if self.idle_s is None:
            return None
        live = [f.heard + self.idle_s for f in self._feeds.values() if not f.idle]
        return min(live, default=None)

    def silent_since(self) -> float | None:
        """Return when the last feed was heard of, if all are silent; None otherwise."""
        feeds = self._feeds.values()
        is_silent = bool(feeds) and all(feed.idle for feed in feeds)
        return max(feed.heard for feed in feeds) if is_silent else None

    def raise_to(self, time: int) -> None:
        """Raise the side's watermark: its feeds are silent, and no longer hold up other sides."""
        self._watermark = max(self._watermark, time)

    def _heard(self, feed: str, now: float) -> _Feed:
        heard = self._get(feed)
        heard.heard, heard.idle = now, False
        self.recorded.discard(feed)
        return heard

    def _get(self, feed: str) -> _Feed:
        if feed in self._feeds:
            return self._feeds[feed]
        known = ", ".join(repr(name) for name in self._feeds) or "none"
        raise UsageError(
            f"{self.name} has no feed {feed!r} (registered: {known}); register it before it sends"
        )
