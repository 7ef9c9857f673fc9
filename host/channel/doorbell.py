"""Lets a process sleep until one of its channels, or the end of another process, needs it.

One doorbell serves all channels of a process. Whoever sends to it looks at a word that says
whether it sleeps, and makes a system call only then.
"""

from __future__ import annotations

import math
import mmap
import os
import select
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Protocol

import numpy as np

from penstock.errors import DeviceError, ProcessError

from ..device.fields import MalformedError
from ..wire.sealed import can_seal, create_sealed, map_memory, memory_or_remedy, sealed_size
from .atomics import announce, store_release, take_announced

#: Seconds that a wait spins before it sleeps: about as long as it takes to sleep and wake again.
SPIN_S = 50e-6
#: Seconds after which a wait that spins lets others have its core meanwhile.
_QUICK_S = 5e-6
#: Seconds that a wait beside a network sleeps at most: it looks for silent peers only when asked.
_LOOK_S = 0.25

_ASLEEP = 0
#: Words of a doorbell that is closed.
_NOBODY = np.zeros(1, np.uint64)


def spin_seconds(processes: int) -> float:
    """Seconds for which each of several processes may spin: 0 if cores are fewer than processes.

    A process that spins would then keep the one it waits for from a core.
    """
    return SPIN_S if processes <= len(os.sched_getaffinity(0)) else 0.0


class Served(Protocol):
    """A network: it makes progress only while a process waits at its doorbell."""

    def fileno(self) -> int:
        """Descriptor that becomes readable when something arrives, after :meth:`arm`."""
        ...

    def progress(self) -> None:
        """Make progress without waiting."""
        ...

    def arm(self) -> bool:
        """Prepare to sleep; False if something has arrived."""
        ...

    def failed_end(self) -> str | None:
        """Name of a process whose connection has failed; None if none has."""
        ...


class ProcessGoneError(ProcessError):
    """The process at the other end of a channel has ended.

    Parameters
    ----------
    message : str
    name : str
        Name of the process in :meth:`Doorbell.watch`.
    """

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message)
        self.name = name


class Doorbell:
    """Wakes this process: a word in shared memory, an event, and the ends of watched processes.

    Parameters
    ----------
    event, file : int
        Descriptors of an eventfd and of a page of sealed memory, owned by this object.
    spin_s : float
        Seconds that waits spin before they sleep; see :func:`spin_seconds`.
    """

    def __init__(self, event: int, file: int, spin_s: float = SPIN_S) -> None:
        #: Seconds that waits spin before they sleep.
        self.spin_s = spin_s
        #: Descriptors that another process needs to ring: pass both (:class:`Ringer`).
        self.files = (event, file)
        self._words = _mapped(file)
        self._poll = select.epoll()
        self._poll.register(event, select.EPOLLIN)
        self._watched: dict[int, str] = {}
        self._served: list[Served] = []

    @classmethod
    def create(cls, spin_s: float = SPIN_S, *, is_offered: bool = False) -> Doorbell:
        """Make a doorbell for this process.

        Parameters
        ----------
        is_offered : bool
            Whether processes that are no children open it through ``/proc``, which an eventfd
            does not allow and a pipe does.

        Raises
        ------
        DeviceError
            There are no descriptors for it, or the system is not Linux.
        """
        if not can_seal():
            raise DeviceError("doorbells need Linux: run with one worker")
        with memory_or_remedy("doorbell"), ExitStack() as undo:
            event = _pipe() if is_offered else os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            undo.callback(os.close, event)
            file = create_sealed("penstock-doorbell", mmap.PAGESIZE)
            undo.callback(os.close, file)
            bell = cls(event, file, spin_s)
            undo.pop_all()
            return bell

    @classmethod
    def attach(cls, files: tuple[int, int], spin_s: float = SPIN_S) -> Doorbell:
        """The doorbell that a parent has made for this process, from the descriptors it passed."""
        return cls(*files, spin_s)

    def watch(self, process: int, name: str) -> None:
        """End every wait when a process ends.

        Parameters
        ----------
        process : int
            Its pidfd (``os.pidfd_open``), which stays the caller's.
        name : str
            Its name in errors.
        """
        self._poll.register(process, select.EPOLLIN)
        self._watched[process] = name

    def unwatch(self, process: int) -> None:
        """Forget a process that was watched; call it before its pidfd is closed."""
        if self._watched.pop(process, None) is not None:
            self._poll.unregister(process)

    def serve(self, served: Served) -> None:
        """Let a network make progress in every wait, and wake when something arrives there."""
        self._poll.register(served.fileno(), select.EPOLLIN)
        self._served.append(served)

    def leave(self, served: Served) -> None:
        """Forget a network; call it before its descriptor is closed."""
        self._served.remove(served)
        if not self._poll.closed:
            self._poll.unregister(served.fileno())

    def wait(
        self, ready: Callable[[], bool], timeout_s: float, *, spin_s: float | None = None
    ) -> bool:
        """Wait until something is ready; returns whether it is.

        Parameters
        ----------
        ready : callable
            Looks at channels, e.g. at :attr:`.Consumer.has_arrived`; must not wait.
        timeout_s : float
        spin_s : float, optional
            Seconds of asking again and again before it sleeps; those of the doorbell if None.

        Raises
        ------
        ProcessGoneError
            A watched process has ended, and nothing is ready.
        """
        if ready():
            return True
        self._progress()
        began = now = time.perf_counter()
        deadline = began + timeout_s
        spin_until = min(began + (self.spin_s if spin_s is None else spin_s), deadline)
        while now < spin_until:
            if ready():
                return True
            self._progress()
            if now - began > _QUICK_S:
                # Who was just woken may be on this core, and the other side of a channel is then.
                os.sched_yield()
            now = time.perf_counter()
        while True:
            ended = self._sleep(ready, deadline)
            if ready():
                return True
            if ended is not None:
                raise ProcessGoneError(f"{ended} has ended", ended)
            if time.perf_counter() >= deadline:
                return False

    def _sleep(self, ready: Callable[[], bool], deadline: float) -> str | None:
        """Sleep until someone rings, a process ends, or time is over; returns the ended process."""
        announce(self._words, _ASLEEP)
        try:
            # Who published before it could see the announcement did not ring, but is seen here.
            left = 0.0 if ready() else max(0.0, deadline - time.perf_counter())
            for served in self._served:
                left = min(left, _LOOK_S) if served.arm() else 0.0
            # Up to the next whole ms, in which epoll counts: it would return too early.
            events = self._poll.poll(math.ceil(left * 1e3) / 1e3)
        finally:
            store_release(self._words, _ASLEEP, 0)
        self._progress()
        ended = next((name for one in self._served if (name := one.failed_end()) is not None), None)
        for file, _ in events:
            if file in self._watched:
                ended = self._watched[file]
            elif file == self.files[0]:
                self._clear()
        return ended

    def _progress(self) -> None:
        for served in self._served:
            served.progress()

    def _clear(self) -> None:
        with suppress(BlockingIOError):  # it was read before
            os.eventfd_read(self.files[0])

    def close(self) -> None:
        """Close all descriptors; nobody can ring any more."""
        if not self._poll.closed:
            self._poll.close()
            for file in self.files:
                os.close(file)
            self._words = _NOBODY  # the mapping has a descriptor, too


class Ringer:
    """Rings the doorbell of another process.

    Parameters
    ----------
    files : tuple of int
        :attr:`Doorbell.files`, as they are called in this process. The second may be closed
        afterwards; the first is used until :meth:`close`.

    Raises
    ------
    MalformedError
        The descriptors are no doorbell.
    """

    __slots__ = ("_event", "_words")

    def __init__(self, files: tuple[int, int]) -> None:
        self._event = files[0]
        self._words = _mapped(files[1])

    def ring(self) -> None:
        """Wake the process if it sleeps; call it after something was published for it."""
        if take_announced(self._words, _ASLEEP):
            with suppress(BlockingIOError):  # rung 2**64 times: it wakes anyway
                os.eventfd_write(self._event, 1)

    def close(self) -> None:
        """Close the event's descriptor."""
        if self._event >= 0:
            os.close(self._event)
            self._event = -1
            self._words = _NOBODY


def _pipe() -> int:
    """Make a pipe with one descriptor for both ends, read and written like an eventfd."""
    ends = os.pipe2(os.O_CLOEXEC)
    try:
        return os.open(f"/proc/self/fd/{ends[0]}", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    finally:
        for end in ends:
            os.close(end)


def _mapped(file: int) -> np.ndarray:
    size = sealed_size(file)
    if size != mmap.PAGESIZE:
        raise MalformedError(f"a doorbell is a page, not {size} bytes")
    with memory_or_remedy("doorbell"):
        return map_memory(file, size).view(np.uint64)
