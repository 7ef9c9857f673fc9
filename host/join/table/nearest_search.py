"""Searches the rows of a table for those nearest to each row of another."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from math import pi
from typing import Protocol

import numpy as np
import pyarrow as pa

from penstock.expr import ops
from penstock.expr.columns import Vector, evaluate_columns, int_vector
from penstock.expr.functions import EARTH_RADIUS_M
from penstock.expr.node import DIVISIONS, Expr, Op, walk
from penstock.plan.nearest import Distance, NearestPlan, OrderTest
from penstock.plan.query import LEFT
from penstock.types import INT64

from ...emit.groups.floats import ordered
from ...keys.encoders import distinct
from ...keys.hashing import float_bits
from ...prune.nearest_points import Points, SortedRuns, rows_by_number
from ...rows.sides import SideRows, counting, take

#: Pairs that are evaluated together, about: what lies between the operations fits some MiB.
_PAIRS = 1 << 20
#: Left rows, at most, that take rows of one order together: their arrays fit the cache.
_ROWS = 1 << 16
#: Pairs up to which all are evaluated.
_FEW_PAIRS = 1 << 18
#: Candidates beside the wanted rows, where these are chosen among them.
_SPARE = 4
#: Factor by which candidates grow for rows that need more, and the most growth before all rows
#: are evaluated instead.
_GROWTH, _MOST_GROWTH = 8, 512
#: Integers whose differences, and the sums of these, are exact in a double.
_EXACT = 1 << 53
#: Distances between which rounding is relative, and the share of a chord that it may be.
_LEAST, _MOST = 1e-140, 1e140
#: The least one of FLOAT, whose squares are 0 below, and the share from which on values are those.
_LEAST_SINGLE, _SINGLE_SHARE = 1e-18, 2.0**-30
_CHORD_SHARE, _CHORD_LEAST = 2.0**-40, 2.0**-46

#: Left and right rows of pairs, by left row, nearness and place.
Pairs = tuple[np.ndarray, np.ndarray]


class NearestSearch:
    """Finds the nearest right rows of left rows.

    Parameters
    ----------
    left, right : SideRows
        Rows that pass the filters of their sides, in the order of the tables.
    """

    def __init__(self, plan: NearestPlan, left: SideRows, right: SideRows) -> None:
        self._plan, self._left, self._right = plan, left, right
        self._keys = _key_codes(plan.keys, left, right)
        #: Right rows by key, and their keys.
        self._by_key: Pairs | None = None
        self._candidates = self._candidate_search()

    def pairs(self) -> Iterator[tuple[int, int, Pairs]]:
        """Yield ``start, end, pairs`` block by block, each of the left rows ``[start, end)``."""
        rows = len(self._left)
        size = max(1, 4 * _PAIRS // (self._plan.nearest.count + _SPARE))
        if isinstance(self._candidates, _Ranked):
            size = min(size, _ROWS)
        for low in range(0, rows, size):
            block = counting(rows)[low : low + size]
            parts = (
                self._evaluated(block) if self._candidates is None else self._by_candidates(block)
            )
            yield low, low + len(block), _joined(list(parts))

    # -- by candidates ----------------------------------------------------------------------------

    def _candidate_search(self) -> _Candidates | None:
        """Choose how candidates are found; None to evaluate each pair."""
        plan, left, right = self._plan, self._left, self._right
        if len(left) * len(right) <= _FEW_PAIRS:
            return None
        if plan.nearest.nulls_first is not None and self._has_null(plan.nearest.value):
            return None
        if plan.rank is not None:
            return _Ranked(plan, left, right, self._keys)
        if plan.distance is None:
            return None
        return _Near.over(plan, plan.distance, left, right, self._keys)

    def _has_null(self, value: Expr) -> bool:
        """Whether a value may be NULL for a pair of these rows."""
        columns = {**self._left.columns, **self._right.columns}
        leaves = [one for one in walk(value) if one.op is Op.COLUMN]
        is_known = all(columns[one.attr].valid is None for one in leaves)
        return not is_known or any(one.op in DIVISIONS or one.is_null_const for one in walk(value))

    def _by_candidates(self, rows: np.ndarray, growth: int = 1) -> Iterator[Pairs]:
        """Yield the pairs of some left rows, in parts: some rows need more candidates."""
        search, most = self._candidates, self._plan.nearest.count
        assert search is not None
        is_tested = search.remainder is not ops.TRUE
        is_final = search.is_ordered and not is_tested
        count = most if is_final and growth == 1 else (most + _SPARE) * growth
        i, j, is_all, reached = search.find(rows, count)
        if is_final and not search.has_others:
            yield i, j
            return
        if is_tested:
            matches = np.flatnonzero(self._values(search.remainder, i, j).true)
            i, j = i[matches], j[matches]
        if search.is_ordered:
            kept = _place(i) < most
            i, j, values = i[kept], j[kept], None
        else:
            i, j, values = self._nearest(i, j)
        ends = np.searchsorted(i, rows, side="right")
        is_full = ends - np.searchsorted(i, rows) >= most
        is_done = is_full.copy()
        if values is not None:
            is_done[is_full] = search.is_beyond(values[ends[is_full] - 1], reached[is_full])
        if not search.has_others:
            is_done |= is_all
        is_done |= search.alone[rows]
        done = is_done[np.searchsorted(rows, i)]
        yield i[done], j[done]
        rows, growth = rows[~is_done], growth * _GROWTH
        if growth > _MOST_GROWTH:
            yield from self._evaluated(rows)
            return
        size = max(1, 4 * _PAIRS // ((most + _SPARE) * growth))
        for low in range(0, len(rows), size):
            yield from self._by_candidates(rows[low : low + size], growth)

    # -- by evaluation ----------------------------------------------------------------------------

    def _evaluated(self, rows: np.ndarray) -> Iterator[Pairs]:
        """Yield the pairs of some left rows, by all that have equal keys."""
        if self._by_key is None:
            known = np.flatnonzero(self._keys[1] >= 0)
            known = known[np.argsort(self._keys[1][known], kind="stable")]
            self._by_key = known, self._keys[1][known]
        order, codes = self._by_key
        start, end = (
            np.searchsorted(codes, self._keys[0][rows], side) for side in ("left", "right")
        )
        upto, low = np.append(0, np.cumsum(end - start)), 0
        while low < len(rows):
            high = int(np.searchsorted(upto, upto[low] + _PAIRS, side="right")) - 1
            high = min(max(low + 1, high), len(rows))
            nearest = np.zeros(0, np.int64), np.zeros(0, np.int64)
            # One row with more pairs is evaluated in steps.
            for at in range(0, max(1, int(upto[high] - upto[low])), _PAIRS):
                first = start[low:high] + at
                count = np.minimum(end[low:high] - first, _PAIRS)
                within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
                i = np.append(nearest[0], np.repeat(rows[low:high], count))
                j = np.append(nearest[1], order[np.repeat(first, count) + within])
                condition = ops.and_(self._plan.remainder, *self._plan.tests)
                if condition is not ops.TRUE:
                    matches = np.flatnonzero(self._values(condition, i, j).true)
                    i, j = i[matches], j[matches]
                nearest = self._nearest(i, j)[:2]
            yield nearest
            low = high

    def _nearest(self, i: np.ndarray, j: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Keep the nearest pairs of each left row, in their order, and the values of these."""
        nearest = self._plan.nearest
        value = self._values(nearest.value, i, j)
        codes = _ordered(value)
        if nearest.is_greatest:
            codes = ~codes
        is_known = value.is_known
        known = np.flatnonzero(is_known)
        sizes = np.diff(_begins(i))
        is_table = len(known) == len(i) and len(sizes) and sizes.min() == sizes.max()
        if is_table and nearest.count < sizes[0]:
            # Few of many pairs are sorted.
            table = codes.reshape(len(sizes), sizes[0])
            most = np.partition(table, nearest.count - 1, axis=1)[:, nearest.count - 1]
            known = np.flatnonzero(table <= most[:, None])
        if nearest.nulls_first is None or len(known) == len(i) or is_table:
            order = known[np.lexsort((j[known], codes[known], i[known]))]
        else:
            is_later = is_known if nearest.nulls_first else ~is_known
            order = np.lexsort((j, np.where(is_known, codes, 0), is_later, i))
        order = order[_place(i[order]) < nearest.count]
        return i[order], j[order], value.values[order]

    def _values(self, expr: Expr, i: np.ndarray, j: np.ndarray) -> Vector:
        """Compute an expression of pairs."""
        columns: dict[tuple[str, str], Vector] = {}
        for leaf in walk(expr):
            if leaf.op is Op.COLUMN:
                rows, index = (self._left, i) if leaf.attr[0] == LEFT else (self._right, j)
                columns[leaf.attr] = take(rows.columns[leaf.attr], index)
        return evaluate_columns(expr, columns, len(i))


_Found = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


class _Candidates(Protocol):
    """Finds right rows that may be nearest.

    Attributes
    ----------
    is_ordered : bool
        Whether :meth:`find` gives right rows in the order of nearness itself, so that the first
        ones are final.
    has_others : bool
        Whether there are rows that :meth:`find` never gives; all of these are further away than
        those that it gives.
    remainder : Expr
        The part of the condition that :meth:`find` does not test.
    alone : ndarray of bool
        Left rows that have no nearest rows, such as those whose value is NULL.
    """

    is_ordered: bool
    has_others: bool
    remainder: Expr
    alone: np.ndarray

    def find(self, rows: np.ndarray, count: int) -> _Found:
        """Find up to ``count`` candidates of each left row.

        Returns
        -------
        i, j : ndarray of int64, shape (pairs,)
            Left and right rows, in the order of ``rows``.
        is_all : ndarray of bool, shape (rows,)
            Whether there are no more candidates.
        reached : ndarray of float64, shape (rows,)
            Distance of the last one.
        """
        ...

    def is_beyond(self, values: np.ndarray, reached: np.ndarray) -> np.ndarray:
        """Tell for each left row whether all right rows that were not found are further away.

        Parameters
        ----------
        values : ndarray
            The largest value that is wanted of each left row.
        reached : ndarray of float64
            Distance of the last row that was found.
        """
        ...


class _Ranked:
    """Finds right rows in the one order that all left rows share."""

    is_ordered, has_others = True, False

    def __init__(self, plan: NearestPlan, left: SideRows, right: SideRows, keys: Pairs) -> None:
        rank = plan.rank
        assert rank is not None
        ranked = [test for test in plan.tests.values() if test.value is rank.value]
        unranked = [one for one, test in plan.tests.items() if test not in ranked]
        self.remainder = ops.and_(plan.remainder, *unranked)
        value = _column(rank.value, right)
        codes = _ordered(value)
        order: np.ndarray | None = None
        if value.valid is not None:
            order = np.flatnonzero(value.valid)
            codes = codes[order]
        if not _ascends(codes, is_strict=rank.is_greatest):
            # From behind, so that of equal values the first row comes first again.
            by_value = np.arange(len(codes))[:: -1 if rank.is_greatest else 1]
            by_value = by_value[np.argsort(codes[by_value], kind="stable")]
            order, codes = _picked(by_value, order), codes[by_value]
        begins = np.array([0, len(codes)])
        if plan.keys:
            of_right = keys[1] if order is None else keys[1][order]
            begins, by_key = rows_by_number(of_right, int(max(k.max(initial=0) for k in keys)))
            order, codes = _picked(by_key, order), codes[by_key]
        low, high, has_bounds = _bounds(ranked, left)
        self.alone = ~(_column(rank.beside, left).is_known & has_bounds & (keys[0] >= 0))
        self._keys, self._bounds, self._runs = keys[0], (low, high), SortedRuns(codes, begins)
        self._order, self._is_greatest = order, rank.is_greatest

    def find(self, rows: np.ndarray, count: int) -> _Found:
        some = _index(rows)
        low, high = (None if bounds is None else bounds[some] for bounds in self._bounds)
        keys = np.where(self.alone[some], -1, self._keys[some])
        start, end = self._runs.between(keys, low, high)
        number, place = end - start, end - 1 if self._is_greatest else start
        if count == 1:
            has_one = number > 0
            i, place = (rows, place) if has_one.all() else (rows[has_one], place[has_one])
        else:
            i, place = (np.repeat(one, np.clip(number, 0, count)) for one in (rows, place))
            place += (-1 if self._is_greatest else 1) * _place(i)
        return i, _picked(place, self._order), number < count, np.zeros(len(rows))

    def is_beyond(self, values: np.ndarray, reached: np.ndarray) -> np.ndarray:
        return np.ones(len(values), bool)


class _Near:
    """Finds right rows by their distance, as points.

    Parameters
    ----------
    points : tuple of ndarray of float64, shape (rows, terms)
        Points of the left and of the right side.
    known : tuple of ndarray of bool
        Which rows of the left and of the right side may be in a pair: no NULL in what is compared.
    share : float
        Greatest relative difference of value and distance; 0 where they are equal.
    """

    def __init__(
        self,
        plan: NearestPlan,
        distance: Distance,
        share: float,
        points: Pairs,
        known: Pairs,
        left: SideRows,
        right: SideRows,
        keys: Pairs,
    ) -> None:
        self._distance, self._share = distance, share
        self.is_ordered, self.remainder = not share, plan.remainder
        # Infinite coordinates, and NaN, are far from all.
        finite = [np.logical_and.reduce(np.isfinite(some), axis=1) for some in points]
        tests: dict[Expr, list[OrderTest]] = {}
        for test in plan.tests.values():
            tests.setdefault(test.value, []).append(test)
        tested = [_column(value, right) for value in tests]
        known_right = known[1].copy()
        for value in tested:
            known_right &= value.is_known
        bounds = [_bounds(some, left) for some in tests.values()]
        self._low, self._high = (
            _table([np.full(len(left), every) if end is None else end for end in ends], len(left))
            for ends, every in zip(
                ([b[0] for b in bounds], [b[1] for b in bounds]), INT64, strict=True
            )
        )
        self.alone = ~np.logical_and.reduce([known[0], *(b[2] for b in bounds)])
        self._rows = np.flatnonzero(known_right & finite[1])
        self.has_others = bool(len(self._rows) < known_right.sum() or (~finite[0] & known[0]).any())
        self._probes = np.where(finite[0][:, None], points[0], 0.0)
        self._key = np.where(self.alone | ~finite[0], -1, keys[0])
        self._points = Points(
            points[1][self._rows],
            keys[1][self._rows],
            _table([_ordered(v)[self._rows] for v in tested], len(self._rows)),
            np.array([term.weight for term in distance.terms]),
            squares=distance.is_square,
            root=distance.is_root,
            threads=len(os.sched_getaffinity(0)),
        )

    @staticmethod
    def over(
        plan: NearestPlan, distance: Distance, left: SideRows, right: SideRows, keys: Pairs
    ) -> _Near | None:
        """Make it; None where the values of rows do not allow it."""
        points: list[Pairs] = []
        known = keys[0] >= 0, keys[1] >= 0
        is_exact = True
        for term in distance.terms:
            pair = _column(term.left, left), _column(term.right, right)
            known = known[0] & pair[0].is_known, known[1] & pair[1].is_known
            numbers = _doubles(*pair, *known)
            if numbers is None:
                return None
            of_left, of_right, width = numbers
            points.append((of_left, of_right))
            widest = term.weight * width ** (2 if term.is_square else 1)
            is_exact = is_exact and widest * len(distance.terms) < _EXACT
        of_left, of_right = (np.stack(some, axis=1) for some in zip(*points, strict=True))
        finite = np.isfinite(of_right[known[1]]).all(axis=1)
        if not finite.any() or (plan.nearest.is_greatest and not finite.all()):
            return None  # NaN is the greatest similarity
        share = distance.share or (0.0 if is_exact else _CHORD_SHARE)
        return _Near(plan, distance, share, (of_left, of_right), known, left, right, keys)

    def find(self, rows: np.ndarray, count: int) -> _Found:
        some = _index(rows)
        probes = self._probes[some], self._key[some], self._low[some], self._high[some]
        near, distance, number = self._points.nearest(*probes, count)
        near = near[np.arange(count) < number[:, None]]
        return np.repeat(rows, number), self._rows[near], number < count, distance[:, -1]

    def is_beyond(self, values: np.ndarray, reached: np.ndarray) -> np.ndarray:
        sizes = np.abs(values.astype(np.float64))
        if self._distance.metres:
            half = np.minimum(sizes / (2 * EARTH_RADIUS_M * self._distance.metres), pi / 2)
            sizes = 2 * np.sin(half) * (1 + _CHORD_SHARE) + _CHORD_LEAST
        least = _LEAST if self._share <= _SINGLE_SHARE else _LEAST_SINGLE
        is_relative = (reached > least) & (reached < _MOST)
        return is_relative & (sizes < reached * (1 - self._share))


def _doubles(
    a: Vector, b: Vector, known_a: np.ndarray, known_b: np.ndarray
) -> tuple[np.ndarray, np.ndarray, int] | None:
    """Two columns as doubles whose differences are exact, and the greatest difference of integers.

    None where doubles cannot hold the differences, or their sums may overflow.
    """
    whole = [v.values.dtype.kind in "iu" for v in (a, b)]
    kinds = {v.values.dtype.kind for v in (a, b)}
    if kinds == {"f"}:
        both = [v.values.astype(np.float64) for v in (a, b)]
        for one, known in zip(both, (known_a, known_b), strict=True):
            sizes = np.abs(one[known & np.isfinite(one)])
            if sizes.max(initial=0.0) > _MOST:
                return None
        return both[0], both[1], 0
    if not all(whole):
        return None
    some = [v.values[known] for v, known in ((a, known_a), (b, known_b))]
    ends = [int(end) for one in some if len(one) for end in (one.min(), one.max())]
    low, high = min(ends, default=0), max(ends, default=0)
    if high - low >= _EXACT:
        return None
    of_left, of_right = (
        (np.where(known, v.values, low) - low).astype(np.float64)
        for v, known in ((a, known_a), (b, known_b))
    )
    return of_left, of_right, high - low


def _bounds(
    tests: Sequence[OrderTest], left: SideRows
) -> tuple[np.ndarray | None, np.ndarray | None, np.ndarray]:
    """Bounds of a tested value, both included, and which rows have them.

    Returns
    -------
    low, high : ndarray of int64, shape (rows,), or None
        None without a test.
    known : ndarray of bool, shape (rows,)
    """
    ends: list[np.ndarray | None] = [None, None]
    known = np.ones(len(left), bool)
    for test in tests:
        bound = _column(test.bound, left)
        codes = _ordered(bound)
        known &= bound.is_known
        if test.is_strict:
            known &= codes != INT64[test.is_low]
            codes = codes + (1 if test.is_low else -1)
        end, choose = (0, np.maximum) if test.is_low else (1, np.minimum)
        other = ends[end]
        ends[end] = codes if other is None else choose(codes, other)
    return ends[0], ends[1], known


def _table(columns: Sequence[np.ndarray], rows: int) -> np.ndarray:
    return np.stack(columns, axis=1) if columns else np.zeros((rows, 0), np.int64)


def _index(rows: np.ndarray) -> np.ndarray | slice:
    """Ascending rows as an index that copies nothing where they lie one after the other."""
    is_run = len(rows) > 0 and rows[-1] - rows[0] == len(rows) - 1
    return slice(rows[0], rows[-1] + 1) if is_run else rows


def _picked(places: np.ndarray, order: np.ndarray | None) -> np.ndarray:
    return places if order is None else order[places]


def _column(expr: Expr, rows: SideRows) -> Vector:
    return evaluate_columns(expr, rows.columns, len(rows))


def _ordered(value: Vector) -> np.ndarray:
    """Integers in the order of values; NaN is the greatest, and -0.0 is 0.0."""
    if value.values.dtype == object:  # integers beyond 64 bits
        return np.unique(value.values, return_inverse=True)[1].astype(np.int64)
    is_float = value.values.dtype.kind == "f"
    return ordered(value.values) if is_float else value.values.astype(np.int64, copy=False)


def _begins(rows: np.ndarray) -> np.ndarray:
    """Places at which runs of equal entries begin, and the end of the last one."""
    changes = np.append(True, rows[1:] != rows[:-1])[: len(rows)]
    return np.append(np.flatnonzero(changes), len(rows))


def _ascends(values: np.ndarray, *, is_strict: bool) -> bool:
    compare = np.greater if is_strict else np.greater_equal
    return bool(compare(values[1:], values[:-1]).all())


def _place(rows: np.ndarray) -> np.ndarray:
    """Place of each entry in its run of equal ones."""
    begins = _begins(rows)
    return np.arange(len(rows)) - np.repeat(begins[:-1], np.diff(begins))


def _joined(parts: Sequence[Pairs]) -> Pairs:
    """Pairs of several parts, by left row."""
    if len(parts) == 1:
        return parts[0]
    none = np.zeros(0, np.int64)
    i, j = (np.concatenate([none, *(part[side] for part in parts)]) for side in (0, 1))
    order = np.argsort(i, kind="stable")
    return i[order], j[order]


def _key_codes(keys: Sequence[tuple[Expr, Expr]], left: SideRows, right: SideRows) -> Pairs:
    """Number the keys of the rows of both sides: equal keys alike, -1 where one is NULL."""
    sides = left, right
    numbers = tuple(np.broadcast_to(np.int64(0), len(side)) for side in sides)
    known = [np.ones(len(side), bool) for side in sides]
    for at, pair in enumerate(keys):
        vectors = [_column(key, side) for key, side in zip(pair, sides, strict=True)]
        for mask, vector in zip(known, vectors, strict=True):
            mask &= vector.is_known
        codes = _codes(*vectors)
        if at:
            size = 1 + max(int(some.max(initial=0)) for some in codes)
            both = (n * size + code for n, code in zip(numbers, codes, strict=True))
            codes = _codes(*map(int_vector, both))
        numbers = codes
    for some, mask in zip(numbers, known, strict=True):
        if not mask.all():
            some[~mask] = -1
    return numbers[0], numbers[1]


def _codes(a: Vector, b: Vector) -> Pairs:
    """Numbers from 0 on, equal for equal values; arbitrary where these are not known."""
    values, low, high = [a.values, b.values], min(a.lo, b.lo), max(a.hi, b.hi)
    rows = len(a.values)
    if all(v.dtype.kind in "iu" for v in values) and high - low < 2 * (rows + len(b.values)):
        of_left, of_right = (np.where(v.is_known, v.values, low) - np.int64(low) for v in (a, b))
        return of_left, of_right
    if any(v.dtype == object for v in values):
        numbers: dict[object, int] = {}
        (left, left_at), (right, right_at) = distinct(a), distinct(b)
        codes = np.array([numbers.setdefault(n, len(numbers)) for n in (*left, *right)], np.int64)
        return codes[left_at], codes[len(left) + right_at]
    both = np.concatenate(values)
    both = float_bits(both) if both.dtype.kind == "f" else both
    codes = pa.array(both).dictionary_encode().indices.to_numpy().astype(np.int64)
    return codes[:rows], codes[rows:]
