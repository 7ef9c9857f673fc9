"""The ``remote`` device: the device contract, fulfilled by a server."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from os import PathLike

import numpy as np

from penstock.errors import DeviceError, UsageError
from penstock.host.device.base import PAIRS, Device, Kernel, Result, Task, WindowBuffer
from penstock.host.device.run import TIMEOUT_S
from penstock.host.remote.link import AbsentError, Link, LostError
from penstock.host.wire.address import Address, read_token
from penstock.host.wire.columns import batch_of
from penstock.host.wire.message import Header, field
from penstock.host.wire.programs import program_header
from penstock.host.wire.tasks import result_from, task_message
from penstock.program import Mode, Program

#: Seconds between two looks for a server that was there before.
_RETRY_S = 0.05
#: Bytes of one write to a window, at most. A part fits a segment of 8 MiB with its headers, which
#: stays in the cache: 64 MiB took twice as long in one part, and longer in parts of 1 MiB.
_WRITE_BYTES = 7 << 20
#: Programs of which it is remembered whether the server's device refuses them.
_REMEMBERED = 256

#: How bodies of calls travel, as whether they are shared.
TRANSPORTS = {"auto": None, "shared": True, "flight": False}


class RemoteDevice(Device):
    """Runs tasks on a device that a server on this machine owns.

    Windows stay in the server; only what is new of them travels. A server that dies fails the tasks
    that run and takes the windows with it; the next call waits for a server to be there again, and
    windows are allocated and written anew.

    Parameters
    ----------
    address : str
        ``unix:///run/penstock.sock`` or ``tcp://127.0.0.1:4317``; what ``penstock serve`` printed.
    device : str, optional
        Which of the server's devices; by default its first.
    token_file : str or path, optional
        File with the server's token.
    transport : str
        How data travels: "shared" for memory that both processes see, "flight" for the connection,
        "auto" for shared memory where that is possible.
    connect_s : float
        Seconds to wait for a server's first answer.
    resume_s : float
        Seconds to wait for a server that went away to be there again.
    answer_s : float
        Seconds to wait for the end of a call, tasks included.

    Raises
    ------
    UsageError
        An argument is not usable.
    DeviceError
        No server answers, or it does not want this client.
    """

    name = "remote"

    def __init__(
        self,
        address: str | None = None,
        *,
        device: str | None = None,
        token_file: str | PathLike[str] | None = None,
        transport: str = "auto",
        connect_s: float = 10.0,
        resume_s: float = 30.0,
        answer_s: float = TIMEOUT_S,
    ) -> None:
        if address is None:
            raise UsageError(
                "device remote needs the address of a server, which `penstock serve` prints; give "
                "address= or --address"
            )
        if transport not in TRANSPORTS:
            raise UsageError(f"transport is one of {', '.join(TRANSPORTS)}, not {transport!r}")
        for name, value in (("connect_s", connect_s), ("answer_s", answer_s)):
            if not value > 0:
                raise UsageError(f"{name} must be above 0, not {value!r}")
        self.address = Address.parsed(address)
        self._wanted = device
        self._token = None if token_file is None else read_token(token_file)
        self._shared = TRANSPORTS[transport]
        self._connect_s, self._resume_s, self._answer_s = connect_s, resume_s, answer_s
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._sums: Counter[str] = Counter(tasks=0, evaluations=0, pairs=0)
        self._link = self._connected()
        welcome = self._link.welcome
        self.lanes = field(welcome, "lanes", int)
        self.key_widths = tuple(field(welcome, "key_widths", list))
        self.task_evaluations = welcome.get("task_evaluations")
        # The server lets so many tasks wait, and this many threads wait for them here.
        self._pool = ThreadPoolExecutor(
            min(field(welcome, "depth", int), 2 * self.lanes + 2),
            thread_name_prefix="penstock-remote",
        )
        # A running join asks for each batch.
        self._refusals: dict[tuple[Program, frozenset[Mode]], str | None] = {}

    @property
    def served(self) -> list[Header]:
        """What the server has: name, lanes, key_widths and description of each device."""
        return field(self.link().welcome, "devices", list)

    def refuses(self, program: Program, modes: frozenset[Mode] = PAIRS) -> str | None:
        key = program, modes
        if key not in self._refusals:
            if len(self._refusals) >= _REMEMBERED:
                self._refusals.clear()
            answer, _ = self.link().call({"call": "refuses", **program_fields(program, modes)})
            reason = answer.get("reason")
            self._refusals[key] = None if reason is None else str(reason)
        return self._refusals.get(key)

    def open(self, program: Program, modes: frozenset[Mode] = PAIRS) -> Kernel:
        return RemoteKernel(self, program, modes)

    def counters(self) -> dict[str, int]:
        with self._lock:
            return dict(self._sums)

    def close(self) -> None:
        self._closed.set()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._link.close()

    # -- for kernels ------------------------------------------------------------------------------

    def link(self) -> Link:
        """The session with the server; a new one if that of before was lost.

        Raises
        ------
        DeviceError
            No server is there, or it does not want this client.
        """
        with self._lock:
            if self._closed.is_set():
                raise DeviceError("device remote is closed; open it again to run tasks")
            if self._link.lost is not None:
                until = time.monotonic() + self._resume_s
                while True:
                    try:
                        self._link = self._connected()
                        break
                    except AbsentError:
                        if time.monotonic() >= until or self._closed.wait(_RETRY_S):
                            raise
            return self._link

    def run(self, act: Callable[[], Result]) -> Future[Result]:
        """Run a task's call beside others; its result is counted."""

        def counted() -> Result:
            result = act()
            with self._lock:
                self._sums.update(result.counters)
                self._sums.update(tasks=1, pairs=len(result.i))
            return result

        try:
            return self._pool.submit(counted)
        except RuntimeError as cause:
            raise DeviceError("device remote is closed; open it again to run tasks") from cause

    def _connected(self) -> Link:
        return Link(
            self.address,
            device=self._wanted,
            token=self._token,
            shared=self._shared,
            connect_s=self._connect_s,
            answer_s=self._answer_s,
        )


class RemoteKernel(Kernel):
    """A program on a server, opened again there if its session was lost."""

    def __init__(self, device: RemoteDevice, program: Program, modes: frozenset[Mode]) -> None:
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
                self.min_room = field(answer, "min_room", int)
                self._opened = link, field(answer, "kernel", int)
            return self._opened

    def allocate(self, capacity: int) -> WindowBuffer:
        link, number = self.on_server()
        header = {"call": "allocate", "kernel": number, "capacity": int(capacity)}
        answer, _ = link.call(header)
        return RemoteWindow(self, link, field(answer, "window", int), capacity)

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
            _dismiss(opened[0], {"call": "close", "kernel": opened[1]})


class RemoteWindow(WindowBuffer):
    """A window in a server's device."""

    def __init__(self, kernel: RemoteKernel, link: Link, number: int, capacity: int) -> None:
        super().__init__(capacity)
        self.kernel = kernel
        self._link = link
        self._number = number
        self._freed = False

    @property
    def lost(self) -> bool:
        return self._link.lost is not None

    def write(self, offset: int, columns: Sequence[np.ndarray]) -> None:
        batch = batch_of(columns)
        rows = max(_WRITE_BYTES * batch.num_rows // max(batch.nbytes, 1), 1)
        if batch.num_rows and offset + batch.num_rows > self.capacity:
            rows = batch.num_rows  # the device says what is wrong, before anything is written
        for low in range(0, max(batch.num_rows, 1), rows):
            header = {"call": "write", "window": self._number, "offset": int(offset) + low}
            self._link.call(header, batch.slice(low, rows))

    def run(self, task: Task) -> Result:
        """Run a task on it, and wait for the result."""
        header, batch = task_message(task)
        return result_from(
            *self._link.call({"call": "task", "window": self._number, **header}, batch)
        )

    def free(self) -> None:
        if not self._freed:
            self._freed = True
            _dismiss(self._link, {"call": "free", "window": self._number})


def program_fields(program: Program, modes: frozenset[Mode]) -> Header:
    """Fields of a call that names a program."""
    return {"program": program_header(program), "modes": sorted(mode.value for mode in modes)}


def _dismiss(link: Link, header: Header) -> None:
    """Give something back; a session that was lost has taken it along."""
    if link.lost is None:
        try:
            link.call(header)
        except LostError:
            return
