"""What one client has on a server: kernels, windows, tasks; all of it goes when the client goes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from penstock.errors import DeviceError
from penstock.program import AnyProgram, Mode, WindowProgram

from ....device.base import WindowName
from ....device.checks import MAX_POSITION, check_columns, window_columns
from ....device.fields import Header, MalformedError, count_field, field
from ....device.programs import any_program_from, modes_from
from ..wire.tasks import result_message, task_from
from .checks import check_asked, result_bytes
from .holdings import HeldKernel, HeldWindow, Holdings
from .limits import Limits
from .owner import DeviceOwner
from .place import PeerPlace
from .traffic import Hold, Traffic

Columns = Sequence[np.ndarray]
Reply = tuple[Header, Columns | None]
Call = Callable[[Header, Columns, Hold], Reply]

#: Characters of each part of a window's name, at most.
MOST_NAME = 1024


class ClientSession:
    """One client on one device.

    Parameters
    ----------
    key : str
        A secret that names the session.
    name : str
        What the client calls itself, for people.
    owner : DeviceOwner
    traffic : Traffic
        Counts what its calls hold.
    peer : str
        Where it is.
    place : PeerPlace
        Calls are handled in it.
    limits : Limits
    """

    def __init__(
        self,
        key: str,
        name: str,
        owner: DeviceOwner,
        traffic: Traffic,
        peer: str,
        place: PeerPlace,
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
        self._held = Holdings(key, owner, limits)
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
        }

    def renew(self) -> None:
        """The client has given a sign of life.

        Raises
        ------
        SessionOverError
            Too late.
        """
        self._held.check()
        self.seen = time.monotonic()

    def call(self, header: Header, columns: Columns, hold: Hold) -> Reply:
        """Do what a request says.

        Raises
        ------
        PenstockError
            Whatever is wrong with it, or with the device.
        """
        self._held.check()
        self._called = time.monotonic()
        act = self._calls.get(field(header, "call", str))
        if act is None:
            raise MalformedError(f"there is no call {header['call']!r:.80}")
        return act(header, columns, hold)

    @property
    def idle_s(self) -> float:
        """Seconds since its latest call, or 0 while it has windows."""
        return 0.0 if self._held.has_windows else time.monotonic() - self._called

    def end(self, reason: str) -> None:
        """Free everything, once no task uses it; tasks that have not started are dropped."""
        self._held.end(reason)

    # -- calls ------------------------------------------------------------------------------------

    def _refuses(self, header: Header, columns: Columns, hold: Hold) -> Reply:
        program, modes = _program(header)
        return {"reason": self.owner.device.refuses(program, modes)}, None

    def _open(self, header: Header, columns: Columns, hold: Hold) -> Reply:
        program, modes = _program(header)
        self._held.check_kernels()
        with self.place.left():
            kernel = self.owner.open(program, modes, self.key, self._held.check)
        number = self._held.add_kernel(HeldKernel(kernel, program, modes))
        return {"kernel": number, "min_room": kernel.min_room}, None

    def _close(self, header: Header, columns: Columns, hold: Hold) -> Reply:
        opened = self._held.take_kernel(header)
        if opened is not None:
            self._held.release(opened)
        return {}, None

    def _allocate(self, header: Header, columns: Columns, hold: Hold) -> Reply:
        opened = self._held.kernel(header)
        try:
            self._held.check_windows()
            buffer, size = self.owner.allocate(
                self.key, opened.kernel, count_field(header, "capacity", MAX_POSITION)
            )
        except BaseException:
            self._held.release(opened)
            raise
        return {"window": self._held.add_window(HeldWindow(buffer, opened, size))}, None

    def _resident(self, header: Header, columns: Columns, hold: Hold) -> Reply:
        opened = self._held.kernel(header)
        try:
            self._held.check_windows()
            with self.place.left():
                found = self.owner.residents.hold(
                    WindowName(*(_short(header, part) for part in ("scope", "block", "content"))),
                    opened.program,
                    opened.modes,
                    count_field(header, "capacity", MAX_POSITION),
                    self._held.check,
                )
        except BaseException:
            self._held.release(opened)
            raise
        # Read before the window can be let go.
        loaded, buffer = found.loaded, found.buffer
        assert buffer is not None
        number = self._held.add_window(HeldWindow(buffer, opened, found.size, found))
        return {"window": number, "loaded": loaded}, None

    def _loaded(self, header: Header, columns: Columns, hold: Hold) -> Reply:
        with self._held.using(header) as window:
            if window.resident is None:
                raise DeviceError("a window without a name is never complete")
            self.owner.residents.loaded(window.resident)
        return {}, None

    def _keep(self, header: Header, columns: Columns, hold: Hold) -> Reply:
        blocks = field(header, "blocks", list)
        if not all(isinstance(name, str) for name in blocks):
            raise MalformedError("blocks are given by their names")
        return {"dropped": self.owner.residents.keep(field(header, "scope", str), blocks)}, None

    def _write(self, header: Header, columns: Columns, hold: Hold) -> Reply:
        with self._held.using(header) as window:
            if window.resident is not None and window.resident.loaded:
                raise DeviceError("a window that is kept by name is written once; use another name")
            offset = count_field(header, "offset", MAX_POSITION)
            check_columns("window keys", window_columns(window.opened.kernel.program), columns)
            window.buffer.write(offset, columns)
        self.owner.written(len(columns[0]) if columns else 0)
        return {}, None

    def _free(self, header: Header, columns: Columns, hold: Hold) -> Reply:
        self._held.free_window(header)
        return {}, None

    def _task(self, header: Header, columns: Columns, hold: Hold) -> Reply:
        if "window" in header:
            window = self._held.window(header)
            opened, buffer, leave = window.opened, window.buffer, lambda: self._held.let_go(window)
        else:
            opened, buffer = self._held.kernel(header), None
            leave = lambda: self._held.release(opened)  # noqa: E731
        try:
            kernel = opened.kernel
            if isinstance(opened.program, WindowProgram) is not (buffer is None):
                raise MalformedError("a task names the window, or the kernel of a window join")
            task = task_from(header, columns, opened.program)
            # What the kernel may find at once needs room, whatever the limit.
            most = max(self._limits.room, kernel.least_room(task))
            task = replace(task, room=min(task.room, most))
            check_asked(kernel, buffer, task, self._limits)
            # Its result, before the device makes it.
            hold.more(result_bytes(task))
            with self.place.left():
                future = self.owner.run(self.key, kernel, buffer, task)
        except BaseException:
            leave()
            raise
        # The device may use the window for longer than anybody waits for the task.
        future.add_done_callback(lambda _: leave())
        with self.place.left():
            return result_message(self.owner.result(future))


def _short(header: Mapping[str, object], part: str) -> str:
    """A part of a window's name."""
    text = field(header, part, str)
    if len(text) > MOST_NAME:
        raise MalformedError(f"a window's {part} has {len(text)} characters, above {MOST_NAME}")
    return text


def _program(header: Mapping[str, object]) -> tuple[AnyProgram, frozenset[Mode]]:
    return any_program_from(header.get("program")), modes_from(header.get("modes"))
