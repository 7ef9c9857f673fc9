"""Zones: a tuple visits each row that its bounds admit once, and few others."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.host.device.base import Device
from penstock.host.device.registry import open_device
from penstock.host.device.search import SPARE_ROWS, RangeWalk
from penstock.host.device.storage import key_dtype
from penstock.host.device.zones import BLOCK
from penstock.host.prune.choice import SAMPLE_ROWS, Sample, choose
from penstock.host.prune.ordering import SlabOrdering
from penstock.host.prune.parts import OrderedRun, Searched
from penstock.host.prune.pruner import Pruner
from penstock.host.prune.sizes import Pruning
from penstock.host.prune.zone_choice import choose_zones
from penstock.host.prune.zones import POSITION, Scale, ZoneOrder
from penstock.program import BandProgram, Mode, null_code
from tests.host.kit.pruning import Given, by, run_of
from tests.host.kit.tasks import Join
from tests.host.prune.test_cells import codes_of
from tests.kit.effort import examples

SEEDS = st.integers(0, 1 << 32)
BITS = st.sampled_from([16, 32, 64])


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    with open_device("cpu", threads=1) as device:
        yield device


def order_of(rng: np.random.Generator, codes: list[np.ndarray], hashed: tuple, null: int):
    """Any order: its numbers may have too few bits, and begin above or below the codes."""
    tests = [d for d in range(len(codes)) if d not in hashed]
    tests = [*rng.permutation([*tests, POSITION])[: rng.integers(1, 4)].tolist()]
    equal_bits = int(rng.integers(1, 33)) if hashed else 0
    bits = int(rng.integers(14, 65 - equal_bits))

    def scale(test: int) -> Scale:
        if test == POSITION:
            return Scale(POSITION)
        low, high = int(codes[test].min()), int(codes[test].max())
        base = [0, low, (low + high) // 2, high][rng.integers(0, 4)]
        return Scale(test, base, max((high - low).bit_length() - bits + int(rng.integers(2)), 0))

    only = scale(hashed[0]) if len(hashed) == 1 and rng.random() < 0.7 else None
    return ZoneOrder(hashed, only, equal_bits, bits, tuple(map(scale, tests)), null)


@settings(max_examples=examples(150), deadline=None)
@given(SEEDS, BITS)
def test_a_walk_visits_what_bounds_admit_once(seed: int, bits: int) -> None:
    rng = np.random.default_rng(seed)
    rows, tuples, tests = int(rng.choice([1, 100, 5000])), 20, int(rng.integers(1, 5))
    null, dtype = null_code(bits), key_dtype(bits)
    hashed = tuple(d for d in range(tests) if rng.random() < 0.4)
    codes, bounds = [], []
    for d in range(tests):
        own = codes_of(rng, bits, rows)
        if d in hashed:
            own = (own % dtype.type(3)).astype(dtype)
        ends = np.sort(np.stack([codes_of(rng, bits, tuples), rng.choice(own, tuples)]), axis=0)
        low, high = (ends[1], ends[1]) if d in hashed else ends
        if d not in hashed and rng.random() < 0.5:  # from one side
            low, high = (
                (low, np.full_like(low, null - 2)) if rng.random() < 0.5 else (low * 0, high)
            )
        own[rng.random(rows) < 0.1] = null
        codes.append(own)
        bounds += [low, high]
    order = order_of(rng, codes, hashed, null)
    slab = int(rng.choice([rows, max(rows // 3, 1), 70]))
    first = int(rng.integers(0, 9))
    ordering = SlabOrdering(slab, first, order)
    for end in (first + rows // 2, first + rows):  # an incomplete slab is sorted again

        def read(low: int, high: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
            part = slice(low - first, high - first)
            return [np.arange(low, high)], [column[part] for column in codes]

        ordering.extend(end, read, int(rng.integers(1, 3)))
    found = ordering.ordered()
    limits = np.sort(rng.integers(0, rows + 20, (2, tuples)), axis=0)
    if rng.random() < 0.4:
        limits[:] = [[0], [rows + 20]]
    floor = rng.integers(0, rows, tuples) if rng.random() < 0.5 else None
    walk = RangeWalk(found, order.boxes(bounds), *limits, floor, most=int(rng.choice([1, 2, 99])))
    seen, before = np.zeros((tuples, rows), int), (0, 0)
    while count := walk.next():
        each = (own[:count].tolist() for own in (walk.row, walk.low, walk.high, walk.whole))
        for i, low, high, is_whole in zip(*each, strict=True):
            assert before <= (i, low) < (i, high)
            before = i, high
            at = found.columns[0][low:high] - first
            seen[i, at] += 1
            at = at + first
            assert not is_whole or (limits[0, i] <= at.min() and at.max() < limits[1, i])
    position = np.arange(rows) + first
    match = (limits[0][:, None] <= position) & (position < limits[1][:, None])
    for d in range(tests):
        low, high = bounds[2 * d][:, None], bounds[2 * d + 1][:, None]
        match &= (low <= codes[d]) & (codes[d] <= high) & (codes[d] != null)
    if floor is not None:
        place = np.empty(rows, int)
        place[found.columns[0][: found.count] - first] = np.arange(rows)
        match &= place >= floor[:, None]
    assert seen.max() <= 1
    assert (seen[match] == 1).all()


def intervals(rng: np.random.Generator, rows: int, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """First and last code of intervals, or two numbers for "opposed"."""
    start = rng.integers(0, 1 << 28, rows)
    length = rng.lognormal(7, 1, rows).astype(np.int64)
    length[rng.random(rows) < 0.001] *= 1000
    if kind == "nested":
        start = np.arange(rows) * ((1 << 27) // rows)
        length = ((1 << 28) - 2 * start) // (1 + rng.integers(0, 2, rows) * 5000)
        length[rng.random(rows) < 0.99] = 5
    elif kind == "opposed":
        return start, (1 << 28) - start + rng.integers(-40_000, 40_000, rows) + 50_000
    return start, start + length


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("growing", [False, True])
@pytest.mark.parametrize("kind", ["skewed", "one key", "nested", "opposed", "containment"])
def test_rows_tested_are_bounded_by_matches(
    device: Device, kind: str, growing: bool, bits: int
) -> None:
    """Each match costs a block at most, and each tuple one at either end of its stretch."""
    rng = np.random.default_rng(7)
    rows, tuples, dtype = 80_000, 300, key_dtype(bits)
    top, scale = np.full(tuples, null_code(bits) - 2, dtype), dtype.type(1 if bits == 32 else 9**9)
    first, last = (own.astype(dtype) * scale for own in intervals(rng, rows, kind))
    low, high = (own.astype(dtype) * scale for own in intervals(rng, tuples, kind))
    bounds = [low * 0, high, low, top]  # overlap: first <= high and last >= low
    if kind == "opposed":
        bounds = [low, top, low * 0, high - dtype.type(60_000) * scale]
    elif kind == "containment":
        bounds = [low, top, low * 0, high]
    keys = 1 if kind == "one key" else 24
    key, own = (rng.integers(0, keys, n).astype(dtype) for n in (rows, tuples))
    window, stream = [key, first, last], [own, own, *bounds]
    full = np.zeros(tuples, np.int64), np.full(tuples, rows)
    program = BandProgram(3, 1 << 7, bits)
    join = Join(program, window, stream, *full)
    sizes = Pruning(least_pairs=1, free_rows=rows, orders=("zones",))
    pruner = Pruner(sizes, growing=growing, searches=True)
    run = run_of(join).snapshot()
    parts = pruner.parts(run, *by(Given(program), stream), *full, Mode.COUNT)
    kernel, tested, matches = device.open(program, frozenset({Mode.COUNT})), 0, 0
    for part in parts:
        assert isinstance(part, Searched)
        assert part.source.rows.zones is not None
        result = kernel.run(None, part.task(part.piece, stream, SPARE_ROWS, Mode.COUNT))
        assert result.folds is not None
        tested += result.counters["evaluations"]
        matches += int(result.folds.value.sum())
    match = np.ones((tuples, rows), bool)
    for d, column in enumerate(window):
        match &= (stream[2 * d][:, None] <= column) & (column <= stream[2 * d + 1][:, None])
    assert matches == match.sum()
    slabs = 1 if not growing else 4
    assert tested <= BLOCK * (matches + 3 * slabs * tuples)


@pytest.mark.parametrize(("keys", "is_zoned"), [(1, True), (24, True), (50_000, False)])
def test_the_cheaper_order_is_chosen(keys: int, is_zoned: bool) -> None:
    """Intervals among few keys have zones; a hash alone leaves few rows of many keys."""
    rng = np.random.default_rng(2)
    rows, some, top = 1 << 20, 1 << 8, np.full(1 << 8, 1 << 30)
    first, last = intervals(rng, SAMPLE_ROWS, "skewed")
    low, high = intervals(rng, some, "skewed")
    key, own = rng.integers(0, keys, SAMPLE_ROWS), rng.integers(0, keys, some)
    codes = [column.astype(np.uint32) for column in (key, first, last)]
    bounds = [column.astype(np.uint32) for column in (own, own, low * 0, high, low, top)]
    given = Sample([0, 1, 2], [0], codes, bounds, null_code(32)), rows
    zones, cells = choose_zones(*given), choose(*given)
    assert zones is not None
    assert cells is not None
    assert (zones.tuple_ns < cells.tuple_ns) == is_zoned


def test_an_order_of_positions_serves_a_window_of_time() -> None:
    """Keys, a window, and one bound from one side: rows of a key lie by position."""
    rng = np.random.default_rng(3)
    rows, tuples = 1 << 14, 64
    codes = [rng.integers(0, n, rows).astype(np.uint32) for n in (4, 1000)]
    key, top = rng.integers(0, 4, tuples).astype(np.uint32), np.full(tuples, 5000, np.uint32)
    bounds = [key, key, top * 0 + 995, top]
    chosen = choose_zones(Sample([0, 1], [0], codes, bounds, null_code(32)), rows, admitted=500)
    assert chosen is not None
    assert isinstance(chosen.grid, ZoneOrder)
    assert [scale.test for scale in chosen.grid.scales] in ([POSITION, 1], [1, POSITION])


def test_devices_that_do_not_search_get_cells() -> None:
    pruner = Pruner(Pruning(least_pairs=1, free_rows=1000), growing=False, searches=False)
    rng = np.random.default_rng(5)
    window = [rng.integers(0, 1 << 20, 900).astype(np.uint32) for _ in range(2)]
    low = rng.integers(0, 1 << 20, 50).astype(np.uint32)
    stream = [low * 0, low, low, np.full(50, 1 << 21, np.uint32)]
    full = np.zeros(50, np.int64), np.full(50, 900)
    join = Join(BandProgram(2, 1 << 3), window, stream, *full)
    own = by(Given(join.program), stream)
    parts = pruner.parts(run_of(join).snapshot(), *own, *full, Mode.PAIRS)
    assert all(not isinstance(p.source, OrderedRun) or p.source.rows.zones is None for p in parts)
