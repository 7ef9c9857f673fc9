"""Kernels on boards, as a device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import RLock
from typing import Any

from penstock.errors import DeviceError
from penstock.program import AnyProgram, BandProgram, Mode, WindowProgram

from ...device.base import PAIRS, Device, Kernel
from ...device.cut import TASK_EVALUATIONS
from ...store.location import local_path
from ..narrow.kernel import narrow_refusal, open_narrow
from .instances import KernelInstances
from .kernel import BoardKernel, BoardWindowKernel
from .link import TIMEOUT_S, BoardLink
from .package import Package, choose

#: Approximate cycles of a task: 10 ms at 200 MHz, some seconds on a virtual board. In shorter tasks
#: the few milliseconds of the calls that start one on a remote board would count.
_TASK_CYCLES = 1 << 21


class BoardDevice(Device):
    """Join kernels or window-join operators on one board or several.

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
        Packages to load from; of several that run a program, the first is taken. Where none has
        codes as wide as a program's, the widest units find its pairs by narrow codes.
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
            folders = [local_path(one).resolve() for one in str(package).split(",")]
            self.packages = [Package.read(folder) for folder in folders]
        elif address is not None:
            self.packages = self.links[0].deployed()
        else:
            raise DeviceError("give the folder of a package for the board (package=...)")
        if not self.packages:
            raise DeviceError(f"the deploy folder on {self.links[0].name} names no package")
        most = max(len(package.instances) for package in self.packages)
        self.lanes = len(self.links) * most
        widths = {p.table["geometry"]["key_bits"] for p in self.packages} - {0}
        # Narrow units take wider codes; what a wide build takes is encoded for it.
        widest = max(max(widths, default=64), 32)
        self.key_widths = tuple(sorted({w for w in (16, 32, 64) if w <= widest} | widths))
        ranges = [p.table["geometry"]["key_bits"] for p in self.packages if not p.is_window]
        self.narrow_widths = tuple(sorted(set(ranges) - {0}))
        slowest = min(package.evaluations_per_cycle for package in self.packages)
        self.task_evaluations = min(TASK_EVALUATIONS, slowest * _TASK_CYCLES)
        self._threads = ThreadPoolExecutor(self.lanes, thread_name_prefix="penstock-board")
        self._open: dict[Kernel, Package] = {}
        self._instances: KernelInstances | None = None
        self._sums: Counter[str] = Counter()
        self._lock = RLock()

    def _connect(self, address: str | None, cards: int) -> list[BoardLink]:
        if address is not None:
            return [BoardLink.remote(one, self.timeout_s) for one in address.split(",")]
        return [BoardLink.local(number) for number in range(cards)]

    def refuses(self, program: AnyProgram, modes: frozenset[Mode] = PAIRS) -> str | None:
        try:
            self._choose(program, modes)
        except DeviceError as error:
            return str(error)
        return None

    def open(self, program: AnyProgram, modes: frozenset[Mode] = PAIRS) -> Kernel:
        try:
            package, bits = self._choose(program, modes)
        except DeviceError as error:
            raise DeviceError(f"the board device cannot run this program: {error}") from error
        if bits is None:
            return self.open_with(package, program, modes)
        assert isinstance(program, BandProgram)
        return open_narrow(program, bits, partial(self.open_with, package), self.count)

    def _choose(self, program: AnyProgram, modes: frozenset[Mode]) -> tuple[Package, int | None]:
        """The package that runs a program, and the width of its units if codes are wider."""

        def runs(wanted: AnyProgram, packages: Iterable[Package]) -> Package:
            return choose(packages, lambda package: package.refuses(wanted, modes))

        if not isinstance(program, BandProgram):
            return runs(program, self.packages), None
        narrower = [bits for bits in self.narrow_widths if bits < program.key_bits]
        unit_bits, refusal = program.unit_bits or program.key_bits, None
        ways = [bits for bits in narrower if unit_bits <= bits] if modes <= PAIRS else []
        for bits in (*ways, None, *reversed(narrower)):
            try:
                if bits is None:
                    return runs(program, self.packages), None
                fits = [p for p in self.packages if p.table["geometry"]["key_bits"] == bits]
                chosen = runs(replace(program, key_bits=bits), fits)
            except DeviceError as error:
                refusal = refusal or error
                continue
            if reason := narrow_refusal(program, modes, bits):
                raise DeviceError(reason)
            return chosen, bits
        assert refusal is not None
        raise refusal

    def open_with(
        self, package: Package, program: AnyProgram, modes: frozenset[Mode] = PAIRS
    ) -> Kernel:
        """Load a program into the kernels of a package that runs it; raises as :meth:`load`."""
        with self._lock:
            instances = self.load(package)
            if isinstance(program, WindowProgram):
                kernel = BoardWindowKernel(self, program, instances)
            else:
                kernel = BoardKernel(self, program, modes, instances)
            self._open[kernel] = package
        return kernel

    def load(self, package: Package) -> KernelInstances:
        """Kernels of a package, which is loaded if need be.

        Raises
        ------
        DeviceError
            Another overlay is in use, or the board does not load this one.
        """
        with self._lock:
            if self._instances is not None and self._instances.package == package:
                for link in self.links:
                    link.load(package)  # says so where a board is gone
                return self._instances
            if users := list(self._open.values()):
                raise DeviceError(
                    f"{users[0].overlay} is in use, and this program needs {package.overlay}; "
                    "close what uses it first"
                )
            if self._instances is not None:
                self._instances.close()
                self._instances = None
            self._instances = KernelInstances(self.links, package, self.timeout_s)
            return self._instances

    def forget(self, kernel: Kernel) -> None:
        """Forget a kernel that was closed."""
        with self._lock:
            self._open.pop(kernel, None)

    def start(self, run: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Run a task in a thread of the device."""
        return self._threads.submit(run, *arguments)

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
        if self._instances is not None:
            self._instances.close()
            self._instances = None
