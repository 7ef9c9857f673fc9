"""Packs window tasks as memory words, and reads their results, by a kernel's exported table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...device.window_join import Arrivals
from .packing import KernelLayout, item_slots

#: Bits of a tuple's side; the kernel looks at the lowest one.
_SIDE_BITS = 8


@dataclass(frozen=True)
class WindowPacking(KernelLayout):
    """The memory layout of a window kernel."""

    def tuples(self, tuples: Arrivals) -> np.ndarray:
        """Tuples in order of arrival, as whole words.

        Band programs may have fewer tests than the kernel; keys of the other tests are 0.
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
                columns.append(none if a is None and b is None else _merge_sides(tuples, a, b))
        widths = [*[bits] * len(columns), _SIDE_BITS]
        slots = item_slots([*columns, tuples.is_b], widths, geometry["tuple_slot_bits"])
        return self._whole(slots)

    def results(self, words: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of the tuples of A and of B in the first ``count`` results."""
        pairs = words.view("<u4").reshape(-1, 2)[:count]
        return pairs[:, 0], pairs[:, 1]

    def least_room(self, rows: Sequence[int]) -> int:
        """Least room, in results of whole words, for windows of these sizes."""
        geometry = self._geometry
        results = geometry["tuples_in_flight"] * max(rows) + geometry["spare_results"]
        return -(-results // geometry["results_per_word"]) * geometry["results_per_word"]

    def words(self, results: int) -> int:
        """Whole words that ``results`` fill."""
        return results // self._geometry["results_per_word"]


def _merge_sides(tuples: Arrivals, a: np.ndarray | None, b: np.ndarray | None) -> np.ndarray:
    """A column of both sides in order of arrival."""
    merged = np.zeros(len(tuples), np.uint64)
    for chosen, column in ((~tuples.is_b, a), (tuples.is_b, b)):
        if column is not None:
            merged[chosen] = column
    return merged
