"""Slices of the hashes that stand for pages."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.host.relation.slices import slices_of_hashes


@pytest.mark.parametrize("rows", [0, 1, 100, 128, 5_000, 10**9])
def test_each_hash_has_its_slice(rows):
    index = slices_of_hashes(rows, 40 * rows)
    assert index.first[0] == 0
    assert np.all(np.diff(index.first.astype(object)) > 0)
    ends = np.array([0, (1 << 63) - 1, (1 << 64) - 1], np.uint64)
    assert index.page_of(ends).tolist()[::2] == [0, len(index) - 1]
    assert len(index) == max(1, min(1 << 14, rows // 64))
    assert index.rows.min() >= 1
    assert index.bytes.min() >= 1
