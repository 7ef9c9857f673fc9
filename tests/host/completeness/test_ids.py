"""Arrival numbers in 32 bits, across the wrap."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.host.completeness.ids import ROUND, TupleIds, packed, unpacked


def test_numbers_follow_each_other() -> None:
    ids = TupleIds(start=5)
    assert ids.next(3).tolist() == [5, 6, 7]
    assert ids.next(0).tolist() == []
    assert ids.next(1).tolist() == [8]


@given(st.integers(0, 5 * ROUND), st.lists(st.integers(0, ROUND - 1), max_size=8))
def test_ids_come_back_within_a_round(latest: int, behind: list[int]) -> None:
    numbers = np.array([n for n in (latest - b for b in behind) if n >= 0], dtype=np.int64)
    assert unpacked(packed(numbers), latest).tolist() == numbers.tolist()


def test_the_flag_changes_with_the_round() -> None:
    last, first = packed(np.array([ROUND - 1, ROUND]))
    assert (int(last) >> 31, int(first) >> 31) == (0, 1)
    assert int(first) & (ROUND - 1) == 0
