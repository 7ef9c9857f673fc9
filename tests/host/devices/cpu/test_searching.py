"""Searches on the CPU device: each match of the cells visited, once, whatever the order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import kept_code
from penstock.errors import DeviceError
from penstock.expr import ops
from penstock.host.device.base import Device, Kernel
from penstock.host.device.registry import open_device
from penstock.host.device.search import SPARE_ROWS, Boxes
from penstock.host.prune.cells import Axis, Grid
from penstock.program import BandProgram, GeneralProgram, Mode, null_code
from penstock.types import integer
from tests.host.kit.folds import check_folds, payload_join, valued_join
from tests.host.kit.predicates import NARROW, OTHER, WIDE, general_join
from tests.host.kit.searches import (
    Search,
    ordered_rows,
    position_at,
    run_folds,
    run_pairs,
    searched,
    walked,
)
from tests.host.kit.tasks import RANGES, TIMEOUT_S, Join, band_join
from tests.kit.effort import effort, examples

FOLDS = (Mode.COUNT, Mode.EXISTS, Mode.SUM, Mode.MIN, Mode.MAX)
#: Bits of codes and number of tests: each pair takes seconds to compile.
FORMS = effort(
    [(bits, tests) for bits in (16, 32, 64) for tests in (1, 2, 3, 4)], [(64, 1), (32, 2)]
)
SEEDS = st.integers(0, 1 << 32)
KINDS = st.sampled_from(RANGES)
ALL = 1 << 20


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    with open_device("cpu", threads=2) as device:
        yield device


def check_pairs(kernel: Kernel, search: Search, room: int = SPARE_ROWS) -> int:
    """Compare a search with brute force, in one task and in many; the number of the latter."""
    pairs, evaluations, tasks = run_pairs(kernel, search, ALL)
    np.testing.assert_array_equal(pairs, search.pairs())
    assert tasks == 1
    assert search.admitted().sum() <= evaluations <= search.visited().sum()
    assert evaluations == sum(high - low for _, low, high, _ in walked(search))
    pairs, again, tasks = run_pairs(kernel, search, room)
    np.testing.assert_array_equal(pairs, search.pairs())
    assert again == evaluations
    return tasks


def check_modes(kernel: Kernel, search: Search, *modes: Mode) -> None:
    _, evaluations, _ = run_pairs(kernel, search, ALL)
    first = search.ordered.first
    pairs = search.pairs() + np.array([0, first])
    for mode in modes:
        folds, tested = run_folds(kernel, search, mode)
        check_folds(folds, search.join, mode, pairs, first)
        assert tested == evaluations


def every(kernel_modes: tuple[Mode, ...]) -> frozenset[Mode]:
    return frozenset({Mode.PAIRS, *kernel_modes})


# -- bad arguments --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small(device: Device) -> tuple[Kernel, Search]:
    join = band_join(np.random.default_rng(0), 1, 64, 20, 50, "random")
    search = searched(np.random.default_rng(1), join)
    return device.open(search.join.program), search


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"room": SPARE_ROWS - 1}, "room for 64 pairs, not 63"),
        ({"stream": []}, "2 stream columns, not 0"),
        ({"start": np.zeros(3, np.int64)}, "equal lengths"),
        ({"end": np.zeros(3, np.int64)}, "equal lengths"),
        ({"boxes": Boxes(*(np.zeros(3, np.uint32) for _ in range(4)))}, "equal lengths"),
        ({"mode": Mode.COUNT}, "opened for other modes"),
    ],
)
def test_a_bad_search_is_an_error(
    small: tuple[Kernel, Search], changes: dict, message: str
) -> None:
    kernel, search = small
    task = replace(search.task(search.piece), **changes)
    with pytest.raises(DeviceError, match=message):
        kernel.submit(None, task).result(TIMEOUT_S)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (lambda own: own[:-1], "1 window columns, not 0"),
        (lambda own: [own[0][:-1]], "64 spare rows"),
        (lambda own: [own[0].astype(np.float64)], "window columns of float64"),
    ],
)
def test_bad_rows_are_an_error(small: tuple[Kernel, Search], columns: object, message: str) -> None:
    kernel, search = small
    assert callable(columns)
    task = search.task(search.piece)
    task = replace(task, ordered=replace(task.ordered, columns=columns(task.ordered.columns)))
    with pytest.raises(DeviceError, match=message):
        kernel.run(None, task)


@pytest.mark.parametrize("shape", ["band", "general"])
def test_a_prepared_search_compiles_nothing(device: Device, shape: str) -> None:
    rng = np.random.default_rng(5)
    if shape == "band":
        join = band_join(rng, 1, 64, 20, 50, "random")
    else:
        join = general_join(rng, NARROW, 3, 20, 50, "random")
    search = searched(rng, join)
    kernel = device.open(search.join.program)
    kernel.prepare_search()
    with compiles_nothing():
        kernel.run(None, search.task(search.piece))


@contextmanager
def compiles_nothing() -> Iterator[None]:
    """Fail if machine code is compiled, or loaded, in this thread."""

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("a function is compiled")

    with patch.object(kept_code._Files, "load", refused):
        yield


# -- band programs --------------------------------------------------------------------------------


@settings(max_examples=examples(150), deadline=None)
@given(SEEDS, st.sampled_from(FORMS), KINDS)
def test_any_band_program(device: Device, seed: int, form: tuple[int, int], kind: str) -> None:
    rng = np.random.default_rng(seed)
    bits, tests = form
    bits = 24 if bits == 32 and rng.random() < 0.3 else bits  # NULL is not the largest number
    rows, window = int(rng.integers(1, 40)), int(rng.integers(1, 700))
    join = band_join(rng, tests, bits, rows, window, kind)
    if not join.program.table:  # type: ignore[union-attr]
        return
    search = searched(rng, join, most_cells=[2, 12][rng.integers(0, 2)])
    modes = (Mode.COUNT, Mode.EXISTS)
    kernel = device.open(search.join.program, every(modes))
    check_pairs(kernel, search, int(rng.integers(SPARE_ROWS, 300)))
    check_modes(kernel, search, *modes)
    kernel.close()


@settings(max_examples=examples(60), deadline=None)
@given(SEEDS, st.sampled_from(FORMS[: effort(None, 1)]), KINDS)
def test_band_folds(device: Device, seed: int, form: tuple[int, int], kind: str) -> None:
    rng = np.random.default_rng(seed)
    payloads = [integer(0, 1 << 40), integer(-2, 2), integer(-(1 << 31), (1 << 31) - 1)]
    payload = payloads[rng.integers(0, effort(3, 1))].as_nullable(False)
    bits, tests = form
    join = payload_join(rng, tests, bits, payload, 30, 500, kind)
    if not join.program.table:  # type: ignore[union-attr]
        return
    wide = join.window[-1].astype(np.result_type(join.window[-1], np.int32))
    search = searched(rng, replace(join, window=[*join.window[:-1], wide]))
    kernel = device.open(search.join.program, every(FOLDS))
    check_modes(kernel, search, *FOLDS)
    kernel.close()


def test_a_sum_may_need_more_than_a_register(device: Device) -> None:
    payload = integer(-(1 << 63), (1 << 63) - 1, nullable=False)
    rng = np.random.default_rng(3)
    for value in ((1 << 63) - 1, -(1 << 63)):
        join = payload_join(rng, 1, 64, payload, 10, 300, "full")
        window = [join.window[0], np.full(300, value, np.int64)]
        search = searched(rng, replace(join, window=window))
        kernel = device.open(search.join.program, every(FOLDS))
        check_modes(kernel, search, Mode.SUM, Mode.MIN, Mode.MAX)
        kernel.close()


@pytest.mark.parametrize(
    "table",
    [
        0b00,
        0b11,
    ],
)
def test_a_constant_band_program(device: Device, table: int) -> None:
    search = crowded(np.random.default_rng(4).integers(0, 3, 300), 3, 64)
    search = replace(search, join=replace(search.join, program=BandProgram(1, table, 64)))
    kernel = device.open(search.join.program, every((Mode.COUNT,)))
    check_modes(kernel, search, Mode.COUNT)
    pairs, _, _ = run_pairs(kernel, search, SPARE_ROWS)
    np.testing.assert_array_equal(pairs, search.pairs())
    kernel.close()


def test_spare_rows_may_hold_anything(device: Device) -> None:
    rng = np.random.default_rng(8)
    join = payload_join(rng, 1, 64, integer(5, 9, nullable=False), 10, 100, "full")
    wide = join.window[-1].astype(np.int32)
    search = searched(rng, replace(join, window=[*join.window[:-1], wide]))
    columns = list(search.ordered.columns)
    for column in columns:
        column[search.ordered.count :] = 0
    kernel = device.open(search.join.program, every(FOLDS))
    check_modes(kernel, search, *FOLDS)


# -- general programs -----------------------------------------------------------------------------


@pytest.mark.parametrize("types", [NARROW, NARROW + OTHER, WIDE + NARROW])
@pytest.mark.parametrize("seed", range(effort(4, 1)))
def test_general_programs(device: Device, types: tuple, seed: int) -> None:
    rng = np.random.default_rng([seed, len(types), 1])
    join = general_join(rng, types, 4 + 2 * seed, 10, 200, "random")
    kernel = device.open(join.program)
    for kind in RANGES:
        other = general_join(np.random.default_rng([seed, len(types), 1]), types, 4, 10, 200, kind)
        search = searched(rng, replace(join, start=other.start, end=other.end))
        check_pairs(kernel, search)
    kernel.close()


@pytest.mark.parametrize("types", [NARROW, OTHER, WIDE])
@pytest.mark.parametrize("seed", range(effort(4, 1)))
def test_general_folds(device: Device, types: tuple, seed: int) -> None:
    rng = np.random.default_rng([seed, len(types), 2])
    join = valued_join(rng, types, 5, 10, 200, "random")
    assert isinstance(join.program, GeneralProgram)
    assert join.program.value is not None
    modes = [Mode.SUM, Mode.MIN, Mode.MAX, Mode.NEAREST]
    if join.program.value.type.is_float:
        modes.remove(Mode.SUM)  # sums of floats depend on the order
    kernel = device.open(join.program, every(tuple(modes)))
    for _ in range(4):
        check_modes(kernel, searched(rng, join), *modes)
    kernel.close()


@pytest.mark.parametrize("mode", [Mode.COUNT, Mode.EXISTS])
def test_general_folds_without_a_value(device: Device, mode: Mode) -> None:
    rng = np.random.default_rng(9)
    join = general_join(rng, NARROW, 5, 10, 200, "random")
    kernel = device.open(join.program, every((mode,)))
    check_modes(kernel, searched(rng, join), mode)
    kernel.close()


@pytest.mark.parametrize("hi", [3, 1 << 80])
def test_nearest_takes_the_lowest_position_of_a_tie(device: Device, hi: int) -> None:
    """Its row may lie at any place: cells and stretches come in another order than positions."""
    s, w = (ops.key(side, 0, integer(0, hi, nullable=False)) for side in "sw")
    value = ops.absolute(ops.sub(s, w))
    program = GeneralProgram((s.type,), (w.type,), ops.le(s, ops.const(2)), value)
    rng = np.random.default_rng(1)
    dtype = np.int8 if hi == 3 else object
    keys = [rng.integers(0, 4, n).astype(dtype) for n in (300, 20)]
    kernel = device.open(program, every((Mode.NEAREST,)))
    for _ in range(examples(40)):
        start = rng.integers(0, 300, 20)
        join = Join(program, keys[:1], keys[1:], start, rng.integers(start, 301))
        check_modes(kernel, searched(rng, join), Mode.NEAREST)
    kernel.close()


@pytest.mark.parametrize("hi", [3, 1 << 80])
def test_general_programs_pause(device: Device, hi: int) -> None:
    """Most pairs match, so that a task ends in the midst of a range."""
    s, w = (ops.key(side, 0, integer(0, hi, nullable=False)) for side in "sw")
    program = GeneralProgram((s.type,), (w.type,), ops.ne(s, w))
    rng = np.random.default_rng(12)
    dtype = np.int8 if hi == 3 else object
    keys = [rng.integers(0, 4, n).astype(dtype) for n in (700, 20)]
    full = np.zeros(20, np.int64), np.full(20, 700)
    kernel = device.open(program)
    for rows in (700, 300, 64):
        search = searched(rng, Join(program, keys[:1], keys[1:], *full), most_cells=3, rows=rows)
        assert check_pairs(kernel, search, 100) > 3
    kernel.close()


# -- shapes of the order --------------------------------------------------------------------------


def crowded(cells: np.ndarray, count: int, rows: int, first: int = 0) -> Search:
    """Tuples that visit all cells and match a part of the rows; ranges of each length."""
    window = len(cells)
    rng = np.random.default_rng(window)
    key = rng.integers(0, 100, window).astype(np.uint64)
    axis = Axis(0, 0, 0, np.arange(count, dtype=np.uint32), count)
    grid = Grid((), 0, (axis,), null_code(64))
    codes = [cells.astype(np.uint64)]
    ordered = ordered_rows([key], codes, grid, first, window, rows)
    start = rng.integers(0, window + 1, 30)
    end = rng.integers(start, window + 1)
    low = rng.integers(0, 60, 30).astype(np.uint64)
    join = Join(BandProgram(1, 0b10, 64), [key], [low, low + np.uint64(60)], start, end)
    all_cells = [np.zeros(30, np.uint32), np.full(30, count - 1, np.uint32)]
    boxes = Boxes(*[np.zeros(30, np.uint32)] * 2, *all_cells)
    return Search(join, grid, grid.cells_of(codes), ordered, boxes)


@pytest.mark.parametrize("rows", [64, 1000, 4096])
@pytest.mark.parametrize(
    "shape", ["one cell", "a cell per row", "few", "empty ones", "no cell", "none but NULL"]
)
def test_shapes_of_cells(device: Device, shape: str, rows: int) -> None:
    window, rng = 1000, np.random.default_rng(5)
    cells, count = {
        "one cell": (np.zeros(window), 7),
        "a cell per row": (rng.permutation(window), window),
        "few": (rng.integers(0, 3, window), 3),
        "empty ones": (rng.choice([0, 5, 9], window), 12),
        "no cell": (np.where(rng.random(window) < 0.4, 2.0**64, rng.integers(0, 4, window)), 4),
        "none but NULL": (np.full(window, 2.0**64), 4),
    }[shape]
    null = null_code(64)
    codes = np.array([min(int(c), null) for c in cells], np.uint64)
    search = crowded(codes, count, rows)
    kernel = device.open(search.join.program, every((Mode.COUNT, Mode.EXISTS)))
    tasks = check_pairs(kernel, search)
    assert tasks > 3 or shape == "none but NULL"
    check_modes(kernel, search, Mode.COUNT, Mode.EXISTS)
    search = crowded(codes, count, rows, first=rows // 64 * 8)
    check_pairs(kernel, search)
    check_modes(kernel, search, Mode.COUNT)
    kernel.close()


@pytest.mark.parametrize("mode", [Mode.PAIRS, Mode.COUNT])
def test_more_ranges_than_are_walked_at_a_time(device: Device, mode: Mode) -> None:
    cells = np.random.default_rng(6).integers(0, 600, 6000)
    search = crowded(cells, 600, 1000)
    search = replace(search, boxes=replace(search.boxes, inner_low=np.arange(30, dtype=np.uint32)))
    # A tuple visits each cell apart where the neighbours have many rows.
    assert len(walked(search)) > 4096
    kernel = device.open(search.join.program, every((Mode.COUNT,)))
    if mode is Mode.PAIRS:
        check_pairs(kernel, search, 100)
    else:
        check_modes(kernel, search, mode)
    kernel.close()


def test_nothing_to_search_for(small: tuple[Kernel, Search]) -> None:
    kernel, search = small
    join = search.join
    none = Join(join.program, join.window, [c[:0] for c in join.stream], *[join.start[:0]] * 2)
    task = search.task(search.piece)
    empty = Boxes(*(own[:0] for own in search.boxes.arrays))
    task = replace(task, stream=none.stream, start=none.start, end=none.end, boxes=empty)
    result = kernel.run(None, task)
    assert len(result.i) == 0
    assert result.pause is None
    assert result.counters["evaluations"] == 0


def test_no_ordered_rows(small: tuple[Kernel, Search]) -> None:
    kernel, search = small
    window = search.join.window
    rows = ordered_rows(window, [c[:0] for c in window], search.grid, 8, 8, 4)
    result = kernel.run(None, replace(search.task(search.piece), ordered=rows))
    assert len(result.i) == 0
    assert result.counters["evaluations"] == 0


def test_positions_of_the_kit() -> None:
    """The kit's own view of the order is that of the rows."""
    search = crowded(np.random.default_rng(7).integers(0, 5, 200), 5, 64)
    position = position_at(search.ordered)
    assert sorted(position.tolist()) == list(range(200))
    taken = search.join.window[0][position]
    np.testing.assert_array_equal(search.ordered.columns[0][:200], taken)
