"""Promises, and the vector clock of leaders (paper 2, sections 5.1 and 7.2.2).

A promise ``t`` is a worker's low watermark for a feed: the worker folds no later row of that feed
with a time below ``t``. A feed, which is one of a source, has a number that stays the same over
restarts. Times are integers in the window's unit, from ``NEVER`` to ``FOREVER``; a feed that has
ended promises ``FOREVER``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.plan.window import FOREVER, NEVER


class Promises:
    """Promises of one worker, by feed, about the rows that it has yet to fold.

    Parameters
    ----------
    recorded : mapping of feed to time, optional
        Promises in a checkpoint's record.
    """

    def __init__(self, recorded: Mapping[int, int] | None = None) -> None:
        self.feeds: dict[int, int] = dict(recorded or {})

    def raise_to(self, feed: int, time: int) -> None:
        """Raise the promise of a feed to a time; it never falls."""
        self.feeds[feed] = max(time, self.feeds.get(feed, NEVER))

    def withdraw(self, feed: int) -> None:
        """Forget a feed that sends no more rows, though its source has not ended."""
        self.feeds.pop(feed, None)

    def floor(self, before: int, held: int = FOREVER) -> int:
        """Return the low watermark of all feeds, which never falls below its value ``before``.

        Without feeds it stays, since a feed may begin that sends rows from there on.

        Parameters
        ----------
        held : int
            Another bound that it may not pass.
        """
        return max(before, min(*self.feeds.values(), held)) if self.feeds else before

    def in_order(self) -> tuple[tuple[int, int], ...]:
        """Return pairs of feed and promise, by feed."""
        return tuple(sorted(self.feeds.items()))


class VectorClock:
    """Vector clock of a leader: the promises of each worker as of its last merged epoch.

    Parameters
    ----------
    size : int
        Workers, this one among them.
    recorded : mapping of feed to time, optional
        Promises in a checkpoint's record. Such a feed holds the clock there until a worker names
        it: rows that it sent before the crash may have to be sent again.
    """

    def __init__(self, size: int, recorded: Mapping[int, int] | None = None) -> None:
        #: Recorded feeds that no worker has named yet.
        self.unnamed: dict[int, int] = dict(recorded or {})
        begins = min(self.unnamed.values(), default=NEVER)
        self._floors = [begins] * size
        self._entries: list[Promises | None] = [None] * size

    def move(self, worker: int, promises: Iterable[tuple[int, int]]) -> None:
        """Set the entry of a worker to its promises at the end of an epoch that is merged."""
        entry = self._entries[worker] = Promises(dict(promises))
        for feed in entry.feeds:
            self.unnamed.pop(feed, None)
        # Any worker may get the rows of a feed that nobody has named.
        held = min(self.unnamed.values(), default=FOREVER)
        for place, one in enumerate(self._entries):
            if one is not None:
                self._floors[place] = one.floor(self._floors[place], held)

    @property
    def time(self) -> int:
        """Low watermark: all rows of all workers below it are merged; ``FOREVER`` at the end."""
        return min(self._floors)

    @property
    def promises(self) -> dict[int, int]:
        """Least promise of all workers, for each feed."""
        least = dict(self.unnamed)
        for entry in self._entries:
            for feed, time in () if entry is None else entry.feeds.items():
                least[feed] = min(time, least.get(feed, FOREVER))
        return least

    def lag(self, worker: int) -> int:
        """Return how far the slowest worker is behind this one, in the window's unit."""
        return self._floors[worker] - self.time
