"""Sessions of rows whose times and keys are known: a pure function on arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.plan.window import FOREVER, NEVER


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
