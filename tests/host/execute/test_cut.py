"""Range joins in tasks: everything once, about equal parts, whole passes of a device's units."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.host.device.cut import LEAST_EVALUATIONS, LEAST_ROWS, Cutting, whole


def covered(pieces: list) -> set[tuple[int, int]]:
    """Tuples and positions, each of which must come once."""
    found = [
        (int(row), position)
        for piece in pieces
        for row, low, high in zip(piece.rows, piece.start, piece.end, strict=True)
        for position in range(low, high)
    ]
    assert len(found) == len(set(found))
    return set(found)


@pytest.mark.parametrize("units", [1, 7, 64])
def test_everything_comes_once(units: int) -> None:
    rng = np.random.default_rng(units)
    start = np.sort(rng.integers(0, 50, 600))
    end = np.maximum.accumulate(start + rng.integers(0, 60, 600))
    joined = whole(start, end)
    pieces = list(joined.tasks(Cutting(2, 500, units)))
    assert covered(pieces) == covered([joined])
    assert len(pieces) > 1


@pytest.mark.parametrize("units", [1, 100, 512])
def test_pieces_are_whole_passes(units: int) -> None:
    rows, window = 5000, 20_000
    joined = whole(np.zeros(rows, np.int64), np.full(rows, window, np.int64))
    pieces = list(joined.tasks(Cutting(2, 1 << 40, units, tasks_per_lane=3)))
    sizes = [len(piece.rows) for piece in pieces]
    assert sum(sizes) == rows
    assert all(size % units == 0 for size in sizes[:-1])
    assert max(sizes[:-1]) - min(sizes[:-1]) <= units
    assert len(pieces) <= 7
    # Also where no task may have as many evaluations as its share.
    pieces = list(joined.tasks(Cutting(2, 700 * window, units, tasks_per_lane=1)))
    assert all(len(piece.rows) % units == 0 for piece in pieces[:-1])
    assert max(piece.evaluations for piece in pieces) <= 700 * window


def test_tasks_per_lane() -> None:
    rows, window = 64 * LEAST_ROWS, 16 * LEAST_EVALUATIONS // LEAST_ROWS
    joined = whole(np.zeros(rows, np.int64), np.full(rows, window, np.int64))
    counts = [len(list(joined.tasks(Cutting(2, 1 << 40, tasks_per_lane=n)))) for n in (1, 2, 4)]
    assert counts == [2, 4, 8]
    assert len(list(joined.tasks(Cutting(2, joined.evaluations // 32)))) == 32
