"""Merges partial aggregates of stream tuples, whatever the cut."""

from __future__ import annotations

import numpy as np

from penstock.program import Mode

from .base import Folds


class Merged:
    """Aggregates of ``rows`` tuples, which start with no match.

    Parameters
    ----------
    mode : Mode
        Not PAIRS.
    rows : int
    """

    def __init__(self, mode: Mode, rows: int) -> None:
        self.mode = mode
        self.matched = np.zeros(rows, bool)
        self.value = np.zeros(rows, bool if mode is Mode.EXISTS else np.int64)
        self.position = np.full(rows, -1, np.int64)

    def add(self, rows: np.ndarray, part: Folds) -> None:
        """Merge partial aggregates of some tuples.

        Parameters
        ----------
        rows : ndarray of int, shape (m,)
            The tuples' indices; they may repeat.
        part : Folds
            Partial aggregates. Sums of floats must come in order of window positions.
        """
        turns = _turns(rows)
        if turns is not None:
            for chosen in turns:
                self.add(rows[chosen], part.pick(chosen))
            return
        value = part.value
        if value.dtype != self.value.dtype:
            common = np.result_type(self.value.dtype, value.dtype)
            value, self.value = value.astype(common), self.value.astype(common)
        known, part_matched = self.matched[rows], part.found
        held = self.value[rows]
        if self.mode in (Mode.COUNT, Mode.SUM):
            total = exact_sum(held, value)
            if total.dtype != self.value.dtype:
                self.value = self.value.astype(total.dtype)
            self.value[rows] = total
        else:
            better = part_matched & (~known | self._better(held, value, rows, part))
            self.value[rows[better]] = value[better]
            if part.position is not None:
                self.position[rows[better]] = part.position[better]
        self.matched[rows] = known | part_matched

    def _better(
        self, held: np.ndarray, value: np.ndarray, rows: np.ndarray, part: Folds
    ) -> np.ndarray:
        if self.mode is Mode.EXISTS:
            return value.copy()
        if self.mode is Mode.MAX:
            return below(held, value)
        better = below(value, held)
        if part.position is not None:
            tie = ~better & ~below(held, value)
            better |= tie & (part.position < self.position[rows])
        return better

    def folds(self) -> Folds:
        """The aggregates so far."""
        nearest = self.mode is Mode.NEAREST
        return Folds(self.matched, self.value, self.position if nearest else None)


def merged_once(mode: Mode, rows: np.ndarray, part: Folds) -> tuple[np.ndarray, Folds]:
    """Merge partial aggregates by tuple; returns the distinct tuples and their aggregates."""
    if _turns(rows) is None:
        return rows, part
    once, index = np.unique(rows, return_inverse=True)
    merged = Merged(mode, len(once))
    merged.add(index, part)
    return once, merged.folds()


def _turns(rows: np.ndarray) -> list[np.ndarray] | None:
    """Places of the first occurrences, of the second ones and so on; None if no row comes twice."""
    if (rows[1:] > rows[:-1]).all():  # the rule
        return None
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    begins = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    if len(begins) == len(rows):
        return None
    turn = np.empty(len(rows), np.int64)
    turn[order] = np.arange(len(rows)) - np.repeat(begins, np.diff(begins, append=len(rows)))
    by_turn = np.argsort(turn, kind="stable")
    return np.split(by_turn, np.cumsum(np.bincount(turn))[:-1])


def exact_sum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """``a + b`` element by element; Python integers where int64 does not hold a sum."""
    if a.dtype != np.int64:
        return a + b
    with np.errstate(over="ignore"):
        total = a + b
    # A sum has another sign than both terms only where it wrapped.
    if (((a ^ total) & (b ^ total)) < 0).any():
        return a.astype(object) + b.astype(object)
    return total


def below(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """``a < b`` as in Spark: NaN is above everything."""
    less = np.asarray(a < b, bool)
    if a.dtype.kind == "f":
        less |= np.isnan(b) & ~np.isnan(a)
    return less
