"""The one owner of a device: kernels that clients share, memory that they divide, turns."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import DeviceError
from penstock.host.device.base import Device, Kernel, WindowBuffer
from penstock.host.device.run import TIMEOUT_S
from penstock.host.device.storage import key_dtype, storage_dtype
from penstock.host.lanes.buffers import Buffers
from penstock.host.server.limits import Limits
from penstock.host.server.residents import Residents
from penstock.host.server.turns import Turns
from penstock.program import BandProgram, Mode, Program

#: Tasks on the device per lane: one runs, and one is there when it ends.
_PER_LANE = 2


@dataclass(eq=False)
class Job:
    """A task of a client: what starts it, and the promise of its result."""

    client: str
    begin: Callable[[], Future[Any]]
    future: Future[Any] = field(default_factory=Future)


@dataclass(eq=False)
class _Shared:
    """A kernel and how many clients hold it; opened once, by whoever comes first."""

    opening: threading.Lock = field(default_factory=threading.Lock)
    kernel: Kernel | None = None
    holders: int = 0


class _ClientRoomError(Exception):
    """A client has all the memory that it may have."""


class Owner:
    """Owns a device for many clients.

    Parameters
    ----------
    device : Device
        Closed with the owner.
    limits : Limits
    """

    def __init__(self, device: Device, limits: Limits) -> None:
        self.device = device
        self.limits = limits
        self.counters: Counter[str] = Counter(tasks=0, failures=0, evaluations=0, window_rows=0)
        self.residents = Residents(self)
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._shared: dict[tuple[Program, frozenset[Mode]], _Shared] = {}
        self._bytes: Counter[str] = Counter()
        # Windows of all clients are spread over the device's memory banks.
        self._buffers = Buffers(device.name)
        self._placing = threading.Lock()
        self._turns: Turns[Job] = Turns(limits.depth)
        self._tidy = ThreadPoolExecutor(1, thread_name_prefix="penstock-tidy")
        self._running = 0
        self._starting = False

    # -- kernels ----------------------------------------------------------------------------------

    def open(self, program: Program, modes: frozenset[Mode]) -> Kernel:
        """The program's kernel; each call wants a :meth:`close`.

        Raises
        ------
        DeviceError
            The device refuses the program.
        """
        with self._lock:
            shared = self._shared.setdefault((program, modes), _Shared())
            shared.holders += 1
        try:
            with shared.opening:
                if shared.kernel is None:
                    shared.kernel = self.device.open(program, modes)
                return shared.kernel
        except BaseException:
            self.close(program, modes)
            raise

    def close(self, program: Program, modes: frozenset[Mode]) -> None:
        """End one hold of a kernel; without any it is closed."""
        with self._lock:
            shared = self._shared[program, modes]
            shared.holders -= 1
            if shared.holders:
                return
            del self._shared[program, modes]
        if shared.kernel is not None:
            shared.kernel.close()

    # -- memory -----------------------------------------------------------------------------------

    def allocate(self, client: str, kernel: Kernel, capacity: int) -> tuple[WindowBuffer, int]:
        """A buffer, and the bytes that it counts.

        Raises
        ------
        DeviceError
            There is no room for it, on the device or in what the client may take.
        """
        if capacity < 0:
            raise DeviceError(f"a window cannot have {capacity} positions")
        size = capacity * row_bytes(kernel.program)
        while True:
            try:
                return self._allocated(client, kernel, capacity, size), size
            except _ClientRoomError as refusal:
                if not self.residents.evict(client):
                    raise DeviceError(str(refusal)) from refusal
            except DeviceError:
                # Windows that are only kept for later make way for one that is wanted now.
                if not self.residents.evict():
                    raise

    def _allocated(self, client: str, kernel: Kernel, capacity: int, size: int) -> WindowBuffer:
        limits = self.limits
        with self._lock:
            own, all_of_them = self._bytes[client], self._bytes.total()
            if own + size > limits.client_bytes:
                raise _ClientRoomError(
                    f"the server has no room for a window of {capacity} tuples ({size} bytes): "
                    f"this client has {own} of {limits.client_bytes} bytes; free windows, use "
                    "shorter ones, or serve with a larger --client-memory-mib"
                )
            if all_of_them + size > limits.all_bytes:
                raise DeviceError(
                    f"the server has no room for a window of {capacity} tuples ({size} bytes): "
                    f"its clients have {all_of_them} of {limits.all_bytes} bytes; try again when "
                    "others have ended, or serve with a larger --memory-mib"
                )
            self._bytes[client] += size
        try:
            with self._placing:
                buffer = self._buffers.take(kernel, capacity)
            if isinstance(buffer, DeviceError):
                raise buffer
        except BaseException as cause:
            self._freed(client, size)
            if isinstance(cause, MemoryError):
                raise DeviceError(
                    f"the server's machine has no memory for a window of {capacity} tuples"
                ) from cause
            raise
        return buffer

    def free(self, client: str, buffer: WindowBuffer, size: int) -> None:
        """A client gives a buffer back; what it wrote is for nobody else, so it is not kept."""
        with self._placing:
            self._buffers.give_back(buffer, again=False)
        self._freed(client, size)

    def _freed(self, client: str, size: int) -> None:
        with self._lock:
            self._bytes[client] -= size
            if not self._bytes[client]:
                del self._bytes[client]

    def held(self) -> dict[str, int]:
        """Bytes of windows by client."""
        with self._lock:
            return dict(self._bytes)

    # -- tasks ------------------------------------------------------------------------------------

    def submit(self, client: str, begin: Callable[[], Future[Any]]) -> Future[Any]:
        """Run a task when it is the client's turn.

        Parameters
        ----------
        begin : callable
            Gives the task to the device; what its future gives has ``counters``.

        Raises
        ------
        OverloadError
            Too many tasks of the client wait.
        """
        job = Job(client, begin)
        with self._lock:
            self._turns.add(client, job)
        self._start()
        return job.future

    def result(self, future: Future[Any]) -> Any:
        """What a task gave.

        Raises
        ------
        DeviceError
            The task failed, or did not end in time.
        """
        try:
            return future.result(TIMEOUT_S)
        except FutureTimeoutError as cause:
            if future.done():
                raise
            raise DeviceError(
                f"a task did not end within {TIMEOUT_S:g} s on device {self.device.name} of the "
                "server; use smaller tasks"
            ) from cause

    def drop(self, client: str, error: Callable[[], Exception]) -> None:
        """End the tasks of a client that have not started."""
        with self._lock:
            dropped = self._turns.drop(client)
        for job in dropped:
            job.future.set_exception(error())

    def load(self) -> tuple[int, int]:
        """Tasks that wait, and tasks on the device."""
        with self._lock:
            return len(self._turns), self._running

    def quiet(self, timeout_s: float) -> bool:
        """Wait until no task waits or runs; whether that is so."""
        with self._lock:
            return self._idle.wait_for(
                lambda: not self._running and not len(self._turns), timeout_s
            )

    def later(self, act: Callable[[], None]) -> None:
        """Tidy up in a thread that is none of the device's."""
        self._tidy.submit(act)

    def written(self, rows: int) -> None:
        """So many rows of windows have come from a client."""
        with self._lock:
            self.counters["window_rows"] += rows

    def stop(self) -> None:
        """Close the device."""
        self.residents.close()
        self._tidy.shutdown(wait=True)
        self.device.close()

    def _start(self) -> None:
        with self._lock:
            if self._starting:
                return  # whoever is at it looks again before it ends
            self._starting = True
        while True:
            with self._lock:
                room = self._running < _PER_LANE * self.device.lanes
                job = self._turns.next() if room else None
                if job is None:
                    self._starting = False
                    return
                self._running += 1
            try:
                real = job.begin()
            except Exception as error:  # a device may raise anything, and others must go on
                self._ended(job, None, error)
            else:
                real.add_done_callback(lambda done, job=job: self._over(job, done))

    def _over(self, job: Job, done: Future[Any]) -> None:
        error = done.exception()
        self._ended(job, None if error is not None else done.result(), error)
        self._start()

    def _ended(self, job: Job, result: Any, error: BaseException | None) -> None:
        with self._lock:
            self._running -= 1
            self.counters["tasks"] += 1
            if result is None:
                self.counters["failures"] += 1
            else:
                self.counters["evaluations"] += int(result.counters.get("evaluations", 0))
            self._idle.notify_all()
        if result is None:
            job.future.set_exception(error or DeviceError("a task ended without a result"))
        else:
            job.future.set_result(result)


def row_bytes(program: Program) -> int:
    """Bytes of a window tuple in a device's memory, about."""
    if isinstance(program, BandProgram):
        payload = [] if program.payload is None else [storage_dtype(program.payload)]
        columns = [key_dtype(program.key_bits)] * program.tests + payload
    else:
        columns = [storage_dtype(dtype) for dtype in program.window]
    return sum(column.itemsize for column in columns)
