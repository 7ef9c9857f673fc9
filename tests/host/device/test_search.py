"""Searches of the device contract: the ranges that tuples visit, and what is left after a pause."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.host.device.base import Pause
from penstock.host.device.cut import Cutting
from penstock.host.device.search import MOST_TUPLES, Boxes, RangeWalk, SearchPiece
from penstock.host.prune.cells import Axis, Grid
from tests.host.kit.searches import Search, ordered_rows, position_at, searched, walked
from tests.host.kit.tasks import RANGES, band_join
from tests.kit.effort import examples

SEEDS = st.integers(0, 1 << 32)
KINDS = st.sampled_from(RANGES)


def drawn(seed: int, kind: str) -> tuple[np.random.Generator, Search]:
    rng = np.random.default_rng(seed)
    rows, window = int(rng.integers(1, 25)), int(rng.integers(1, 900))
    join = band_join(rng, int(rng.integers(1, 4)), 32, rows, window, kind)
    return rng, searched(rng, join, most_cells=[2, 40][rng.integers(0, 2)])


@settings(max_examples=examples(200), deadline=None)
@given(SEEDS, KINDS, st.booleans(), st.sampled_from([1, 2, 7, 4096]))
def test_ranges_hold_all_that_is_visited_once(seed: int, kind: str, apart: bool, most: int) -> None:
    _, search = drawn(seed, kind)
    ordered, admitted = search.ordered, search.admitted()
    visited, position = search.visited(), position_at(ordered) + ordered.first
    seen = np.zeros(admitted.shape, np.int64)
    before = 0, -1
    for i, low, high, is_whole in walked(search, apart=apart, most=most):
        assert 0 <= low < high <= ordered.count
        assert before[0] < i or (before[0] == i and before[1] <= low)  # by tuple, then by place
        before = i, high
        at = position[low:high]
        assert low // ordered.rows == (high - 1) // ordered.rows  # in one stretch
        assert visited[i, at].all()
        if is_whole or apart:
            assert admitted[i, at].all()
        seen[i, at] += 1
        if apart:
            assert len(np.unique(search.cells[at])) == 1
            assert (np.diff(at) > 0).all()
    assert seen.max(initial=0) <= 1
    assert (seen[admitted] == 1).all()


@settings(max_examples=examples(100), deadline=None)
@given(SEEDS, KINDS)
def test_a_floor_leaves_what_lies_at_and_above_it(seed: int, kind: str) -> None:
    rng, search = drawn(seed, kind)
    ordered, join = search.ordered, search.join
    floor = rng.integers(0, ordered.count + 2, len(join.start))
    walk = RangeWalk(ordered, search.boxes, join.start, join.end, floor, most=5)
    found: set[tuple[int, int]] = set()
    while count := walk.next():
        each = (own[:count].tolist() for own in (walk.row, walk.low, walk.high))
        for i, low, high in zip(*each, strict=True):
            found |= {(i, place) for place in range(low, high)}
    every = {(i, p) for i, low, high, _ in walked(search) for p in range(low, high)}
    assert found == {(i, p) for i, p in every if p >= floor[i]}


def test_neighbours_are_read_together_and_long_cells_cut_by_time() -> None:
    """A tuple may test few rows of cells outside its range, not many."""
    _, search = drawn(3, "full")
    rng = np.random.default_rng(0)
    for window, cells in ((2000, 3), (2000, 500)):
        codes = [rng.integers(0, cells, window).astype(np.uint32)]
        grid = Grid((), 0, (Axis(0, 0, 0, np.arange(cells, dtype=np.uint32), cells),), 1 << 20)
        ordered = ordered_rows(codes, codes, grid, 0, window, 4096)
        low = np.array([0, 1], np.uint32)
        boxes = Boxes(low * 0, low * 0, low, low + np.uint32(1))
        start, end = np.array([500, 900]), np.array([1000, 901])
        join = replace(search.join, window=codes, start=start, end=end, stream=[low, low])
        one = Search(join, grid, grid.cells_of(codes), ordered, boxes)
        count = sum(high - low for _, low, high, _ in walked(one))
        if cells == 3:
            assert count == one.admitted().sum()
        else:
            assert count == one.visited().sum()


@settings(max_examples=examples(60), deadline=None)
@given(SEEDS, st.integers(0, 40_000), st.integers(1, 4))
def test_a_piece_is_cut_into_each_tuple_once(seed: int, rows: int, lanes: int) -> None:
    rng = np.random.default_rng(seed)
    start = rng.integers(0, 50, rows)
    own = np.arange(rows, dtype=np.uint32) * 2
    piece = SearchPiece(own, start, start + 5, 2.5, 5 * rows)
    tasks = list(piece.tasks(Cutting(lanes)))
    for k, name in enumerate(("rows", "start", "end")):
        wanted = (own, start, start + 5)[k]
        found = np.concatenate([wanted[:0], *(getattr(task, name) for task in tasks)])
        np.testing.assert_array_equal(found, wanted)
    assert sum(task.admitted for task in tasks) == piece.admitted
    assert all(0 < len(task.rows) <= MOST_TUPLES for task in tasks)
    assert all(task.cost == 2.5 for task in tasks)


def test_the_rest_after_a_pause_begins_with_its_tuple() -> None:
    start = np.array([7, 3, 5, 0])
    piece = SearchPiece(np.array([4, 5, 6, 9], np.uint32), start, start + 10, 1.0, 40)
    (rest,) = piece.remaining(Pause(1, 2, 12))
    assert isinstance(rest, SearchPiece)
    assert rest.rows.tolist() == [5, 6, 9]
    assert rest.start.tolist() == [3, 5, 0]
    assert rest.floor is not None
    assert rest.floor.tolist() == [12, 0, 0]
    assert rest.admitted == 0  # counted once
    (again,) = rest.remaining(Pause(0, 1, 15))
    assert isinstance(again, SearchPiece)
    assert again.floor is not None
    assert again.floor.tolist() == [15, 0, 0]
    assert rest.floor.tolist() == [12, 0, 0]
    (last,) = again.remaining(Pause(2, 3, 1))
    assert isinstance(last, SearchPiece)
    assert last.rows.tolist() == [9]


@pytest.mark.parametrize("rows", [[0, 2], [2, 0], [1, 1]])
def test_boxes_of_some_tuples(rows: list[int]) -> None:
    boxes = Boxes(*(np.arange(3, dtype=np.uint32) + k for k in range(4)))
    assert [own.tolist() for own in boxes.pick(np.array(rows)).arrays] == [
        [row + k for row in rows] for k in range(4)
    ]


@settings(max_examples=examples(40), deadline=None)
@given(SEEDS)
def test_stretches_inside_a_range_need_no_look_at_positions(seed: int) -> None:
    _, search = drawn(seed, "full")
    first, end = search.ordered.first, search.ordered.end
    start = np.full_like(search.join.start, first)
    join = replace(search.join, start=start, end=np.full_like(start, end))
    assert all(is_whole for *_, is_whole in walked(replace(search, join=join)))
