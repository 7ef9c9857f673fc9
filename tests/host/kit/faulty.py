"""A device whose tasks fail as a test says, in every way in which a board's can."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import numpy as np

from penstock.errors import DeviceError
from penstock.host.device.base import PAIRS, Device, Kernel, Result, Task, WindowBuffer
from penstock.host.device.wrapped import WrappedBuffer, WrappedDevice, WrappedKernel
from penstock.program import Mode, Program

#: What may become of a task: it goes well, it cannot be started, it ends in an error, its result
#: is cut short, points outside the window, or comes when :meth:`FaultyDevice.release` is called.
FATES = ("ok", "refused", "error", "short", "outside", "hang")


class FaultyDevice(WrappedDevice):
    """Runs tasks on another device.

    Parameters
    ----------
    inner : Device
        Not closed with this one.
    fate : callable
        What becomes of the next task, one of :data:`FATES`.
    most_rows : int, optional
        Window positions that all buffers together may have.
    """

    def __init__(
        self, inner: Device, fate: Callable[[], str] = lambda: "ok", most_rows: int | None = None
    ) -> None:
        super().__init__(inner)
        self.fate = fate
        self.most_rows = most_rows
        # Its tasks take as long as a test says.
        self.is_even = False
        self.name = f"faulty-{inner.name}"
        self.rows = 0
        self.tasks = 0
        self.held: list[tuple[Future[Result], Future[Result]]] = []
        self.lock = threading.Condition()

    def open(self, program: Program, modes: frozenset[Mode] = PAIRS) -> Kernel:
        return _Kernel(self, self.inner.open(program, modes))

    def wait_for(self, condition: Callable[[], bool], timeout_s: float = 30.0) -> None:
        """Wait until what was allocated, freed or submitted makes a condition true."""
        with self.lock:
            assert self.lock.wait_for(condition, timeout_s), "it did not come to that"

    def release(self) -> None:
        """Let all hanging tasks end."""
        with self.lock:
            held, self.held = self.held, []
        for real, given in held:
            given.set_result(real.result(60))

    def close(self) -> None:
        self.release()


class _Buffer(WrappedBuffer):
    def __init__(self, device: FaultyDevice, inner: WindowBuffer) -> None:
        super().__init__(inner)
        self.device = device

    def free(self) -> None:
        with self.device.lock:
            self.device.rows -= self.capacity
            self.device.lock.notify_all()
        self.inner.free()


class _Kernel(WrappedKernel):
    def __init__(self, device: FaultyDevice, inner: Kernel) -> None:
        super().__init__(inner)
        self.device = device

    def allocate(self, capacity: int) -> WindowBuffer:
        device = self.device
        with device.lock:
            if device.most_rows is not None and device.rows + capacity > device.most_rows:
                raise DeviceError(f"no room for {capacity} rows on {device.name}")
            device.rows += capacity
            device.lock.notify_all()
        return self.wrap(self.inner.allocate(capacity))

    def wrap(self, buffer: WindowBuffer) -> WindowBuffer:
        return _Buffer(self.device, buffer)

    def submit(self, window: Any, task: Any) -> Future[Result]:
        own = window.inner if isinstance(window, _Buffer) else None
        with self.device.lock:
            self.device.tasks += 1
            fate = self.device.fate()
        if fate == "refused":
            raise DeviceError("the board did not take the task")
        given: Future[Result] = Future()
        real = self.inner.submit(own, task)
        if fate == "hang":
            with self.device.lock:
                self.device.held.append((real, given))
                self.device.lock.notify_all()
            return given
        real.add_done_callback(lambda done: _settle(given, done, fate, task))
        return given


def _settle(given: Future[Result], done: Future[Result], fate: str, task: Task) -> None:
    error = done.exception()
    if error is not None:
        given.set_exception(error)
        return
    result = done.result()
    if fate == "error":
        given.set_exception(DeviceError("the board reported an AXI error"))
    elif fate == "short":
        given.set_result(replace(result, i=np.append(result.i, np.uint32(0))))
    elif fate == "outside":
        beyond = np.uint32(int(task.end.max()))
        i, j = np.append(result.i, np.uint32(0)), np.append(result.j, beyond)
        given.set_result(replace(result, i=i, j=j))
    else:
        given.set_result(result)
