"""What one client has on a server: kernels, windows, tasks; all of it goes when the client goes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count

from penstock.errors import DeviceError, OverloadError
from penstock.host.device.base import Kernel, WindowBuffer, WindowName
from penstock.host.server.checks import MAX_POSITION, check_keys, check_task, result_bytes
from penstock.host.server.joins import Call, Columns, JoinCalls, Reply
from penstock.host.server.limits import Limits
from penstock.host.server.owner import Owner
from penstock.host.server.place import Place
from penstock.host.server.residents import Resident
from penstock.host.server.traffic import Hold, Traffic
from penstock.host.wire.message import Header, MalformedError, count_field, field
from penstock.host.wire.programs import modes_from, program_from
from penstock.host.wire.tasks import result_message, task_from
from penstock.program import Mode, Program

#: Characters of each part of a window's name, at most.
MOST_NAME = 1024


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
    traffic : Traffic
        Counts what its calls hold.
    peer : str
        Where it is.
    place : Place
        Calls are handled in it.
    limits : Limits
    """

    def __init__(
        self,
        key: str,
        name: str,
        owner: Owner,
        traffic: Traffic,
        peer: str,
        place: Place,
        limits: Limits,
    ) -> None:
        self.key = key
        self.name = name
        self.owner = owner
        self.traffic = traffic
        self.peer = peer
        self._limits = limits
        self.seen = time.monotonic()
        # When it made its latest call.
        self._called = self.seen
        self.place = place
        self._lock = threading.Lock()
        self._over: str | None = None
        self._numbers = count(1)
        self._opened: dict[int, _Opened] = {}
        self._windows: dict[int, _Window] = {}
        self._joins = JoinCalls(key, owner, limits, self.place)
        self._calls: dict[str, Call] = {
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

    def call(self, header: Header, columns: Columns, hold: Hold) -> Reply:
        """Do what a request says.

        Raises
        ------
        PenstockError
            Whatever is wrong with it, or with the device.
        """
        self._check()
        self._called = time.monotonic()
        act = self._calls.get(field(header, "call", str))
        if act is None:
            raise MalformedError(f"there is no call {header['call']!r:.80}")
        return act(header, columns, hold)

    @property
    def idle_s(self) -> float:
        """Seconds since its latest call, or 0 while it has windows."""
        with self._lock:
            return 0.0 if self._windows else time.monotonic() - self._called

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

    def _refuses(self, header: Header, columns: Columns, hold: Hold) -> Reply:
        program, modes = _program(header)
        return {"reason": self.owner.device.refuses(program, modes)}, None

    def _open(self, header: Header, columns: Columns, hold: Hold) -> Reply:
        program, modes = _program(header)
        with self._lock:
            if len(self._opened) >= self._limits.kernels:
                raise OverloadError(
                    f"this client has {len(self._opened)} programs open, which is the most; close "
                    "some"
                )
        with self.place.left():
            kernel = self.owner.open(program, modes, self.key, self._check)
        opened = _Opened(kernel, program, modes)
        number = next(self._numbers)
        with self._lock:
            over = self._over is not None
            if not over:
                self._opened[number] = opened
        if over:
            self._release(opened)
            raise self._ended()
        return {"kernel": number, "min_room": opened.kernel.min_room}, None

    def _close(self, header: Header, columns: Columns, hold: Hold) -> Reply:
        number = field(header, "kernel", int)
        with self._lock:
            opened = self._opened.pop(number, None)
        if opened is not None:
            self._release(opened)
        return {}, None

    def _allocate(self, header: Header, columns: Columns, hold: Hold) -> Reply:
        opened = self._held(header)
        try:
            self._room()
            buffer, size = self.owner.allocate(
                self.key, opened.kernel, count_field(header, "capacity", MAX_POSITION)
            )
        except BaseException:
            self._release(opened)
            raise
        return {"window": self._numbered(_Window(buffer, opened, size))}, None

    def _resident(self, header: Header, columns: Columns, hold: Hold) -> Reply:
        opened = self._held(header)
        try:
            self._room()
            with self.place.left():
                found = self.owner.residents.hold(
                    WindowName(*(_short(header, part) for part in ("scope", "block", "content"))),
                    opened.program,
                    opened.modes,
                    count_field(header, "capacity", MAX_POSITION),
                    self._check,
                )
        except BaseException:
            self._release(opened)
            raise
        # Read before the window can be let go.
        loaded, buffer = found.loaded, found.buffer
        assert buffer is not None
        window = _Window(buffer, opened, found.size, found)
        number = self._numbered(window)
        with self._lock:
            # Windows of a scope count as those of one client, so who reads several scopes could
            # hold the memory of several.
            kept = sum(w.size for w in self._windows.values() if w.resident is not None)
            above = kept > self._limits.client_bytes and self._windows.pop(number, None)
        if above:
            self._let_go(window, freed=True)
            raise DeviceError(
                f"this client reads {kept} bytes of windows that are kept by name, above the "
                f"{self._limits.client_bytes} of one client; free some"
            )
        return {"window": number, "loaded": loaded}, None

    def _loaded(self, header: Header, columns: Columns, hold: Hold) -> Reply:
        with self._using(header) as window:
            if window.resident is None:
                raise DeviceError("a window without a name is never complete")
            self.owner.residents.loaded(window.resident)
        return {}, None

    def _keep(self, header: Header, columns: Columns, hold: Hold) -> Reply:
        blocks = field(header, "blocks", list)
        if not all(isinstance(name, str) for name in blocks):
            raise MalformedError("blocks are given by their names")
        return {"dropped": self.owner.residents.keep(field(header, "scope", str), blocks)}, None

    def _room(self) -> None:
        """Refuse another window where there are too many."""
        with self._lock:
            if len(self._windows) >= self._limits.windows:
                raise OverloadError(
                    f"this client has {len(self._windows)} windows, which is the most; free some"
                )

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

    def _write(self, header: Header, columns: Columns, hold: Hold) -> Reply:
        with self._using(header) as window:
            if window.resident is not None and window.resident.loaded:
                raise DeviceError("a window that is kept by name is written once; use another name")
            offset = count_field(header, "offset", MAX_POSITION)
            check_keys(window.opened.program, columns)
            window.buffer.write(offset, columns)
        self.owner.written(len(columns[0]) if columns else 0)
        return {}, None

    def _free(self, header: Header, columns: Columns, hold: Hold) -> Reply:
        number = field(header, "window", int)
        with self._lock:
            window = self._windows.pop(number, None)
        if window is None:
            raise DeviceError(f"window {number} was freed before, or never was")
        self._let_go(window, freed=True)
        return {}, None

    def _task(self, header: Header, columns: Columns, hold: Hold) -> Reply:
        task = task_from(header, columns, self._limits.room)
        with self._using(header) as window:
            kernel = window.opened.kernel
            most = self._limits.evaluations
            check_task(window.opened.program, window.buffer.capacity, task, most)
            # Its result, before the device makes it.
            hold.more(result_bytes(task))
            with self.place.left():
                future = self.owner.run(self.key, kernel, window.buffer, task)
                # The device may use the window for longer than anybody waits for the task.
                with self._lock:
                    window.users += 1
                future.add_done_callback(lambda _: self._let_go(window))
                result = self.owner.result(future)
            return result_message(result)

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


def _short(header: Mapping[str, object], part: str) -> str:
    """A part of a window's name."""
    text = field(header, part, str)
    if len(text) > MOST_NAME:
        raise MalformedError(f"a window's {part} has {len(text)} characters, above {MOST_NAME}")
    return text


def _program(header: Mapping[str, object]) -> tuple[Program, frozenset[Mode]]:
    return program_from(header.get("program")), modes_from(header.get("modes"))
