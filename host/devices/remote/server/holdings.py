"""Kernels and windows that one client holds on a server, freed after their last use."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeVar

from penstock.errors import DeviceError, OverloadError
from penstock.program import AnyProgram, Mode

from ....device.base import Kernel, WindowBuffer
from ....device.fields import Header, field
from .owner import DeviceOwner
from .residents import Resident


class SessionOverError(DeviceError):
    """A call in a session that has ended; the message says why it ended."""


@dataclass(eq=False)
class HeldKernel:
    """A kernel of a client."""

    kernel: Kernel
    program: AnyProgram
    modes: frozenset[Mode]
    #: The client, until it closes it; its windows; calls, and tasks of a window join.
    holders: int = 1


@dataclass(eq=False)
class HeldWindow:
    """A window of a client, which holds its kernel."""

    buffer: WindowBuffer
    opened: HeldKernel
    size: int
    #: Set where the server keeps it by name.
    resident: Resident | None = None
    #: The client, until it frees it; calls and tasks.
    holders: int = 1


Held = TypeVar("Held", HeldKernel, HeldWindow)


class Holdings:
    """Kernels and windows of one client by number, until its session ends.

    Parameters
    ----------
    client : str
        Key of its session.
    owner : DeviceOwner
    """

    def __init__(self, client: str, owner: DeviceOwner) -> None:
        self._client, self._owner, self._limits = client, owner, owner.limits
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
        """Refuse calls after the end of the session.

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
            held = [*self._windows.values(), *self._kernels.values()]
            self._windows.clear()
            self._kernels.clear()
        self._owner.drop(self._client, lambda: SessionOverError(reason))
        for one in held:
            self.release(one)

    def release(self, held: HeldKernel | HeldWindow) -> None:
        """Release a kernel or window; after its last holder it is freed."""
        with self._lock:
            held.holders -= 1
            if held.holders:
                return
        if isinstance(held, HeldKernel):
            self._owner.close(held.program, held.modes)
            return
        if held.resident is None:
            self._owner.free(self._client, held.buffer, held.size)
        else:
            self._owner.residents.release(held.resident)
        self.release(held.opened)

    @contextmanager
    def releasing_if_failed(self, held: HeldKernel | HeldWindow) -> Iterator[None]:
        """Keep a kernel or window held after the ``with`` block, unless the block fails."""
        try:
            yield
        except BaseException:
            self.release(held)
            raise

    # -- kernels ----------------------------------------------------------------------------------

    def check_kernels(self) -> None:
        """Refuse another kernel where there are too many."""
        self._check_count(self._kernels, self._limits.kernels, "programs open", "close")

    def add_kernel(self, opened: HeldKernel) -> int:
        """Add a kernel; returns its number for the client."""
        return self._number(self._kernels, opened)

    def close_kernel(self, header: Header) -> None:
        """Close the kernel that a call names, once nothing uses it, unless it is closed."""
        number = field(header, "kernel", int)
        with self._lock:
            opened = self._kernels.pop(number, None)
        if opened is not None:
            self.release(opened)

    def kernel(self, header: Header) -> HeldKernel:
        """The kernel that a call names, with another hold on it."""
        number = field(header, "kernel", int)
        return self._hold(self._kernels, number, "was closed, or never was open")

    # -- windows ----------------------------------------------------------------------------------

    def check_windows(self) -> None:
        """Refuse another window where there are too many."""
        self._check_count(self._windows, self._limits.windows, "windows", "free")

    def add_window(self, window: HeldWindow) -> int:
        """Add a window; returns its number for the client."""
        number = self._number(self._windows, window)
        if window.resident is None:
            return number
        with self._lock:
            # Windows of a scope count as those of one client, so a reader of several scopes could
            # hold the memory of several.
            kept = sum(w.size for w in self._windows.values() if w.resident is not None)
            above = kept > self._limits.client_bytes and self._windows.pop(number, None)
        if above:
            self.release(window)
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
        self.release(window)

    def window(self, header: Header) -> HeldWindow:
        """The window that a call names, with another hold on it."""
        number = field(header, "window", int)
        return self._hold(self._windows, number, "was freed, or never was; allocate another one")

    @contextmanager
    def using(self, header: Header) -> Iterator[HeldWindow]:
        """Use the window that a call names."""
        window = self.window(header)
        try:
            yield window
        finally:
            self.release(window)

    def _check_count(self, held: Mapping[int, Any], most: int, noun: str, end: str) -> None:
        with self._lock:
            if len(held) >= most:
                raise OverloadError(
                    f"this client has {len(held)} {noun}, which is the most; {end} some"
                )

    def _number(self, all_held: dict[int, Held], held: Held) -> int:
        number = next(self._numbers)
        with self._lock:
            if self._over is None:
                all_held[number] = held
                return number
        self.release(held)
        raise SessionOverError(self._over)

    def _hold(self, all_held: dict[int, Held], number: int, lacking: str) -> Held:
        with self._lock:
            held = all_held.get(number)
            if held is None:
                noun = "kernel" if all_held is self._kernels else "window"
                raise DeviceError(f"{noun} {number} {lacking}")
            held.holders += 1
            return held
