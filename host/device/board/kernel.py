"""Range-join programs on the join kernels of boards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from threading import Lock
from typing import Any, Protocol

import numpy as np

from penstock.errors import DeviceError
from penstock.host.device.base import Result, Task, WindowBuffer
from penstock.host.device.board.link import Link
from penstock.host.device.board.places import Lease, Places
from penstock.host.driver.driver import KernelDriver
from penstock.host.driver.packing import Packing
from penstock.host.driver.work import Outcome, PipelineKernel, PipelineWindow, Work
from penstock.program import Mode, Program

#: Most result words of a task beyond what the kernel insists on, 1 MiB. More makes each task
#: slower on a remote board, which sends its whole result buffer; a task that needs more pauses.
MOST_RESULT_WORDS = 1 << 14


class Owner(Protocol):
    """What the board device does for its kernels."""

    def start(self, run: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Run a task in a thread of the device."""
        ...

    def count(self, counters: Mapping[str, int]) -> None:
        """Add a task's counters to the device's."""
        ...

    def closed(self, kernel: object) -> None:
        """Note that a kernel was closed."""
        ...


class BoardWindow(PipelineWindow):
    """Window keys in the memory of each board."""

    def __init__(self, capacity: int, packing: Packing, links: Sequence[Link]) -> None:
        super().__init__(capacity, packing.window_keys + packing.window_values)
        self._packing = packing
        size = max(packing.window_bytes(capacity), packing.word_bytes)
        self._memories = {link: link.allocate(size) for link in links}
        self._stale: set[Link] = set()
        self._lock = Lock()
        self._freed = False

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

    def on(self, link: Link) -> int:
        """Address on a board, whose memory has all that was written."""
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
    device : Owner
    program : Program
        One that the package runs.
    modes : frozenset of Mode
    places : Places
        Its kernels.
    """

    def __init__(
        self, device: Owner, program: Program, modes: frozenset[Mode], places: Places
    ) -> None:
        table = places.package.table
        self._driver = KernelDriver(table, program, MOST_RESULT_WORDS)
        tests = table["geometry"]["tests"]
        super().__init__(program, modes, self._driver.units, tests, device.count)
        self._device = device
        self._lease = Lease(places)

    def allocate(self, capacity: int) -> BoardWindow:
        return BoardWindow(capacity, self._driver.packing, self._lease.places.links)

    def submit(self, window: WindowBuffer, task: Task) -> Future[Result]:
        return self._device.start(self._run, window, task)

    def close(self) -> None:
        """Wait for the kernel's tasks."""
        self._lease.close()
        self._device.closed(self)

    def _execute(self, window: WindowBuffer, work: Work) -> Outcome:
        if not isinstance(window, BoardWindow) or window.freed:
            raise DeviceError("the window is not one of this kernel's, or was freed")
        job = self._driver.job(work, window.capacity)
        results = self._lease.run(job, lambda link: {"window": window.on(link)})
        return self._driver.outcome(job, results)
