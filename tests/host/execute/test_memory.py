"""Windows in device memory: what is leased stays, idle windows make way, everything comes back."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import DeviceError
from penstock.host.device.base import Task
from penstock.host.devices.cpu import CpuDevice
from penstock.host.execute.memory import LEAST_CAPACITY, DeviceMemory
from penstock.host.keys.binding import Binder
from penstock.host.keys.prepare import Layout
from penstock.host.windows.run import WindowRun
from penstock.plan.forms import join_form
from penstock.query import compile_query
from penstock.types import int_of
from tests.host.kit.banked import Banked
from tests.host.kit.faulty import FaultyDevice
from tests.penstock.kit.dags import vector

SCHEMA = pa.schema([("t", pa.int64()), ("x", pa.int32())])
QUERY = compile_query(
    "SELECT a.t FROM a JOIN b ON a.x = b.x AND abs(a.t - b.t) <= 1",
    {"a": SCHEMA, "b": SCHEMA},
    time={"a": "t", "b": "t"},
)
FORM = join_form(QUERY.predicate, "r")


@pytest.fixture
def device() -> Iterator[FaultyDevice]:
    with CpuDevice(threads=1) as cpu:
        yield FaultyDevice(cpu)


def keys(first: int, count: int) -> list:
    return [vector(list(range(first, first + count)), int_of(32))]


def run(count: int) -> WindowRun:
    return WindowRun(np.arange(count), keys(0, count))


def bound(window: WindowRun) -> Layout:
    binder = Binder(FORM, (32,), growing=True)
    return binder.bind(window.snapshot(), {("l", "x"): keys(0, 1)[0]}, 1)


def test_only_new_rows_are_written(device: FaultyDevice) -> None:
    memory = DeviceMemory(device)
    own = run(10)
    made = bound(own)
    first = memory.lease(own.snapshot(), made, 0, 10, 1)
    own.append(np.arange(10, 15), keys(10, 5), pa.record_batch([pa.nulls(5)], ["none"]))
    second = memory.lease(own.snapshot(), made, 5, 15, 1)
    assert second.window is first.window
    assert (second.window.ring.low, second.window.ring.high) == (0, 15)
    memory.release(first)
    memory.release(second)
    memory.close()
    assert device.rows == 0


def test_a_window_that_outgrows_its_ring_moves(device: FaultyDevice) -> None:
    memory = DeviceMemory(device)
    own = run(LEAST_CAPACITY)
    made = bound(own)
    first = memory.lease(own.snapshot(), made, 0, 10, 1)
    second = memory.lease(own.snapshot(), made, 5, LEAST_CAPACITY, 1)
    assert second.window is first.window
    own.append(np.zeros(2000, np.int64), keys(0, 2000), pa.record_batch([pa.nulls(2000)], ["none"]))
    third = memory.lease(own.snapshot(), made, 0, LEAST_CAPACITY + 2000, 1)
    assert third.window is not first.window
    for lease in (first, second, third):
        memory.release(lease)
    memory.close()
    assert device.rows == 0


def test_idle_windows_make_way(device: FaultyDevice) -> None:
    memory = DeviceMemory(Banked(device, [2 * LEAST_CAPACITY]))
    runs = [run(5) for _ in range(4)]
    layouts = [bound(own) for own in runs]
    for own, made in zip(runs, layouts, strict=True):
        memory.release(memory.lease(own.snapshot(), made, 0, 5, 1))
    assert memory.positions <= 2 * LEAST_CAPACITY
    memory.close()


def test_no_room_is_waited_for(device: FaultyDevice) -> None:
    memory = DeviceMemory(Banked(device, [LEAST_CAPACITY]))
    one, two = run(5), run(5)
    layouts = bound(one), bound(two)
    lease = memory.lease(one.snapshot(), layouts[0], 0, 5, 1)
    with pytest.raises(DeviceError, match=r"had no memory for a window of 5 tuples for 0\.01 s"):
        memory.lease(two.snapshot(), layouts[1], 0, 5, 0.01)
    threading.Timer(0.05, memory.release, [lease]).start()
    memory.release(memory.lease(two.snapshot(), layouts[1], 0, 5, 30))
    memory.close()


def test_more_than_there_ever_is(device: FaultyDevice) -> None:
    memory = DeviceMemory(Banked(device, [LEAST_CAPACITY]))
    own = run(2 * LEAST_CAPACITY)
    with pytest.raises(DeviceError, match="bank 0 is full"):
        memory.lease(own.snapshot(), bound(own), 0, 2 * LEAST_CAPACITY, 1)


def test_quarantined_memory_is_not_used_again(device: FaultyDevice) -> None:
    memory = DeviceMemory(device)
    own = run(5)
    made = bound(own)
    lost = memory.lease(own.snapshot(), made, 0, 5, 1)
    memory.quarantine(lost)
    again = memory.lease(own.snapshot(), made, 0, 5, 1)
    assert again.window.buffers[0] is not lost.window.buffers[0]
    memory.release(lost)  # the device is through with it
    memory.release(again)
    memory.close()
    assert device.rows == 0


def test_windows_of_other_runs_are_given_back(device: FaultyDevice) -> None:
    memory = DeviceMemory(device)
    for _ in range(2000):
        own = run(3)
        memory.release(memory.lease(own.snapshot(), bound(own), 0, 3, 1))
        memory.keep(set())
    assert device.rows <= 4 * LEAST_CAPACITY
    memory.close()
    assert device.rows == 0


def test_tasks_read_what_was_written_across_the_wrap(device: FaultyDevice) -> None:
    memory = DeviceMemory(device)
    own = run(LEAST_CAPACITY)
    made = bound(own)
    memory.release(memory.lease(own.snapshot(), made, 0, 500, 1))
    own.append(np.zeros(800, np.int64), keys(1024, 800), pa.record_batch([pa.nulls(800)], ["none"]))
    lease = memory.lease(own.snapshot(), made, 900, 1500, 1)
    assert [(s.offset, s.low, s.high) for s in lease.spans] == [(900, 900, 1024), (0, 1024, 1500)]
    window = own.snapshot()
    for span in lease.spans:
        wanted = made.window(window.keys_between(span.low, span.high))[0]
        task = Task([wanted, wanted], np.full(len(wanted), span.offset),
                    np.full(len(wanted), span.offset + len(wanted)), 10_000)  # fmt: skip
        found = lease.window.kernel.submit(lease.window.buffers[0], task).result(30)
        assert sorted(zip(found.i.tolist(), found.j.tolist(), strict=True)) == [
            (k, span.offset + k) for k in range(len(wanted))
        ]
    memory.release(lease)
    memory.close()
