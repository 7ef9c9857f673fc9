"""Rows under the number of the record that covers them, until the caller has acknowledged them.

Released is not delivered: a caller acknowledges rows by the next poll. Unacknowledged ones stay in
the files of their number, and are given again under it after a restart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class NumberedRows:
    """Rows that workers computed and nobody has polled.

    Parameters
    ----------
    now : bool
        Whether rows leave before their record is committed; perhaps again, then, after a crash.
    committed, acknowledged : int
        Numbers of the last record, and up to which it says that all rows were taken.
    rows : mapping of number to rows, optional
        Those in between, from the record's files.
    """

    def __init__(
        self,
        now: bool,
        committed: int = 0,
        acknowledged: int = 0,
        rows: Mapping[int, Sequence[Any]] | None = None,
    ) -> None:
        self._now = now
        self.committed = committed
        self.acknowledged = acknowledged
        self._rows = {number: list(held) for number, held in (rows or {}).items() if held}

    def add(self, number: int, rows: Any) -> None:
        """Hold rows that a later record will cover."""
        assert number > self.committed
        self._rows.setdefault(number, []).append(rows)

    def commit(self, number: int) -> None:
        """Release the rows of a record that is on the disk."""
        assert number == self.committed + 1
        self.committed = number

    def drop(self) -> None:
        """Forget rows that no record covers, since they will be computed again."""
        self._rows = {n: held for n, held in self._rows.items() if n <= self.committed}

    def poll(self) -> tuple[int, list[Any]] | None:
        """Return the next number and its rows, and acknowledge those of the call before.

        Released by commits, a number is given once and as a whole; at once, in as many pieces as
        there are polls.
        """
        number = min(self._rows, default=self.committed + 1)
        self.acknowledged = min(number - 1, self.committed)
        if number > self.committed and not (self._now and number in self._rows):
            return None
        return number, self._rows.pop(number)
