"""Windows that a server keeps by name, longer than the sessions that wrote them.

One client writes a window; others that ask for it meanwhile wait. Windows without readers are
dropped when memory is needed, when their query no longer names their block, or after a while.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from penstock.errors import DeviceError
from penstock.program import AnyProgram, Mode

from ....device.base import WindowBuffer, WindowName

if TYPE_CHECKING:
    from .owner import DeviceOwner

#: Seconds for which a client waits until another has written a window, or released memory.
WAIT_S = 120.0
#: Seconds between two checks that the waiting client is still there.
_LOOK_S = 1.0


class NeverFitsError(DeviceError):
    """A window that no client may ever have, so that waiting for memory is useless."""


class Gone(Enum):
    """Why a window is no longer kept."""

    MEMORY = "its memory was needed"
    UNNAMED = "its query no longer names it"
    IDLE = "nobody read it for long"
    UNWRITTEN = "its client did not write all of it"
    LOST = "the device lost it"


#: The program and its modes belong to the name: a buffer serves one kernel.
Key = tuple[WindowName, AnyProgram, frozenset[Mode]]


@dataclass(eq=False)
class Resident:
    """A window that is kept by name."""

    key: Key
    buffer: WindowBuffer | None = None
    size: int = 0
    loaded: bool = False
    #: Clients that read or write it now.
    holds: int = 1
    used: float = 0.0
    #: Whether it is no longer kept: it is freed after its last reader.
    dropped: bool = False

    @property
    def client(self) -> str:
        """The client in the memory's limits: each scope counts as one."""
        return f"scope {self.key[0].scope}"


class Residents:
    """Windows of one device by name.

    Parameters
    ----------
    memory : DeviceOwner
    most : int
        Windows to keep; beyond, the least recently read one is dropped.

    Attributes
    ----------
    counts : Counter
        ``hits`` and ``loads``: how often a window was there, and was not.
    gone : Counter of Gone
        Windows that are no longer kept, by reason.
    """

    def __init__(self, memory: DeviceOwner, most: int = 1 << 14) -> None:
        self._memory = memory
        self._most = most
        self.counts: Counter[str] = Counter(hits=0, loads=0)
        self.dropped: Counter[Gone] = Counter()
        self._changed = threading.Condition()
        self._windows: dict[Key, Resident] = {}
        #: Counts the times that memory may have become free.
        self._moments = 0

    def hold(
        self,
        name: WindowName,
        program: AnyProgram,
        modes: frozenset[Mode],
        capacity: int,
        check: Callable[[], None] = lambda: None,
    ) -> Resident:
        """Hold a window: to read, or, if it is not ``loaded``, to write.

        Each call needs a :meth:`release`. ``check`` raises when the waiting client has gone.

        Raises
        ------
        DeviceError
            There is no room for it.
        """
        key = name, program, modes
        deadline = time.monotonic() + WAIT_S
        with self._changed:
            while (known := self._windows.get(key)) is not None:
                if known.loaded and known.buffer is not None and not known.buffer.lost:
                    known.holds += 1
                    self.counts["hits"] += 1
                    return known
                if known.loaded:
                    self._drop(known, Gone.LOST)
                    continue
                self._wait(deadline, check, f"another client has not written {name.block}")
            if len(self._windows) >= self._most and not self.evict():
                raise DeviceError(
                    f"the server keeps {len(self._windows)} windows by name, and all are read; "
                    "free some"
                )
            new = self._windows[key] = Resident(key)
            self.counts["loads"] += 1
        try:
            new.buffer, new.size = self._allocate(new, capacity, deadline, check)
        except BaseException:
            with self._changed:
                self._windows.pop(key, None)
                self._changed.notify_all()
            raise
        return new

    def mark_loaded(self, window: Resident) -> None:
        """Note that a window is written as a whole; others may read it now."""
        with self._changed:
            window.loaded = True
            self._changed.notify_all()

    def release(self, window: Resident) -> None:
        """Release a window."""
        with self._changed:
            window.holds -= 1
            window.used = time.monotonic()
            if not window.loaded and not window.dropped:
                self._drop(window, Gone.UNWRITTEN)
            elif window.dropped and not window.holds:
                self._free(window)
            self._moments += 1
            self._changed.notify_all()

    def keep(self, scope: str, blocks: Collection[str]) -> int:
        """Drop the windows of all other blocks of a scope; returns their number."""
        wanted = set(blocks)
        with self._changed:
            unwanted = [
                window
                for (name, _, _), window in self._windows.items()
                if name.scope == scope and name.block not in wanted and window.loaded
            ]
            for window in unwanted:
                self._drop(window, Gone.UNNAMED)
        return len(unwanted)

    def evict(self, client: str | None = None) -> bool:
        """Drop the least recently read window without readers; returns whether there was one.

        Parameters
        ----------
        client : str, optional
            Only one of this scope's.
        """
        with self._changed:
            idle = [w for w in self._idle() if client is None or w.client == client]
            if not idle:
                return False
            self._drop(min(idle, key=lambda window: window.used), Gone.MEMORY)
            return True

    def expire(self, before: float) -> None:
        """Drop windows that nobody has read since a monotonic time."""
        with self._changed:
            for window in [w for w in self._idle() if w.used < before]:
                self._drop(window, Gone.IDLE)

    def close(self) -> None:
        """Drop everything; no client is left."""
        with self._changed:
            for window in list(self._windows.values()):
                self._drop(window, Gone.UNNAMED)

    def held(self) -> tuple[int, int]:
        """Number of windows that are kept, and their bytes."""
        with self._changed:
            return len(self._windows), sum(w.size for w in self._windows.values())

    def _idle(self) -> list[Resident]:
        return [w for w in self._windows.values() if w.loaded and not w.holds]

    def _allocate(
        self, resident: Resident, capacity: int, deadline: float, check: Callable[[], None]
    ) -> tuple[WindowBuffer, int]:
        """Memory for a window, as soon as other clients have released enough."""
        _, program, modes = resident.key
        kernel = self._memory.open(program, modes)
        try:
            while True:
                moment = self._moments
                try:
                    return self._memory.allocate(resident.client, kernel, capacity)
                except NeverFitsError:
                    raise
                except DeviceError as refusal:
                    with self._changed:
                        is_held = any(w.holds for w in self._windows.values() if w is not resident)
                        if not is_held and moment == self._moments:
                            raise
                        if moment == self._moments:
                            self._wait(deadline, check, str(refusal))
        except BaseException:
            self._memory.close(program, modes)
            raise

    def _wait(self, deadline: float, check: Callable[[], None], why: str) -> None:
        """Wait until something has changed; spurious returns are harmless."""
        check()
        left = deadline - time.monotonic()
        if left <= 0:
            raise DeviceError(
                f"the server waited {WAIT_S:g} s for a window that it keeps: {why}; run this again"
            )
        self._changed.wait(min(left, _LOOK_S))

    def _drop(self, window: Resident, reason: Gone) -> None:
        del self._windows[window.key]
        window.dropped = True
        self.dropped[reason] += 1
        if not window.holds:
            self._free(window)
        self._changed.notify_all()

    def _free(self, window: Resident) -> None:
        _, program, modes = window.key
        if window.buffer is not None:
            self._memory.free(window.client, window.buffer, window.size)
            window.buffer = None
            self._memory.close(program, modes)
        self._moments += 1
