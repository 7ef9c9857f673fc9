"""One test body for every device: the contract of docs/inside/device-contract.md.

The oracle is brute force in NumPy (band programs) or pair by pair in plain Python (general ones).
Joins are run as they stand, and as what pruning leaves of them. A device that refuses a program is
not tested with it; the CPU device may refuse none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.errors import DeviceError, MissingToolError, PenstockError
from penstock.expr import ops
from penstock.host.device.base import PAIRS, Device, Kernel, Task
from penstock.host.device.cut import Cutting, whole
from penstock.host.device.merge import Merged
from penstock.host.device.registry import device_names, open_device
from penstock.host.device.search import SPARE_ROWS
from penstock.host.device.storage import key_dtype
from penstock.host.devices.cpu import CpuDevice
from penstock.host.prune.parts import Part
from penstock.kept_code import PLAIN
from penstock.program import BandProgram, GeneralProgram, Mode, Program
from penstock.types import Type, integer
from tests.host.kit.folds import check_folds, payload_join, run_folds, valued_join
from tests.host.kit.narrow_device import NarrowDevice
from tests.host.kit.predicates import NARROW, OTHER, WIDE, general_join
from tests.host.kit.pruning import folds_of, pairs_of, pruned
from tests.host.kit.pynq import virtual_board
from tests.host.kit.serving import serving_cpu
from tests.host.kit.tasks import (
    RANGES,
    TIMEOUT_S,
    Join,
    band_join,
    expected,
    load,
    ranges,
    run_to_end,
    sorted_pairs,
)
from tests.kit.effort import effort, examples


@dataclass(frozen=True)
class Subject:
    """A device under test and the sizes it is tested with."""

    device: Device
    rows: int
    window: int
    examples: int
    kernels: list[Kernel] = field(default_factory=list)

    def open(self, program: Program, modes: frozenset[Mode] = PAIRS) -> Kernel:
        """A kernel; the one before is closed, since a board holds one overlay at a time."""
        self.close()
        self.kernels.append(self.device.open(program, modes))
        return self.kernels[0]

    def widths(self, number: int) -> list[tuple[int, int]]:
        """Place and bits of each width of codes; in a short run of a slow device, of one of them.

        Tests that count from 0 take all of them in turn.
        """
        every = list(enumerate(self.device.key_widths))
        if effort(full=True, short=self.rows >= 12):
            return every
        return [every[number % len(every)]]

    def pruned(self, join: Join, mode: Mode = Mode.PAIRS) -> Iterator[list[Part]]:
        """What is left of a join with an order, of a table and of a stream."""
        searches = {False, self.device.searches}
        for growing, is_searched in product((False, True), searches):
            parts = pruned(join, mode, growing=growing, searches=is_searched)
            if parts:
                yield parts

    def close(self) -> None:
        """Close the kernel that is open."""
        while self.kernels:
            self.kernels.pop().close()


#: How each device is opened, and its sizes: tuples, window, seeds. Simulation in Amaranth takes
#: about a millisecond per cycle, Verilator and a C++ compiler take most of a minute per program, so
#: both get few units.
SUBJECTS = {
    "cpu": ("cpu", {}, (60, 700, 60)),
    "cpu on columns": ("cpu", {"interprets": True}, (60, 700, 60)),
    "amaranth": ("amaranth", {"units": effort(8, 3)}, (6, effort(24, 16), 3)),
    "cpu as narrow units": ("narrow", {"bits": 5}, (60, 700, 60)),
    "amaranth, narrow": ("amaranth", {"units": 3, "key_bits": 8}, (6, effort(24, 16), 3)),
    "rtl": ("rtl", {"units": 4}, (30, 200, 8)),
    "rtl, narrow": ("rtl", {"units": 4, "key_bits": 16}, (30, 200, 8)),
    "rtl, narrow ports": ("rtl", {"units": 2, "pipelines": 2, "word_bits": 64}, (30, 200, 8)),
    "fjoin": ("fjoin", {"units": 4}, (30, 200, 2)),
    "board": ("board", {"board_name": "zcu104", "units": 2}, (30, 200, 4)),
    "card": ("board", {"board_name": "u280", "units": 2}, (30, 200, 4)),
    "board, stalls": ("board", {"board_name": "pynq-z2", "units": 2, "stalls": 0.3}, (30, 200, 2)),
    "fjoin in Amaranth": ("fjoin-amaranth", {"units": 3}, (6, 24, 2)),
    "cpu of a server": ("remote", {"key_widths": (32,), "transport": "channel"}, (12, 40, 5)),
    "cpu of a server, through its socket": ("remote", {"transport": "socket"}, (12, 40, 5)),
}
SLOW = (
    "amaranth, narrow",
    "rtl",
    "rtl, narrow ports",
    "rtl, narrow",
    "fjoin",
    "board",
    "card",
    "board, stalls",
    "cpu of a server, through its socket",
)


@contextmanager
def made(name: str, options: dict) -> Iterator[Device]:
    """A device, skipping the test where it is not installed."""
    if name == "remote":
        # Each width of codes has kernels of its own, which the CPU's own run of the suite compiles.
        widths = options.get("key_widths", CpuDevice.key_widths)
        with (
            serving_cpu(widths) as address,
            open_device(name, address=address, transport=options["transport"]) as device,
        ):
            yield device
        return
    if name == "narrow":
        with NarrowDevice(CpuDevice(1), **options) as device:
            device.name = name
            yield device
        return
    if name == "fjoin-amaranth":
        # Not for users, who have the other one; so it is no entry point.
        module = pytest.importorskip("penstock.sim.fjoin_device", exc_type=ModuleNotFoundError)
        with module.FJoinAmaranthDevice(**options) as device:
            yield device
        return
    if name == "board":
        with virtual_board(**options) as device:
            yield device
        return
    if name not in device_names():
        pytest.skip(f"device {name} is not registered in this installation")
    try:
        device = open_device(name, **options)
    except (MissingToolError, DeviceError) as cause:
        if name == "cpu":
            raise
        pytest.skip(str(cause))
    with device:
        yield device


@pytest.fixture(
    scope="module",
    params=[pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in SUBJECTS],
)
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    name, options, sizes = SUBJECTS[request.param]
    with made(name, options) as device, pytest.MonkeyPatch.context() as patch:
        if options.get("interprets"):
            patch.setattr(PLAIN, "pairs", 1 << 60)
        subject = Subject(device, *sizes)
        yield subject
        subject.close()


def opened(subject: Subject, join: Join, modes: frozenset[Mode] = PAIRS) -> Kernel:
    refusal = subject.device.refuses(join.program, modes)
    if refusal is not None:
        assert subject.device.name != "cpu"
        assert refusal.strip()
        with pytest.raises(DeviceError):
            subject.open(join.program, modes)
        pytest.skip(f"device {subject.device.name} refuses the program: {refusal}")
    return subject.open(join.program, modes)


def check(
    subject: Subject, kernel: Kernel, join: Join, room: int, pieces: int = 1, spare: int = 0
) -> list:
    """Run the join to the end, pruned and as it stands, and compare it with the oracle.

    Returns
    -------
    list
        Results of the join as it stands.
    """
    if effort(full=True, short=subject.rows >= 12):
        check_pruned(subject, kernel, join, room)
    buffer = load(kernel, join, pieces, spare)
    results = run_to_end(kernel, buffer, join, max(room, kernel.min_room))
    np.testing.assert_array_equal(sorted_pairs(results), expected(join))
    evaluations = sum(result.counters["evaluations"] for _, result in results)
    assert evaluations == join.evaluations
    buffer.free()
    return results


def check_pruned(
    subject: Subject, kernel: Kernel, join: Join, room: int, mode: Mode = Mode.PAIRS
) -> int:
    """Compare what pruning leaves of a join with the oracle; return in how many ways it does."""
    ways = 0
    for parts in subject.pruned(join, mode):
        room = max(room, kernel.min_room, SPARE_ROWS)
        if mode is Mode.PAIRS:
            found = pairs_of(kernel, join, parts, room)
            np.testing.assert_array_equal(found, expected(join))
        else:
            check_folds(folds_of(kernel, join, parts, mode, room), join, mode)
        ways += 1
    return ways


def simple(subject: Subject, seed: int = 0, kind: str = "random", tests: int = 2) -> Join:
    rng = np.random.default_rng(seed)
    bits = subject.device.key_widths[-1]
    return band_join(rng, tests, bits, subject.rows, subject.window, kind)


# -- band programs --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "tests",
    [pytest.param(n, marks=pytest.mark.slow if n in (4, 5, 7) else ()) for n in range(1, 9)],
)
def test_band_programs_of_each_size(subject: Subject, tests: int) -> None:
    for width_index, bits in subject.widths(tests):
        rng = np.random.default_rng([tests, width_index])
        kind = RANGES[(tests + width_index) % len(RANGES)]
        join = band_join(rng, tests, bits, subject.rows, subject.window, kind)
        kernel = opened(subject, join)
        check(subject, kernel, join, room=subject.rows * subject.window)


@pytest.mark.parametrize("kind", RANGES)
def test_ranges_of_each_kind(subject: Subject, kind: str) -> None:
    join = simple(subject, seed=3, kind=kind)
    check(subject, opened(subject, join), join, room=subject.rows * subject.window)


@pytest.mark.parametrize("kind", RANGES)
def test_tiny_room_pauses_and_resumes(subject: Subject, kind: str) -> None:
    # One pair a task, and every pair matches: the most pauses there can be.
    small = replace(subject, rows=min(subject.rows, 20), window=min(subject.window, 90))
    join = simple(small, seed=5, kind=kind, tests=1)
    join = Join(BandProgram(1, 0b11, join.program.key_bits), *list(vars(join).values())[1:])
    kernel = opened(subject, join)
    results = check(subject, kernel, join, room=kernel.min_room)
    if join.evaluations > kernel.min_room:
        assert len(results) > 1


def test_no_stream_tuples(subject: Subject) -> None:
    join = simple(subject)
    none = Join(
        join.program, join.window, [c[:0] for c in join.stream], join.start[:0], join.end[:0]
    )
    check(subject, opened(subject, none), none, room=1)


def test_window_is_written_in_pieces_and_again(subject: Subject) -> None:
    join = simple(subject, seed=7)
    kernel = opened(subject, join)
    check(subject, kernel, join, room=subject.rows * subject.window, pieces=5, spare=9)
    buffer = load(kernel, join)
    changed = [column[::-1].copy() for column in join.window]
    buffer.write(0, changed)
    after = Join(join.program, changed, join.stream, join.start, join.end)
    results = run_to_end(kernel, buffer, after, subject.rows * subject.window)
    np.testing.assert_array_equal(sorted_pairs(results), expected(after))


@settings(
    deadline=None,
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_any_band_join(subject: Subject, data: st.DataObject) -> None:
    seed = data.draw(st.integers(0, subject.examples - 1))
    tests = data.draw(st.integers(1, 8 if subject.device.name == "cpu" else 2))
    bits = data.draw(st.sampled_from(subject.device.key_widths))
    if subject.device.name == "cpu":
        bits = data.draw(st.integers(8, 64))
    kind = data.draw(st.sampled_from(RANGES))
    rows = data.draw(st.integers(1, subject.rows))
    window = data.draw(st.integers(1, subject.window))
    room = data.draw(st.integers(1, 200) | st.just(rows * window))
    join = band_join(np.random.default_rng(seed), tests, bits, rows, window, kind)
    if subject.device.refuses(join.program) is None:
        check(subject, subject.open(join.program), join, room, pieces=data.draw(st.integers(1, 3)))


def test_what_pruning_leaves(subject: Subject) -> None:
    """Tuples come once for each range, and window positions are those of another order."""
    rows, window = subject.rows, subject.window
    rng = np.random.default_rng(8)
    key = [rng.integers(0, 20, window).astype(np.uint32) for _ in "xy"]
    low = [rng.integers(0, 16, rows).astype(np.uint32) for _ in "xy"]
    stream = [low[0], low[0] + np.uint32(4), low[1], low[1]]
    program = BandProgram(2, 0b1000, subject.device.key_widths[0])
    key, stream = (
        [own.astype(key_dtype(program.key_bits)) for own in each] for each in (key, stream)
    )
    join = Join(program, key, stream, *ranges(rng, "lapping", rows, window))
    modes = [
        m for m in (Mode.PAIRS, Mode.COUNT) if not subject.device.refuses(program, frozenset({m}))
    ]
    kernel = opened(subject, join, frozenset(modes))
    for mode in modes:
        assert check_pruned(subject, kernel, join, kernel.min_room, mode) >= 2


# -- general programs -----------------------------------------------------------------------------


@pytest.mark.parametrize("types", [NARROW, WIDE, OTHER, NARROW + OTHER, NARROW + WIDE + OTHER])
@pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=pytest.mark.slow if n % 2 else ()) for n in range(4)]
)
def test_general_programs(subject: Subject, types: tuple, seed: int) -> None:
    rng = np.random.default_rng([seed, len(types)])
    kind = RANGES[seed % len(RANGES)]
    join = general_join(rng, types, 4 + effort(6, 2) * seed, min(subject.rows, 12), 60, kind)
    kernel = opened(subject, join)
    check(subject, kernel, join, room=10_000)
    check(subject, kernel, join, room=1)


# -- aggregates -----------------------------------------------------------------------------------

#: What a band program folds: few values make ties, the others use all of a register's bits.
PAYLOADS = (
    integer(-2, 2),
    integer(0, 200),
    integer(-(1 << 15), (1 << 15) - 1),
    integer(-(1 << 31), (1 << 31) - 1),
    integer(0, (1 << 32) - 1),
    integer(-(1 << 63), (1 << 63) - 1),
    integer(0, (1 << 64) - 1),
    integer(-(1 << 80), 1 << 80),
)
#: Modes of band programs, and of general ones with a value.
FOLDS = (Mode.COUNT, Mode.EXISTS, Mode.SUM, Mode.MIN, Mode.MAX)
ALL_FOLDS = (*FOLDS, Mode.NEAREST)


def check_modes(subject: Subject, join: Join, wanted: Sequence[Mode]) -> None:
    """Each mode that the device has, all on one kernel: to open one may take a minute."""
    device = subject.device
    modes = [m for m in wanted if device.refuses(join.program, frozenset({m})) is None]
    if device.name == "cpu":
        assert len(modes) == len(wanted)
    kernel = opened(subject, join, frozenset(modes or wanted))
    buffer = load(kernel, join)
    for mode in modes:
        check_folds(run_folds(kernel, buffer, join, mode), join, mode)
        if effort(full=True, short=subject.rows >= 12):
            check_pruned(subject, kernel, join, kernel.min_room, mode)


@pytest.mark.parametrize("payload", PAYLOADS, ids=lambda t: f"{t.lo}..{t.hi}")
def test_band_folds_of_each_payload(subject: Subject, payload: Type) -> None:
    rng = np.random.default_rng(PAYLOADS.index(payload))
    widths = subject.widths(PAYLOADS.index(payload))
    _, bits = widths[rng.integers(0, len(widths))]
    join = payload_join(
        rng, effort(2, 1), bits, payload.as_nullable(False), subject.rows, subject.window, "random"
    )
    check_modes(subject, join, FOLDS)


@pytest.mark.parametrize("tests", [1, 3, 5, 8])
def test_band_folds_of_each_size(subject: Subject, tests: int) -> None:
    rng = np.random.default_rng([tests, 5])
    bits = subject.device.key_widths[tests % len(subject.device.key_widths)]
    if effort(full=False, short=subject.rows < 12):
        bits = subject.device.key_widths[0]  # wide codes are in the tests above
    payload = integer(-9, 9, nullable=False)
    kind = RANGES[tests % len(RANGES)]
    join = payload_join(rng, tests, bits, payload, subject.rows, subject.window, kind)
    check_modes(subject, join, FOLDS)


@pytest.mark.parametrize("kind", RANGES)
@pytest.mark.parametrize("matches", ["all", "none", "some"])
def test_modes_switch_between_tasks_of_one_kernel(
    subject: Subject, kind: str, matches: str
) -> None:
    rng = np.random.default_rng([RANGES.index(kind), 3])
    bits = subject.device.key_widths[0]
    payload = integer(-300, 300, nullable=False)
    join = payload_join(rng, 1, bits, payload, subject.rows, subject.window, kind)
    table = {"all": 0b11, "none": 0b00, "some": 0b10}[matches]
    join = replace(join, program=BandProgram(1, table, bits, payload))
    modes = (Mode.PAIRS, *FOLDS)
    kernel = opened(subject, join, frozenset(modes))
    buffer = load(kernel, join)
    for mode in [*modes, *reversed(modes)]:
        if mode is Mode.PAIRS:
            results = run_to_end(kernel, buffer, join, subject.rows * subject.window)
            np.testing.assert_array_equal(sorted_pairs(results), expected(join))
        else:
            check_folds(run_folds(kernel, buffer, join, mode), join, mode)


@pytest.mark.parametrize(
    "types", [NARROW, pytest.param(WIDE, marks=pytest.mark.slow), OTHER, NARROW + OTHER]
)
@pytest.mark.parametrize("seed", range(2))
def test_general_folds(subject: Subject, types: tuple, seed: int) -> None:
    rng = np.random.default_rng([seed, len(types), 7])
    kind = RANGES[(seed + len(types)) % len(RANGES)]
    join = valued_join(rng, types, 4 + 5 * seed, min(subject.rows, 12), 60, kind)
    check_modes(subject, join, ALL_FOLDS)


def test_nearest_takes_the_lowest_position_of_a_tie(subject: Subject) -> None:
    rows, window = min(subject.rows, 20), subject.window
    s, w = (ops.key(side, 0, integer(0, 3, nullable=False)) for side in "sw")
    program = GeneralProgram(
        (s.type,), (w.type,), ops.le(s, ops.const(2)), ops.absolute(ops.sub(s, w))
    )
    rng = np.random.default_rng(1)
    start, end = ranges(rng, "random", rows, window)
    keys = [rng.integers(0, 4, n).astype(np.int8) for n in (window, rows)]
    join = Join(program, keys[:1], keys[1:], start, end)
    check_modes(subject, join, [Mode.NEAREST])


@settings(
    deadline=None,
    max_examples=examples(40),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_any_fold_cut_into_tasks(subject: Subject, data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, subject.examples - 1)))
    rows = data.draw(st.integers(1, subject.rows))
    window = data.draw(st.integers(1, subject.window))
    kind = data.draw(st.sampled_from(RANGES))
    mode = data.draw(st.sampled_from(ALL_FOLDS))
    if mode is Mode.NEAREST or data.draw(st.booleans()):
        # One predicate for all of them, since compiling one takes seconds.
        join = valued_join(
            np.random.default_rng(5), NARROW, 6, min(rows, 12), min(window, 60), kind
        )
    else:
        is_cpu = subject.device.name == "cpu"
        bits = data.draw(st.sampled_from(subject.device.key_widths[: None if is_cpu else 1]))
        payload = data.draw(st.sampled_from(PAYLOADS[: None if is_cpu else 1])).as_nullable(False)
        tests = data.draw(st.integers(1, 2 if is_cpu else 1))
        join = payload_join(rng, tests, bits, payload, rows, window, kind)
    wanted = ALL_FOLDS if isinstance(join.program, GeneralProgram) else FOLDS
    refuses = subject.device.refuses
    modes = [m for m in wanted if refuses(join.program, frozenset({m})) is None]
    if mode not in modes:
        return
    kernel = subject.open(join.program, frozenset(modes))
    buffer = load(kernel, join)
    merged, evaluations = Merged(mode, len(join.start)), 0
    most = data.draw(st.integers(1, max(join.evaluations, 1)))
    pieces = list(whole(join.start, join.end).tasks(Cutting(subject.device.lanes, most)))
    futures = [
        kernel.submit(
            buffer,
            Task([c[one.rows] for c in join.stream], one.start, one.end, kernel.min_room, mode),
        )
        for one in pieces
    ]
    for piece, future in zip(pieces, futures, strict=True):
        result = future.result(TIMEOUT_S)
        assert result.folds is not None
        merged.add(piece.rows, result.folds)
        evaluations += result.counters["evaluations"]
    check_folds(merged.folds(), join, mode)
    assert evaluations == join.evaluations


def test_a_mode_that_was_not_asked_for_is_an_error(subject: Subject) -> None:
    join = simple(subject)
    kernel = opened(subject, join)
    buffer = load(kernel, join)
    task = Task(join.stream, join.start, join.end, 10_000, Mode.COUNT)
    with pytest.raises(DeviceError):
        kernel.submit(buffer, task).result(TIMEOUT_S)


def test_a_band_without_payload_has_nothing_to_sum(subject: Subject) -> None:
    join = simple(subject)
    assert subject.device.refuses(join.program, frozenset({Mode.SUM}))
    with pytest.raises(DeviceError):
        subject.open(join.program, frozenset({Mode.SUM}))


# -- many tasks of one join -----------------------------------------------------------------------


@pytest.mark.parametrize("room", [3, 100_000])
def test_the_pieces_of_a_join_give_each_pair_once(subject: Subject, room: int) -> None:
    join = simple(subject, seed=11, kind="gaps" if room == 3 else "random")
    kernel = opened(subject, join)
    buffer = load(kernel, join)
    cutting = Cutting(subject.device.lanes, max(join.evaluations // 7, 1))
    waiting, pairs = list(whole(join.start, join.end).tasks(cutting)), []
    while waiting:
        piece = waiting.pop()
        stream = piece.entries(join.stream)
        task = Task(stream, piece.start, piece.end, max(room, kernel.min_room))
        result = kernel.submit(buffer, task).result(TIMEOUT_S)
        rows = piece.rebased(result.i)
        pairs.append((np.stack([rows, result.j], axis=1).astype(np.int64), result))
        if result.pause is not None:
            waiting += piece.remaining(result.pause)
    np.testing.assert_array_equal(sorted_pairs(pairs), expected(join))


def test_tasks_in_flight_together(subject: Subject) -> None:
    joins = [simple(subject, seed=seed) for seed in range(3)]
    joins = [Join(joins[0].program, *list(vars(join).values())[1:]) for join in joins]
    kernel = opened(subject, joins[0])
    buffers = [load(kernel, join) for join in joins]
    futures = [
        kernel.submit(b, Task(j.stream, j.start, j.end, subject.rows * subject.window))
        for b, j in zip(buffers, joins, strict=True)
    ]
    for future, join in zip(futures, joins, strict=True):
        result = future.result(TIMEOUT_S)
        pairs = np.stack([result.i, result.j], axis=1).astype(np.int64)
        np.testing.assert_array_equal(sorted_pairs([(pairs, result)]), expected(join))


def test_counters_add_up(subject: Subject) -> None:
    join = simple(subject, seed=13)
    kernel = opened(subject, join)
    buffer = load(kernel, join)
    before = subject.device.counters().get("evaluations", 0)
    run_to_end(kernel, buffer, join, subject.rows * subject.window)
    assert subject.device.counters()["evaluations"] == before + join.evaluations


# -- errors ---------------------------------------------------------------------------------------


def test_a_window_that_does_not_fit_is_an_error(subject: Subject) -> None:
    join = simple(subject)
    buffer = opened(subject, join).allocate(join.window_rows)
    with pytest.raises(DeviceError):
        buffer.write(1, join.window)
    buffer.write(0, join.window)


def test_a_wrong_number_of_window_columns_is_an_error(subject: Subject) -> None:
    join = simple(subject)
    buffer = opened(subject, join).allocate(join.window_rows)
    with pytest.raises(DeviceError):
        buffer.write(0, join.window[:1])


def test_a_freed_buffer_is_an_error(subject: Subject) -> None:
    join = simple(subject)
    kernel = opened(subject, join)
    buffer = load(kernel, join)
    buffer.free()
    with pytest.raises(DeviceError):
        buffer.write(0, join.window)
    with pytest.raises((DeviceError, CancelledError)):
        kernel.submit(buffer, Task(join.stream, join.start, join.end, 10_000)).result(TIMEOUT_S)


@pytest.mark.parametrize("fault", ["a column is missing", "no room", "past the window"])
def test_a_bad_task_is_an_error(subject: Subject, fault: str) -> None:
    join = simple(subject)
    kernel = opened(subject, join)
    buffer = load(kernel, join)
    task = {
        "a column is missing": Task(join.stream[1:], join.start, join.end, 10_000),
        "no room": Task(join.stream, join.start, join.end, 0),
        "past the window": Task(join.stream, join.start, join.end + join.window_rows, 10_000),
    }[fault]
    with pytest.raises(PenstockError):
        kernel.submit(buffer, task).result(TIMEOUT_S)
