"""Programs on the kernels of boards."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from penstock.errors import DeviceError
from penstock.program import Mode, Program, WindowProgram

from ...device.base import Result, Task, WindowBuffer
from ...device.window_join import WindowTask
from ..kernel.driver import KernelDriver
from ..kernel.packing import WINDOW, Packing
from ..kernel.pipeline_task import PipelineKernel, PipelineTask, PipelineWindow, TaskOutcome
from ..kernel.window_driver import DrivenWindowKernel, WindowDriver, WindowKernelTask
from .instances import KernelInstances, KernelUse
from .link import BoardLink
from .port import BoardMemory

if TYPE_CHECKING:
    from .device import BoardDevice

#: Most result words of a task beyond the kernel's minimum, 1 MiB. A remote board sends its whole
#: result buffer, so a larger one makes each task slower; a task that needs more pauses.
MOST_RESULT_WORDS = 1 << 14


class BoardWindow(PipelineWindow):
    """Window keys in the memory of each board."""

    def __init__(
        self, capacity: int, packing: Packing, links: Sequence[BoardLink], banks: Sequence[str]
    ) -> None:
        super().__init__(capacity, packing.window_keys + packing.window_values)
        self._packing = packing
        self._stale: set[BoardLink] = set()
        self._lock = Lock()
        self._freed = False
        size = max(packing.window_bytes(capacity), packing.word_bytes)
        self._memories: dict[BoardLink, BoardMemory] = {}
        try:
            for link in links:
                self._memories[link] = link.allocate(size, banks)
        except DeviceError:
            self.free()
            raise

    @property
    def freed(self) -> bool:
        return self._freed

    def _store(self, offset: int, count: int, columns: Sequence[np.ndarray]) -> None:
        rows = self._packing.window(columns)
        size = rows.shape[1]
        with self._lock:
            for link, memory in self._memories.items():
                memory.array[offset * size : (offset + count) * size] = rows.reshape(-1)
                self._stale.add(link)

    def on(self, link: BoardLink) -> int:
        """The window's address on a board, after all keys were copied there."""
        memory = self._memories[link]
        with self._lock:
            if link in self._stale:
                link.talk(memory.to_device)
                self._stale.remove(link)
        return memory.address

    def free(self) -> None:
        self._freed = True
        for link, memory in self._memories.items():
            link.free(memory)


class BoardKernel(PipelineKernel):
    """A program on the kernels of an overlay.

    Parameters
    ----------
    device : BoardDevice
    program : Program
        One that the package runs.
    modes : frozenset of Mode
    instances : KernelInstances
        Its kernels.
    """

    def __init__(
        self,
        device: BoardDevice,
        program: Program,
        modes: frozenset[Mode],
        instances: KernelInstances,
    ) -> None:
        table = instances.package.table
        self._driver = KernelDriver(table, program, MOST_RESULT_WORDS)
        tests = table["geometry"]["tests"]
        super().__init__(program, modes, self._driver.units, tests, device.count)
        self._device = device
        self._use = KernelUse(instances)
        self._banks = instances.package.shared_banks
        self.banks = max(len(self._banks), 1)
        least = min(
            link.bank_bytes(bank) for link in instances.links for bank in self._banks or (None,)
        )
        self.most_positions = self._driver.packing.positions(least)

    def allocate(self, capacity: int) -> BoardWindow:
        return self._window(capacity, self._banks)

    def allocate_in(self, bank: int, capacity: int) -> BoardWindow:
        if not 0 <= bank < self.banks:
            raise DeviceError(f"there is no bank {bank} for windows, only {self.banks}")
        return self._window(capacity, self._banks[bank : bank + 1])

    def _window(self, capacity: int, banks: Sequence[str]) -> BoardWindow:
        return BoardWindow(capacity, self._driver.packing, self._use.instances.links, banks)

    def submit(self, window: WindowBuffer, task: Task) -> Future[Result]:
        return self._device.start(self._run, window, task)

    def close(self) -> None:
        """Wait for the kernel's tasks."""
        self._use.close()
        self._device.forget(self)

    def _execute(self, window: WindowBuffer, work: PipelineTask) -> TaskOutcome:
        if not isinstance(window, BoardWindow) or window.freed:
            raise DeviceError("the window is not one of this kernel's, or was freed")
        job = self._driver.job(work, window.capacity)
        results = self._use.run(job, lambda link: {WINDOW: window.on(link)})
        return self._driver.outcome(job, results)


class BoardWindowKernel(DrivenWindowKernel):
    """A program of the window-join operator on the kernels of an overlay.

    Parameters
    ----------
    device : BoardDevice
    program : WindowProgram
        One that the package runs.
    instances : KernelInstances
        Its kernels.
    """

    def __init__(
        self, device: BoardDevice, program: WindowProgram, instances: KernelInstances
    ) -> None:
        table = instances.package.table
        most = MOST_RESULT_WORDS * table["geometry"]["results_per_word"]
        super().__init__(WindowDriver(table, program, most), program, device.count)
        self._device = device
        self._use = KernelUse(instances)

    def submit(self, window: None, task: WindowTask) -> Future[Result]:
        return self._device.start(self._run, task)

    def close(self) -> None:
        """Wait for the kernel's tasks."""
        self._use.close()
        self._device.forget(self)

    def _execute(self, job: WindowKernelTask) -> np.ndarray:
        return self._use.run(job)
