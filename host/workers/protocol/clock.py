"""Promises, and the vector clock that leaders keep of them (paper 2, sections 5.1 and 7.2.2).

A promise ``t`` of a worker for a feed says that the worker folds no later row of that feed with a
time below ``t``. Feeds have numbers that stay the same over restarts; a number stands for a source
and a feed of it. Times are integers in the window's unit, from ``NEVER`` to ``FOREVER``, which is
what a feed promises that has ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.plan.window import FOREVER, NEVER


class Promises:
    """What one worker promises of the rows that it has yet to fold.

    Parameters
    ----------
    recorded : mapping of feed to time, optional
        What a checkpoint's record says was promised.
    """

    def __init__(self, recorded: Mapping[int, int] | None = None) -> None:
        self.feeds: dict[int, int] = dict(recorded or {})

    def raise_to(self, feed: int, time: int) -> None:
        """Promise no later row of a feed below a time; an older promise changes nothing."""
        self.feeds[feed] = max(time, self.feeds.get(feed, NEVER))

    def withdraw(self, feed: int) -> None:
        """Forget a feed that sends no more, without an end of its source."""
        self.feeds.pop(feed, None)

    def floor(self, before: int, held: int = FOREVER) -> int:
        """Return the time below which no feed sends, given what this was ``before``.

        Without feeds it stays, since one may begin that may send from there on.

        Parameters
        ----------
        held : int
            What else it may not pass.
        """
        return max(before, min(*self.feeds.values(), held)) if self.feeds else before

    def in_order(self) -> tuple[tuple[int, int], ...]:
        """Return pairs of feed and promise, by feed."""
        return tuple(sorted(self.feeds.items()))


class Clock:
    """A leader's vector clock: what each worker promised behind the deltas merged last.

    Parameters
    ----------
    size : int
        Workers, this one among them.
    recorded : mapping of feed to time, optional
        What a checkpoint's record says was promised. Such a feed holds the clock there until a
        worker names it: rows that it sent before the crash may have to be sent again.
    """

    def __init__(self, size: int, recorded: Mapping[int, int] | None = None) -> None:
        #: Recorded feeds that no worker has named yet.
        self.unnamed: dict[int, int] = dict(recorded or {})
        begins = min(self.unnamed.values(), default=NEVER)
        self._floors = [begins] * size
        self._entries: list[Promises | None] = [None] * size

    def move(self, worker: int, promises: Iterable[tuple[int, int]]) -> None:
        """Take over what a worker promised at the end of an epoch that has been merged."""
        entry = self._entries[worker] = Promises(dict(promises))
        for feed in entry.feeds:
            self.unnamed.pop(feed, None)
        # Any worker may be the one that gets the rows of a feed that nobody has named.
        held = min(self.unnamed.values(), default=FOREVER)
        for place, one in enumerate(self._entries):
            if one is not None:
                self._floors[place] = one.floor(self._floors[place], held)

    @property
    def time(self) -> int:
        """Time below which all rows of all workers are merged; ``FOREVER`` at the end."""
        return min(self._floors)

    @property
    def promises(self) -> dict[int, int]:
        """What all workers promise of each feed."""
        least = dict(self.unnamed)
        for entry in self._entries:
            for feed, time in () if entry is None else entry.feeds.items():
                least[feed] = min(time, least.get(feed, FOREVER))
        return least

    def lag(self, worker: int) -> int:
        """Return how far the last of all workers is behind this one, in the window's unit."""
        return self._floors[worker] - self.time
