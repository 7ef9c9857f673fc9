"""Tests pairs at the full width of their codes."""

from __future__ import annotations

import numpy as np

from penstock.kept_code import kept
from penstock.program import BandProgram

from ...device.storage import key_dtype


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
