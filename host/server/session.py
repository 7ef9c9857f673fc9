"""What one client has on a server: kernels, windows, tasks; all of it goes when the client goes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count

import numpy as np

from penstock.errors import DeviceError
from penstock.host.device.base import Kernel, WindowBuffer, WindowName
from penstock.host.server.joins import JoinCalls, Reply
from penstock.host.server.owner import Owner
from penstock.host.server.residents import Resident
from penstock.host.wire.message import Header, MalformedError, field
from penstock.host.wire.programs import modes_from, program_from
from penstock.host.wire.tasks import result_message, task_from
from penstock.program import Mode, Program


class SessionOverError(DeviceError):
    """A call came in a session that has ended; the message is why it did."""


@dataclass(eq=False)
class _Opened:
    kernel: Kernel
    program: Program
    modes: frozenset[Mode]
    #: The client's own hold, and one for each of its windows.
    holders: int = 1


@dataclass(eq=False)
class _Window:
    buffer: WindowBuffer
    opened: _Opened
    size: int
    #: What it is, where the server keeps it by name.
    resident: Resident | None = None
    #: Calls that use it now.
    users: int = 0
    freed: bool = False


class ClientSession:
    """One client on one device.

    Parameters
    ----------
    key : str
        A secret that names the session.
    name : str
        What the client calls itself, for people.
    owner : Owner
    """

    def __init__(self, key: str, name: str, owner: Owner) -> None:
        self.key = key
        self.name = name
        self.owner = owner
        self.seen = time.monotonic()
        self._lock = threading.Lock()
        self._over: str | None = None
        self._numbers = count(1)
        self._opened: dict[int, _Opened] = {}
        self._windows: dict[int, _Window] = {}
        self._joins = JoinCalls(key, owner)
        self._calls: dict[str, Callable[[Header, Sequence[np.ndarray]], Reply]] = {
            "refuses": self._refuses,
            "open": self._open,
            "close": self._close,
            "allocate": self._allocate,
            "write": self._write,
            "free": self._free,
            "resident": self._resident,
            "loaded": self._loaded,
            "keep": self._keep,
            "task": self._task,
            **self._joins.calls,
        }

    def renew(self) -> None:
        """The client has given a sign of life.

        Raises
        ------
        SessionOverError
            Too late.
        """
        self._check()
        self.seen = time.monotonic()

    def call(self, header: Header, columns: Sequence[np.ndarray]) -> Reply:
        """Do what a request says.

        Raises
        ------
        PenstockError
            Whatever is wrong with it, or with the device.
        """
        self._check()
        act = self._calls.get(field(header, "call", str))
        if act is None:
            raise MalformedError(f"there is no call {header['call']!r:.80}")
        return act(header, columns)

    def end(self, reason: str) -> None:
        """Free everything, once no task uses it; tasks that have not started are dropped."""
        with self._lock:
            if self._over is not None:
                return
            self._over = reason
            windows, opened = list(self._windows.values()), list(self._opened.values())
            self._windows.clear()
            self._opened.clear()
        self.owner.drop(self.key, self._ended)
        for window in windows:
            self._let_go(window, freed=True)
        for one in opened:
            self._release(one)
        self._joins.end()

    def _ended(self) -> SessionOverError:
        return SessionOverError(str(self._over))

    def _check(self) -> None:
        if self._over is not None:
            raise self._ended()

    # -- calls ------------------------------------------------------------------------------------

    def _refuses(self, header: Header, columns: Sequence[np.ndarray]) -> Reply:
        program, modes = _program(header)
        return {"reason": self.owner.device.refuses(program, modes)}, None

    def _open(self, header: Header, columns: Sequence[np.ndarray]) -> Reply:
        program, modes = _program(header)
        opened = _Opened(self.owner.open(program, modes), program, modes)
        number = next(self._numbers)
        with self._lock:
            over = self._over is not None
            if not over:
                self._opened[number] = opened
        if over:
            self._release(opened)
            raise self._ended()
        return {"kernel": number, "min_room": opened.kernel.min_room}, None

    def _close(self, header: Header, columns: Sequence[np.ndarray]) -> Reply:
        number = field(header, "kernel", int)
        with self._lock:
            opened = self._opened.pop(number, None)
        if opened is not None:
            self._release(opened)
        return {}, None

    def _allocate(self, header: Header, columns: Sequence[np.ndarray]) -> Reply:
        opened = self._held(header)
        try:
            buffer, size = self.owner.allocate(
                self.key, opened.kernel, field(header, "capacity", int)
            )
        except BaseException:
            self._release(opened)
            raise
        return {"window": self._numbered(_Window(buffer, opened, size))}, None

    def _resident(self, header: Header, columns: Sequence[np.ndarray]) -> Reply:
        opened = self._held(header)
        try:
            found = self.owner.residents.hold(
                WindowName(*(field(header, part, str) for part in ("scope", "block", "content"))),
                opened.program,
                opened.modes,
                field(header, "capacity", int),
                self._check,
            )
        except BaseException:
            self._release(opened)
            raise
        # Read before the window can be let go.
        loaded, buffer = found.loaded, found.buffer
        assert buffer is not None
        number = self._numbered(_Window(buffer, opened, found.size, found))
        return {"window": number, "loaded": loaded}, None

    def _loaded(self, header: Header, columns: Sequence[np.ndarray]) -> Reply:
        with self._using(header) as window:
            if window.resident is None:
                raise DeviceError("a window without a name is never complete")
            self.owner.residents.loaded(window.resident)
        return {}, None

    def _keep(self, header: Header, columns: Sequence[np.ndarray]) -> Reply:
        blocks = [str(name) for name in field(header, "blocks", list)]
        return {"dropped": self.owner.residents.keep(field(header, "scope", str), blocks)}, None

    def _numbered(self, window: _Window) -> int:
        """The number under which the client knows a window from now on."""
        number = next(self._numbers)
        with self._lock:
            over = self._over is not None
            if not over:
                self._windows[number] = window
        if over:
            self._let_go(window, freed=True)
            raise self._ended()
        return number

    def _write(self, header: Header, columns: Sequence[np.ndarray]) -> Reply:
        with self._using(header) as window:
            if window.resident is not None and window.resident.loaded:
                raise DeviceError("a window that is kept by name is written once; use another name")
            window.buffer.write(field(header, "offset", int), columns)
        self.owner.written(len(columns[0]) if columns else 0)
        return {}, None

    def _free(self, header: Header, columns: Sequence[np.ndarray]) -> Reply:
        number = field(header, "window", int)
        with self._lock:
            window = self._windows.pop(number, None)
        if window is None:
            raise DeviceError(f"window {number} was freed before, or never was")
        self._let_go(window, freed=True)
        return {}, None

    def _task(self, header: Header, columns: Sequence[np.ndarray]) -> Reply:
        task = task_from(header, columns, self.owner.limits.room)
        with self._using(header) as window:
            kernel = window.opened.kernel
            future = self.owner.submit(self.key, lambda: kernel.submit(window.buffer, task))
            # The device may use the window for longer than anybody waits for the task.
            with self._lock:
                window.users += 1
            future.add_done_callback(lambda _: self._let_go(window))
            return result_message(self.owner.result(future))

    # -- holds ------------------------------------------------------------------------------------

    def _held(self, header: Header) -> _Opened:
        """A kernel, held once more."""
        number = field(header, "kernel", int)
        with self._lock:
            opened = self._opened.get(number)
            if opened is None:
                raise DeviceError(f"kernel {number} was closed, or never was open")
            opened.holders += 1
            return opened

    @contextmanager
    def _using(self, header: Header) -> Iterator[_Window]:
        number = field(header, "window", int)
        with self._lock:
            window = self._windows.get(number)
            if window is None:
                raise DeviceError(f"window {number} was freed, or never was; allocate another one")
            window.users += 1
        try:
            yield window
        finally:
            self._let_go(window)

    def _let_go(self, window: _Window, freed: bool = False) -> None:
        """One use less, or none to come; the last one gives the memory back."""
        with self._lock:
            if freed:
                window.freed = True
            else:
                window.users -= 1
            if window.users or not window.freed:
                return
        if window.resident is None:
            self.owner.free(self.key, window.buffer, window.size)
        else:
            self.owner.residents.release(window.resident)
        self._release(window.opened)

    def _release(self, opened: _Opened) -> None:
        with self._lock:
            opened.holders -= 1
            if opened.holders:
                return
        self.owner.close(opened.program, opened.modes)


def _program(header: Mapping[str, object]) -> tuple[Program, frozenset[Mode]]:
    return program_from(header.get("program")), modes_from(header.get("modes"))
