"""Limits the main memory of a running join; a caller with more rows waits for room."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable

from penstock.errors import OverloadError

from .bells import Bells

_log = logging.getLogger("penstock.stream")

#: The part that counts output rows, and the share of the limit that is kept for them: the number of
#: results of the rows taken in is not known in advance.
RESULTS, RESULTS_SHARE = "results", 0.25
#: The part that counts results of tasks in flight, within the same share.
TASKS = "tasks"
#: Share of the limit that each of several batches in flight may take uncounted.
LITTLE = 1 / 4096
#: Share of the limit up to which memory of groups that have left is kept for the next ones.
SPARE = 0.125
#: Seconds between two looks for room: a caller that takes rows makes room without a signal.
LOOK_S = 0.01


class Budget:
    """Counts bytes by purpose ("part").

    Parameters
    ----------
    limit : int, optional
        Bytes of all parts together; None for no limit.
    rows_gather : bool
        Whether rows may come while tasks wait for room for their results.
    """

    def __init__(self, limit: int | None, *, rows_gather: bool = True) -> None:
        self.limit = limit
        self.rows_gather = rows_gather
        self.highest = 0
        #: Whether tasks wait until results are polled.
        self.tasks_wait = False
        #: Whether the limit of results no longer holds: the last ones leave at once.
        self.lifted = False
        self.bells = Bells()
        self._used: Counter[str] = Counter()
        self._watched: list[tuple[str, Callable[[], int]]] = []
        self._lock = threading.Lock()

    def parts(self) -> Counter[str]:
        """Return the bytes of each part."""
        by_part = Counter(dict(self._used))
        for part, count in self._watched:
            by_part[part] += count()
        return by_part

    def watch(self, part: str, count: Callable[[], int]) -> None:
        """Count a part's further bytes by calling ``count``, which must need no lock."""
        self._watched.append((part, count))

    def set(self, part: str, count: int) -> None:
        """Set the bytes of a part."""
        with self._lock:
            self._used[part] = count
        self.note()

    def add(self, part: str, count: int) -> None:
        """Add ``count`` bytes, which may be negative, to a part."""
        with self._lock:
            self._used[part] += count
        self.note()

    def note(self) -> None:
        """Note that bytes have changed, and wake waiting threads."""
        self.highest = max(self.highest, sum(self.parts().values()))
        self.bells.ring()

    @property
    def results_full(self) -> bool:
        """Whether results have used up their share, so that no more should be made."""
        return self.limit is not None and self.parts()[RESULTS] > RESULTS_SHARE * self.limit

    def fits(self, count: int) -> bool:
        """Whether ``count`` more bytes of rows would stay within the limit."""
        if self.limit is None:
            return True
        if self.tasks_wait and not self.rows_gather:
            return False
        parts = self.parts()
        total = sum(parts.values()) + count
        rows = total - parts[RESULTS] - parts[TASKS]
        return total <= self.limit and rows <= (1 - RESULTS_SHARE) * self.limit

    def is_little(self, count: int) -> bool:
        """Whether ``count`` bytes are few enough to be taken beyond the limit."""
        return self.limit is None or count < LITTLE * self.limit

    def wait_for(self, count: int, timeout_s: float) -> None:
        """Wait until ``count`` more bytes of rows fit.

        Raises
        ------
        OverloadError
            There was no room within ``timeout_s`` seconds.
        """
        if self.fits(count):
            return
        began = time.monotonic()
        _log.info("push waits for room for %s bytes in a budget of %s", count, self.limit)
        if self.bells.wait_for(lambda: self.fits(count), timeout_s, LOOK_S):
            _log.info("push has waited %.3g s for room", time.monotonic() - began)
            return
        parts = ", ".join(f"{part} {size:,}" for part, size in self.parts().items())
        raise OverloadError(
            f"{count:,} more bytes would exceed the memory budget of {self.limit:,} bytes, of "
            f"which {RESULTS_SHARE:.0%} are kept for results, and there was no room for "
            f"{time.monotonic() - began:.3g} s ({parts}); nothing of the batch has been taken: "
            "poll the results, let the other source go on, use a shorter window, or raise "
            "memory_bytes"
        )
