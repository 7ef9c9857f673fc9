"""Kernels of an overlay that is loaded on some boards, lent to one task at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from queue import Empty, SimpleQueue
from threading import Condition

import numpy as np

from penstock.errors import DeviceError

from ..kernel.packing import RESULTS, KernelTask
from .link import BoardLink
from .package import Package
from .port import BoardMemory, CorePort

#: Smallest memory of an argument, a page.
_LEAST_BYTES = 4096


class KernelInstance:
    """A kernel on a board, with memory for its tasks; the memory only grows.

    Parameters
    ----------
    link : BoardLink
        The board.
    port : CorePort
        The kernel.
    banks : callable
        Memory banks that it reaches by the port of a pointer.
    """

    def __init__(
        self, link: BoardLink, port: CorePort, banks: Callable[[str], Sequence[str]]
    ) -> None:
        self.link = link
        self.port = port
        self._banks = banks
        self._memories: dict[str, BoardMemory] = {}

    def run(self, task: KernelTask, addresses: Mapping[str, int], timeout_s: float) -> np.ndarray:
        """Run a task; returns the memory of its results.

        Parameters
        ----------
        task : KernelTask
        addresses : mapping
            Pointers to resident data in the board's memory.
        timeout_s : float
            Seconds after which the kernel counts as hung.

        Raises
        ------
        DeviceError
            The kernel was busy, or did not end in time.
        """
        pointers = dict(addresses)
        for name, image in task.images.items():
            memory = self._memory(name, len(image))
            memory.array[: len(image)] = image
            memory.to_device()
            pointers[name] = memory.address
        results = self._memory(RESULTS, task.result_bytes)
        pointers[RESULTS] = results.address
        self.port.run({**pointers, **task.arguments}, timeout_s)
        results.from_device()
        return np.array(results.array[: task.result_bytes])

    def _memory(self, name: str, size: int) -> BoardMemory:
        """Memory of at least ``size`` bytes for an argument."""
        known = self._memories.get(name)
        if known is None or known.size < size:
            if known is not None:
                del self._memories[name]
                self.link.free(known)
            known = self.link.allocate(max(size, _LEAST_BYTES), self._banks(name))
            self._memories[name] = known
        return known

    def close(self) -> None:
        """Free the memory."""
        for memory in self._memories.values():
            self.link.free(memory)
        self._memories.clear()


class KernelInstances:
    """All kernels of a package on some boards.

    Parameters
    ----------
    links : sequence of BoardLink
        The boards, with the overlay loaded.
    package : Package
    timeout_s : float
        Seconds that a task may take.

    Attributes
    ----------
    all : list of KernelInstance
    """

    def __init__(self, links: Sequence[BoardLink], package: Package, timeout_s: float) -> None:
        self.links = list(links)
        self.package = package
        self.timeout_s = timeout_s
        self.all = [
            KernelInstance(link, port, partial(package.banks_of, number))
            for link in links
            for number, port in enumerate(link.load(package))
        ]
        self._free: SimpleQueue[KernelInstance] = SimpleQueue()
        for instance in self.all:
            self._free.put(instance)
        #: Seconds after which a kernel should be free, however many tasks wait.
        self.patience_s = timeout_s * (len(self.all) + 1)

    @contextmanager
    def lend(self) -> Iterator[KernelInstance]:
        """Lend a free kernel for the length of a ``with`` block."""
        try:
            instance = self._free.get(timeout=self.patience_s)
        except Empty:
            raise DeviceError(
                f"no kernel of {self.package.overlay} became free within {self.patience_s:g} s"
            ) from None
        try:
            yield instance
        finally:
            self._free.put(instance)

    def close(self) -> None:
        """Free the kernels' memory."""
        for instance in self.all:
            instance.close()


class KernelUse:
    """A program's use of kernels that it shares with other programs.

    Parameters
    ----------
    instances : KernelInstances
    """

    def __init__(self, instances: KernelInstances) -> None:
        self.instances = instances
        self._changed = Condition()
        self._running, self._closed = 0, False

    def run(
        self, task: KernelTask, addresses: Callable[[BoardLink], Mapping[str, int]] | None = None
    ) -> np.ndarray:
        """Run a task on a free kernel; returns the memory of its results.

        Parameters
        ----------
        task : KernelTask
        addresses : callable, optional
            Pointers to resident data in a board's memory.

        Raises
        ------
        DeviceError
            The program was closed, or the task failed; PYNQ's exception is the cause.
        """
        with self._changed:
            if self._closed:
                raise DeviceError("the kernel was closed; open the program again")
            self._running += 1
        try:
            with self.instances.lend() as instance:
                link, timeout_s = instance.link, self.instances.timeout_s
                return link.talk(
                    lambda: instance.run(task, addresses(link) if addresses else {}, timeout_s)
                )
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def close(self) -> None:
        """Refuse new tasks, and wait for the running ones.

        Raises
        ------
        DeviceError
            The tasks did not end in time.
        """
        patience_s = self.instances.patience_s
        with self._changed:
            self._closed = True
            if not self._changed.wait_for(lambda: not self._running, patience_s):
                raise DeviceError(f"the kernel's tasks did not end within {patience_s:g} s")
