"""Kernels and windows that are in a server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Protocol, TypeVar

import numpy as np

from penstock.errors import DeviceError
from penstock.host.device.base import Kernel, Result, Task, WindowBuffer, WindowName
from penstock.host.device.window_join import WindowKernel, WindowResult, WindowTask
from penstock.host.device.window_ranges import check_task
from penstock.host.remote.failures import LostError
from penstock.host.remote.link import Link
from penstock.host.wire.arrivals import arrivals_message, join_header, join_result_from
from penstock.host.wire.message import Header, count_field, field
from penstock.host.wire.programs import program_header
from penstock.host.wire.tasks import result_from, task_message
from penstock.program import Mode, Program, WindowProgram

#: Bytes of one write to a window, at most. A part fits a segment of 8 MiB with its headers, which
#: stays in the cache: 64 MiB took twice as long in one part, and longer in parts of 1 MiB.
_WRITE_BYTES = 7 << 20

#: What a task gives.
R = TypeVar("R", Result, WindowResult)


class Host(Protocol):
    """What a device lends to its kernels."""

    def link(self) -> Link:
        """A live session with the server."""
        ...

    def run(self, act: Callable[[], R]) -> Future[R]:
        """Run a task's call beside others."""
        ...


class RemoteKernel(Kernel):
    """A program on a server, opened again there if its session was lost."""

    def __init__(self, device: Host, program: Program, modes: frozenset[Mode]) -> None:
        super().__init__(program, modes)
        self.device = device
        self._lock = threading.Lock()
        self._opened: tuple[Link, int] | None = None
        self.on_server()

    def on_server(self) -> tuple[Link, int]:
        """A live session, and the kernel's number in it."""
        with self._lock:
            if self._opened is None or self._opened[0].lost is not None:
                link = self.device.link()
                answer, _ = link.call({"call": "open", **program_fields(self.program, self.modes)})
                self.min_room = count_field(answer, "min_room")
                self._opened = link, field(answer, "kernel", int)
            return self._opened

    def allocate(self, capacity: int) -> WindowBuffer:
        link, number = self.on_server()
        header = {"call": "allocate", "kernel": number, "capacity": int(capacity)}
        answer, _ = link.call(header)
        return RemoteWindow(self, link, field(answer, "window", int), capacity)

    def resident(
        self, name: WindowName, capacity: int, columns: Callable[[], Sequence[np.ndarray]]
    ) -> WindowBuffer:
        link, number = self.on_server()
        asked = {"call": "resident", "kernel": number, "capacity": int(capacity), **vars(name)}
        answer, _ = link.call(asked)
        window = RemoteWindow(self, link, field(answer, "window", int), capacity)
        if not field(answer, "loaded", bool):
            try:
                window.write(0, columns())
                link.call({"call": "loaded", "window": window.number})
            except BaseException:
                window.free()
                raise
        return window

    def submit(self, window: WindowBuffer, task: Task) -> Future[Result]:
        if not (isinstance(window, RemoteWindow) and window.kernel is self):
            raise DeviceError(
                f"another kernel's {type(window).__name__} was passed to device remote; use the "
                "window buffer that this kernel allocated"
            )
        return self.device.run(lambda: window.run(task))

    def close(self) -> None:
        with self._lock:
            opened, self._opened = self._opened, None
        if opened is not None:
            dismiss(opened[0], {"call": "close", "kernel": opened[1]})


class RemoteWindow(WindowBuffer):
    """A window in a server's device."""

    def __init__(self, kernel: RemoteKernel, link: Link, number: int, capacity: int) -> None:
        super().__init__(capacity)
        self.kernel = kernel
        self._link = link
        self.number = number
        self._freed = False

    @property
    def lost(self) -> bool:
        return self._link.lost is not None

    def write(self, offset: int, columns: Sequence[np.ndarray]) -> None:
        columns = [np.asarray(column) for column in columns]
        count = max((len(column) for column in columns), default=0)
        # Python integers are wider than the pointers to them.
        row_bytes = sum(max(column.itemsize, 1) for column in columns) or 1
        rows = max(_WRITE_BYTES // row_bytes, 1)
        if count and offset + count > self.capacity:
            rows = count  # the device says what is wrong, before anything is written
        for low in range(0, max(count, 1), rows):
            header = {"call": "write", "window": self.number, "offset": int(offset) + low}
            self._link.call(header, [column[low : low + rows] for column in columns])

    def run(self, task: Task) -> Result:
        """Run a task on it, and wait for the result."""
        header, columns = task_message(task)
        answer = self._link.call({"call": "task", "window": self.number, **header}, columns)
        return result_from(*answer, task, self.capacity, self.kernel.program)

    def free(self) -> None:
        if not self._freed:
            self._freed = True
            dismiss(self._link, {"call": "free", "window": self.number})


def program_fields(program: Program, modes: frozenset[Mode]) -> Header:
    """Fields of a call that names a program."""
    return {"program": program_header(program), "modes": sorted(mode.value for mode in modes)}


def dismiss(link: Link, header: Header) -> None:
    """Give something back; a session that was lost has taken it along."""
    if link.lost is None:
        try:
            link.call(header)
        except LostError:
            return


class RemoteWindowKernel(WindowKernel):
    """A predicate in a window-join operator of a server, loaded again if its session was lost."""

    def __init__(self, device: Host, program: WindowProgram, rows: tuple[int, int]) -> None:
        super().__init__(program)
        self.device = device
        self._rows = rows
        self._lock = threading.Lock()
        self._opened: tuple[Link, int] | None = None
        self._rooms: dict[tuple[int, int], int] = {}
        self._on_server()

    def _on_server(self) -> tuple[Link, int]:
        with self._lock:
            if self._opened is None or self._opened[0].lost is not None:
                link = self.device.link()
                header = {"call": "open join", **join_header(self.program, self._rows)}
                answer, _ = link.call(header)
                self._opened = link, field(answer, "join", int)
            return self._opened

    def min_room(self, rows: tuple[int, int]) -> int:
        if rows not in self._rooms:
            link, number = self._on_server()
            header = {"call": "join room", "join": number, "rows": [int(n) for n in rows]}
            answer, _ = link.call(header)
            self._rooms[rows] = count_field(answer, "min_room")
        return self._rooms[rows]

    def submit(self, task: WindowTask) -> Future[WindowResult]:
        return self.device.run(lambda: self._run(task))

    def _run(self, task: WindowTask) -> WindowResult:
        check_task(task)
        link, number = self._on_server()
        header, columns = arrivals_message(task)
        answer = link.call({"call": "join task", "join": number, **header}, columns)
        return join_result_from(*answer, task)

    def close(self) -> None:
        with self._lock:
            opened, self._opened = self._opened, None
        if opened is not None:
            dismiss(opened[0], {"call": "close join", "join": opened[1]})
