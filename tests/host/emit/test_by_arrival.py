"""The order of rows by arrival numbers."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.host.emit.output import by_arrival


@pytest.mark.parametrize("rows", [0, 1, 1000])
@pytest.mark.parametrize("least", [-1, 0, 1 << 40])
@pytest.mark.parametrize("spread", [1, 50, 1 << 31, 1 << 50])
def test_by_arrival(rows: int, least: int, spread: int) -> None:
    rng = np.random.default_rng(rows)
    numbers = rng.integers(least, least + spread, (2, rows))
    later, earlier = np.maximum(*numbers), np.minimum(*numbers)
    np.testing.assert_array_equal(by_arrival(later, earlier), np.lexsort((earlier, later)))
