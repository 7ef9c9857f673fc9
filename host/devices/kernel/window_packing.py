"""A window task as memory words, and its results, by the table that the kernel exports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...device.window_join import Arrivals
from .packing import item_slots, whole_words

#: The side takes a bit; what is above it in its byte is not looked at.
_SIDE_BITS = 8


@dataclass(frozen=True)
class WindowPacking:
    """The memory layout of one kernel.

    Parameters
    ----------
    table : mapping
        The kernel's exported table.
    """

    table: Mapping[str, Any]

    @property
    def _geometry(self) -> Mapping[str, Any]:
        return self.table["geometry"]

    @property
    def word_bytes(self) -> int:
        return self._geometry["word_bytes"]

    def tuples(self, tuples: Arrivals) -> np.ndarray:
        """Tuples in order of arrival, as whole words.

        Band programs may have fewer tests than the kernel; what the others compare is 0.
        """
        geometry = self._geometry
        tests, bits = geometry["tests"], geometry["key_bits"]
        none = np.zeros(len(tuples), np.uint8)
        columns = []
        for part in (
            tuples.window,
            (tuples.stream[0][::2], tuples.stream[1][::2]),
            (tuples.stream[0][1::2], tuples.stream[1][1::2]),
        ):
            for test in range(tests):
                a, b = (side[test] if test < len(side) else None for side in part)
                columns.append(none if a is None and b is None else _merged(tuples, a, b))
        widths = [*[bits] * len(columns), _SIDE_BITS]
        slots = item_slots([*columns, tuples.is_b], widths, geometry["tuple_slot_bits"])
        return whole_words(slots, self.word_bytes)

    def results(self, words: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of the tuples of A and of B of so many results (bytes)."""
        pairs = words.view("<u4").reshape(-1, 2)[:count]
        return pairs[:, 0], pairs[:, 1]

    def least_room(self, rows: Sequence[int]) -> int:
        """Results, in whole words, that the kernel wants room for with windows of these sizes."""
        geometry = self._geometry
        results = geometry["tuples_in_flight"] * max(rows) + geometry["spare_results"]
        return -(-results // geometry["results_per_word"]) * geometry["results_per_word"]

    def words(self, results: int) -> int:
        """Words that so many results fill."""
        return results // self._geometry["results_per_word"]


def _merged(tuples: Arrivals, a: np.ndarray | None, b: np.ndarray | None) -> np.ndarray:
    """A column of both sides in order of arrival."""
    merged = np.zeros(len(tuples), np.uint64)
    for chosen, column in ((~tuples.is_b, a), (tuples.is_b, b)):
        if column is not None:
            merged[chosen] = column
    return merged
