"""Pruning: what is left holds every match, once; and it leaves out what it should."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.errors import UsageError
from penstock.expr.columns import Vector
from penstock.host.device.cut import TASK_EVALUATIONS
from penstock.host.keys.layouts import Layout, StreamKeys
from penstock.host.prune.boxes import cut, make_tester
from penstock.host.prune.plan import PrunedRanges
from penstock.host.prune.pruner import MOST_SKIPPED, Pruner
from penstock.host.prune.sizes import Pruning
from penstock.host.windows.run import WindowRun
from penstock.program import BandProgram, Mode, Program
from tests.host.kit.predicates import NARROW, OTHER, WIDE, general_join
from tests.host.kit.tasks import RANGES, Join, band_join, expected
from tests.kit.effort import examples

SEEDS = st.integers(0, 1 << 32)
SMALL = Pruning(
    least_pairs=1, pairs_per_row=0, slab_rows=(8, 32), block_rows=4, chunk_rows=16, group_rows=2
)


class Given(Layout):
    """Keys that need no encoding."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def covers(self, window: Sequence[Vector]) -> bool:
        return True

    def window(self, window: Sequence[Vector]) -> list[np.ndarray]:
        return [v.values for v in window]

    def stream(self, columns: object, rows: int) -> StreamKeys:
        raise AssertionError


def drawn(seed: int, kind: str, rows: int = 40, window: int = 120) -> Join:
    rng = np.random.default_rng(seed)
    if kind == "band":
        bits = int(rng.choice([16, 24, 32, 64]))
        return band_join(rng, int(rng.integers(1, 4)), bits, rows, window, str(rng.choice(RANGES)))
    types = NARROW + OTHER + (WIDE if rng.random() < 0.5 else ())
    kind = str(rng.choice(RANGES))
    return general_join(rng, types, int(rng.integers(1, 12)), rows, window, kind)


def run_of(join: Join, rows: slice = slice(None)) -> WindowRun:
    keys = [Vector(column[rows]) for column in join.window]
    return WindowRun(np.arange(len(keys[0].values)), keys)


def met(parts: Sequence[PrunedRanges], join: Join, mode: Mode) -> list[tuple[int, int]]:
    """Pairs of stream tuple and position that are left, as a device and a host would see them."""
    found = []
    for part in parts:
        for piece in part.pieces:
            assert (np.diff(piece.start) >= 0).all()
            assert (np.diff(piece.end) >= 0).all()
            assert (piece.start < piece.end).all()
            for row, start, end in zip(piece.rows, piece.start, piece.end, strict=True):
                places = np.arange(start, end)
                own = np.full(len(places), row)
                _, positions = part.matches(own, places, join.start, join.end)
                assert part.inside or mode is Mode.PAIRS
                assert len(positions) == len(places) or not part.inside
                found += [(int(row), int(p)) for p in positions]
    return found


# -- arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [{"slab_rows": ()}, {"group_rows": 0}, {"least_pairs": -1}])
def test_sizes_are_above_zero(sizes: dict) -> None:
    with pytest.raises(UsageError, match="must be at least 1"):
        Pruning(**sizes)


def test_pairs_per_row_are_not_negative() -> None:
    with pytest.raises(UsageError, match="must not be negative, not -1"):
        Pruning(pairs_per_row=-1)


@pytest.mark.parametrize("sizes", [{"block_rows": 300}, {"slab_rows": (4096, 5000)}])
def test_sizes_divide_each_other(sizes: dict) -> None:
    with pytest.raises(UsageError, match="must divide the next"):
        Pruning(**sizes)


# -- nothing is lost ------------------------------------------------------------------------------


@settings(max_examples=examples(80), deadline=None)
@given(SEEDS, st.sampled_from(["band", "general"]))
@example(1508985, "general")  # a decimal is cast to a float, which scales it
def test_bounds_rule_out_no_match(seed: int, kind: str) -> None:
    join = drawn(seed, kind, 20, 30)
    join = Join(join.program, join.window, join.stream, join.start * 0, join.end * 0 + 30)
    rng = np.random.default_rng(seed)
    cuts = [np.unique([0, n, *rng.integers(1, n, n // 2)]) for n in (20, 30)]
    tester = make_tester(join.program)
    groups, blocks = (
        tester.boxes("s", join.stream, cuts[0]),
        tester.boxes("w", join.window, cuts[1]),
    )
    may = tester.may_match(groups, blocks)
    may = np.broadcast_to(may, (len(cuts[0]) - 1, len(cuts[1]) - 1))
    for i, j in expected(join):
        group = np.searchsorted(cuts[0], i, side="right") - 1
        block = np.searchsorted(cuts[1], j, side="right") - 1
        assert may[group, block]
    part = tester.may_match(cut(groups, 1, 2), blocks)
    assert np.array_equal(np.broadcast_to(part, (1, may.shape[1]))[0], may[1])


@settings(max_examples=examples(80), deadline=None)
@given(SEEDS, st.sampled_from(["band", "general"]), st.sampled_from(list(Mode)))
def test_every_match_is_left_once(seed: int, kind: str, mode: Mode) -> None:
    join = drawn(seed, kind)
    pruner = Pruner(SMALL)
    parts = pruner.parts(
        run_of(join).snapshot(), Given(join.program), join.stream, join.start, join.end, mode
    )
    pairs = met(parts, join, mode)
    assert len(set(pairs)) == len(pairs)
    assert set(map(tuple, expected(join).tolist())) <= set(pairs)
    assert sum(part.evaluations for part in parts) <= join.evaluations
    assert all((join.start[i] <= j) & (j < join.end[i]) for i, j in pairs)


@settings(max_examples=examples(40), deadline=None)
@given(SEEDS, st.sampled_from(["band", "general"]))
def test_a_run_that_grows_and_forgets(seed: int, kind: str) -> None:
    """Slabs stay as they were, whatever comes behind them and goes before them."""
    join = drawn(seed, kind, 60, 240)
    rng = np.random.default_rng(seed)
    pruner, run = Pruner(SMALL), run_of(join, slice(0, 40))
    made, upto = Given(join.program), 40
    while True:
        first = run.first
        start, end = (np.clip(limit, first, upto) for limit in (join.start, join.end))
        now = Join(join.program, join.window, join.stream, start, end)
        if rng.random() < 0.2:  # codes change
            made = Given(join.program)
        parts = pruner.parts(run.snapshot(), made, join.stream, start, end, Mode.PAIRS)
        pairs = met(parts, now, Mode.PAIRS)
        assert len(set(pairs)) == len(pairs)
        assert set(map(tuple, expected(now).tolist())) <= set(pairs)
        if upto == 240:
            return
        step = min(int(rng.integers(1, 60)), 240 - upto)
        keys = [Vector(column[upto : upto + step]) for column in join.window]
        run.append(np.arange(upto, upto + step), keys, pa.record_batch([pa.nulls(step)], ["none"]))
        upto += step
        run.drop(int(rng.integers(0, len(run))))


# -- it prunes what it should ---------------------------------------------------------------------


def near(
    seed: int, rows: int, window: int, reach: int, spread: int = 1 << 16, mode: Mode = Mode.PAIRS
) -> tuple[Join, list[PrunedRanges]]:
    """Points in a square that meet the points in a small square around them."""
    rng = np.random.default_rng(seed)
    keys = [rng.integers(0, spread, window).astype(np.uint32) for _ in "xy"]
    bounds: list[np.ndarray] = []
    for _ in "xy":
        at = rng.integers(0, spread, rows)
        low, high = np.maximum(at - reach, 0), at + reach
        bounds += [low.astype(np.uint32), high.astype(np.uint32)]
    start, end = np.sort(rng.integers(0, window // 4, rows)), np.full(rows, window)
    join = Join(BandProgram(2, 0b1000), keys, bounds, start, end)
    sizes = Pruning(least_pairs=1, pairs_per_row=0)
    run = run_of(join).snapshot()
    return join, Pruner(sizes).parts(run, Given(join.program), bounds, start, end, mode)


@pytest.mark.parametrize("mode", [Mode.PAIRS, Mode.COUNT])
def test_points_nearby(mode: Mode) -> None:
    join, parts = near(1, 5000, 70_000, 500, mode=mode)
    assert 8 * sum(part.evaluations for part in parts) < join.evaluations


def test_one_sorted_key_needs_no_cluster() -> None:
    """Nearest keeps the order of the rows; bounds in that order serve where it follows a key."""
    rng = np.random.default_rng(2)
    key = np.sort(rng.integers(0, 1 << 20, 40_960)).astype(np.uint32)
    low = np.sort(rng.integers(0, 1 << 20, 1000)).astype(np.uint32)
    start, end = np.zeros(1000, np.int64), np.full(1000, 40_960)
    join = Join(BandProgram(1, 0b10), [key], [low, low + np.uint32(500)], start, end)
    run = run_of(join).snapshot()
    sizes = Pruning(least_pairs=1, pairs_per_row=0)
    parts = Pruner(sizes).parts(run, Given(join.program), join.stream, start, end, Mode.NEAREST)
    assert all(part.source is run for part in parts)
    assert 10 * sum(part.evaluations for part in parts) < join.evaluations


def test_where_nothing_can_be_pruned_it_rests_longer_and_longer() -> None:
    join, _ = near(3, 300, 5000, 1 << 17)
    pruner, run = Pruner(Pruning(least_pairs=1, pairs_per_row=0)), run_of(join).snapshot()
    looked = []
    for probe in range(300):
        slabs = next(iter(pruner._runs.values()), None)
        if slabs is None or not slabs.skip:
            looked.append(probe)
        (part,) = pruner.parts(
            run, Given(join.program), join.stream, join.start, join.end, Mode.PAIRS
        )
        assert part.source is run
        assert part.evaluations == join.evaluations
    assert np.diff(looked).max() == MOST_SKIPPED + 1
    assert len(looked) < 12


def test_clustering_must_be_earned() -> None:
    """A run is clustered once enough pairs have come for its rows; sooner for a slow device."""
    join, _ = near(1, 100, 8192, 500)
    own = Given(join.program), join.stream, join.start, join.end, Mode.PAIRS
    sizes = Pruning(least_pairs=1, pairs_per_row=300, free_rows=0)
    for speed, probes in ((1, 3), (2, 1)):
        pruner, run = Pruner(sizes, TASK_EVALUATIONS // speed), run_of(join).snapshot()
        left = [sum(p.evaluations for p in pruner.parts(run, *own)) for _ in range(probes + 1)]
        assert left[:probes] == [join.evaluations] * probes
        assert left[probes] < join.evaluations


def test_off() -> None:
    join, _ = near(1, 50, 9000, 10)
    run = run_of(join).snapshot()
    (part,) = Pruner(None).parts(
        run, Given(join.program), join.stream, join.start, join.end, Mode.PAIRS
    )
    assert part.evaluations == join.evaluations
