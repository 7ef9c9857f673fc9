"""Narrow codes on the CPU device: results are what they are without them, to the last count."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.host.device.base import Task
from penstock.host.devices.cpu import CpuDevice, band_kernel, masks
from penstock.host.devices.cpu.band_kernel import BandKernel
from penstock.host.devices.cpu.resident_window import NEVER, SLAB_ROWS, NarrowLimits
from penstock.host.devices.cpu.vector import GRANULE
from penstock.program import BandProgram, Mode, Program, empty_code, null_code
from penstock.types import Type, integer
from tests.host.kit.folds import check_folds, payload_join, run_folds
from tests.host.kit.tasks import (
    RANGES,
    TIMEOUT_S,
    Join,
    band_join,
    expected,
    load,
    run_to_end,
    sorted_pairs,
)
from tests.kit.effort import effort, examples

ALWAYS = NarrowLimits(pairs_per_row=0, least_pairs=0, tuples=1, width=1, ahead=0, passing=1024)
FOLDS = (Mode.COUNT, Mode.EXISTS, Mode.SUM, Mode.MIN, Mode.MAX)
#: Bits of codes and number of tests: each pair takes seconds to compile.
FORMS = effort(
    [(bits, tests) for bits in (16, 32, 64) for tests in (1, 2, 3, 5)], [(32, 2), (64, 1), (16, 3)]
)
SEEDS = st.integers(0, 1 << 32)


@pytest.fixture(scope="module")
def device() -> Iterator[CpuDevice]:
    with CpuDevice(threads=2) as opened:
        yield opened


@pytest.fixture
def tiles(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Tiles that each task tested by masks; the first is what a kernel compiles with."""
    counts: list[int] = []

    def counting(run: Callable[..., None]) -> Callable[..., None]:
        def counted(*given: Any) -> None:
            run(*given)
            arguments = [one for one in given if isinstance(one, tuple) and len(one) == 4]
            (plan,) = [one[-1] for one in arguments if len(one[-1]) == masks.PLAN_FIELDS]
            counts.append(int(plan[masks.TILES]))

        return counted

    for name in ("run_pairs", "run_band"):
        monkeypatch.setattr(band_kernel, name, counting(getattr(band_kernel, name)))
    return counts


def opened(device: CpuDevice, program: Program, limits: NarrowLimits, *modes: Mode) -> BandKernel:
    kernel = device.open(program, frozenset({Mode.PAIRS, *modes}))
    assert isinstance(kernel, BandKernel)
    kernel.limits = limits
    return kernel


def of_all(join: Join) -> Join:
    """The join where all tests must hold."""
    assert isinstance(join.program, BandProgram)
    table = 1 << ((1 << join.program.tests) - 1)
    return replace(join, program=replace(join.program, table=table))


def skewed(rng: np.random.Generator, join: Join) -> Join:
    """The join with other keys and bounds: extremes, one value of many rows, and all sizes."""
    assert isinstance(join.program, BandProgram)
    bits = join.program.key_bits
    largest, dtype = empty_code(bits) - 1, join.window[0].dtype
    values = (2.0 ** (rng.random(64) * (bits - 1))).astype(np.uint64)
    values[:4] = 0, largest, largest - 1, 1
    values = np.minimum(values, np.uint64(largest)).astype(dtype)
    values[8:40] = values[8]

    def some(count: int) -> np.ndarray:
        return rng.choice(values, count)

    window, stream = [], []
    for _ in range(join.program.tests):
        key = some(join.window_rows)
        key[rng.random(len(key)) < 0.1] = null_code(bits)
        window.append(key)
        low, high = some(len(join.start)), some(len(join.start))
        is_upright = rng.random(len(low)) < 0.9
        stream += [np.where(is_upright, np.minimum(low, high), low)]
        stream += [np.where(is_upright, np.maximum(low, high), high)]
    return replace(join, window=window, stream=stream)


# -- equal to the loops without -------------------------------------------------------------------


@pytest.mark.parametrize(("bits", "tests"), FORMS)
def test_pairs_pauses_and_counts_are_equal(
    device: CpuDevice, tiles: list[int], bits: int, tests: int
) -> None:
    @settings(max_examples=examples(60), deadline=None)
    @given(
        SEEDS,
        st.sampled_from(RANGES),
        st.sampled_from([1, 7, 300, 1 << 20]),
        st.sampled_from([(9, 50), (70, 400), (600, 1500)]),
        st.booleans(),
    )
    def check(seed: int, kind: str, room: int, size: tuple[int, int], is_skewed: bool) -> None:
        rng = np.random.default_rng(seed)
        join = of_all(band_join(rng, tests, bits, *size, kind))
        if is_skewed:
            join = skewed(rng, join)
        wanted = expected(join)
        if len(wanted) > 40 * room:
            room = len(wanted) // 40
        runs = []
        for limits in (ALWAYS, NEVER):
            kernel = opened(device, join.program, limits)
            runs.append(run_to_end(kernel, load(kernel, join, 3, 5), join, room))
        for by_masks, plain in zip(*runs, strict=True):
            one, other = by_masks[1], plain[1]
            assert (one.pause, one.counters) == (other.pause, other.counters)
            assert sorted(by_masks[0].tolist()) == sorted(plain[0].tolist())
        np.testing.assert_array_equal(sorted_pairs(runs[0]), wanted)

    check()
    assert any(tiles)


@pytest.mark.parametrize("payload", [integer(0, 100), integer(-(1 << 63), 1 << 62)])
@pytest.mark.parametrize(("bits", "tests"), FORMS[:2])
def test_folds_are_equal(
    device: CpuDevice, tiles: list[int], bits: int, tests: int, payload: Type
) -> None:
    @settings(max_examples=examples(30), deadline=None)
    @given(SEEDS, st.sampled_from(RANGES), st.sampled_from([(9, 50), (300, 700)]))
    def check(seed: int, kind: str, size: tuple[int, int]) -> None:
        rng = np.random.default_rng(seed)
        join = of_all(payload_join(rng, tests, bits, payload, *size, kind))
        pairs = expected(join)
        for limits in (ALWAYS, NEVER):
            kernel = opened(device, join.program, limits, *FOLDS)
            buffer = load(kernel, join)
            for mode in FOLDS:
                check_folds(run_folds(kernel, buffer, join, mode), join, mode, pairs)

    check()
    assert any(tiles)


def test_exists_over_many_tiles(device: CpuDevice, tiles: list[int]) -> None:
    rng = np.random.default_rng(3)
    keys = rng.integers(0, 1 << 30, 60_000, np.uint32)
    low = rng.integers(0, 1 << 30, 500, np.uint32)
    reach = np.where(np.arange(500) % 2, np.uint32(50_000), np.uint32(100))
    program = BandProgram(1, 0b10, 32)
    start, end = np.zeros(500, np.int64), np.full(500, 60_000)
    join = Join(program, [keys], [low, low + reach], start, end)
    ranked = np.sort(keys)
    wanted = np.searchsorted(ranked, low + reach, "right") > np.searchsorted(ranked, low)
    kernel = opened(device, program, ALWAYS, Mode.EXISTS)
    folds = run_folds(kernel, load(kernel, join), join, Mode.EXISTS)
    assert 0 < wanted.sum() < 500
    np.testing.assert_array_equal(folds.found, wanted)
    assert tiles[-1] > 0


def test_any_of_several_tests_works_without(device: CpuDevice) -> None:
    join = band_join(np.random.default_rng(1), 2, 32, 40, 900, "random")
    join = replace(join, program=BandProgram(2, 0b1110, 32))
    kernel = opened(device, join.program, ALWAYS)
    buffer = load(kernel, join)
    assert buffer.nbytes == 2 * 4 * (900 + GRANULE)
    np.testing.assert_array_equal(
        sorted_pairs(run_to_end(kernel, buffer, join, 1 << 20)), expected(join)
    )


# -- codes follow the keys ------------------------------------------------------------------------


def within(keys: list[np.ndarray], rng: np.random.Generator, rows: int, reach: int) -> Join:
    """Tuples near keys of the window, every one over all of it."""
    at = rng.integers(0, len(keys[0]), rows)
    stream = []
    for key in keys:
        stream += [key[at], key[at] + np.uint32(reach)]
    count = len(keys[0])
    program = BandProgram(len(keys), 1 << ((1 << len(keys)) - 1), 32)
    return Join(program, keys, stream, np.zeros(rows, np.int64), np.full(rows, count))


def test_keys_that_are_written_again_are_coded_again(device: CpuDevice, tiles: list[int]) -> None:
    rng = np.random.default_rng(8)
    count = 5 * SLAB_ROWS // 2
    keys = [rng.integers(0, 1 << 30, count, np.uint32) for _ in range(2)]
    join = within(keys, rng, 300, 1 << 20)
    kernel = opened(device, join.program, ALWAYS)
    buffer = load(kernel, join)
    for turn in range(12):
        for _ in range(turn):
            low = int(rng.integers(0, count))
            high = int(rng.integers(low, min(low + 700, count)))
            for key in keys:
                # Keys that rise from turn to turn, beyond all that were sampled before.
                key[low:high] = rng.integers(turn << 26, (turn << 26) + (1 << 25), high - low)
            buffer.write(low, [key[low:high] for key in keys])
        join = within(keys, rng, 300, 1 << 20)
        results = run_to_end(kernel, buffer, join, 1 << 20)
        np.testing.assert_array_equal(sorted_pairs(results), expected(join))
    assert min(tiles[1:]) > 0


def test_rows_are_written_while_others_are_read(device: CpuDevice) -> None:
    rng = np.random.default_rng(9)
    count = 40 * SLAB_ROWS
    keys = [rng.integers(0, 1 << 30, count, np.uint32) for _ in range(2)]
    join = within(keys, rng, 260, 1 << 22)
    kernel = opened(device, join.program, ALWAYS)
    buffer = load(kernel, join)
    # Ends in the middle of a slab, whose other rows change all the time.
    edge = 20 * SLAB_ROWS + 77
    join = replace(join, window=[key[:edge] for key in keys], end=np.full(260, edge))
    wanted, stop = expected(join), threading.Event()

    def write() -> None:
        while not stop.is_set():
            other = rng.integers(0, 1 << 30, 200, np.uint32)
            buffer.write(edge, [other, other])

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(20):
            tasks = [kernel.submit(buffer, task_of(join)) for _ in range(3)]
            for task in tasks:
                found = task.result(TIMEOUT_S)
                pairs = np.stack([found.i, found.j], axis=1).astype(np.int64)
                order = np.lexsort((pairs[:, 1], pairs[:, 0]))
                np.testing.assert_array_equal(pairs[order], wanted)
    finally:
        stop.set()
        writer.join(TIMEOUT_S)


def task_of(join: Join, mode: Mode = Mode.PAIRS) -> Task:
    return Task(join.stream, join.start, join.end, 1 << 20, mode)


def test_a_window_counts_two_bytes_more_per_row_and_test(device: CpuDevice) -> None:
    program = BandProgram(3, 0b1000_0000, 32)
    buffer = device.open(program).allocate(10_000)
    assert buffer.nbytes == 3 * (4 + 2) * (10_000 + GRANULE)
    buffer.free()
    assert buffer.nbytes == 0


# -- where they pay -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def uniform() -> list[np.ndarray]:
    rng = np.random.default_rng(10)
    return [rng.integers(0, 1 << 30, 50_000, np.uint32) for _ in range(2)]


def test_they_are_used_where_few_pairs_match(
    device: CpuDevice, tiles: list[int], uniform: list[np.ndarray]
) -> None:
    join = within(uniform, np.random.default_rng(11), 1024, 1 << 20)
    kernel = device.open(join.program)
    kernel.run(load(kernel, join), task_of(join))
    assert tiles[-1] > 10


@pytest.mark.parametrize(
    ("rows", "window", "reach"),
    [(1024, 50_000, 1 << 28), (40, 50_000, 1 << 20), (1024, 5000, 1 << 20)],
    ids=["a wide band", "few tuples", "a short window"],
)
def test_they_are_not_used_where_they_would_not_pay(
    device: CpuDevice,
    tiles: list[int],
    uniform: list[np.ndarray],
    rows: int,
    window: int,
    reach: int,
) -> None:
    keys = [key[:window] for key in uniform]
    join = within(keys, np.random.default_rng(12), rows, reach)
    kernel = device.open(join.program)
    buffer = load(kernel, join)
    for _ in range(3):
        kernel.run(buffer, replace(task_of(join), room=1 << 23))
    assert set(tiles[-3:]) == {0}


def test_few_pairs_at_a_time_add_up(
    device: CpuDevice, tiles: list[int], uniform: list[np.ndarray]
) -> None:
    join = within(uniform, np.random.default_rng(13), 200, 1 << 20)
    kernel = device.open(join.program)
    buffer = load(kernel, join)
    for _ in range(6):
        kernel.run(buffer, task_of(join))
    assert tiles[1] == 0 < tiles[-1]


def test_a_wide_band_among_narrow_ones_is_scanned(
    device: CpuDevice, tiles: list[int], uniform: list[np.ndarray]
) -> None:
    join = within(uniform, np.random.default_rng(14), 1024, 1 << 20)
    kernel = device.open(join.program)
    buffer = load(kernel, join)
    kernel.run(buffer, task_of(join))
    used = tiles[-1]
    for bound in (1, 3):
        join.stream[bound][512:] += np.uint32(1 << 28)
    kernel.run(buffer, replace(task_of(join), room=1 << 23))
    assert 0 < tiles[-1] < used
