"""Maps of a window's codes to a build's narrow codes; pairs that these find are tested in full.

A map is monotone: codes fall into cells, one narrow code each, in their order. Of each cell the
least and the greatest code that were ever noted in it are known, so a range of codes becomes the
cells that may hold one of its codes, and no cell beside them. A match is never lost, and where
every cell holds one code there is no false pair.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.kept_code import kept
from penstock.program import BandProgram, empty_code, null_code

from ...device.storage import key_dtype
from ...keys import narrow
from ...keys.narrow import NarrowCodes, narrow_code

#: Most rows that the cells of a map are chosen by: some tenths of a second per test and window.
MOST_SAMPLED = 1 << 19
#: Rows of the sample per narrow code.
_SAMPLED_PER_CODE = 4
#: Most codes of a frame, of which each has a cell, whether it occurs or not: a megabyte per map.
_FRAME_CODES = 1 << 16


class CodeMap:
    """A map of the codes of one test.

    Parameters
    ----------
    sample : ndarray
        Codes of some rows of a window, in any order.
    key_bits, bits : int
        Bits of a code and of a narrow code.

    Attributes
    ----------
    is_frame : bool
        Whether each code between the least and the greatest one has a cell of its own. Else cells
        are ranks among the sample's codes, with about as many rows each.
    is_exact : bool
        Whether no cell holds two codes of those noted, so that narrow tests are full ones.
    is_full : bool
        Whether a larger sample would not give more cells.
    """

    def __init__(self, sample: np.ndarray, key_bits: int, bits: int) -> None:
        known = np.unique(sample[sample < empty_code(key_bits)])
        most = empty_code(bits) - 1
        span = int(known[-1]) - int(known[0]) if len(known) else 0
        self.is_frame = span < min(most, _FRAME_CODES)
        self.is_full = len(known) > most
        if self.is_frame and len(known):
            steps = np.arange(span + 1, dtype=np.uint64) + np.uint64(known[0])
            codes = NarrowCodes.of_edges(steps.astype(known.dtype), key_bits, bits)
        elif len(known) <= most:
            codes = NarrowCodes.of_edges(known, key_bits, bits)
        else:
            codes = NarrowCodes.fit(sample, key_bits, bits)
        self._codes = codes
        cells = len(codes.edges) + 1
        # No code yet: above the greatest, and below the least.
        self._least = np.full(cells, null_code(key_bits), known.dtype)
        self._greatest = np.zeros(cells, known.dtype)
        self._dtype = key_dtype(bits)
        self.is_exact = True

    def keys(self, codes: np.ndarray) -> np.ndarray:
        """Narrow codes of window keys, which are noted."""
        cells = np.empty(len(codes), self._dtype)
        spans = self._least, self._greatest
        self.is_exact &= bool(_note(cells, codes, *spans, *self._codes.arguments))
        return cells

    def bounds(self, lo: np.ndarray, hi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Narrow bounds of ranges, which hold the keys noted so far that the ranges hold.

        A range that holds none of them is the canonical empty one.
        """
        low, high = (np.empty(len(lo), self._dtype) for _ in range(2))
        spans = self._least, self._greatest
        _bound(low, high, lo, hi, *spans, *self._codes.arguments)
        return low, high


def fit_maps(keys: Sequence[np.ndarray], key_bits: int, bits: int) -> list[CodeMap]:
    """Maps for window keys, one array per test; of many rows some are sampled."""
    most = min(_SAMPLED_PER_CODE << bits, MOST_SAMPLED)
    return [CodeMap(key[:: -(-len(key) // most) or 1], key_bits, bits) for key in keys]


def widened_table(program: BandProgram) -> int:
    """Truth table of narrow tests: what they find includes what the program finds.

    A narrow test that holds may hold or fail in full, and one that fails does fail. For a monotone
    table, which is the rule, it is the program's own.
    """
    table = 0
    for outcome in range(1 << program.tests):
        part = outcome
        while True:  # all parts of the outcome, itself first and the empty one last
            if program.table >> part & 1:
                table |= 1 << outcome
            if not part:
                break
            part = (part - 1) & outcome
    return table


def narrowed(program: BandProgram, bits: int) -> BandProgram:
    """The program for a build of so many bits that finds the program's pairs, and false ones."""
    return BandProgram(program.tests, widened_table(program), bits)


class FullTest:
    """The full test of a band program, for pairs that narrow units found."""

    def __init__(self, program: BandProgram) -> None:
        outcomes = range(1 << program.tests)
        self._table = np.array([program.table >> outcome & 1 for outcome in outcomes], np.bool_)
        # Machine code is loaded here, rather than in the first task.
        none, key = np.zeros(0, np.uint32), key_dtype(program.key_bits)
        self(none, none, np.zeros((0, 2 * program.tests), key), np.zeros((0, program.tests), key))

    def __call__(
        self, i: np.ndarray, j: np.ndarray, bounds: np.ndarray, keys: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The pairs that meet the program, in the order given.

        Parameters
        ----------
        i, j : ndarray of uint32, shape (m,)
        bounds : ndarray of shape (tuples, 2 * tests)
            ``lo_0, hi_0, lo_1, ...`` of each stream tuple.
        keys : ndarray of shape (positions, tests)
        """
        rows, positions = np.empty_like(i), np.empty_like(j)
        count = _test(rows, positions, i, j, bounds, keys, self._table)
        return rows[:count], positions[:count]


@kept(narrow)
def _note(cells, codes, least, greatest, edges, shift, first, null, narrow_null):
    is_exact = True
    for k in range(len(codes)):
        code = codes[k]
        cell = narrow_code(code, edges, shift, first, null, narrow_null)
        cells[k] = cell
        if cell < len(least):
            least[cell] = min(least[cell], code)
            greatest[cell] = max(greatest[cell], code)
            is_exact &= least[cell] == greatest[cell]
    return is_exact


@kept(narrow)
def _bound(low, high, lo, hi, least, greatest, edges, shift, first, null, narrow_null):
    for k in range(len(lo)):
        begin = narrow_code(lo[k], edges, shift, first, null, narrow_null)
        end = narrow_code(hi[k], edges, shift, first, null, narrow_null)
        if begin < len(least) and greatest[begin] < lo[k]:
            begin += 1
        if end < len(least) and least[end] > hi[k]:
            end -= 1
        if begin > end:
            begin = end = narrow_null - 1
        low[k] = begin
        high[k] = end


@kept()
def _test(rows, positions, i, j, bounds, keys, table):
    count, tests = 0, keys.shape[1]
    for k in range(len(i)):
        row, position, outcome = i[k], j[k], 0
        for test in range(tests):
            key = keys[position, test]
            holds = bounds[row, 2 * test] <= key and key <= bounds[row, 2 * test + 1]
            outcome |= np.int64(holds) << test
        rows[count] = row
        positions[count] = position
        count += table[outcome]
    return count
