"""Join kernels on boards, as a device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from threading import Lock

import numpy as np

from penstock.errors import DeviceError
from penstock.host.device.base import PAIRS, Device, Result, Task, WindowBuffer
from penstock.host.device.board.link import TIMEOUT_S, Link
from penstock.host.device.board.package import Package, choose
from penstock.host.device.board.port import Memory, Port
from penstock.host.driver.driver import Job, KernelDriver
from penstock.host.driver.packing import Packing
from penstock.host.driver.work import Outcome, PipelineKernel, PipelineWindow, Work
from penstock.program import Mode, Program

#: Most result words of a task beyond what the kernel insists on, 1 MiB. More makes each task
#: slower on a remote board, which sends its whole result buffer; a task that needs more pauses.
_RESULT_WORDS = 1 << 14


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


class _Place:
    """A kernel on a board, with memory for its tasks that only grows."""

    def __init__(self, link: Link, port: Port) -> None:
        self.link = link
        self.port = port
        self._memories: dict[str, Memory] = {}

    def memory(self, name: str, size: int) -> Memory:
        """Memory for an argument, of so many bytes or more."""
        known = self._memories.get(name)
        if known is None or known.size < size:
            if known is not None:
                self.link.free(known)
                del self._memories[name]
            self._memories[name] = known = self.link.allocate(max(size, 4096))
        return known

    def close(self) -> None:
        for memory in self._memories.values():
            self.link.free(memory)


class BoardKernel(PipelineKernel):
    """A program on the kernels of an overlay."""

    def __init__(
        self,
        device: BoardDevice,
        program: Program,
        modes: frozenset[Mode],
        package: Package,
        places: Sequence[_Place],
    ) -> None:
        self._driver = KernelDriver(package.table, program, _RESULT_WORDS)
        super().__init__(
            program, modes, self._driver.units, package.table["geometry"]["tests"], device.count
        )
        self._device = device
        self.links = list(dict.fromkeys(place.link for place in places))
        self._places: SimpleQueue[_Place] = SimpleQueue()
        for place in places:
            self._places.put(place)
        self._open = len(places)

    def allocate(self, capacity: int) -> BoardWindow:
        return BoardWindow(capacity, self._driver.packing, self.links)

    def submit(self, window: WindowBuffer, task: Task) -> Future[Result]:
        return self._device.start(self._run, window, task)

    def close(self) -> None:
        """Wait for the kernel's tasks and free their memory."""
        while self._open:
            self._places.get().close()
            self._open -= 1
        self._device.closed(self)

    def _execute(self, window: WindowBuffer, work: Work) -> Outcome:
        if not isinstance(window, BoardWindow) or window.freed:
            raise DeviceError("the window is not one of this kernel's, or was freed")
        if not self._open:
            raise DeviceError("the kernel was closed; open the program again")
        job = self._driver.job(work, window.capacity)
        place = self._places.get()
        try:
            results = place.link.talk(lambda: self._on_board(place, window, job))
        finally:
            self._places.put(place)
        return self._driver.outcome(job, results)

    def _on_board(self, place: _Place, window: BoardWindow, job: Job) -> np.ndarray:
        """Run a task on a kernel; the memory of its results."""
        addresses = {"window": window.on(place.link)}
        for name, image in job.images.items():
            memory = place.memory(name, len(image))
            memory.array[: len(image)] = image
            memory.to_device()
            addresses[name] = memory.address
        results = place.memory("results", job.result_bytes)
        addresses["results"] = results.address
        place.port.run({**addresses, **job.arguments}, self._device.timeout_s)
        results.from_device()
        return np.array(results.array[: job.result_bytes])


class BoardDevice(Device):
    """Join kernels on one board or several.

    Parameters
    ----------
    address : str, optional
        ``host`` or ``host:port`` of a board that serves PYNQ's remote protocol, several with commas
        between. Without it, boards that PYNQ finds on this machine.
    package : str or Path, optional
        Folder of a build, or several with commas between; for a remote board, by default those of
        the deploy folder on the board.
    cards : int
        Boards of this machine to use, the first ones.
    timeout_s : float
        Seconds that a task may take before its kernel counts as hung, and one call to a remote
        board before the board counts as gone.

    Attributes
    ----------
    packages : list of Package
        What can be loaded; of several that run a program, the first is taken.
    """

    name = "board"

    def __init__(
        self,
        address: str | None = None,
        *,
        package: str | Path | None = None,
        cards: int = 1,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self.timeout_s = timeout_s
        self.links = self._connect(address, cards)
        if package is not None:
            folders = [Path(one).resolve() for one in str(package).split(",")]
            self.packages = [Package.read(folder) for folder in folders]
        elif address is not None:
            self.packages = self.links[0].deployed()
        else:
            raise DeviceError("give the folder of a package for the board (package=...)")
        most = max(len(package.instances) for package in self.packages)
        self.lanes = len(self.links) * most
        widths = {p.table["geometry"]["key_bits"] for p in self.packages} - {0}
        self.key_widths = tuple(w for w in (16, 32, 64) if w <= max(widths, default=64))
        self._threads = ThreadPoolExecutor(self.lanes, thread_name_prefix="penstock-board")
        self._open: dict[BoardKernel, Package] = {}
        self._sums: Counter[str] = Counter()
        self._lock = Lock()

    def _connect(self, address: str | None, cards: int) -> list[Link]:
        if address is not None:
            return [Link.remote(one, self.timeout_s) for one in address.split(",")]
        return [Link.local(number) for number in range(cards)]

    def refuses(self, program: Program, modes: frozenset[Mode] = PAIRS) -> str | None:
        try:
            choose(self.packages, program, modes)
        except DeviceError as error:
            return str(error)
        return None

    def open(self, program: Program, modes: frozenset[Mode] = PAIRS) -> BoardKernel:
        try:
            package = choose(self.packages, program, modes)
        except DeviceError as error:
            raise DeviceError(f"the board device cannot run this program: {error}") from error
        with self._lock:
            if others := [used for used in self._open.values() if used != package]:
                raise DeviceError(
                    f"{others[0].overlay} is in use, and this program needs {package.overlay}; "
                    "close what uses it first"
                )
            places = [_Place(link, port) for link in self.links for port in link.load(package)]
            kernel = BoardKernel(self, program, modes, package, places)
            self._open[kernel] = package
        return kernel

    def closed(self, kernel: BoardKernel) -> None:
        """Note that a kernel was closed."""
        with self._lock:
            self._open.pop(kernel, None)

    def start(self, run, window: WindowBuffer, task: Task) -> Future[Result]:
        """Run a task in a thread of the device."""
        return self._threads.submit(run, window, task)

    def count(self, counters: Mapping[str, int]) -> None:
        """Add a task's counters to the device's."""
        with self._lock:
            self._sums.update(counters)

    def counters(self) -> dict[str, int]:
        with self._lock:
            return dict(self._sums)

    def close(self) -> None:
        self._threads.shutdown()
        for kernel in list(self._open):
            kernel.close()
