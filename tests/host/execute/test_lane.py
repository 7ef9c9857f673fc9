"""Orders that run in the stream's own thread, that pause, and that hang."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import Future
from dataclasses import replace

import pyarrow as pa
import pytest

from penstock.errors import DeviceError
from penstock.host.device.base import PAIRS, Device, Kernel, Result, Task, WindowBuffer
from penstock.host.device.wrapped import WrappedBuffer, WrappedDevice, WrappedKernel
from penstock.host.devices.cpu import CpuDevice
from penstock.host.execute.running import Running
from penstock.host.join.stream import Flow, JoinStream
from penstock.program import AnyProgram, Mode, Program
from penstock.query import compile_query
from tests.host.kit.faulty import FaultyDevice

SCHEMA = pa.schema([("t", pa.int64()), ("x", pa.int32())])
SCHEMAS = {"a": SCHEMA, "b": SCHEMA}
#: In band form, and in the general form.
ONS = ("a.x = b.x", "a.x * b.x < 9")


class Counting(WrappedDevice):
    """Counts tasks in the calling thread, which may fail, and those in others."""

    runs_here = True

    def __init__(self, inner: CpuDevice, *, fails: bool) -> None:
        super().__init__(inner)
        self.fails = fails
        self.here = self.elsewhere = 0

    def open(self, program: Program, modes: frozenset[Mode] = PAIRS) -> Kernel:
        return _Kernel(self, self.inner.open(program, modes))


class _Kernel(WrappedKernel):
    def __init__(self, device: Counting, inner: Kernel) -> None:
        super().__init__(inner)
        self.device = device
        self.here_evaluations = inner.here_evaluations

    def submit(self, window: WindowBuffer, task: Task) -> Future[Result]:
        self.device.elsewhere += 1
        return super().submit(window, task)

    def run(self, window: WindowBuffer, task: Task) -> Result:
        self.device.here += 1
        if self.device.fails:
            raise DeviceError("not here")
        assert isinstance(window, WrappedBuffer)
        return self.inner.run(window.inner, task)


@pytest.mark.parametrize("on", ONS)
@pytest.mark.parametrize("fails", [False, True])
def test_small_orders_run_in_the_streams_own_thread(on: str, fails: bool) -> None:
    query = compile_query(
        f"SELECT a.t FROM a JOIN b ON {on} AND a.t = b.t", SCHEMAS, time={"a": "t", "b": "t"}
    )
    with CpuDevice(threads=2) as cpu:
        device = Counting(cpu, fails=fails)
        with JoinStream(query, SCHEMAS, device) as stream:
            for time in range(5):
                columns = [pa.array([time] * 3), pa.array([1, 2, 2], pa.int32())]
                for name in "ab":
                    stream.push(name, pa.record_batch(columns, schema=SCHEMA))
            assert stream.close().num_rows == 5 * (5 if on == ONS[0] else 9)
    # Only what loads a program goes to a lane, and what fails here.
    assert device.here >= 3
    assert device.elsewhere == (5 if fails else 5 - device.here)


class Cramped(WrappedDevice):
    """Has room for few pairs of a task, whatever the task asks for."""

    ROOM = 70

    def __init__(self, inner: CpuDevice) -> None:
        super().__init__(inner)
        self.pauses = self.capacity = 0

    def open(self, program: AnyProgram, modes: frozenset[Mode] = PAIRS) -> Kernel:
        return _CrampedKernel(self, self.inner.open(program, modes))


class _CrampedKernel(WrappedKernel):
    def __init__(self, device: Cramped, inner: Kernel) -> None:
        super().__init__(inner)
        self.device = device

    def allocate(self, capacity: int) -> WindowBuffer:
        self.device.capacity = max(self.device.capacity, capacity)
        return super().allocate(capacity)

    def submit(self, window: WindowBuffer, task: Task) -> Future[Result]:
        submitted = super().submit(window, replace(task, room=self.device.ROOM))
        self.device.pauses += submitted.result(60).pause is not None
        return submitted


@pytest.mark.timeout(60)
@pytest.mark.parametrize("on", ONS)
def test_what_a_paused_task_left_over_of_a_window_that_went_round_its_ring(on: str) -> None:
    times, rows = 10, 400
    sql = f"SELECT a.t AS a, b.t AS b FROM a JOIN b ON {on} AND a.t BETWEEN b.t AND b.t + 1"
    query = compile_query(sql, SCHEMAS, time={"a": "t", "b": "t"})
    keys = {"a": [1, 1], "b": [k % 10 for k in range(rows)]}
    with CpuDevice(threads=1) as cpu, JoinStream(query, SCHEMAS, device := Cramped(cpu)) as stream:
        for time in range(times):
            for name in "ba":
                columns = [pa.array([time] * len(keys[name])), pa.array(keys[name], pa.int32())]
                stream.push(name, pa.record_batch(columns, schema=SCHEMA))
        found = stream.close()
    each = 2 * rows // 10 * (1 if on == ONS[0] else 9)
    pairs = [(a, b) for a in range(times) for b in (a - 1, a) if b >= 0]
    counted = Counter(zip(found["a"].to_pylist(), found["b"].to_pylist(), strict=True))
    assert counted == dict.fromkeys(pairs, each)
    assert device.pauses > times
    assert 0 < device.capacity < times * rows


class Watched(WrappedDevice):
    """Notes which window each task reads."""

    def __init__(self, inner: FaultyDevice) -> None:
        super().__init__(inner)
        self.windows: list[WindowBuffer] = []

    def open(self, program: AnyProgram, modes: frozenset[Mode] = PAIRS) -> Kernel:
        return _WatchedKernel(self, self.inner.open(program, modes))


class _WatchedKernel(WrappedKernel):
    def __init__(self, device: Watched, inner: Kernel) -> None:
        super().__init__(inner)
        self.device = device

    def submit(self, window: WindowBuffer, task: Task) -> Future[Result]:
        self.device.windows.append(window)
        return super().submit(window, task)


def test_nobody_else_gets_the_window_of_a_task_that_hangs() -> None:
    """Should it end after all, it may still be reading."""
    fates = iter(["hang"])
    query = compile_query(
        f"SELECT a.t FROM a JOIN b ON {ONS[0]} AND abs(a.t - b.t) <= 9",
        SCHEMAS,
        time={"a": "t", "b": "t"},
    )
    flow = Flow(running=Running(timeout_s=0.3))
    with CpuDevice(threads=2) as cpu, FaultyDevice(cpu, lambda: next(fates, "ok")) as faulty:
        device = Watched(faulty)
        with JoinStream(query, SCHEMAS, device, flow=flow) as stream:
            for time in range(6):
                for name in "ba":
                    columns = [pa.array([time]), pa.array([1], pa.int32())]
                    stream.push(name, pa.record_batch(columns, schema=SCHEMA))
                stream.flush()
            hung, *others = device.windows
            assert len(others) > 5
            assert not any(window is hung for window in others)
            faulty.release()
            assert stream.close().num_rows == 36


class Noting(WrappedDevice):
    """Notes what its kernels are asked for."""

    def __init__(self, inner: Device) -> None:
        super().__init__(inner)
        self.notes: list[str] = []

    def open(self, program: AnyProgram, modes: frozenset[Mode] = PAIRS) -> Kernel:
        return _NotingKernel(self, self.inner.open(program, modes))


class _NotingKernel(WrappedKernel):
    def __init__(self, device: Noting, inner: Kernel) -> None:
        super().__init__(inner)
        self.device = device

    def prepare_search(self) -> None:
        self.device.notes.append("prepare")
        super().prepare_search()

    def submit(self, window: WindowBuffer, task: Task) -> Future[Result]:
        self.device.notes.append("task")
        return super().submit(window, task)


@pytest.mark.parametrize(
    ("on", "pruning", "is_prepared"),
    [
        ("a.x = b.x", True, True),
        ("a.x * a.x + b.x * b.x <= 9 AND a.x <= b.x + 2", True, True),
        ("a.x * b.x % 7 = 3", True, False),
        ("a.x = b.x", False, False),
    ],
)
def test_searches_are_prepared_before_the_first_task(
    on: str, pruning: bool, is_prepared: bool
) -> None:
    """Not when the window is long enough for one, seconds later, while rows wait."""
    query = compile_query(
        f"SELECT a.t FROM a JOIN b ON {on} AND abs(a.t - b.t) <= 9",
        SCHEMAS,
        time={"a": "t", "b": "t"},
    )
    flow = Flow(running=Running(pruning=pruning))
    with CpuDevice(threads=1) as cpu:
        device = Noting(cpu)
        with JoinStream(query, SCHEMAS, device, flow=flow) as stream:
            for name in "ba":
                columns = [pa.array([1]), pa.array([1], pa.int32())]
                stream.push(name, pa.record_batch(columns, schema=SCHEMA))
            stream.close()
    assert device.notes[: 1 + is_prepared] == ["prepare", "task"][1 - is_prepared :]
    assert ("prepare" in device.notes) == is_prepared
