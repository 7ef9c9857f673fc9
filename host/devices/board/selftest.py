"""Self-test of boards: registers, memory, a known join, and cycles against the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.errors import DeviceError, PenstockError

from .device import BoardDevice
from .known import JoinSelftest, WindowSelftest
from .link import BoardLink
from .package import Package

#: Values that are written to registers, one after the other.
_PATTERNS = (0xA5A5_A5A5, 0x5A5A_5A5A, 0)
_MEMORY_BYTES = 1 << 20


@dataclass(frozen=True)
class StepOutcome:
    """One step of the test."""

    step: str
    passed: bool
    text: str


def selftest(device: BoardDevice) -> Iterator[StepOutcome]:
    """Test each board of a device with each of its packages.

    A package with a built-in predicate is tested for registers and memory only, since the correct
    result depends on the predicate.
    """
    for package in device.packages:
        for link in device.links:
            subject = f"{link.name}, {package.overlay}"
            yield _step(f"{subject}: registers", _registers, device, link, package)
            yield _step(f"{subject}: memory", _memory, link, package)
        if package.program is None:
            kind = WindowSelftest if package.is_window else JoinSelftest
            yield _step(f"{package.overlay}: known join", kind.known_join, device, package)
            if kind.has_model(package):
                yield _step(f"{package.overlay}: cycles", kind.cycles, device, package)


def _step(step: str, act: Callable[..., str], *arguments: Any) -> StepOutcome:
    try:
        return StepOutcome(step, True, act(*arguments))
    except PenstockError as error:
        return StepOutcome(step, False, str(error))


def _registers(device: BoardDevice, link: BoardLink, package: Package) -> str:
    written = [e["name"] for e in package.table["registers"] if e["access"] == "argument"]
    ports = [instance.port for instance in device.load(package).all if instance.link is link]

    def act() -> None:
        for port in ports:
            for pattern in _PATTERNS:
                for name in written:
                    port.write(name, pattern)
                for name in written:
                    if (value := port.read(name)) != pattern:
                        raise DeviceError(
                            f"{port.name}: register {name} was written 0x{pattern:08X} and reads "
                            f"0x{value:X}; is the package that of the bitstream?"
                        )

    link.talk(act)
    return f"{len(written)} registers of {len(ports)} kernels"


def _memory(link: BoardLink, package: Package) -> str:
    text = f"{_MEMORY_BYTES >> 20} MiB there and back"
    if not package.banks:
        return f"{text} at 0x{_there_and_back(link, ()):X}"
    banks = sorted({tag for ports in package.banks for tags in ports.values() for tag in tags})
    for bank in banks:
        _there_and_back(link, [bank])
    return f"{text} in each of {len(banks)} banks"


def _there_and_back(link: BoardLink, banks: Sequence[str]) -> int:
    """Send random bytes to some memory, and compare what comes back; returns its address."""
    sent = np.random.default_rng(1).integers(0, 256, _MEMORY_BYTES, np.uint8)
    memory = link.allocate(_MEMORY_BYTES, banks)

    def act() -> None:
        memory.array[:] = sent
        memory.to_device()
        memory.array[:] = 0
        memory.from_device()
        if wrong := int((memory.array != sent).sum()):
            raise DeviceError(f"{wrong} of {_MEMORY_BYTES} bytes came back wrong")

    try:
        link.talk(act)
    finally:
        link.free(memory)
    return memory.address
