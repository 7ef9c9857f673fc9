"""Base routing: homes are spread, and move little when lanes change."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.errors import UsageError
from penstock.host.routing.base import base_homes, cell_of_hash, cells_of_hashes


@pytest.mark.parametrize("lanes", [1, 2, 3, 8, 64])
def test_each_lane_gets_about_its_share(lanes):
    homes = base_homes(4096, lanes)
    assert homes.dtype == np.int64
    share = np.bincount(homes, minlength=lanes) * lanes / len(homes)
    assert len(share) == lanes
    assert 0.5 < share.min() <= share.max() < 1.6
    assert (np.diff(homes) >= 0).all()


def test_ranges_are_stretches_of_cells():
    assert base_homes(10, 4).tolist() == [0, 0, 0, 1, 1, 2, 2, 2, 3, 3]
    assert base_homes(2, 4).tolist() == [0, 2]


def test_cells_of_hashes_are_equal_stretches():
    rng = np.random.default_rng(1)
    hashes = rng.integers(0, 1 << 64, 100_000, np.uint64)
    assert np.array_equal(cells_of_hashes(hashes, 1024), (hashes >> np.uint64(54)).astype(int))
    cells = cells_of_hashes(hashes, 1000)
    assert cells.min() == 0
    assert cells.max() == 999
    assert (np.diff(cells[np.argsort(hashes)]) >= 0).all()
    assert [int(cell_of_hash(one, 1000)) for one in hashes[:100]] == cells[:100].tolist()


def test_there_is_a_lane():
    with pytest.raises(UsageError, match="take 1 or more"):
        base_homes(4, 0)


@pytest.mark.parametrize("cells", [0, -1])
def test_there_is_a_cell(cells):
    with pytest.raises(UsageError, match="take 1 or more"):
        base_homes(cells, 2)
    with pytest.raises(UsageError, match="take 1 to"):
        cells_of_hashes(np.zeros(1, np.uint64), cells)
