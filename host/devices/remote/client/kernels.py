"""Kernels and windows on a server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.errors import DeviceError
from penstock.program import AnyProgram, Mode, WindowProgram

from ....device.base import AnyTask, Kernel, Result, Task, WindowBuffer, WindowName
from ....device.checks import check_window_task
from ....device.fields import Header, count_field, field
from ....device.programs import program_header
from ....device.window_join import WindowTask
from ..wire.tasks import result_from, task_message
from .failures import SessionLostError
from .server_session import RemoteSession

if TYPE_CHECKING:
    from .device import RemoteDevice

#: Most bytes of one write to a window. The server's memory for them stays in its cache: 64 MiB took
#: nearly twice as long in one write, and twice as long in writes of 1 MiB.
_WRITE_BYTES = 7 << 20


class RemoteKernel(Kernel):
    """A program on a server; if the session was lost, it is opened again."""

    def __init__(self, device: RemoteDevice, program: AnyProgram, modes: frozenset[Mode]) -> None:
        super().__init__(program, modes)
        self.device = device
        self._lock = threading.Lock()
        self._opened: tuple[RemoteSession, int] | None = None
        self.on_server()

    def on_server(self) -> tuple[RemoteSession, int]:
        """A live session, and the kernel's number in it."""
        with self._lock:
            if self._opened is None or self._opened[0].lost is not None:
                session = self.device.session()
                answer, _ = session.call(
                    {"call": "open", **program_fields(self.program, self.modes)}
                )
                self.min_room = count_field(answer, "min_room")
                self.most_positions = count_field(answer, "most_positions") or None
                self._opened = session, field(answer, "kernel", int)
            return self._opened

    def allocate(self, capacity: int) -> WindowBuffer:
        session, number = self.on_server()
        header = {"call": "allocate", "kernel": number, "capacity": int(capacity)}
        answer, _ = session.call(header)
        return RemoteWindow(self, session, field(answer, "window", int), capacity)

    def resident(
        self, name: WindowName, capacity: int, columns: Callable[[], Sequence[np.ndarray]]
    ) -> WindowBuffer:
        session, number = self.on_server()
        header = {"call": "resident", "kernel": number, "capacity": int(capacity), **vars(name)}
        answer, _ = session.call(header)
        window = RemoteWindow(self, session, field(answer, "window", int), capacity)
        if not field(answer, "loaded", bool):
            try:
                window.write(0, columns())
                session.call({"call": "loaded", "window": window.number})
            except BaseException:
                window.free()
                raise
        return window

    def submit(self, window: Any, task: Any) -> Future[Result]:
        if isinstance(self.program, WindowProgram):
            return self.device.run(lambda: self._run(task))
        if not (isinstance(window, RemoteWindow) and window.kernel is self):
            raise DeviceError(
                f"another kernel's {type(window).__name__} was passed to device remote; use the "
                "window buffer that this kernel allocated"
            )
        return self.device.run(lambda: window.run(task))

    def _run(self, task: WindowTask) -> Result:
        """Run a task of a window join, and wait for the result."""
        check_window_task(self, task)
        session, number = self.on_server()
        return ask_task(session, {"kernel": number}, task, 0, self.program)

    def close(self) -> None:
        with self._lock:
            opened, self._opened = self._opened, None
        if opened is not None:
            dismiss(opened[0], {"call": "close", "kernel": opened[1]})


class RemoteWindow(WindowBuffer):
    """A window on a server's device."""

    def __init__(
        self, kernel: RemoteKernel, session: RemoteSession, number: int, capacity: int
    ) -> None:
        super().__init__(capacity)
        self.kernel = kernel
        self._session = session
        self.number = number
        self._freed = False

    @property
    def lost(self) -> bool:
        return self._session.lost is not None

    def write(self, offset: int, columns: Sequence[np.ndarray]) -> None:
        columns = [np.asarray(column) for column in columns]
        count = max((len(column) for column in columns), default=0)
        # Python integers are wider than the pointers to them.
        row_bytes = sum(max(column.itemsize, 1) for column in columns) or 1
        rows = max(_WRITE_BYTES // row_bytes, 1)
        if count and offset + count > self.capacity:
            rows = count  # the device's error comes before anything is written
        for low in range(0, max(count, 1), rows):
            header = {"call": "write", "window": self.number, "offset": int(offset) + low}
            self._session.call(header, [column[low : low + rows] for column in columns])

    def run(self, task: Task) -> Result:
        """Run a task on it, and wait for the result."""
        return ask_task(
            self._session, {"window": self.number}, task, self.capacity, self.kernel.program
        )

    def free(self) -> None:
        if not self._freed:
            self._freed = True
            dismiss(self._session, {"call": "free", "window": self.number})


def ask_task(
    session: RemoteSession, target: Header, task: AnyTask, capacity: int, program: AnyProgram
) -> Result:
    """Send a task, wait for its result, and check it."""
    header, columns = task_message(task)
    answer = session.call({"call": "task", **target, **header}, columns)
    return result_from(*answer, task, capacity, program)


def program_fields(program: AnyProgram, modes: frozenset[Mode]) -> Header:
    """Program and modes as fields of a call."""
    return {"program": program_header(program), "modes": sorted(mode.value for mode in modes)}


def dismiss(session: RemoteSession, header: Header) -> None:
    """Free a kernel or window on the server, unless the end of its session has freed it."""
    if session.lost is None:
        try:
            session.call(header)
        except SessionLostError:
            return
