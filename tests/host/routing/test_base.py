"""Base routing: homes are spread, and move little when lanes change."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.errors import DataError, UsageError
from penstock.host.routing.base import ByRanges, cells_of_hashes

_CELLS = np.arange(4096)


@pytest.mark.parametrize("lanes", [1, 2, 3, 8, 64])
def test_each_lane_gets_about_its_share(lanes):
    base = ByRanges(4096)
    homes = base.homes(_CELLS, lanes)
    assert homes.dtype == np.int64
    share = np.bincount(homes, minlength=lanes) * lanes / len(_CELLS)
    assert len(share) == lanes
    assert 0.5 < share.min() <= share.max() < 1.6
    some = np.array([4095, 7, 7, 0])
    assert np.array_equal(base.homes(some, lanes), homes[some])


def test_ranges_are_stretches_of_cells():
    assert ByRanges(10).homes(np.arange(10), 4).tolist() == [0, 0, 0, 1, 1, 2, 2, 2, 3, 3]
    assert ByRanges(2).homes(np.arange(2), 4).tolist() == [0, 2]


def test_cells_of_hashes_are_equal_stretches():
    rng = np.random.default_rng(1)
    hashes = rng.integers(0, 1 << 64, 100_000, np.uint64)
    assert np.array_equal(cells_of_hashes(hashes, 1024), (hashes >> np.uint64(54)).astype(int))
    cells = cells_of_hashes(hashes, 1000)
    assert cells.min() == 0
    assert cells.max() == 999
    assert (np.diff(cells[np.argsort(hashes)]) >= 0).all()


def test_wrong_cells_and_lanes_are_refused():
    base = ByRanges(4)
    with pytest.raises(UsageError, match="take 1 or more"):
        base.homes([0], 0)
    with pytest.raises(DataError, match="cell -1 is unknown"):
        base.homes([-1], 2)


@pytest.mark.parametrize("cells", [0, -1])
def test_there_is_a_cell(cells):
    with pytest.raises(UsageError, match="take 1 or more"):
        ByRanges(cells)
    with pytest.raises(UsageError, match="take 1 to"):
        cells_of_hashes(np.zeros(1, np.uint64), cells)


def test_ranges_know_their_cells():
    with pytest.raises(DataError, match="cell 4 is unknown"):
        ByRanges(4).homes([4], 2)
