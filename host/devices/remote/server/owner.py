"""The owner of a device on a server: shared kernels, memory of all clients, tasks in turns."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.errors import DeviceError
from penstock.program import AnyProgram, BandProgram, Mode, WindowProgram
from penstock.types import Type

from ....device.base import Device, Kernel, WindowBuffer
from ....device.storage import key_dtype, storage_dtype
from ....execute.buffers import Buffers
from .compiling import Compiler
from .limits import ServerLimits
from .residents import NeverFitsError, Residents
from .runner import Runner

#: Bytes of a Python integer in a column, without its digits.
_INTEGER_BYTES = 48


@dataclass(eq=False)
class _Shared:
    """A kernel that several clients hold; the first client opens it."""

    opening: threading.Lock = field(default_factory=threading.Lock)
    kernel: Kernel | None = None
    holders: int = 0


class _ClientRoomError(Exception):
    """A client would exceed its share of the memory."""


class DeviceOwner(Runner):
    """Owns a device for many clients.

    Parameters
    ----------
    device : Device
        Closed with the owner.
    limits : ServerLimits
    """

    def __init__(self, device: Device, limits: ServerLimits) -> None:
        super().__init__(device, limits.depth)
        self.limits = limits
        self.counters["window_rows"] = 0
        self.compiler = Compiler(limits.compile_s)
        self.residents = Residents(self, limits.residents)
        self._shared: dict[tuple[AnyProgram, frozenset[Mode]], _Shared] = {}
        self._bytes: Counter[str] = Counter()
        # Windows of all clients are spread over the device's memory banks.
        self._buffers = Buffers(device.name)
        self._placing = threading.Lock()

    # -- kernels ----------------------------------------------------------------------------------

    def open(
        self,
        program: AnyProgram,
        modes: frozenset[Mode],
        client: str = "",
        check: Callable[[], None] = lambda: None,
    ) -> Kernel:
        """The program's kernel; each call needs a :meth:`close`.

        Parameters
        ----------
        client : str
            Whose turn it takes if the program must be compiled.
        check : callable
            Raises when the client is gone.

        Raises
        ------
        DeviceError
            The device refuses the program, or it cannot be compiled in time.
        """
        with self._lock:
            shared = self._shared.setdefault((program, modes), _Shared())
            shared.holders += 1
        try:
            with shared.opening:
                if shared.kernel is None:
                    shared.kernel = self.compiler.open(
                        client, program, modes, lambda: self.device.open(program, modes), check
                    )
                return shared.kernel
        except BaseException:
            self.close(program, modes)
            raise

    def close(self, program: AnyProgram, modes: frozenset[Mode]) -> None:
        """Release a kernel; after its last holder it is closed."""
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
        """Allocate a buffer; returns it with its bytes in the client's account.

        Raises
        ------
        DeviceError
            There is no room on the device, or in the client's share.
        """
        if capacity < 0:
            raise DeviceError(f"a window cannot have {capacity} positions")
        size = capacity * row_bytes(kernel.program)
        most = min(self.limits.client_bytes, self.limits.all_bytes)
        if size > most:
            raise NeverFitsError(
                f"the server has no room for a window of {capacity} tuples ({size} bytes): a "
                f"client has {most} bytes at most; use shorter windows, or serve with a larger "
                "--client-memory-mib"
            )
        while True:
            try:
                return self._allocate(client, kernel, capacity, size), size
            except _ClientRoomError as refusal:
                if not self.residents.evict(client):
                    raise DeviceError(str(refusal)) from refusal
            except DeviceError:
                # Windows kept for later make way for one that is wanted now.
                if not self.residents.evict():
                    raise

    def _allocate(self, client: str, kernel: Kernel, capacity: int, size: int) -> WindowBuffer:
        limits = self.limits
        with self._lock:
            held, all_of_them = self._bytes[client], self._bytes.total()
            if held + size > limits.client_bytes:
                raise _ClientRoomError(
                    f"the server has no room for a window of {capacity} tuples ({size} bytes): "
                    f"this client has {held} of {limits.client_bytes} bytes; free windows, use "
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
            self._count_freed(client, size)
            if isinstance(cause, MemoryError):
                raise DeviceError(
                    f"the server's machine has no memory for a window of {capacity} tuples"
                ) from cause
            raise
        return buffer

    def free(self, client: str, buffer: WindowBuffer, size: int) -> None:
        """Free a client's buffer, which is not kept: nobody else may read its content."""
        with self._placing:
            self._buffers.give_back(buffer, again=False)
        self._count_freed(client, size)

    def _count_freed(self, client: str, size: int) -> None:
        with self._lock:
            self._bytes[client] -= size
            if not self._bytes[client]:
                del self._bytes[client]

    def held(self) -> dict[str, int]:
        """Bytes of windows by client."""
        with self._lock:
            return dict(self._bytes)

    def count_written(self, rows: int) -> None:
        """Count rows of windows that came from a client."""
        with self._lock:
            self.counters["window_rows"] += rows

    def stop(self) -> None:
        """Close the device."""
        self.residents.close()
        self.device.close()


def row_bytes(program: AnyProgram) -> int:
    """Approximate bytes of a window tuple in a device's memory.

    Raises
    ------
    NeverFitsError
        The program keeps no windows in device memory.
    """
    if isinstance(program, WindowProgram):
        raise NeverFitsError("tasks of a window join bring their windows; allocate none for them")
    if isinstance(program, BandProgram):
        payload = 0 if program.payload is None else _column_bytes(program.payload)
        return key_dtype(program.key_bits).itemsize * program.tests + payload
    return sum(_column_bytes(dtype) for dtype in program.window)


def _column_bytes(dtype: Type) -> int:
    stored = storage_dtype(dtype)
    # Python integers have a header each, and the pointer to it.
    return _INTEGER_BYTES + dtype.bits // 8 if stored.hasobject else stored.itemsize
