"""A device around another one: a subclass changes what it wants to, the rest is the other's."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future

import numpy as np

from penstock.host.device.base import PAIRS, Device, Kernel, Result, Task, WindowBuffer
from penstock.host.device.window_join import WindowKernel, WindowResult, WindowTask
from penstock.program import Mode, Program, WindowProgram


class WrappedDevice(Device):
    """Offers what another device offers.

    Parameters
    ----------
    inner : Device
        Closed with this one.
    """

    def __init__(self, inner: Device) -> None:
        self.inner = inner
        self.name = inner.name
        self.lanes = inner.lanes
        self.units = inner.units
        self.key_widths = inner.key_widths
        self.task_evaluations = inner.task_evaluations
        self.is_even = inner.is_even

    def refuses(self, program: Program, modes: frozenset[Mode] = PAIRS) -> str | None:
        return self.inner.refuses(program, modes)

    def open(self, program: Program, modes: frozenset[Mode] = PAIRS) -> Kernel:
        return WrappedKernel(self.inner.open(program, modes))

    def refuses_window_join(self, program: WindowProgram, rows: tuple[int, int]) -> str | None:
        return self.inner.refuses_window_join(program, rows)

    def open_window_join(self, program: WindowProgram, rows: tuple[int, int]) -> WindowKernel:
        return WrappedWindowKernel(self.inner.open_window_join(program, rows))

    def counters(self) -> dict[str, int]:
        return self.inner.counters()

    def close(self) -> None:
        self.inner.close()


class WrappedKernel(Kernel):
    """A kernel of another device; buffers are wrapped, too."""

    def __init__(self, inner: Kernel) -> None:
        super().__init__(inner.program, inner.modes)
        self.inner = inner
        self.min_room = inner.min_room
        self.banks = inner.banks

    def allocate(self, capacity: int) -> WindowBuffer:
        return self.wrap(self.inner.allocate(capacity))

    def allocate_in(self, bank: int, capacity: int) -> WindowBuffer:
        return self.wrap(self.inner.allocate_in(bank, capacity))

    def wrap(self, buffer: WindowBuffer) -> WindowBuffer:
        """A window of the other kernel as one of this kernel's."""
        return WrappedBuffer(buffer)

    def submit(self, window: WindowBuffer, task: Task) -> Future[Result]:
        # What is not ours the other kernel refuses by itself.
        own = window.inner if isinstance(window, WrappedBuffer) else window
        return self.inner.submit(own, task)

    def close(self) -> None:
        self.inner.close()


class WrappedBuffer(WindowBuffer):
    """A window of another kernel."""

    def __init__(self, inner: WindowBuffer) -> None:
        super().__init__(inner.capacity)
        self.inner = inner

    @property
    def nbytes(self) -> int:
        return self.inner.nbytes

    @property
    def lost(self) -> bool:
        return self.inner.lost

    def write(self, offset: int, columns: Sequence[np.ndarray]) -> None:
        self.inner.write(offset, columns)

    def free(self) -> None:
        self.inner.free()


class WrappedWindowKernel(WindowKernel):
    """A window-join operator of another device."""

    def __init__(self, inner: WindowKernel) -> None:
        super().__init__(inner.program)
        self.inner = inner

    def min_room(self, rows: tuple[int, int]) -> int:
        return self.inner.min_room(rows)

    def submit(self, task: WindowTask) -> Future[WindowResult]:
        return self.inner.submit(task)

    def close(self) -> None:
        self.inner.close()
