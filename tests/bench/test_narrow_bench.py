"""What bench.narrow measures, on one of the known queries."""

from __future__ import annotations

import pytest

from bench.narrow import measure
from bench.peers.files import data_folder

FOLDER = data_folder()
pytestmark = pytest.mark.skipif(
    FOLDER is None, reason="PENSTOCK_DATA names no folder with the real streams"
)


def test_units_are_chosen_by_the_share_that_comes() -> None:
    assert FOLDER is not None
    chosen, narrow = (measure(FOLDER, "N2", bits) for bits in (None, 16))
    assert chosen.rows == narrow.rows
    assert chosen.bits == 24
    assert chosen.false <= 0.10
    assert narrow.bits == 16
    assert narrow.false > 0.10
    assert narrow.pairs == round(narrow.rows / (1 - narrow.false))
    assert chosen.expected == pytest.approx(chosen.false, abs=0.02)
