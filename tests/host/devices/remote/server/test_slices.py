"""Tasks in slices give what they give in one, and heavy ones let others through."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest

from penstock.expr import ops
from penstock.host.device.base import Kernel, Result, Task, WindowBuffer
from penstock.host.device.wrapped import WrappedBuffer, WrappedKernel
from penstock.host.devices.cpu import CpuDevice
from penstock.host.devices.remote.client.device import RemoteDevice
from penstock.host.devices.remote.server.limits import ServerLimits
from penstock.host.devices.remote.server.slices import KernelSpeed, Sliced
from penstock.program import BandProgram, GeneralProgram, Mode
from penstock.types import integer
from tests.host.kit.serving import serving, until
from tests.host.kit.tasks import band_join, expected, load, run_to_end, sorted_pairs
from tests.penstock.kit.devices import InterpretingCpu

TIMEOUT_S = 60


class Fixed(KernelSpeed):
    """Slices of so many evaluations."""

    def __init__(self, evaluations: int) -> None:
        super().__init__()
        self._fixed = evaluations

    def evaluations(self, shared: bool) -> int:
        return self._fixed


class Slicing(WrappedKernel):
    """Runs each task in slices of so many evaluations."""

    def __init__(self, inner: Kernel, each: int) -> None:
        super().__init__(inner)
        self.speed = Fixed(each)
        self.steps = 0

    def submit(self, window: WindowBuffer, task: Task) -> Future[Result]:
        assert isinstance(window, WrappedBuffer)
        work, done = Sliced(self.inner, window.inner, task, self.speed), False
        while not done:
            done = work.take(work.begin(True).result(TIMEOUT_S))
            self.steps += 1
        future: Future[Result] = Future()
        future.set_result(work.result())
        return future


@pytest.mark.parametrize("ranges", ["full", "single", "lapping", "random", "gaps", "empty"])
@pytest.mark.parametrize("each", [1, 7, 90, 1000])
@pytest.mark.parametrize("room", [1, 300, 100_000])
def test_pairs(ranges: str, each: int, room: int) -> None:
    """Whether or not there is room for all of them, and wherever a task pauses."""
    join = band_join(np.random.default_rng(7), 1, 32, 25, 90, ranges)
    with InterpretingCpu(1) as cpu:
        kernel = Slicing(cpu.open(join.program), each)
        window = load(kernel, join)
        results = run_to_end(kernel, window, join, max(room, kernel.min_room))
    np.testing.assert_array_equal(sorted_pairs(results), expected(join))
    assert kernel.steps > len(results) or join.evaluations <= each or room == 1


@pytest.mark.parametrize("mode", sorted(set(Mode) - {Mode.PAIRS}, key=str))
@pytest.mark.parametrize("each", [1, 40, 10_000])
def test_aggregates(mode: Mode, each: int) -> None:
    rng = np.random.default_rng(8)
    kind = integer(-1000, 1000, nullable=False)
    s, w = ops.key("s", 0, kind), ops.key("w", 0, kind)
    program = GeneralProgram((kind,), (kind,), ops.lt(s, w), ops.sub(w, ops.const(7)))
    rows, positions = 20, 80
    start = np.sort(rng.integers(0, positions, rows))
    end = np.minimum(np.maximum.accumulate(start + rng.integers(0, 40, rows)), positions)
    stream = rng.integers(-1000, 1000, rows).astype(np.int16)
    task = Task([stream], start, end, 1000, mode)
    with InterpretingCpu(1) as cpu:
        kernel = cpu.open(program, frozenset({mode}))
        window = kernel.allocate(positions)
        window.write(0, [rng.integers(-1000, 1000, positions).astype(np.int16)])
        whole = kernel.submit(window, task).result(TIMEOUT_S)
        slicing = Slicing(kernel, each)
        sliced = slicing.submit(WrappedBuffer(window), task).result(TIMEOUT_S)
    assert (slicing.steps > 1) == (each < 10_000)
    assert sliced.counters == whole.counters
    assert whole.folds is not None
    assert sliced.folds is not None
    found = whole.folds.found
    np.testing.assert_array_equal(sliced.folds.found, found)
    np.testing.assert_array_equal(sliced.folds.value[found], whole.folds.value[found])
    if whole.folds.position is not None:
        np.testing.assert_array_equal(sliced.folds.position, whole.folds.position)


def heavy(rows: int, positions: int) -> Task:
    zeros = np.zeros(rows, np.uint32)
    ends = np.full(rows, positions, np.int64)
    return Task([zeros, zeros], np.zeros(rows, np.int64), ends, 1 << 14)


def test_a_small_task_does_not_wait_for_the_end_of_heavy_ones() -> None:
    """Not even for that of one: the heavy ones here take long."""
    program, positions = BandProgram(1, 0b10, 32), 1 << 20
    with (
        serving({"cpu": CpuDevice(2)}, ServerLimits(evaluations=1 << 40)) as server,
        RemoteDevice(str(server.address)) as busy,
        RemoteDevice(str(server.address)) as other,
        ThreadPoolExecutor(8) as threads,
    ):
        windows = []
        for device in (busy, other):
            window = device.open(program).allocate(positions)
            window.write(0, [np.arange(positions, dtype=np.uint32)])
            windows.append(window)
        owner = server.owners["cpu"]
        long = Task(
            [np.zeros(1 << 20, np.uint32)] * 2,
            np.zeros(1 << 20, np.int64),
            np.full(1 << 20, positions, np.int64),
            1 << 24,
        )
        running: list[Future] = [threads.submit(windows[0].run, long) for _ in range(6)]
        until(lambda: sum(owner.load()) == 6)
        for _ in range(20):
            assert len(windows[1].run(heavy(8, positions)).i) == 8
        assert not any(one.done() for one in running)
        # Of two lanes one is left to whoever comes.
        for _ in range(5):
            assert len(windows[1].run(heavy(8, positions)).i) == 8
            with owner._lock:
                assert max(owner._steps.values(), default=0) <= 1
        # Slices of what nobody waits for any more are not run.
        busy.session().lose("it was cut")
        for one in running:
            assert one.exception(TIMEOUT_S) is not None
        until(lambda: owner.load() == (0, 0))
