"""Programs of wide codes on narrow units give what they give in full."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import DeviceError
from penstock.host.device.base import Result, Task
from penstock.host.device.wrapped import WrappedDevice, WrappedKernel
from penstock.host.devices.cpu import CpuDevice
from penstock.host.devices.narrow.kernel import NarrowBuffer, NarrowKernel
from penstock.host.devices.narrow.maps import CodeMap
from penstock.program import BandProgram, GeneralProgram, Mode, WindowProgram, empty_code
from penstock.types import integer
from tests.host.kit.narrow_device import NarrowDevice
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
from tests.kit.effort import examples


@pytest.fixture(scope="module")
def cpu() -> Iterator[CpuDevice]:
    with CpuDevice(1) as device:
        yield device


def run(device: NarrowDevice, join: Join, room: int = 1 << 20, pieces: int = 1) -> list:
    kernel = device.open(join.program)
    buffer = load(kernel, join, pieces)
    results = run_to_end(kernel, buffer, join, max(room, kernel.min_room))
    buffer.free()
    return results


@settings(max_examples=examples(400), deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    tests=st.integers(1, 4),
    bits=st.sampled_from([2, 3, 4, 8, 16]),
    key_bits=st.sampled_from([17, 32, 64]),
    kind=st.sampled_from(RANGES),
    room=st.integers(1, 200) | st.just(1 << 20),
    pieces=st.integers(1, 3),
    is_monotone=st.booleans(),
)
def test_narrow_is_full(
    cpu: CpuDevice, seed: int, tests: int, bits: int, key_bits: int, kind: str, room: int,
    pieces: int, is_monotone: bool,
) -> None:  # fmt: skip
    rng = np.random.default_rng(seed)
    join = band_join(rng, tests, key_bits, int(rng.integers(1, 30)), int(rng.integers(1, 90)), kind)
    if not is_monotone:  # a test that must fail, too
        table = int(rng.integers(0, 1 << (1 << tests), dtype=np.uint64))
        join = replace(join, program=replace(join.program, table=table))
    results = run(NarrowDevice(cpu, bits), join, room, pieces)
    np.testing.assert_array_equal(sorted_pairs(results), expected(join))
    counters = [result.counters for _, result in results]
    assert sum(one["evaluations"] for one in counters) == join.evaluations
    for (_, result), one in zip(results, counters, strict=True):
        assert one["narrow_pairs"] - one["false_pairs"] == len(result.i)
        assert one["narrow_bits"] == bits


def inward(one: CodeMap, lo: np.ndarray, hi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    low, high = outward(one, lo, hi)
    return np.where(low < empty_code(8), low + 1, low).astype(low.dtype), high


outward = CodeMap.bounds


def test_a_bound_that_is_rounded_inward_is_noticed(
    cpu: CpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CodeMap, "bounds", inward)
    missing = 0
    for seed in range(20):
        join = band_join(np.random.default_rng(seed), 1, 32, 30, 200, "full")
        missing += len(expected(join)) - len(sorted_pairs(run(NarrowDevice(cpu, 8), join)))
    assert missing


def spread_join(seed: int, rows: int = 40, window: int = 2000) -> Join:
    """Ranges that hold a few of many keys, so that few bits find false pairs."""
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, 1 << 31, window).astype(np.uint32)
    low = rng.integers(0, 1 << 31, rows).astype(np.uint32)
    start, end = np.zeros(rows, np.int64), np.full(rows, window)
    program = BandProgram(1, 0b10, 32)
    return Join(program, [keys], [low, low + np.uint32(1 << 22)], start, end)


def test_false_pairs_are_counted(cpu: CpuDevice) -> None:
    with NarrowDevice(WrappedDevice(cpu), 6) as device:
        device.inner = cpu  # which is not to be closed
        join = spread_join(1)
        ((pairs, result),) = run(device, join)
        assert len(pairs) == len(expected(join)) > 0
        assert result.counters["false_pairs"] > len(pairs)
        counters = device.counters()
        for name in ("narrow_pairs", "false_pairs"):
            assert counters[name] == result.counters[name]
        device.inner = WrappedDevice(CpuDevice(1))


def test_codes_that_fit_are_exact_and_need_no_test(cpu: CpuDevice) -> None:
    device = NarrowDevice(cpu, 16)
    kernel = device.open(BandProgram(1, 0b10, 16), frozenset({Mode.COUNT}))
    assert not isinstance(kernel, NarrowKernel)
    assert isinstance(device.open(BandProgram(1, 0b10, 17)), NarrowKernel)


def test_folds_are_refused(cpu: CpuDevice) -> None:
    device = NarrowDevice(cpu, 16)
    wide = BandProgram(1, 0b10, 32, integer(0, 9))
    for modes in ({Mode.EXISTS}, {Mode.PAIRS, Mode.COUNT}, {Mode.SUM, Mode.MAX}):
        reason = device.refuses(wide, frozenset(modes))
        assert reason is not None
        assert "16 bits" in reason
        assert "need exact codes" in reason
        with pytest.raises(DeviceError, match="exact codes"):
            device.open(wide, frozenset(modes))
    assert device.refuses(wide) is None
    kernel = device.open(wide)
    task = Task([np.zeros(0, np.uint32)] * 2, *[np.zeros(0, np.int64)] * 2, 1, Mode.COUNT)
    future = kernel.submit(kernel.allocate(1), task)
    with pytest.raises(DeviceError, match="opened for other modes"):
        future.result(TIMEOUT_S)


def test_wide_window_joins_are_refused(cpu: CpuDevice) -> None:
    device = NarrowDevice(cpu, 16)
    wide, narrow = (BandProgram(1, 0b10, bits) for bits in (32, 16))
    assert device.refuses(WindowProgram(narrow, narrow, (9, 9))) is None
    reason = device.refuses(WindowProgram(narrow, wide, (9, 9)))
    assert reason is not None
    assert "use the range operator" in reason


def test_programs_say_the_width_where_the_device_has_any(cpu: CpuDevice) -> None:
    device, wide = NarrowDevice(cpu, None), BandProgram(1, 0b10, 32)
    asking = replace(wide, unit_bits=16)
    assert not isinstance(device.open(wide), NarrowKernel)
    assert isinstance(device.open(asking), NarrowKernel)
    assert not isinstance(device.open(asking, frozenset({Mode.COUNT})), NarrowKernel)
    assert device.narrow_widths == (16, 24)


def test_general_programs_are_the_devices_own(cpu: CpuDevice) -> None:
    from penstock.expr import ops

    program = GeneralProgram((), (), ops.const(True))
    assert not isinstance(NarrowDevice(cpu, 16).open(program), NarrowKernel)


@pytest.mark.parametrize("bits", [1, 65])
def test_units_have_some_bits(cpu: CpuDevice, bits: int) -> None:
    with pytest.raises(DeviceError, match="2 to 64 bits"):
        NarrowDevice(cpu, bits)


# -- windows that change --------------------------------------------------------------------------


def written(buffer: NarrowBuffer, join: Join, low: int, high: int) -> None:
    buffer.write(low, [column[low:high] for column in join.window])


def narrow_buffer(cpu: CpuDevice, join: Join, bits: int) -> tuple[NarrowKernel, NarrowBuffer]:
    kernel = NarrowDevice(cpu, bits).open(join.program)
    assert isinstance(kernel, NarrowKernel)
    buffer = kernel.allocate(join.window_rows)
    assert isinstance(buffer, NarrowBuffer)
    return kernel, buffer


@pytest.mark.parametrize("bits", [3, 8, 16])
def test_a_window_grows_with_keys_that_nobody_knew(cpu: CpuDevice, bits: int) -> None:
    join = spread_join(2)
    # Each part has keys of its own, above those before.
    join.window[0].sort()
    kernel, buffer = narrow_buffer(cpu, join, bits)
    false = []
    for end in range(100, 2001, 100):
        written(buffer, join, end - 100, end)
        part = replace(
            join, window=[key[:end] for key in join.window], end=np.full(len(join.end), end)
        )
        results = run_to_end(kernel, buffer, part, 1 << 20)
        np.testing.assert_array_equal(sorted_pairs(results), expected(part))
        false.append(results[0][1].counters["false_pairs"])
    if bits == 16:  # at times there is a cell for each key, also of the later ones
        assert 0 in false[10:]


def test_maps_stay_while_a_task_reads(cpu: CpuDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    join = spread_join(3)
    kernel, buffer = narrow_buffer(cpu, join, 8)
    inner, waiting = kernel.inner.submit, []

    def late(window, task) -> Future[Result]:
        future: Future[Result] = Future()
        waiting.append((future, window, task))
        return future

    written(buffer, join, 0, 200)
    monkeypatch.setattr(kernel.inner, "submit", late)
    end = np.full(len(join.end), 200)
    future = kernel.submit(buffer, Task(join.stream, join.start, end, 1 << 20))
    before = buffer.maps
    written(buffer, join, 200, 1900)
    assert buffer.maps is before
    ((own, window, task),) = waiting
    own.set_result(inner(window, task).result(TIMEOUT_S))
    result = future.result(TIMEOUT_S)
    found = np.stack([result.i, result.j], axis=1).astype(np.int64)
    part = replace(join, window=[join.window[0][:200]], end=end)
    np.testing.assert_array_equal(found[np.lexsort(found.T[::-1])], expected(part))
    written(buffer, join, 1900, 2000)
    assert buffer.maps is not before
    monkeypatch.undo()
    np.testing.assert_array_equal(
        sorted_pairs(run_to_end(kernel, buffer, join, 1 << 20)), expected(join)
    )


def test_a_window_of_false_pairs_gets_other_maps(cpu: CpuDevice) -> None:
    join = spread_join(4)
    old = np.arange(2000, dtype=np.uint32)  # all below the keys to come
    kernel, buffer = narrow_buffer(cpu, join, 16)
    buffer.write(0, [old])
    shares = []
    for low in range(0, 2000, 500):
        written(buffer, join, low, low + 500)
        now = replace(
            join, window=[np.concatenate([join.window[0][: low + 500], old[low + 500 :]])]
        )
        results = run_to_end(kernel, buffer, now, 1 << 20)
        np.testing.assert_array_equal(sorted_pairs(results), expected(now))
        counters = results[0][1].counters
        shares.append(counters["false_pairs"] / counters["narrow_pairs"])
    assert shares[0] > 0.9
    assert shares[1] == 0


def test_memory_that_another_run_gets_has_maps_of_its_own(cpu: CpuDevice) -> None:
    join = spread_join(4)
    kernel, buffer = narrow_buffer(cpu, join, 16)
    buffer.write(0, [np.arange(2000, dtype=np.uint32)])
    written(buffer, join, 0, 2000)
    ((pairs, result),) = run_to_end(kernel, buffer, join, 1 << 20)
    assert len(pairs) == len(expected(join))
    assert result.counters["false_pairs"] == 0


def test_a_window_before_anything_is_written(cpu: CpuDevice) -> None:
    join = spread_join(5)
    kernel, buffer = narrow_buffer(cpu, join, 8)
    result = kernel.submit(buffer, Task(join.stream, join.start, join.end, 1 << 20))
    assert not len(result.result(TIMEOUT_S).i)


def test_memory_in_this_process_is_counted(cpu: CpuDevice) -> None:
    _, buffer = narrow_buffer(cpu, spread_join(6), 8)
    assert buffer.nbytes == buffer.inner.nbytes + 4 * 2000
    assert buffer.nbytes > buffer.inner.nbytes


# -- errors ---------------------------------------------------------------------------------------


class StubbornKernel(WrappedKernel):
    """Ends no task by itself."""

    def submit(self, window, task) -> Future[Result]:
        self.future: Future[Result] = Future()
        return self.future


def test_cancelling_reaches_the_device(cpu: CpuDevice) -> None:
    join = spread_join(7)
    kernel = NarrowKernel(StubbornKernel(cpu.open(BandProgram(1, 2, 8))), join.program, print)
    task = Task(join.stream, join.start, join.end, 1 << 20)
    buffer = load(kernel, join)
    future = kernel.submit(buffer, task)
    assert future.cancel()
    assert future.cancelled()
    again = kernel.submit(buffer, task)
    kernel.inner.future.set_running_or_notify_cancel()
    assert again.running()
    assert not again.cancel()
    kernel.inner.future.set_exception(DeviceError("gone"))
    with pytest.raises(DeviceError, match="gone"):
        again.result(TIMEOUT_S)
    assert not again.running()


def test_errors_are_those_of_any_device(cpu: CpuDevice) -> None:
    join = spread_join(8)
    kernel, buffer = narrow_buffer(cpu, join, 8)
    with pytest.raises(DeviceError, match="do not fit"):
        buffer.write(1999, [np.zeros(2, np.uint32)])
    with pytest.raises(DeviceError, match="window keys of uint64"):
        buffer.write(0, [np.zeros(2, np.uint64)])
    task = Task(join.stream, join.start, join.end, 1 << 20)
    for window, asked, message in (
        (buffer.inner, task, "not one of this kernel's"),
        (buffer, replace(task, end=task.end + 1), "clip"),
        (buffer, replace(task, stream=task.stream[:1]), "has 2 stream columns"),
    ):
        with pytest.raises(DeviceError, match=message):
            kernel.submit(window, asked).result(TIMEOUT_S)
    buffer.free()
    with pytest.raises(DeviceError, match="freed"):
        kernel.submit(buffer, task).result(TIMEOUT_S)
    with pytest.raises(DeviceError, match="freed"):
        buffer.write(0, [np.zeros(2, np.uint32)])
