"""A device around another one: it passes on all that a subclass does not override.

Tasks never run in the caller's thread (:meth:`.base.Kernel.run`): a subclass sees each of them in
``submit``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np

from penstock.program import AnyProgram, Mode

from .base import PAIRS, Device, Kernel, Result, WindowBuffer, WindowName

#: Attributes that describe a device.
_TOLD = (
    "name",
    "lanes",
    "units",
    "key_widths",
    "narrow_widths",
    "task_evaluations",
    "is_even",
    "keeps_windows",
    "searches",
)


class WrappedDevice(Device):
    """Offers what another device offers.

    Parameters
    ----------
    inner : Device
        Closed with this one.
    """

    def __init__(self, inner: Device) -> None:
        self.inner = inner
        for name in _TOLD:
            setattr(self, name, getattr(inner, name))

    def refuses(self, program: AnyProgram, modes: frozenset[Mode] = PAIRS) -> str | None:
        return self.inner.refuses(program, modes)

    def open(self, program: AnyProgram, modes: frozenset[Mode] = PAIRS) -> Kernel:
        return WrappedKernel(self.inner.open(program, modes))

    def keep_windows(self, scope: str, blocks: Collection[str]) -> None:
        self.inner.keep_windows(scope, blocks)

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
        self.most_positions = inner.most_positions

    def allocate(self, capacity: int) -> WindowBuffer:
        return self.wrap(self.inner.allocate(capacity))

    def allocate_in(self, bank: int, capacity: int) -> WindowBuffer:
        return self.wrap(self.inner.allocate_in(bank, capacity))

    def resident(
        self, name: WindowName, capacity: int, columns: Callable[[], Sequence[np.ndarray]]
    ) -> WindowBuffer | None:
        kept = self.inner.resident(name, capacity, columns)
        return None if kept is None else self.wrap(kept)

    def prepare_search(self) -> None:
        self.inner.prepare_search()

    def least_room(self, task: Any) -> int:
        return self.inner.least_room(task)

    def wrap(self, buffer: WindowBuffer) -> WindowBuffer:
        """A window of the other kernel as one of this kernel's."""
        return WrappedBuffer(buffer)

    def submit(self, window: Any, task: Any) -> Future[Result]:
        # The other kernel itself refuses a window that is not ours.
        inner_window = window.inner if isinstance(window, WrappedBuffer) else window
        return self.inner.submit(inner_window, task)

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
