"""What one client holds on a server: kernels and windows, freed after their last use."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeVar

from penstock.errors import DeviceError, OverloadError
from penstock.program import AnyProgram, Mode

from ....device.base import Kernel, WindowBuffer
from ....device.fields import Header, field
from .limits import Limits
from .owner import DeviceOwner
from .residents import Resident

Held = TypeVar("Held")


class SessionOverError(DeviceError):
    """A call came in a session that has ended; the message is why it did."""


@dataclass(eq=False)
class HeldKernel:
    """A kernel of a client."""

    kernel: Kernel
    program: AnyProgram
    modes: frozenset[Mode]
    #: The client's own hold, and one for each window and each task of a window join.
    holders: int = 1


@dataclass(eq=False)
class HeldWindow:
    """A window of a client, which holds its kernel."""

    buffer: WindowBuffer
    opened: HeldKernel
    size: int
    #: Set where the server keeps it by name.
    resident: Resident | None = None
    #: Calls and tasks that use it now.
    users: int = 0
    freed: bool = False


class Holdings:
    """Kernels and windows of one client by number, until its session ends.

    Parameters
    ----------
    client : str
        Key of its session.
    owner : DeviceOwner
    limits : Limits
    """

    def __init__(self, client: str, owner: DeviceOwner, limits: Limits) -> None:
        self._client, self._owner, self._limits = client, owner, limits
        self._lock = threading.Lock()
        self._over: str | None = None
        self._numbers = count(1)
        self._kernels: dict[int, HeldKernel] = {}
        self._windows: dict[int, HeldWindow] = {}

    @property
    def has_windows(self) -> bool:
        with self._lock:
            return bool(self._windows)

    def check(self) -> None:
        """Refuse what comes after the end of the session.

        Raises
        ------
        SessionOverError
        """
        if self._over is not None:
            raise SessionOverError(self._over)

    def end(self, reason: str) -> None:
        """Free everything, once no task uses it; tasks that have not started are dropped."""
        with self._lock:
            if self._over is not None:
                return
            self._over = reason
            windows, kernels = list(self._windows.values()), list(self._kernels.values())
            self._windows.clear()
            self._kernels.clear()
        self._owner.drop(self._client, lambda: SessionOverError(reason))
        for window in windows:
            self.let_go(window, freed=True)
        for opened in kernels:
            self.release(opened)

    # -- kernels ----------------------------------------------------------------------------------

    def check_kernels(self) -> None:
        """Refuse another kernel where there are too many."""
        self._check_count(self._kernels, self._limits.kernels, "programs open", "close")

    def add_kernel(self, opened: HeldKernel) -> int:
        """The number under which the client knows a kernel from now on."""
        return self._numbered(self._kernels, opened, lambda: self.release(opened))

    def take_kernel(self, header: Header) -> HeldKernel | None:
        """The kernel that a call closes."""
        number = field(header, "kernel", int)
        with self._lock:
            return self._kernels.pop(number, None)

    def kernel(self, header: Header) -> HeldKernel:
        """The kernel that a call names, held once more."""
        number = field(header, "kernel", int)
        with self._lock:
            opened = self._kernels.get(number)
            if opened is None:
                raise DeviceError(f"kernel {number} was closed, or never was open")
            opened.holders += 1
            return opened

    def release(self, opened: HeldKernel) -> None:
        """Hold a kernel once less; after the last one it is closed."""
        with self._lock:
            opened.holders -= 1
            if opened.holders:
                return
        self._owner.close(opened.program, opened.modes)

    # -- windows ----------------------------------------------------------------------------------

    def check_windows(self) -> None:
        """Refuse another window where there are too many."""
        self._check_count(self._windows, self._limits.windows, "windows", "free")

    def add_window(self, window: HeldWindow) -> int:
        """The number under which the client knows a window from now on."""
        number = self._numbered(self._windows, window, lambda: self.let_go(window, freed=True))
        if window.resident is None:
            return number
        with self._lock:
            # Windows of a scope count as those of one client, so who reads several scopes could
            # hold the memory of several.
            kept = sum(w.size for w in self._windows.values() if w.resident is not None)
            above = kept > self._limits.client_bytes and self._windows.pop(number, None)
        if above:
            self.let_go(window, freed=True)
            raise DeviceError(
                f"this client reads {kept} bytes of windows that are kept by name, above the "
                f"{self._limits.client_bytes} of one client; free some"
            )
        return number

    def free_window(self, header: Header) -> None:
        """Free the window that a call names, once nobody uses it."""
        number = field(header, "window", int)
        with self._lock:
            window = self._windows.pop(number, None)
        if window is None:
            raise DeviceError(f"window {number} was freed before, or never was")
        self.let_go(window, freed=True)

    def window(self, header: Header) -> HeldWindow:
        """The window that a call names, used once more."""
        number = field(header, "window", int)
        with self._lock:
            window = self._windows.get(number)
            if window is None:
                raise DeviceError(f"window {number} was freed, or never was; allocate another one")
            window.users += 1
            return window

    @contextmanager
    def using(self, header: Header) -> Iterator[HeldWindow]:
        """Use the window that a call names."""
        window = self.window(header)
        try:
            yield window
        finally:
            self.let_go(window)

    def let_go(self, window: HeldWindow, freed: bool = False) -> None:
        """Use a window once less, or from now on no more; the last use gives the memory back."""
        with self._lock:
            if freed:
                window.freed = True
            else:
                window.users -= 1
            if window.users or not window.freed:
                return
        if window.resident is None:
            self._owner.free(self._client, window.buffer, window.size)
        else:
            self._owner.residents.release(window.resident)
        self.release(window.opened)

    def _check_count(self, held: Mapping[int, Any], most: int, what: str, end: str) -> None:
        with self._lock:
            if len(held) >= most:
                raise OverloadError(
                    f"this client has {len(held)} {what}, which is the most; {end} some"
                )

    def _numbered(self, held: dict[int, Held], one: Held, undo: Callable[[], None]) -> int:
        number = next(self._numbers)
        with self._lock:
            if self._over is None:
                held[number] = one
                return number
        undo()
        raise SessionOverError(self._over)
