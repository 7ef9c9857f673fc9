"""Orderings: each stretch a permutation by (cell, position), which stays as it was read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.host.device.search import MORE_STARTS, SPARE_ROWS, OrderedRows
from penstock.host.prune.cells import NO_CELL, Axis, Grid
from penstock.host.prune.ordering import SlabOrdering
from penstock.program import null_code
from tests.kit.effort import examples

NULL = null_code(32)


@dataclass
class Source:
    """Rows to sort: a key with NULLs, and a payload."""

    key: np.ndarray
    payload: np.ndarray
    grid: Grid

    def read(self, low: int, high: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
        assert low < high <= len(self.key)
        return [self.key[low:high], self.payload[low:high]], [self.key[low:high]]

    def check(self, found: OrderedRows) -> None:
        assert (found.cells, found.inner) == (self.grid.cells, self.grid.inner)
        assert found.end == found.first + found.count
        assert len(found.order) == found.count
        directory = found.cells + MORE_STARTS
        stretches = -(-found.count // found.rows)
        assert len(found.starts) == stretches * directory
        assert all(len(c) >= found.count + SPARE_ROWS for c in found.columns)
        for k in range(stretches):
            low, high = k * found.rows, min((k + 1) * found.rows, found.count)
            rows = slice(found.first + low, found.first + high)
            cells = np.minimum(self.grid.cells_of([self.key[rows]]), found.cells)
            order = found.order[low:high]
            np.testing.assert_array_equal(order, np.lexsort((np.arange(high - low), cells)))
            starts = found.starts[k * directory : (k + 1) * directory]
            wanted = [(cells < c).sum() for c in range(found.cells + 1)]
            assert starts.tolist() == [*wanted, high - low]
            for column, own in zip(found.columns, (self.key, self.payload), strict=True):
                np.testing.assert_array_equal(column[low:high], own[rows][order])


def source(rng: np.random.Generator, rows: int) -> Source:
    key = rng.integers(0, 64, rows).astype(np.uint32)
    key[rng.random(rows) < 0.1] = NULL
    buckets = int(rng.integers(1, 9))
    table = np.sort(rng.integers(0, buckets, 8)).astype(np.uint32)
    grid = Grid((), 0, (Axis(0, 0, 3, table, buckets),), NULL)
    assert (grid.cells_of([key]) == NO_CELL).any() or rows < 100
    return Source(key, rng.integers(-99, 99, rows).astype(np.int32), grid)


@settings(max_examples=examples(120), deadline=None)
@given(st.integers(0, 1 << 32))
def test_what_was_taken_stays(seed: int) -> None:
    """Stretches come and go in random steps; all snapshots keep their rows."""
    rng = np.random.default_rng(seed)
    own, rows = source(rng, 2000), int(rng.choice([1, 3, 16, 128]))
    ordering = SlabOrdering(rows, rows * int(rng.integers(0, 3)), own.grid)
    held: list[OrderedRows] = []
    least = ordering.first
    for _ in range(14):
        step = rng.integers(0, 10)
        if step < 6:
            most = 0 if rng.random() < 0.7 else min(ordering.end + 500, 2000)
            end = ordering.end + int(rng.integers(0, 12 * rows))
            end = min(end, 2000)
            ordering.extend(end, own.read, int(rng.integers(1, 3)), most=most)
            assert ordering.end == max(end, least)
            ordering.extend(ordering.end - 1, own.read, 1)
        elif step < 9:
            before = int(rng.integers(0, ordering.end + 2 * rows))
            first, end = ordering.first, ordering.end
            ordering.drop(before)
            gone = max(min(before, end) - first, 0) // rows * rows
            assert (ordering.first, ordering.end) == (first + gone, end)
        else:
            ordering.restart(ordering.end + rows * int(rng.integers(0, 4)))
            assert ordering.first == ordering.end
        least = ordering.end
        if ordering.end > ordering.first:
            own.check(ordering.ordered())
            if rng.random() < 0.5:
                held.append(ordering.ordered())
        for found in held:
            own.check(found)
        assert ordering.nbytes >= 0


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(0, 1 << 32), st.booleans(), st.integers(1, 3))
def test_the_last_stretch_may_be_shorter(seed: int, knows: bool, threads: int) -> None:
    rng = np.random.default_rng(seed)
    count, rows = int(rng.integers(1, 700)), int(rng.integers(1, 200))
    own = source(rng, count)
    ordering = SlabOrdering(rows, 0, own.grid)
    middle = count // 2 // rows * rows
    most = count if knows else 0
    ordering.extend(middle, own.read, threads, most=most)
    ordering.extend(count, own.read, threads, most=most)
    own.check(ordering.ordered())
    assert ordering.end == count
    assert ordering.nbytes >= 2 * 4 * count


def test_a_row_takes_few_bytes_while_a_window_moves() -> None:
    """Stretches that left are given back."""
    rng = np.random.default_rng(1)
    own = source(rng, 40_000)
    ordering = SlabOrdering(64, 0, own.grid)
    for end in range(0, 39_680, 640):
        ordering.extend(end, own.read, 1)
        ordering.drop(end - 2048)
    own.check(ordering.ordered())
    assert ordering.nbytes < 2 * 4096 * (4 + 4 + 4 + 4 * 11 / 64)
