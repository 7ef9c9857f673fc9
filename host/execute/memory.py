"""Memory of one device: kernels, and the windows resident in them.

One manager serves all lanes of its device. A window is a ring that follows a run. A task leases the
positions that it reads; idle windows make way for others, and if none is idle the caller waits.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from penstock.errors import DeviceError
from penstock.program import AnyProgram, Mode

from ..device.base import PAIRS, Device, Kernel, WindowBuffer
from ..keys.prepare import Layout
from ..windows.run import Readable
from .buffers import BufferRing, Buffers, RingSpan

#: Positions that a ring starts with.
LEAST_CAPACITY = 1024

_Key = tuple[int, int]  # (run, id of the layout)


@dataclass
class Window:
    """A run in device memory, in one layout."""

    layout: Layout
    kernel: Kernel
    buffers: tuple[WindowBuffer, ...]
    ring: BufferRing
    #: Held while keys are written.
    writing: threading.Lock = field(default_factory=threading.Lock)
    #: Spans that the ring counts as resident, but that are still to be written.
    unwritten: list[tuple[RingSpan, Readable]] = field(default_factory=list)
    leases: int = 0
    used: float = 0.0
    #: Whether no new task may use it.
    retired: bool = False
    #: Whether a lost task may still use its memory.
    quarantined: bool = False
    #: Whether writing failed, so that positions counted as resident may be missing.
    broken: bool = False

    @property
    def lost(self) -> bool:
        """Whether the device has lost keys."""
        return any(buffer.lost for buffer in self.buffers)


@dataclass(frozen=True)
class Lease:
    """The right to read ``[low, high)`` of a window until it is released."""

    window: Window
    low: int
    high: int
    spans: tuple[RingSpan, ...]


class DeviceMemory:
    """Kernels and windows of a device.

    Parameters
    ----------
    growing : bool
        Whether windows grow: a buffer then has room for twice the positions first leased, and only
        the positions that are read are brought to the device.
    """

    def __init__(self, device: Device, *, growing: bool = True) -> None:
        self.device = device
        self.growing = growing
        self._kernels: dict[tuple[AnyProgram, frozenset[Mode]], Kernel] = {}
        self._windows: dict[_Key, Window] = {}
        self._retired: list[Window] = []
        self._buffers = Buffers(device.name)
        self._changed = threading.Condition()

    @property
    def positions(self) -> int:
        """Window positions of all buffers, unused ones included."""
        return self._buffers.positions

    @property
    def nbytes(self) -> int:
        """Bytes of main memory of these buffers."""
        return self._buffers.nbytes

    def lease(
        self,
        window: Readable,
        layout: Layout,
        low: int,
        high: int,
        timeout_s: float,
        modes: frozenset[Mode] = PAIRS,
    ) -> Lease:
        """Make logical positions ``[low, high)`` of a run resident until they are released.

        ``modes`` are those of the kernel, always the same for one layout.

        Raises
        ------
        DeviceError
            The device cannot run the program, or had no room within ``timeout_s`` seconds.
        """
        if not self.growing:
            low, high = window.first, window.end
        resident = self._window(window, layout, low, high, timeout_s, modes)
        lease = Lease(resident, low, high, tuple(resident.ring.spans(low, high)))
        try:
            # The first thread here writes for all: another thread may have made positions
            # resident, but not yet written them.
            with resident.writing:
                with self._changed:
                    todo, resident.unwritten = resident.unwritten, []
                if resident.broken:
                    raise DeviceError(
                        f"device {self.device.name} failed to take a window that this task reads; "
                        "the task can be run again"
                    )
                resident.broken = True
                for span, source in todo:
                    keys = source.columns(layout, span.low, span.high)
                    resident.buffers[span.buffer].write(span.offset, keys)
                resident.broken = False
        except BaseException:
            with self._changed:
                self._retire((window.run, id(layout)))
            self.release(lease)
            raise
        return lease

    def release(self, lease: Lease | None) -> None:
        """End a lease, and free the window if it is retired and no other lease is left.

        None is the lease of a task that brings its window.
        """
        if lease is None:
            return
        with self._changed:
            window = lease.window
            window.ring.release(lease.low, lease.high)
            window.leases -= 1
            if window.retired and not window.leases:
                self._retired.remove(window)
                self._recycle(window)
            self._changed.notify_all()

    def quarantine(self, lease: Lease | None) -> None:
        """Give a window's memory to nobody else: a task that was given up may still use it.

        :meth:`release` of the same lease gives it back, once the device has ended the task.
        """
        if lease is None:
            return
        with self._changed:
            lease.window.quarantined = True
            for key, window in list(self._windows.items()):
                if window is lease.window:
                    self._retire(key)

    def keep(self, runs: set[int]) -> None:
        """Free the windows of all other runs, as soon as no task reads them."""
        with self._changed:
            for key in [key for key in self._windows if key[0] not in runs]:
                self._retire(key)

    def close(self) -> None:
        """Free all device memory. No task may be running."""
        with self._changed:
            for key in list(self._windows):
                self._retire(key)
            self._buffers.close()
            for kernel in self._kernels.values():
                kernel.close()
            self._kernels.clear()

    def kernel(self, program: AnyProgram, modes: frozenset[Mode]) -> Kernel:
        """Return the kernel of a program, which is loaded once."""
        with self._changed:
            return self._kernel(program, modes)

    def opened(self, program: AnyProgram, modes: frozenset[Mode]) -> Kernel | None:
        """Return the kernel of a program, if it is loaded."""
        return self._kernels.get((program, modes))

    def _kernel(self, program: AnyProgram, modes: frozenset[Mode]) -> Kernel:
        if (program, modes) not in self._kernels:
            self._kernels[program, modes] = self.device.open(program, modes)
        return self._kernels[program, modes]

    def _window(
        self,
        window: Readable,
        layout: Layout,
        low: int,
        high: int,
        timeout_s: float,
        modes: frozenset[Mode],
    ) -> Window:
        """Return a window with the positions leased, though perhaps not yet written."""
        key = (window.run, id(layout))
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while True:
                resident = self._windows.get(key)
                if resident is not None and (resident.lost or not resident.ring.fits(low, high)):
                    self._retire(key)
                    resident = None
                if resident is None:
                    resident = self._new_window(
                        key, layout, (1 + self.growing) * (high - low), modes
                    )
                if resident is not None:
                    spans = resident.ring.make_resident(low, high)
                    resident.unwritten += [(span, window) for span in spans]
                    resident.ring.lease(low, high)
                    resident.leases += 1
                    resident.used = time.monotonic()
                    return resident
                left = deadline - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    raise DeviceError(
                        f"device {self.device.name} had no memory for a window of {high - low} "
                        f"tuples for {timeout_s:g} s: all of it is read by running tasks; use a "
                        "shorter window, smaller batches, or a device with more memory"
                    )

    def _new_window(
        self, key: _Key, layout: Layout, positions: int, modes: frozenset[Mode]
    ) -> Window | None:
        """Make a new window; None if there is no room until a task ends."""
        # Few different sizes, so that buffers can be reused.
        capacity = max(LEAST_CAPACITY, 1 << max(positions - 1, 0).bit_length())
        kernel = self._kernel(layout.program, modes)
        each = min(capacity, kernel.most_positions or capacity)
        # Only as many buffers as the positions need.
        count = 1 if each == capacity else -(-positions // each)
        buffers = self._take_buffers(kernel, each, count)
        if buffers is None:
            return None
        window = Window(layout, kernel, buffers, BufferRing(each, count))
        self._windows[key] = window
        return window

    def _take_buffers(
        self, kernel: Kernel, capacity: int, count: int
    ) -> tuple[WindowBuffer, ...] | None:
        """Take ``count`` buffers; None if there is no room until a task ends."""
        buffers: list[WindowBuffer] = []
        while len(buffers) < count:
            answer = self._buffers.take(kernel, capacity)
            if not isinstance(answer, DeviceError):
                buffers.append(answer)
                continue
            if self._buffers.shed() or self._evict():
                continue
            for buffer in buffers:
                self._buffers.give_back(buffer, again=True)
            if any(w.leases for w in (*self._windows.values(), *self._retired)):
                return None
            raise answer
        return tuple(buffers)

    def _evict(self) -> bool:
        """Retire the idle window used longest ago; return whether there was one."""
        idle = [(w.used, key) for key, w in self._windows.items() if not w.leases]
        if not idle:
            return False
        self._retire(min(idle)[1])
        return True

    def _retire(self, key: _Key) -> None:
        window = self._windows.pop(key, None)
        if window is None:
            return
        window.retired = True
        if window.leases:
            self._retired.append(window)
        else:
            self._recycle(window)

    def _recycle(self, window: Window) -> None:
        for buffer in window.buffers:
            self._buffers.give_back(buffer, again=not window.quarantined)
