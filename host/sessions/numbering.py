"""Numbers of sessions, and of the keys of their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from penstock.expr.columns import evaluate_all
from penstock.plan.window import FOREVER, NEVER, Sessions
from penstock.types import INT64

from ..keys.hashing import float_bits
from ..rows.sides import SideRows


@dataclass(frozen=True)
class Spans:
    """Sessions of rows that are sorted by key, then time, then arrival.

    Parameters
    ----------
    begin : ndarray of int64, shape (sessions,)
        Place of each session's first row; the next one's is its end.
    first, last : ndarray of int64, shape (sessions,)
        Times of its first and its last row.
    rows : int
        Number of rows.
    """

    begin: np.ndarray
    first: np.ndarray
    last: np.ndarray
    rows: int

    @staticmethod
    def find(codes: np.ndarray, times: np.ndarray, gap: int) -> Spans:
        """Find the sessions of sorted rows: neighbours of one key at most a gap apart."""
        begins = np.ones(len(times), bool)
        # Without a sign no difference overflows, since times of one key ascend.
        since = np.diff(times.view(np.uint64))
        begins[1:] = (codes[1:] != codes[:-1]) | (since > np.uint64(gap))
        begin = np.flatnonzero(begins)
        last = np.append(begin[1:], len(times)) - 1 if len(begin) else begin
        return Spans(begin, times[begin], times[last], len(times))

    @property
    def sizes(self) -> np.ndarray:
        """Number of rows of each session."""
        return np.diff(np.append(self.begin, self.rows))

    def closed(self, clock: int, gap: int) -> np.ndarray:
        """Tell which sessions no later row can join: ``last + gap`` lies below the clock."""
        if clock - gap <= NEVER:
            return np.zeros(len(self.begin), bool)
        return np.ones(len(self.begin), bool) if clock == FOREVER else self.last < clock - gap

    def numbers(self, chosen: np.ndarray, arrival: np.ndarray, following: int) -> np.ndarray:
        """Number some sessions by their last time, so in the order in which they close.

        Parameters
        ----------
        chosen : ndarray of bool, shape (sessions,)
        arrival : ndarray of int64, shape (rows,)
            Place of each row in the order of arrival.
        following : int
            The first number.

        Returns
        -------
        ndarray of int64, shape (rows of these sessions,)
            Number of each row's session, in the order of the rows.
        """
        firsts = arrival[self.begin[chosen]]
        order = np.lexsort((firsts, self.first[chosen], self.last[chosen]))
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(following, following + len(order))
        return np.repeat(ranks, self.sizes[chosen])


def session_numbers(codes: np.ndarray, times: np.ndarray, gap: int) -> np.ndarray:
    """Return the number of each row's session; all rows are there, in the order of arrival."""
    order = np.lexsort((times, codes))
    spans = Spans.find(codes[order], times[order], gap)
    numbers = np.empty(len(order), np.int64)
    numbers[order] = spans.numbers(np.ones(len(spans.begin), bool), order, 0)
    return numbers


#: Keys beyond twice the kept rows at which unused keys are forgotten.
_SPARE = 4096


class KeyCodes:
    """Numbers the keys of rows that form sessions; a single integer is its own number."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        keys = sessions.keys
        self._is_plain = len(keys[0]) == 1 and all(
            key.type.is_integral and INT64[0] <= key.type.lo and key.type.hi <= INT64[1]
            for (key,) in keys
        )
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._following = count()

    def __len__(self) -> int:
        return len(self._numbers)

    def encode(self, side: str, rows: SideRows) -> tuple[np.ndarray, np.ndarray]:
        """Number the keys of a side's rows.

        Returns
        -------
        known : ndarray of bool, shape (rows,)
            False where the key is NULL, or a part of it.
        codes : ndarray of int64
            Numbers of the rows whose key is known.
        """
        vectors = evaluate_all(self._sessions.side_keys(side), rows.columns, len(rows))
        known = np.ones(len(rows), bool)
        for vector in vectors:
            if vector.valid is not None:
                known &= vector.valid
        values = [vector.values[known] for vector in vectors]
        if self._is_plain:
            return known, values[0].astype(np.int64)
        return known, self._codes(
            [float_bits(column) if column.dtype.kind == "f" else column for column in values]
        )

    def _codes(self, columns: Sequence[np.ndarray]) -> np.ndarray:
        inverse = np.zeros(len(columns[0]), np.int64)
        if not len(inverse):
            return inverse
        first = np.zeros(1, np.int64)
        for column in columns:
            _, inner = np.unique(column, return_inverse=True)
            both = inverse * (int(inner.max()) + 1) + inner
            _, first, inverse = np.unique(both, return_index=True, return_inverse=True)
        numbers, following = self._numbers, self._following
        keys = zip(*(column[first].tolist() for column in columns), strict=True)
        codes = [
            numbers[key] if key in numbers else numbers.setdefault(key, next(following))
            for key in keys
        ]
        return np.array(codes, np.int64)[inverse]

    def keep(self, codes: np.ndarray) -> None:
        """Forget the keys of all other numbers, once they are more than half of the known ones."""
        if len(self._numbers) > 2 * len(codes) + _SPARE:
            alive = set(codes.tolist())
            self._numbers = {key: code for key, code in self._numbers.items() if code in alive}
