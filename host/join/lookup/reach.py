"""Finds the pages of a relation that may hold a match, by the bounds of their columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.expr import ops
from penstock.expr.columns import Columns, evaluate_columns
from penstock.expr.node import Expr, Op
from penstock.kept_code import kept
from penstock.plan.band import BandTest, Bound
from penstock.plan.linear import Linear, linear
from penstock.plan.lookup import LookupPlan
from penstock.plan.query import columns as columns_of
from penstock.plan.search import search_of

from ...relation.border import PageIndex

#: Rows of the stream that are looked at together: their bounds are those of all of them.
_BLOCK = 128


@dataclass(frozen=True)
class _Key:
    """A number of each row of the relation that lies between two of the stream's, where they match.

    Parameters
    ----------
    columns : tuple of (str, int)
        Columns of the relation and their factors, whose sum it is.
    constant : int
        What is added to it.
    test : BandTest
    """

    columns: tuple[tuple[str, int], ...]
    constant: int
    test: BandTest


class Reach:
    """Finds the pages of a relation in which rows of a stream may find a match.

    Parameters
    ----------
    plan : LookupPlan
    index : PageIndex
    """

    def __init__(self, plan: LookupPlan, index: PageIndex) -> None:
        self._pages = len(index)
        predicate = plan.query.predicate
        self._can_match = not predicate.is_const or predicate is ops.TRUE
        keys = (
            _key_of(key.test, plan.inner.side)
            for key in search_of(plan.query.predicate, plan.inner.side).keys
        )
        self._keys = [
            key
            for key in keys
            if key is not None and all(name in index.bounds for name, _ in key.columns)
        ]
        ends = [_page_ends(key, index) for key in self._keys]
        self._least = np.array([least for least, _ in ends]).reshape(len(ends), self._pages)
        self._greatest = np.array([most for _, most in ends]).reshape(len(ends), self._pages)

    @property
    def bounded(self) -> set[str]:
        """Columns of the relation whose bounds rule pages out."""
        return {name for key in self._keys for name, _ in key.columns}

    @property
    def columns(self) -> set[str]:
        """Columns of the stream that :meth:`pages` asks for."""
        bounds = [b.expr for key in self._keys for b in (*key.test.lo, *key.test.hi)]
        return {name for bound in bounds for _, name in columns_of(bound)}

    def pages(self, columns: Columns, rows: int) -> np.ndarray:
        """Pages, ascending, in which at least one of the rows may find a match.

        Parameters
        ----------
        columns : mapping of (side, name) to Vector
            Of the stream's rows.
        rows : int
        """
        if not self._keys:
            return np.arange(self._pages if self._can_match else 0)
        low = np.array([_ends(key.test.lo, columns, rows, -np.inf) for key in self._keys])
        high = np.array([_ends(key.test.hi, columns, rows, np.inf) for key in self._keys])
        # A NULL bound is NaN: the test fails, and the row matches nothing.
        can_match = np.flatnonzero((low <= high).all(axis=0))
        order = can_match[np.argsort(low[0, can_match], kind="stable")]
        firsts = np.arange(0, len(order), _BLOCK)
        if not len(firsts):
            return np.zeros(0, np.int64)
        low = np.minimum.reduceat(low[:, order], firsts, axis=1)
        high = np.maximum.reduceat(high[:, order], firsts, axis=1)
        wanted = np.zeros(self._pages, bool)
        _overlap(self._least, self._greatest, low, high, wanted)
        return np.flatnonzero(wanted)


def _key_of(test: BandTest, side: str) -> _Key | None:
    """The key of a test, if it is a number made of columns by addition."""
    if any(bound.after for bound in (*test.lo, *test.hi)):
        return None
    expr = test.key
    if expr.type.is_float and expr.op is Op.COLUMN:
        return _Key(((expr.attr[1], 1),), 0, test)
    if not expr.type.is_integral:
        return None
    form: Linear = linear(expr)
    columns = tuple((_column(term, side), factor) for term, factor in form.terms)
    if not columns or any(name is None for name, _ in columns):
        return None
    return _Key(tuple((str(name), factor) for name, factor in columns), form.constant, test)


def _column(term: Expr, side: str) -> str | None:
    return term.attr[1] if term.op is Op.COLUMN and term.attr[0] == side else None


def _page_ends(key: _Key, index: PageIndex) -> tuple[np.ndarray, np.ndarray]:
    """Least and greatest key of each page, rounded outward."""
    least = np.full(len(index), float(key.constant))
    most = least.copy()
    for name, factor in key.columns:
        low, high = (np.asarray(end, np.float64) for end in index.bounds[name])
        high = np.where(np.isnan(high), np.inf, high)
        ends = (low * factor, high * factor)
        least += ends[0] if factor > 0 else ends[1]
        most += ends[1] if factor > 0 else ends[0]
    return np.nextafter(least, -np.inf), np.nextafter(most, np.inf)


def _ends(bounds: tuple[Bound, ...], columns: Columns, rows: int, none: float) -> np.ndarray:
    """Return a test's end for each row, rounded outward; NaN where it is NULL."""
    ends = np.full(rows, none)
    for bound in bounds:
        vector = evaluate_columns(bound.expr, columns, rows)
        values = np.broadcast_to(vector.values, rows).astype(np.float64)
        values = np.nextafter(values, none)
        if vector.valid is not None:
            values = np.where(vector.valid, values, np.nan)
        ends = np.maximum(ends, values) if none < 0 else np.minimum(ends, values)
    return ends


@kept()
def _overlap(least, greatest, low, high, wanted):
    keys, pages = least.shape
    for page in range(pages):
        for block in range(low.shape[1]):
            meets = True
            for key in range(keys):
                apart = low[key, block] > greatest[key, page] or high[key, block] < least[key, page]
                if apart:
                    meets = False
                    break
            if meets:
                wanted[page] = True
                break
