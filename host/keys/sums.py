"""Bounds that are sums of columns: their codes in one pass, with nothing in between.

Most bands are of this sort: ``l.x + l.y - 5 <= key <= l.x + l.y + 5``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from penstock.expr.columns import BLOCK, Columns, Vector
from penstock.expr.node import Expr, Op
from penstock.kept_code import kept
from penstock.plan.band import BandTest, Bound
from penstock.plan.linear import Linear, linear
from penstock.program import empty_code
from penstock.types import INT64

from ..device.storage import key_dtype
from .encoders import OffsetEncoder, greatest_code, least_code

#: Columns of a test.
MOST_COLUMNS = 2
#: Fewest rows for two threads.
LEAST_SHARED = 1 << 18
#: Places in the terms of a bound; the factors of the columns follow.
_IS_BOUND, _STEP, _CONSTANT, _FACTORS = range(4)


@dataclass(frozen=True, eq=False)
class Sums:
    """A test whose bounds are sums of columns.

    Parameters
    ----------
    columns : tuple of (side, name)
        One or two.
    low, high : ndarray of int64, shape (5,)
        Whether there is this bound, 1 if it is open, the constant modulo 2**64, and factors.
    sums : tuple of Linear
        The bounds.
    """

    columns: tuple[tuple[str, str], ...]
    low: np.ndarray
    high: np.ndarray
    sums: tuple[Linear, ...]

    def fit(self, columns: Columns) -> bool:
        """Whether no column has NULL, and all sums are int64."""
        used = {name: columns[name] for name in self.columns}
        if any(v.valid is not None or v.values.dtype.kind != "i" for v in used.values()):
            return False
        return all(INT64[0] <= low and high <= INT64[1] for low, high in self.bounds(used))

    def bounds(self, columns: Columns) -> list[tuple[int, int]]:
        """Least and greatest value that each sum can have."""
        limits = []
        for form in self.sums:
            ends = [(f * columns[t.attr].lo, f * columns[t.attr].hi) for t, f in form.terms]
            low, high = (sum(map(pick, ends)) for pick in (min, max))
            limits.append((form.constant + low, form.constant + high))
        return limits


def sum_vector(expr: Expr, columns: Columns, rows: int) -> Vector | None:
    """Values of a long sum of columns, by two threads; None if it is short or of another sort."""
    test = sums_of(BandTest(expr, (Bound(expr),))) if rows >= LEAST_SHARED else None
    if test is None or not expr.args or not test.fit(columns):
        return None
    out = np.empty(rows, np.int64)

    def fill(lows: range) -> None:
        for low in lows:
            block = out[low : low + BLOCK]
            part = {name: columns[name].between(low, low + len(block)) for name in test.columns}
            held = column_words(part, [test])
            _sum(held[test.columns[0]], held[test.columns[-1]], test.low, block)

    with ThreadPoolExecutor(1, "penstock-keys") as pool:
        half = rows // 2 // BLOCK * BLOCK
        other = pool.submit(fill, range(half, rows, BLOCK))
        fill(range(0, half, BLOCK))
        other.result()
    return Vector(out, None, *test.bounds(columns)[0])


@lru_cache(maxsize=1024)
def sums_of(test: BandTest) -> Sums | None:
    """The sums that bound a test; None if its bounds are of another sort."""
    bounds = (*test.lo, *test.hi)
    if test.when or not bounds or len(test.lo) > 1 or len(test.hi) > 1:
        return None
    if any(b.after or b.expr.may_fail or not b.expr.type.is_integral for b in bounds):
        return None
    sums = tuple(linear(bound.expr) for bound in bounds)
    terms = list(dict.fromkeys(term for form in sums for term, _ in form.terms))
    if not 1 <= len(terms) <= MOST_COLUMNS or any(len(form.terms) == 0 for form in sums):
        return None
    if any(term.op is not Op.COLUMN or not term.type.is_integral for term in terms):
        return None
    names = tuple(term.attr for term in terms)
    return Sums(names, _terms(test.lo, names), _terms(test.hi, names), sums)


def _terms(bounds: Sequence[Bound], names: Sequence[tuple[str, str]]) -> np.ndarray:
    out = np.zeros(_FACTORS + MOST_COLUMNS, np.int64)
    for bound in bounds:
        form = linear(bound.expr)
        factors = {term.attr: factor for term, factor in form.terms}
        wrapped = [form.constant, *(factors.get(name, 0) for name in names)]
        out[_IS_BOUND], out[_STEP] = 1, int(bound.open)
        values = np.array([value % (1 << 64) for value in wrapped], np.uint64).view(np.int64)
        out[_CONSTANT : _CONSTANT + len(values)] = values
    return out


def column_words(columns: Columns, tests: Sequence[Sums]) -> dict[tuple[str, str], np.ndarray]:
    """The columns of some tests as int64, by name."""
    names = dict.fromkeys(name for test in tests for name in test.columns)
    # Copies of what is read-only, which would be another type to Numba.
    return {name: np.require(columns[name].values, np.int64, ("C", "W")) for name in names}


def sum_codes(
    test: Sums, encoder: OffsetEncoder, columns: Mapping[tuple[str, str], np.ndarray], bits: int
) -> tuple[np.ndarray, np.ndarray]:
    """Codes of a test's bounds, as :func:`.encoders.bound_codes` returns them.

    Parameters
    ----------
    columns : mapping of (side, name) to ndarray of int64
        From :func:`column_words`.
    """
    a, b = columns[test.columns[0]], columns[test.columns[-1]]
    dtype = key_dtype(bits)
    lo, hi = np.empty(len(a), dtype), np.empty(len(a), dtype)
    empty = dtype.type(empty_code(bits))
    _sum_codes(a, b, test.low, test.high, encoder.base, encoder.span, empty, lo, hi)
    return lo, hi


def _codes_of_columns(a, b, low, high, base, span, empty, lo, hi):
    first, end = np.zeros(len(lo), np.int64), np.full(len(lo), span, np.int64)
    if low[_IS_BOUND]:
        value = _sum_of_columns(a, b, low, np.empty_like(first))
        first = least_code(value, base, span, is_open=bool(low[_STEP]))
    if high[_IS_BOUND]:
        value = _sum_of_columns(a, b, high, np.empty_like(first))
        end = greatest_code(value, base, span, is_open=bool(high[_STEP]))
    lo[:], hi[:] = first.astype(lo.dtype), end.astype(hi.dtype)
    lo[first > end] = hi[first > end] = empty


def _sum_of_columns(a, b, terms, out):
    out[:] = terms[_CONSTANT] + terms[_FACTORS] * a + terms[_FACTORS + 1] * b
    return out


@kept(plain=_codes_of_columns)
def _sum_codes(a, b, low, high, base, span, empty, lo, hi):
    last = base + span
    for k in range(len(lo)):
        first, end = np.int64(0), np.int64(span)
        if low[_IS_BOUND]:
            step = low[_STEP]
            value = low[_CONSTANT] + low[_FACTORS] * a[k] + low[_FACTORS + 1] * b[k]
            first = min(max(value, base - step), last + 1 - step) + step - base
        if high[_IS_BOUND]:
            step = high[_STEP]
            value = high[_CONSTANT] + high[_FACTORS] * a[k] + high[_FACTORS + 1] * b[k]
            end = min(max(value, base - 1 + step), last + step) - step - base
        if first <= end:
            lo[k], hi[k] = first, end
        else:
            lo[k], hi[k] = empty, empty


@kept(plain=_sum_of_columns)
def _sum(a, b, terms, out):
    for k in range(len(out)):
        out[k] = terms[_CONSTANT] + terms[_FACTORS] * a[k] + terms[_FACTORS + 1] * b[k]
