"""Main memory that a running join may take; whoever brings more waits until there is room."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping

from penstock.errors import OverloadError

#: The part that counts output rows, and the share of the limit that is kept for them: rows that
#: have been taken give results that nobody can know before.
RESULTS, RESULTS_SHARE = "results", 0.25


class Budget:
    """Counts bytes by what they are for.

    Parameters
    ----------
    limit : int, optional
        Bytes altogether; None for no limit.
    """

    def __init__(self, limit: int | None) -> None:
        self.limit = limit
        self.highest = 0
        self._used: Counter[str] = Counter()
        self._changed = threading.Condition()

    @property
    def used(self) -> int:
        with self._changed:
            return self._used.total()

    def parts(self) -> Mapping[str, int]:
        """Bytes by what they are for."""
        with self._changed:
            return dict(self._used)

    def set(self, part: str, count: int) -> None:
        """A part now takes ``count`` bytes."""
        with self._changed:
            self._used[part] = count
            self._note()

    def add(self, part: str, count: int) -> None:
        """A part takes ``count`` bytes more, or fewer."""
        with self._changed:
            self._used[part] += count
            self._note()

    @property
    def results_full(self) -> bool:
        """Whether results take what is kept for them, so that no more should be made."""
        with self._changed:
            return self.limit is not None and self._used[RESULTS] > RESULTS_SHARE * self.limit

    def wait_for(self, count: int, timeout_s: float) -> None:
        """Wait until ``count`` more bytes of rows would stay within their part of the limit.

        Raises
        ------
        OverloadError
            There was no room for ``timeout_s`` seconds.
        """
        if self.limit is None:
            return
        limit = self.limit
        for_rows = (1 - RESULTS_SHARE) * limit

        def fits() -> bool:
            total = self._used.total() + count
            return total <= limit and total - self._used[RESULTS] <= for_rows

        with self._changed:
            if self._changed.wait_for(fits, timeout_s):
                return
            parts = ", ".join(f"{what} {size:,}" for what, size in self._used.items())
        raise OverloadError(
            f"{count:,} more bytes would exceed the memory budget of {limit:,} bytes, of which "
            f"{RESULTS_SHARE:.0%} are kept for results, and there was no room for {timeout_s:g} s "
            f"({parts}); nothing of the batch has been taken: poll "
            "the results, let the other source go on, use a shorter window, or raise memory_bytes"
        )

    def _note(self) -> None:
        self.highest = max(self.highest, self._used.total())
        self._changed.notify_all()
