"""Pruning: what is left holds every match, once; and it leaves out what it should."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import UsageError
from penstock.expr.columns import Vector
from penstock.host.device.base import Device, Kernel, Pause
from penstock.host.device.cut import TASK_EVALUATIONS, Cutting
from penstock.host.device.registry import open_device
from penstock.host.device.search import SPARE_ROWS, SearchPiece
from penstock.host.device.wrapped import WrappedDevice
from penstock.host.join.table.table_join import TableJoin
from penstock.host.keys.layouts import Layout
from penstock.host.prune.cell_search import MOST_SKIPPED
from penstock.host.prune.parts import OrderedRun, Part, PrunedRanges, Searched
from penstock.host.prune.pruner import Pruner
from penstock.host.prune.sizes import Pruning
from penstock.program import BandProgram, Mode, empty_code
from penstock.query.compiler import compile_query
from penstock.types import integer
from tests.host.kit.folds import check_folds, payload_join
from tests.host.kit.pruning import TINY, Given, by, folds_of, run_of
from tests.host.kit.tasks import RANGES, Join, band_join, expected
from tests.kit.effort import effort, examples

SEEDS = st.integers(0, 1 << 32)
KINDS = st.sampled_from(RANGES)
#: Sizes as a user has them, but for short windows: an order must be worth it.
SMALL = Pruning(least_pairs=1, free_rows=1 << 20, run_rows=(16, 64))
#: Orders are used wherever there is one, at any price.
LARGER = replace(TINY, run_rows=(16, 64))
ZONES = replace(LARGER, orders=("zones",))
SIZES = st.sampled_from([TINY, SMALL, LARGER, ZONES])
#: As in tests/host/devices/cpu/test_searching.py, whose kernels are kept.
FORMS = effort(
    [(bits, tests) for bits in (16, 32, 64) for tests in (1, 2, 3, 4)], [(64, 1), (32, 2)]
)


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    with open_device("cpu", threads=1) as device:
        yield device


@dataclass
class Probe:
    """What a pruner left of a join."""

    kernel: Kernel
    layout: Layout
    join: Join
    parts: list[Part]

    def check(self) -> None:
        """Find every match, once."""
        found = np.concatenate([np.zeros((0, 2), np.int64), *map(self.matches, self.parts)])
        found = found[np.lexsort((found[:, 1], found[:, 0]))]
        np.testing.assert_array_equal(found, expected(self.join))
        assert sum(part.evaluations for part in self.parts) <= self.join.evaluations

    def matches(self, part: Part) -> np.ndarray:
        """Matches of a part as pairs of tuple and position in the run."""
        if isinstance(part, Searched):
            return self.run(part, SPARE_ROWS)
        rows, positions = self.left(part)
        return np.stack([rows, positions], 1)[self.hits(rows, positions)]

    def run(self, part: Searched, room: int) -> np.ndarray:
        """What the device finds, in as many tasks as it takes."""
        (whole,) = part.pieces
        found = []
        waiting = list(whole.tasks(Cutting(2)))
        assert all(isinstance(piece, SearchPiece) for piece in waiting)
        while waiting:
            piece = waiting.pop()
            task = part.task(piece, self.join.stream, room, Mode.PAIRS)
            result = self.kernel.run(None, task)
            places = result.j.astype(np.int64) + part.source.first
            rows = piece.rebased(result.i).astype(np.int64)
            found.append(np.stack([rows, part.positions(places)], 1))
            if (pause := result.pause) is not None:
                waiting += piece.remaining(Pause(pause.i0, pause.i1, pause.p + part.source.first))  # type: ignore[arg-type]
        return np.concatenate(found)

    def left(self, part: PrunedRanges) -> tuple[np.ndarray, np.ndarray]:
        """The pairs of a part, checked for what a device needs of its ranges."""
        rows, positions = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        source = part.source
        for piece in part.pieces:
            assert len(piece.rows)
            assert (np.diff(piece.start) >= 0).all()
            assert (np.diff(piece.end) >= 0).all()
            assert (piece.start < piece.end).all()
            assert source.first <= piece.low
            assert piece.high <= source.end
            length = piece.end - piece.start
            places = np.concatenate(
                [np.arange(a, b) for a, b in zip(piece.start, piece.end, strict=True)]
            )
            rows.append(np.repeat(piece.rows.astype(np.int64), length))
            positions.append(np.asarray(part.positions(places), np.int64))
            columns = source.columns(self.layout, piece.low, piece.high)
            for own, column in zip(columns, self.join.window, strict=True):
                np.testing.assert_array_equal(own[places - piece.low], column[positions[-1]])
        row, position = np.concatenate(rows), np.concatenate(positions)
        assert (self.join.start[row] <= position).all()
        assert (position < self.join.end[row]).all()
        assert len(set(zip(row.tolist(), position.tolist(), strict=True))) == len(row)
        return row, position

    def hits(self, rows: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Whether each pair matches."""
        every = replace(
            self.join,
            start=np.zeros_like(self.join.start),
            end=np.full_like(self.join.end, self.join.window_rows),
        )
        hit = np.zeros((len(every.start), every.window_rows), bool)
        hit[tuple(expected(every).T)] = True
        return hit[rows, positions]


def drawn(
    rng: np.random.Generator, form: tuple[int, int], kind: str, rows: int = 40, window: int = 120
) -> Join:
    """A band join; some of its tests are for equality."""
    bits, tests = form
    bits = 24 if bits == 32 and rng.random() < 0.3 else bits  # NULL is not the largest number
    join = band_join(rng, tests, bits, rows, window, kind)
    assert isinstance(join.program, BandProgram)
    if rng.random() < 0.6:  # most programs are one AND
        join = replace(join, program=replace(join.program, table=1 << ((1 << tests) - 1)))
    for d in range(tests):
        if rng.random() < 0.4:
            join.stream[2 * d + 1] = join.stream[2 * d]
    return join


def opened(device: Device, join: Join) -> Kernel:
    return device.open(join.program)


# -- arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [{"run_rows": ()}, {"run_rows": (0, 4)}, {"least_pairs": -1}])
def test_sizes_are_above_zero(sizes: dict) -> None:
    with pytest.raises(UsageError, match="must be at least 1"):
        Pruning(**sizes)


def test_free_rows_are_not_negative() -> None:
    with pytest.raises(UsageError, match="must not be negative, not -1"):
        Pruning(free_rows=-1)


def test_sizes_divide_each_other() -> None:
    with pytest.raises(UsageError, match="must divide the next"):
        Pruning(run_rows=(4096, 5000))


def test_always_is_a_flag() -> None:
    with pytest.raises(UsageError, match="always"):
        Pruning(always=1)  # type: ignore[arg-type]


# -- nothing is lost ------------------------------------------------------------------------------


@settings(max_examples=examples(200), deadline=None)
@given(SEEDS, st.sampled_from(FORMS), KINDS, SIZES, st.booleans(), st.booleans())
def test_every_match_is_left_once(
    device: Device, seed: int, form: tuple, kind: str, sizes: Pruning, growing: bool, searches: bool
) -> None:
    rng = np.random.default_rng(seed)
    join = drawn(rng, form, kind, int(rng.integers(1, 60)), int(rng.integers(1, 300)))
    pruner = Pruner(sizes, growing=growing, searches=searches, threads=int(rng.integers(1, 3)))
    layout, window = Given(join.program), run_of(join)
    if rng.random() < 0.3:
        window.drop(int(rng.integers(0, join.window_rows)))
        start, end = (np.maximum(limit, window.first) for limit in (join.start, join.end))
        join = replace(join, start=start, end=end)
    run = window.snapshot()
    with_kernel = opened(device, join), layout
    for _ in range(2):
        parts = pruner.parts(run, *by(layout, join.stream), join.start, join.end, Mode.PAIRS)
        assert searches or not any(isinstance(part, Searched) for part in parts)
        Probe(*with_kernel, join, parts).check()


@settings(max_examples=examples(120), deadline=None)
@given(SEEDS, st.sampled_from(FORMS), SIZES, st.booleans())
def test_a_run_that_grows_and_forgets(
    device: Device, seed: int, form: tuple, sizes: Pruning, searches: bool
) -> None:
    """Stretches stay as they were, whatever comes behind them and goes before them."""
    rng = np.random.default_rng(seed)
    join = drawn(rng, form, "random", 60, 400)
    pruner, run = Pruner(sizes, searches=searches), run_of(join, slice(0, 40))
    kernel, layout, upto = opened(device, join), Given(join.program), 40
    probes: list[Probe] = []
    while True:
        first = run.first
        some = np.flatnonzero(rng.random(60) < rng.choice([0.1, 0.6, 1.0]))
        start, end = (np.clip(limit[some], first, upto) for limit in (join.start, join.end))
        if rng.random() < 0.5:  # the whole window
            start, end = np.full(len(some), first), np.full(len(some), upto)
        stream = [column[some] for column in join.stream]
        now = Join(join.program, join.window, stream, start, end)
        if rng.random() < 0.1:  # codes change
            layout = Given(join.program)
        parts = pruner.parts(run.snapshot(), *by(layout, stream), start, end, Mode.PAIRS)
        probes.append(Probe(kernel, layout, now, parts))
        probes[-1].check()
        if upto == 400:
            break
        step = min(int(rng.choice([1, 7, 60, 120])), 400 - upto)
        keys = [Vector(column[upto : upto + step]) for column in join.window]
        run.append(np.arange(upto, upto + step), keys, pa.record_batch([pa.nulls(step)], ["none"]))
        upto += step
        run.drop(int(rng.integers(0, len(run))))
        kept = pruner.keep({run.number} if rng.random() < 0.9 else ())
        assert all(isinstance(number, int) for number in kept)
    for probe in probes:  # what was given out is still there
        probe.check()


@pytest.mark.parametrize("growing", [False, True])
@pytest.mark.parametrize("searches", [False, True])
@pytest.mark.parametrize("sizes", [TINY, LARGER, ZONES], ids=["tiny", "larger", "zones"])
@pytest.mark.parametrize("same", ["probe", "sample"])
def test_an_equality_that_ends(
    device: Device, same: str, sizes: Pruning, searches: bool, growing: bool
) -> None:
    """Ends that were equal in all tuples so far, or in those of a sample, need not stay so."""
    rng = np.random.default_rng(11)
    rows, window = 1000, 200
    key = [rng.integers(0, 30, window).astype(np.uint32) for _ in range(3)]
    program = BandProgram(3, 1 << 7, 32)
    pruner, run = Pruner(sizes, growing=growing, searches=searches), None
    kernel, layout = device.open(program), Given(program)
    for probe in range(3):
        stream = []
        for _ in key:
            low = rng.integers(0, 30, rows).astype(np.uint32)
            high = low.copy()
            if probe or same == "sample":
                wide = rng.random(rows) < 0.5
                # A sample has places at equal distances.
                wide[np.linspace(0, rows - 1, 256).astype(int)] &= probe > 0
                high[wide] += np.uint32(9)
            stream += [low, high]
        full = np.zeros(rows, np.int64), np.full(rows, window)
        join = Join(program, key, stream, *full)
        run = run_of(join).snapshot() if run is None else run
        parts = pruner.parts(run, *by(layout, stream), *full, Mode.PAIRS)
        Probe(kernel, layout, join, parts).check()


def test_a_first_tuple_that_can_match_nothing(device: Device) -> None:
    """Its range is empty, so both ends are the same."""
    key, empty = np.arange(64, dtype=np.uint32), empty_code(32)
    program = BandProgram(1, 0b10, 32)
    pruner, layout, run = Pruner(TINY, searches=True), Given(program), None
    for low, high in (([empty], [empty]), ([3, 7], [20, 30])):
        stream = [np.array(own, np.uint32) for own in (low, high)]
        full = np.zeros(len(low), np.int64), np.full(len(low), 64)
        join = Join(program, [key], stream, *full)
        run = run_of(join).snapshot() if run is None else run
        parts = pruner.parts(run, *by(layout, stream), *full, Mode.PAIRS)
        Probe(device.open(program), layout, join, parts).check()


def test_a_level_that_no_range_reaches(device: Device) -> None:
    """The longer stretches hold most ranges, and no stretch the last one."""
    start, end = np.array([0] * 10 + [134]), np.array([100] * 10 + [135])
    key, ends = np.arange(135, dtype=np.uint32), np.arange(11, dtype=np.uint32)
    join = Join(BandProgram(1, 0b10, 32), [key], [ends, ends], start, end)
    layout, run = Given(join.program), run_of(join).snapshot()
    pruner = Pruner(TINY, searches=True)
    parts = pruner.parts(run, *by(layout, join.stream), start, end, Mode.PAIRS)
    Probe(device.open(join.program), layout, join, parts).check()


@pytest.mark.parametrize("growing", [False, True])
@pytest.mark.parametrize("searches", [False, True])
def test_codes_that_change(device: Device, searches: bool, growing: bool) -> None:
    """An order holds codes of one layout, and its cells follow from them."""
    rng = np.random.default_rng(13)
    keys = [rng.integers(0, 100, 300).astype(np.uint32) for _ in "xy"]
    low = [rng.integers(0, 90, 50).astype(np.uint32) for _ in "xy"]
    stream = [own + np.uint32(by) for own in low for by in (0, 9)]
    start, end = np.zeros(50, np.int64), np.full(50, 300)
    program = BandProgram(2, 0b1000, 32)
    base = Join(program, keys, stream, start, end)
    pruner, run = Pruner(LARGER, growing=growing, searches=searches), run_of(base).snapshot()
    for shift in (0, 1000, 3, 0):
        layout, more = Given(program, shift), np.uint32(shift)
        join = Join(program, [k + more for k in keys], [b + more for b in stream], start, end)
        parts = pruner.parts(run, *by(layout, join.stream), start, end, Mode.PAIRS)
        assert any(isinstance(part.source, OrderedRun) for part in parts)
        Probe(device.open(program), layout, join, parts).check()


@settings(max_examples=examples(60), deadline=None)
@given(SEEDS, KINDS, st.booleans(), st.booleans())
def test_folds_of_all_parts(
    device: Device, seed: int, kind: str, growing: bool, searches: bool
) -> None:
    rng = np.random.default_rng(seed)
    payload = integer(-(1 << 31), (1 << 31) - 1, nullable=False)
    join = payload_join(rng, 1, 64, payload, 40, 200, kind)
    join = replace(join, program=replace(join.program, table=0b10))  # type: ignore[type-var]
    check_all_modes(device, join, growing=growing, searches=searches)


@pytest.mark.parametrize("growing", [False, True])
@pytest.mark.parametrize("bounds", [(5, 9), (-200, 300), (0, (1 << 32) - 1)])
def test_folds_of_payloads_with_bounds(
    device: Device, bounds: tuple[int, int], growing: bool
) -> None:
    payload = integer(*bounds, nullable=False)
    join = payload_join(np.random.default_rng(1), 1, 64, payload, 40, 200, "full")
    join = replace(join, program=BandProgram(1, 0b10, 64, payload))
    check_all_modes(device, join, growing=growing, searches=True)


@pytest.mark.parametrize("growing", [False, True])
def test_sums_beyond_a_register(device: Device, growing: bool) -> None:
    rng = np.random.default_rng(14)
    payload = integer(-(1 << 63), (1 << 63) - 1, nullable=False)
    key, value = rng.integers(0, 9, 200).astype(np.uint64), np.full(200, (1 << 63) - 5)
    low = rng.integers(0, 5, 40).astype(np.uint64)
    start, end = np.zeros(40, np.int64), np.full(40, 200)
    program = BandProgram(1, 0b10, 64, payload)
    join = Join(program, [key, value], [low, low + np.uint64(3)], start, end)
    check_all_modes(device, join, growing=growing, searches=True)


def check_all_modes(device: Device, join: Join, *, growing: bool, searches: bool) -> None:
    """Fold the matches of all parts of a join on the device."""
    modes = [Mode.COUNT, Mode.EXISTS, Mode.SUM, Mode.MIN, Mode.MAX]
    kernel, layout = device.open(join.program, frozenset(modes)), Given(join.program)
    run = run_of(join).snapshot()
    for mode, sizes in product(modes, (TINY, ZONES)):
        pruner = Pruner(sizes, growing=growing, searches=searches)
        parts = pruner.parts(run, *by(layout, join.stream), join.start, join.end, mode)
        check_folds(folds_of(kernel, join, parts, mode, SPARE_ROWS), join, mode)
    kernel.close()


def test_payloads_that_take_several_passes_are_not_searched() -> None:
    """And neither are programs without a test that each match passes."""
    join = near(1, 50, 1000, 10)
    payload = integer(0, (1 << 64) - 1, nullable=False)
    for program in (BandProgram(2, 0b1000, 32, payload), BandProgram(2, 0b1110, 32)):
        pruner, run = Pruner(TINY, searches=True), run_of(join).snapshot()
        own = by(Given(program), join.stream)
        (part,) = pruner.parts(run, *own, join.start, join.end, Mode.PAIRS)
        assert part.source is run


# -- it prunes what it should ---------------------------------------------------------------------


def near(seed: int, rows: int, window: int, reach: int, spread: int = 1 << 16) -> Join:
    """Points in a square that meet the points in a small square around them."""
    rng = np.random.default_rng(seed)
    keys = [rng.integers(0, spread, window).astype(np.uint32) for _ in "xy"]
    bounds: list[np.ndarray] = []
    for _ in "xy":
        at = rng.integers(0, spread, rows)
        low, high = np.maximum(at - reach, 0), at + reach
        bounds += [low.astype(np.uint32), high.astype(np.uint32)]
    start, end = np.sort(rng.integers(0, window // 4, rows)), np.full(rows, window)
    return Join(BandProgram(2, 0b1000), keys, bounds, start, end)


def count_tested(device: Device, join: Join, parts: Sequence[Part]) -> int:
    """Pairs that are tested."""
    kernel, count = device.open(join.program, frozenset({Mode.COUNT})), 0
    for part in parts:
        if isinstance(part, PrunedRanges):
            count += part.evaluations
            continue
        task = part.task(part.piece, join.stream, SPARE_ROWS, Mode.COUNT)
        count += kernel.run(None, task).counters["evaluations"]
    return count


#: Base rows of keys alone.
NO_ROWS = pa.RecordBatch.from_pylist([], schema=pa.schema([]))
EAGER = Pruning(least_pairs=1, free_rows=1 << 20)


@pytest.mark.parametrize("growing", [False, True])
@pytest.mark.parametrize("searches", [False, True])
@pytest.mark.parametrize("mode", [Mode.PAIRS, Mode.COUNT])
def test_points_nearby(device: Device, mode: Mode, searches: bool, growing: bool) -> None:
    join = near(1, 5000, 70_000, 500)
    pruner, run = Pruner(EAGER, growing=growing, searches=searches), run_of(join).snapshot()
    parts = pruner.parts(run, *by(Given(join.program), join.stream), join.start, join.end, mode)
    assert any(isinstance(part.source, OrderedRun) for part in parts)
    # Where cells are ranges, young rows of a growing window are in no stretch yet.
    assert (8 if growing and not searches else 100) * count_tested(
        device, join, parts
    ) < join.evaluations


@pytest.mark.parametrize("growing", [False, True])
@pytest.mark.parametrize("mode", [Mode.PAIRS, Mode.EXISTS])
def test_one_key_in_order_of_time(device: Device, mode: Mode, growing: bool) -> None:
    rng = np.random.default_rng(2)
    key = np.sort(rng.integers(0, 1 << 20, 40_960)).astype(np.uint32)
    low = np.sort(rng.integers(0, 1 << 20, 1000)).astype(np.uint32)
    start, end = np.zeros(1000, np.int64), np.full(1000, 40_960)
    join = Join(BandProgram(1, 0b10), [key], [low, low + np.uint32(500)], start, end)
    pruner, run = Pruner(EAGER, growing=growing, searches=True), run_of(join).snapshot()
    parts = pruner.parts(run, *by(Given(join.program), join.stream), start, end, mode)
    assert 10 * count_tested(device, join, parts) < join.evaluations


def test_equal_keys(device: Device) -> None:
    rng = np.random.default_rng(5)
    keys = [rng.integers(0, n, 30_000).astype(np.uint32) for n in (300, 50)]
    low = [rng.integers(0, n, 2000).astype(np.uint32) for n in (300, 50)]
    stream = [low[0], low[0], low[1], low[1]]
    start, end = np.zeros(2000, np.int64), np.full(2000, 30_000)
    join = Join(BandProgram(2, 0b1000), keys, stream, start, end)
    pruner, run = Pruner(EAGER, growing=False, searches=True), run_of(join).snapshot()
    parts = pruner.parts(run, *by(Given(join.program), stream), start, end, Mode.PAIRS)
    assert 2000 * count_tested(device, join, parts) < join.evaluations


def test_where_nothing_can_be_pruned_it_rests_longer_and_longer() -> None:
    join = near(3, 300, 5000, 1 << 17)
    pruner, run = Pruner(EAGER, searches=True), run_of(join).snapshot()
    looked = []
    for probe in range(300):
        orderings = next(iter(pruner._runs.values()), None)
        if orderings is None or not orderings.skip:
            looked.append(probe)
        (part,) = pruner.parts(
            run, *by(Given(join.program), join.stream), join.start, join.end, Mode.PAIRS
        )
        assert part.source is run
        assert part.evaluations == join.evaluations
    assert np.diff(looked).max() == MOST_SKIPPED + 1
    assert len(looked) < 12


@pytest.mark.parametrize("growing", [False, True])
def test_an_order_must_be_earned(growing: bool) -> None:
    """Rows are sorted once enough pairs have come for them; sooner for a slow device."""
    join = near(1, 100, 8192, 500)
    sizes = Pruning(least_pairs=1, free_rows=0)
    first = []
    for speed in (1, 8):
        own = (*by(Given(join.program), join.stream), join.start, join.end, Mode.PAIRS)
        pruner = Pruner(sizes, TASK_EVALUATIONS // speed, growing=growing, searches=True)
        run = run_of(join).snapshot()
        is_ordered = [
            any(isinstance(part.source, OrderedRun) for part in pruner.parts(run, *own))
            for _ in range(30)
        ]
        assert True in is_ordered
        first.append(is_ordered.index(True))
        assert all(is_ordered[first[-1] :])
        assert (pruner.nbytes > 0) == any(is_ordered)
    assert first[0] > first[1]


def test_few_pairs_are_left_as_they_are() -> None:
    join = near(1, 100, 8192, 500)
    for least, is_ordered in ((join.evaluations, True), (join.evaluations + 1, False)):
        pruner, run = Pruner(replace(EAGER, least_pairs=least)), run_of(join).snapshot()
        parts = pruner.parts(
            run, *by(Given(join.program), join.stream), join.start, join.end, Mode.PAIRS
        )
        assert any(isinstance(part.source, OrderedRun) for part in parts) == is_ordered


class Slow(WrappedDevice):
    """A device that is given ranges, and takes longer for a task than the CPU."""

    def __init__(self, inner: Device, task_evaluations: int) -> None:
        super().__init__(inner)
        self.searches, self.task_evaluations = False, task_evaluations


def test_slower_devices_are_spared_tuples_that_match_nothing(device: Device) -> None:
    """So two devices that give the same rows may count different pairs as evaluated."""
    rng = np.random.default_rng(3)
    at = np.arange(400)
    x, y = (rng.integers(0, 900, 400) for _ in "xy")
    s = pa.table({"id": at, "t": at, "x": x, "y": y})
    x = x.copy()
    x[200] = 1 << 20  # far from every other row
    sides = {"r": pa.table({"id": at, "t": at, "x": x, "y": y}), "s": s}
    query = compile_query(
        """SELECT r.id AS i, s.id AS j FROM r JOIN s ON s.t BETWEEN r.t - 30 AND r.t + 35
        AND (r.x - s.x) * (r.x - s.x) + (r.y - s.y) * (r.y - s.y) <= 62500""",
        {name: side.schema for name, side in sides.items()},
        time={"r": "t", "s": "t"},
    )
    pairs, found = 0, []
    for evaluations, spared in ((TASK_EVALUATIONS, 0), (1 << 10, 66)):
        join = TableJoin(query, sides, Slow(device, evaluations), pruning=Pruning())
        rows = pa.Table.from_batches(list(join), schema=join.schema)
        found.append(rows.sort_by([("i", "ascending"), ("j", "ascending")]))
        pairs = join.stats.pairs_in_window
        assert join.stats.pairs_pruned == spared
        assert join.stats.pairs_evaluated == pairs - spared
    assert len(found[0]) > 0
    assert found[0] == found[1]


def test_young_rows_are_sorted_once_they_have_been_tested_for_long() -> None:
    join = near(4, 4000, 31_000, 500)
    pruner, run = Pruner(EAGER, searches=True), run_of(join, slice(0, 30_000))
    layout = Given(join.program)

    def left(tuples: int) -> tuple[int, int]:
        """Where the rows in order end, and how many of the others a probe tests."""
        some = np.arange(tuples)
        stream = [column[some] for column in join.stream]
        ends = np.full(tuples, len(run))
        parts = pruner.parts(run.snapshot(), *by(layout, stream), 0 * ends, ends, Mode.PAIRS)
        (searched,) = (part for part in parts if isinstance(part, Searched))
        tested = sum(part.evaluations for part in parts if isinstance(part, PrunedRanges))
        return searched.source.end, tested

    assert left(4000) == (30_000, 0)
    run.append(np.arange(30_000, 31_000), [Vector(c[30_000:]) for c in join.window], NO_ROWS)
    probes = [left(200) for _ in range(20)]
    assert probes[0] == (30_000, 200 * 1000)
    assert probes[-1] == (31_000, 0)
    assert sorted(set(probes)) == [probes[0], probes[-1]]
    assert left(4000) == (31_000, 0)


def test_what_is_kept() -> None:
    join = near(1, 100, 8192, 500)
    pruner, run = Pruner(EAGER), run_of(join).snapshot()
    layout = Given(join.program)
    parts = pruner.parts(run, *by(layout, join.stream), join.start, join.end, Mode.PAIRS)
    numbers = {part.source.run for part in parts if isinstance(part.source, OrderedRun)}
    assert numbers
    assert numbers <= pruner.keep({run.run})
    assert pruner.nbytes > 0
    assert pruner.keep(()) == set()
    assert pruner.nbytes == 0


def test_off() -> None:
    join = near(1, 50, 9000, 10)
    run = run_of(join).snapshot()
    (part,) = Pruner(None).parts(
        run, *by(Given(join.program), join.stream), join.start, join.end, Mode.PAIRS
    )
    assert part.evaluations == join.evaluations


def test_order_and_directory_take_few_bytes_per_row() -> None:
    """Also where the slabs of a table would not all be full."""
    key = np.random.default_rng(1).permutation(20_000).astype(np.uint32)
    stream = [key[:2000], key[:2000] + np.uint32(1)]
    start, end = np.zeros(2000, np.int64), np.full(2000, 16_384)
    end[-1] = 20_000
    join = Join(BandProgram(1, 0b10, 32), [key], stream, start, end)
    pruner = Pruner(Pruning(), growing=False, searches=True)
    parts = pruner.parts(
        run_of(join).snapshot(), *by(Given(join.program), join.stream), start, end, Mode.PAIRS
    )
    (searched,) = (part for part in parts if isinstance(part, Searched))
    assert searched.source.rows.nbytes <= 12 * 20_000 + 4096


def test_only_misses_in_a_row_make_it_rest_longer() -> None:
    """Probes that an order served count anew: the next miss costs one probe again."""
    good, bad = near(1, 5000, 70_000, 500), near(3, 300, 70_000, 1 << 17)
    run = run_of(good).snapshot()
    pruner = Pruner(EAGER, growing=False, searches=True)
    for join in (bad, bad, bad, bad, good):
        if run.run in pruner._runs:
            pruner._runs[run.run].skip = 0
        parts = pruner.parts(
            run, *by(Given(join.program), join.stream), join.start, join.end, Mode.PAIRS
        )
    assert any(isinstance(part, Searched) for part in parts)
    assert pruner._runs[run.run].misses == 0
