"""Tasks of many clients on one device: which run where, and when."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace

import numpy as np
import pytest

from penstock.errors import DeviceError
from penstock.host.device.base import Kernel, Result, Task, WindowBuffer
from penstock.host.devices.cpu import CpuDevice
from penstock.host.devices.remote.server.runner import HERE_EVALUATIONS, Runner
from penstock.program import BandProgram

PROGRAM = BandProgram(1, 0b10, 32)
WINDOW = 1 << 10
NONE = np.zeros(0, np.uint32)


class Ran:
    """A kernel whose tasks run on a device, and whose threads are noted."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.threads: list[threading.Thread] = []
        run = kernel.run

        def noted(window: WindowBuffer, task: Task) -> Result:
            self.threads.append(threading.current_thread())
            return run(window, task)

        kernel.run = noted


def task(rows: int) -> Task:
    keys = np.arange(rows, dtype=np.uint32)
    return Task([keys, keys], np.zeros(rows, np.int64), np.full(rows, WINDOW), max(rows, 1 << 12))


@pytest.fixture
def device() -> Iterator[CpuDevice]:
    with CpuDevice(threads=2) as device:
        yield device


@pytest.fixture
def ran(device: CpuDevice) -> Ran:
    return Ran(device.open(PROGRAM))


@pytest.fixture
def window(ran: Ran) -> WindowBuffer:
    window = ran.kernel.allocate(WINDOW)
    window.write(0, [np.arange(WINDOW, dtype=np.uint32)])
    return window


def test_a_small_task_runs_in_the_thread_that_asks(
    device: CpuDevice, ran: Ran, window: WindowBuffer
) -> None:
    runner = Runner(device, 4)
    future = runner.run("a", ran.kernel, window, task(8))
    assert future.done()
    assert ran.threads == [threading.current_thread()]
    assert sorted(future.result().i) == list(range(8))
    assert runner.counters["tasks"] == 1
    assert runner.counters["evaluations"] == 8 * WINDOW
    assert runner.load() == (0, 0)


def test_a_task_that_takes_more_than_a_slice_is_not_small(
    device: CpuDevice, ran: Ran, window: WindowBuffer
) -> None:
    runner = Runner(device, 4)
    run = ran.kernel.run

    def slow(window: WindowBuffer, task: Task) -> Result:
        result = run(window, task)
        return replace(result, ran=(0.0, 60.0))

    ran.kernel.run = slow
    assert runner.run("a", ran.kernel, window, task(8)).done()
    assert len(ran.threads) == 1
    # It took a minute, so the next one runs in slices.
    assert len(runner.result(runner.run("a", ran.kernel, window, task(8))).i) == 8
    assert len(ran.threads) == 1


def test_a_larger_task_runs_on_the_device(
    device: CpuDevice, ran: Ran, window: WindowBuffer
) -> None:
    runner = Runner(device, 4)
    rows = HERE_EVALUATIONS // WINDOW + 1
    result = runner.result(runner.run("a", ran.kernel, window, task(rows)))
    assert sorted(result.i) == list(range(rows))
    assert ran.threads == []


def test_a_client_has_all_lanes_but_one_and_others_go_on(
    device: CpuDevice, ran: Ran, window: WindowBuffer
) -> None:
    runner, busy = Runner(device, 4), Future[Result]()
    assert runner.run("b", ran.kernel, window, task(8)).done()
    first = runner.submit("a", lambda: busy)
    # One of its tasks is on the device, so this one waits; another client's does not.
    second = runner.run("a", ran.kernel, window, task(8))
    third = runner.run("b", ran.kernel, window, task(8))
    assert third.done()
    assert not first.done()
    assert not second.done()
    busy.set_result(Result(NONE, NONE, None, {}))
    assert len(runner.result(second).i) == 8
    assert runner.result(first).counters == {}


def test_a_small_task_does_not_pass_others_of_its_turn(
    device: CpuDevice, ran: Ran, window: WindowBuffer
) -> None:
    runner = Runner(device, 4)
    running = [Future[Result]() for _ in range(4)]
    waits = [
        runner.submit(client, lambda f=f: f) for client, f in zip("abcd", running, strict=True)
    ]
    asked = runner.run("e", ran.kernel, window, task(8))
    assert not asked.done()
    for future in running:
        future.set_result(Result(NONE, NONE, None, {}))
    assert len(runner.result(asked).i) == 8
    assert all(wait.done() for wait in waits)


def test_what_fails_here_is_the_error_of_its_future(
    device: CpuDevice, ran: Ran, window: WindowBuffer
) -> None:
    runner = Runner(device, 4)
    wrong = Task([NONE], np.zeros(1, np.int64), np.full(1, 4), 1 << 12)
    future = runner.run("a", ran.kernel, window, wrong)
    with pytest.raises(DeviceError):
        runner.result(future)
    assert runner.counters["failures"] == 1
    assert runner.load() == (0, 0)
    assert len(runner.result(runner.run("a", ran.kernel, window, task(8))).i) == 8
