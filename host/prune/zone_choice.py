"""Chooses the order of rows with zones from a sample of both sides, and what it costs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..device.zones import BLOCK
from .choice import CORE, MOST_SHARE, Costs, GridChoice, Sample
from .costed import Candidate
from .zones import MOST_EQUAL_BITS, POSITION, Scale, ZoneOrder

#: Of the sample: most rows and tuples, whose pairs are all looked at.
ROWS, TUPLES = 1 << 12, 1 << 6
#: Most keys of zones, beside those for equality.
MOST_KEYS = 4
#: Nanoseconds to go down to the first block, and on to each further one.
DESCENT_NS, BLOCK_NS = 50.0, 15.0
#: Nanoseconds to sort a row, for each key of its zones: to write, sort and widen them.
SORT_NS = 50.0
#: Bits left for codes beyond those of the sample, where rows may follow.
SPARE_BITS = 3


def least_ns(costs: Costs) -> float:
    """Nanoseconds of a tuple that matches nothing, in a slab with zones."""
    return costs.total_ns(1, 1, 2 * BLOCK) + DESCENT_NS + 2 * BLOCK_NS


def choose_zones(
    sample: Sample,
    rows: int,
    *,
    costs: Costs = CORE,
    admitted: float = math.inf,
    growing: bool = False,
    always: bool = False,
    costed: list[Candidate] | None = None,
) -> GridChoice | None:
    """The best order with zones for slabs of ``rows`` rows; None if zones rule out too few rows.

    Parameters
    ----------
    growing : bool
        Whether later rows may have codes beyond those of the sample.

    Other parameters are those of :func:`.choice.choose`.
    """
    codes, null = sample.codes, sample.null
    hashed = tuple(d for d in sample.tests if d in sample.equal)
    bands = [d for d in sample.tests if d not in sample.equal]
    is_placed = admitted < rows
    if costs.apart or not bands:
        return None
    known = np.logical_and.reduce([codes[d] != null for d in sample.tests])
    if not known.any():
        return None
    at = np.flatnonzero(known)
    at = at[:: max(len(at) // ROWS, 1)]
    pairs = _Pairs([column[at] for column in codes], sample.bounds, hashed)
    #: Rows for which one of the sample stands.
    weight = rows * float(np.mean(known)) / len(at)
    share = min(admitted / rows, 1.0)
    firsts = [*bands, POSITION] if is_placed else bands
    tested_of = {
        first: pairs.tested(first, [d for d in bands if d != first], weight, share)
        for first in firsts
    }
    first = min(firsts, key=lambda d: tested_of[d])
    tested = min(tested_of[first], rows)
    most = min(len(bands), MOST_KEYS) + is_placed
    if costed is not None:
        for d in firsts:
            each = min(tested_of[d], rows)
            ns = _tuple_ns(costs, each)
            costed.append(Candidate("zones", (*hashed, d), each / rows, ns, SORT_NS * most))
    if tested / rows > MOST_SHARE and not always:
        return None
    further = sorted((d for d in bands if d != first), key=pairs.passing)
    keys = [first, *further[: MOST_KEYS - 1]]
    if is_placed and POSITION not in keys:
        keys.append(POSITION)
    order = _order(hashed, keys, codes, rows, null, SPARE_BITS if growing else 0)
    return GridChoice(order, tested / rows, _tuple_ns(costs, tested), SORT_NS * len(keys))


def _tuple_ns(costs: Costs, tested: float) -> float:
    return costs.total_ns(1, 1, tested) + DESCENT_NS + BLOCK_NS * tested / BLOCK


class _Pairs:
    """Pairs of a sample, and the tests that they pass.

    Parameters
    ----------
    codes : sequence of ndarray
        Of rows without NULL, in the order of positions.
    bounds : sequence of ndarray
    hashed : sequence of int
    """

    def __init__(
        self, codes: Sequence[np.ndarray], bounds: Sequence[np.ndarray], hashed: Sequence[int]
    ) -> None:
        # Pairs by row and then by tuple: to sort rows is to copy them as a whole.
        self.codes = codes
        self.bounds = [bound[:: max(len(bound) // TUPLES, 1)] for bound in bounds]
        self.equal = np.ones((len(codes[0]), len(self.bounds[0])), bool)
        for d in hashed:
            self.equal &= codes[d][:, np.newaxis] == self.bounds[2 * d]
        self.hashed = [codes[d] for d in hashed]
        self._halves: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def halves(self, test: int) -> tuple[np.ndarray, np.ndarray]:
        """Masks of the pairs that pass a test's lower bound, and of those that pass its upper."""
        if test not in self._halves:
            column = self.codes[test][:, np.newaxis]
            low, high = self.bounds[2 * test : 2 * test + 2]
            self._halves[test] = column >= low, column <= high
        return self._halves[test]

    def passing(self, test: int) -> float:
        """Share of the pairs that pass a test."""
        return float(np.mean(np.logical_and(*self.halves(test))))

    def tested(self, first: int, further: Sequence[int], weight: float, share: float) -> float:
        """Most rows that a tuple is expected to test in a slab whose rows lie by a key.

        With one further bound only blocks that have a match are tested; with several bounds, no
        more than with the best of them alone.
        """
        stretch = self.equal
        if first != POSITION:
            low, high = self.halves(first)
            stretch = stretch & low & high
            share = 1.0
        tuples = stretch.shape[1]
        ends = 2 * BLOCK
        best = float(stretch.sum()) / tuples * weight * share + ends
        by = [*self.hashed] if first == POSITION else [self.codes[first], *self.hashed]
        order = np.lexsort(by) if by else slice(None)
        for test in further:
            for half in self.halves(test):
                passing = (stretch & half)[order]
                count = int(passing.sum())
                if count == 0:
                    return ends
                follows = int((passing[1:] & passing[:-1]).sum()) / count
                matches = count / tuples * weight * share
                best = min(best, matches * BLOCK / (1 + (BLOCK - 1) * follows) + ends)
        return best


def _order(
    hashed: tuple[int, ...],
    tests: Sequence[int],
    codes: Sequence[np.ndarray],
    rows: int,
    null: int,
    spare: int,
) -> ZoneOrder:
    """Fit an order to codes of a sample, which may be one of older rows."""

    def fit(test: int) -> tuple[int, int]:
        """Least code and bits of the codes above it."""
        known = codes[test][codes[test] != null]
        low, high = int(known.min()), int(known.max())
        bits = (high - low).bit_length()
        reach = (1 << bits + spare) - 1
        base = max(low - reach // 2, 0) if spare else low
        return base, min(bits + spare, (null - base).bit_length())

    equal, equal_bits = None, 0
    if hashed:
        equal_bits = MOST_EQUAL_BITS
        base, bits = fit(hashed[0])
        if len(hashed) == 1 and bits <= MOST_EQUAL_BITS:
            equal, equal_bits = Scale(hashed[0], base), max(bits, 1)
    fits = [fit(test) if test != POSITION else (0, rows.bit_length()) for test in tests]
    bits = min(max(2, *(width + 1 for _, width in fits)), 64 - equal_bits)
    scales = tuple(
        Scale(test, base, max(width + 1 - bits, 0) if test != POSITION else 0)
        for test, (base, width) in zip(tests, fits, strict=True)
    )
    return ZoneOrder(hashed, equal, equal_bits, bits, scales, null)
