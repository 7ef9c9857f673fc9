"""One client's calls for kernels, windows and tasks, all freed when the client goes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field

import numpy as np

from penstock.errors import DeviceError
from penstock.program import AnyProgram, Mode, WindowProgram

from ....device.base import AnyTask, Kernel, WindowBuffer, WindowName
from ....device.checks import (
    MAX_POSITION,
    check_columns,
    check_task,
    check_window_task,
    stream_columns,
    window_columns,
)
from ....device.fields import Header, MalformedError, count_field, field
from ....device.programs import any_program_from, modes_from
from ....device.window_join import WindowTask
from ....wire.frames import Frames
from ..wire.tasks import result_message, task_from
from .holdings import HeldKernel, HeldWindow, Holdings
from .limits import Hold, ServerLimits, Traffic
from .owner import DeviceOwner
from .place import PeerPlace

Columns = Sequence[np.ndarray]
Reply = tuple[Header, Columns | None]

#: Characters of each part of a window's name, at most.
MOST_NAME = 1024


#: Bytes of a stream tuple's fold: ``found``, value, position, and a Python integer where the value
#: has more than 64 bits.
_FOLD_BYTES = 1 + 8 + 8 + 104
#: Pairs that devices may write beyond a result's room.
_SLACK = 1 << 10


def result_bytes(task: AnyTask) -> int:
    """Bytes of a checked task's result, at most."""
    if not isinstance(task, WindowTask) and task.mode is not Mode.PAIRS:
        return _FOLD_BYTES * task.rows
    # Devices may allocate room for all pairs, however few there are.
    return 8 * (task.room + _SLACK)


def check_asked(
    kernel: Kernel, window: WindowBuffer | None, task: AnyTask, limits: ServerLimits
) -> None:
    """Refuse a task that no client may ask for, in addition to the device's checks.

    Raises
    ------
    DeviceError
    """
    if isinstance(task, WindowTask):
        check_window_task(kernel, task, typed=True)
        count, most = task.evaluations(kernel.program.rows), limits.join_evaluations
    else:
        assert window is not None
        check_task(kernel, window.capacity, stream_columns(kernel.program), task)
        count, most = int((task.end - task.start).sum()), limits.evaluations
    if count > most:
        raise DeviceError(
            f"a task of {count} predicate tests would keep others waiting, above {most}; cut it"
        )


@dataclass(eq=False)
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
        Counts the memory of its calls.
    peer : str
        Where it is.
    place : PeerPlace
        Calls are handled in it.
    """

    key: str
    name: str
    owner: DeviceOwner
    traffic: Traffic
    peer: str
    place: PeerPlace
    #: Its own connection, and those of its calls; under the server's lock.
    frames: Frames | None = None
    calling: set[Frames] = dataclass_field(default_factory=set)

    def __post_init__(self) -> None:
        #: Monotonic seconds of the latest sign of life, and of the latest call.
        self.seen = self._called = time.monotonic()
        self._held = Holdings(self.key, self.owner)

    def renew(self) -> None:
        """Note a sign of life of the client.

        Raises
        ------
        SessionOverError
            Too late.
        """
        self._held.check()
        self.seen = time.monotonic()

    def call(self, header: Header, columns: Columns, hold: Hold) -> Reply:
        """Carry out a call, and return the reply.

        Raises
        ------
        PenstockError
            Something is wrong with the call, or with the device.
        """
        self._held.check()
        self._called = time.monotonic()
        match field(header, "call", str):
            case "refuses":
                program, modes = _program(header)
                return {"reason": self.owner.device.refuses(program, modes)}, None
            case "open":
                return self._open(header), None
            case "close":
                self._held.close_kernel(header)
            case "allocate":
                return self._allocate(header), None
            case "write":
                self._write(header, columns)
            case "free":
                self._held.free_window(header)
            case "resident":
                return self._resident(header), None
            case "loaded":
                self._loaded(header)
            case "keep":
                return self._keep(header), None
            case "task":
                return self._task(header, columns, hold)
            case unknown:
                raise MalformedError(f"there is no call {unknown!r:.80}")
        return {}, None

    @property
    def idle_s(self) -> float:
        """Seconds since its latest call, or 0 while it has windows."""
        return 0.0 if self._held.has_windows else time.monotonic() - self._called

    def end(self, reason: str) -> None:
        """Free everything, once no task uses it; tasks that have not started are dropped."""
        self._held.end(reason)

    # -- calls ------------------------------------------------------------------------------------

    def _open(self, header: Header) -> Header:
        program, modes = _program(header)
        self._held.check_kernels()
        with self.place.left():
            kernel = self.owner.open(program, modes, self.key, self._held.check)
        number = self._held.add_kernel(HeldKernel(kernel, program, modes))
        most = kernel.most_positions or 0  # as long as one likes
        return {"kernel": number, "min_room": kernel.min_room, "most_positions": most}

    def _allocate(self, header: Header) -> Header:
        opened = self._held.kernel(header)
        with self._held.releasing_if_failed(opened):
            self._held.check_windows()
            buffer, size = self.owner.allocate(
                self.key, opened.kernel, count_field(header, "capacity", MAX_POSITION)
            )
        return {"window": self._held.add_window(HeldWindow(buffer, opened, size))}

    def _resident(self, header: Header) -> Header:
        opened = self._held.kernel(header)
        with self._held.releasing_if_failed(opened):
            self._held.check_windows()
            with self.place.left():
                resident = self.owner.residents.hold(
                    WindowName(*(_short(header, part) for part in ("scope", "block", "content"))),
                    opened.program,
                    opened.modes,
                    count_field(header, "capacity", MAX_POSITION),
                    self._held.check,
                )
        # Read before the window can be let go.
        loaded, buffer = resident.loaded, resident.buffer
        assert buffer is not None
        number = self._held.add_window(HeldWindow(buffer, opened, resident.size, resident))
        return {"window": number, "loaded": loaded}

    def _loaded(self, header: Header) -> None:
        with self._held.using(header) as window:
            if window.resident is None:
                raise DeviceError("a window without a name is never complete")
            self.owner.residents.mark_loaded(window.resident)

    def _keep(self, header: Header) -> Header:
        blocks = field(header, "blocks", list)
        if not all(isinstance(name, str) for name in blocks):
            raise MalformedError("blocks are given by their names")
        return {"dropped": self.owner.residents.keep(field(header, "scope", str), blocks)}

    def _write(self, header: Header, columns: Columns) -> None:
        with self._held.using(header) as window:
            if window.resident is not None and window.resident.loaded:
                raise DeviceError("a window that is kept by name is written once; use another name")
            offset = count_field(header, "offset", MAX_POSITION)
            check_columns("window keys", window_columns(window.opened.kernel.program), columns)
            window.buffer.write(offset, columns)
        self.owner.count_written(len(columns[0]) if columns else 0)

    def _task(self, header: Header, columns: Columns, hold: Hold) -> Reply:
        held = self._held.window(header) if "window" in header else self._held.kernel(header)
        with self._held.releasing_if_failed(held):
            is_window = isinstance(held, HeldWindow)
            opened, buffer = (held.opened, held.buffer) if is_window else (held, None)
            if isinstance(opened.program, WindowProgram) is is_window:
                raise MalformedError("a task names the window, or the kernel of a window join")
            task, limits = task_from(header, columns, opened.program), self.owner.limits
            # A kernel needs its least room, whatever the limit.
            most = max(limits.room, opened.kernel.least_room(task))
            task = replace(task, room=min(task.room, most))
            check_asked(opened.kernel, buffer, task, limits)
            # The result is counted before the device makes it.
            hold.more(result_bytes(task))
            with self.place.left():
                future = self.owner.run(self.key, opened.kernel, buffer, task)
        # The device may use the window for longer than anybody waits for the task.
        future.add_done_callback(lambda _: self._held.release(held))
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
