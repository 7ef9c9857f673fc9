"""Does a board do what it should: registers, memory, a known join, and cycles as the model says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.errors import DeviceError, PenstockError
from penstock.host.device.base import Kernel, Task, WindowBuffer
from penstock.host.device.board.device import BoardDevice, BoardKernel
from penstock.host.device.board.link import Link
from penstock.host.device.board.package import Package
from penstock.host.device.cpu import CpuDevice
from penstock.host.device.run import run_task
from penstock.host.perfmodel.load import Probe
from penstock.host.perfmodel.pipeline import task_cycles
from penstock.program import BandProgram

#: What registers are written with, one after the other.
_PATTERNS = (0xA5A5_A5A5, 0x5A5A_5A5A, 0)
_MEMORY_BYTES = 1 << 20
#: Tuples and window of the known join.
_TUPLES, _WINDOW = 100, 4000
#: What the cycles may be away from the model.
_TOLERANCE = 0.05


@dataclass(frozen=True)
class Finding:
    """One step of the test."""

    what: str
    passed: bool
    text: str


def selftest(device: BoardDevice) -> Iterator[Finding]:
    """Test each board of a device with each of its packages.

    A package with a predicate built in is tested for registers and memory only: what it should
    find depends on the predicate.
    """
    for package in device.packages:
        for link in device.links:
            what = f"{link.name}, {package.overlay}"
            yield _step(f"{what}: registers", _registers, link, package)
            yield _step(f"{what}: memory", _memory, link)
        if package.program is None:
            tests = package.table["geometry"]["tests"]
            bits = package.table["geometry"]["key_bits"]
            # The predicate is true where all tests are.
            program = BandProgram(tests, 1 << (1 << tests) - 1, bits)
            yield _step(f"{package.overlay}: known join", _join, device, program)
            if package.table["geometry"]["pipelines"] == 1:
                yield _step(f"{package.overlay}: cycles", _cycles, device, program, package)


def _step(what: str, act: Callable[..., str], *arguments: Any) -> Finding:
    try:
        return Finding(what, True, act(*arguments))
    except PenstockError as error:
        return Finding(what, False, str(error))


def _registers(link: Link, package: Package) -> str:
    written = [e["name"] for e in package.table["registers"] if e["access"] == "argument"]
    ports = link.load(package)

    def act() -> None:
        for port in ports:
            for pattern in _PATTERNS:
                for name in written:
                    port.write(name, pattern)
                for name in written:
                    if (found := port.read(name)) != pattern:
                        raise DeviceError(
                            f"{port.name}: register {name} was written 0x{pattern:08X} and reads "
                            f"0x{found:X}; is the package that of the bitstream?"
                        )

    link.talk(act)
    return f"{len(written)} registers of {len(ports)} kernels"


def _memory(link: Link) -> str:
    sent = np.random.default_rng(1).integers(0, 256, _MEMORY_BYTES, np.uint8)
    memory = link.allocate(_MEMORY_BYTES)

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
    return f"{_MEMORY_BYTES >> 20} MiB there and back at 0x{memory.address:X}"


def _inputs(program: BandProgram) -> tuple[list[np.ndarray], Task]:
    """A window and a task in which about every other pair matches."""
    rng = np.random.default_rng(2)
    dtype = np.dtype(f"u{program.key_bits // 8}")
    most = np.iinfo(dtype).max // 4
    window = [rng.integers(0, most, _WINDOW, dtype) for _ in range(program.tests)]
    share = 0.5 ** (1 / program.tests)
    bounds = []
    for _ in range(program.tests):
        low = rng.integers(0, int(most * (1 - share)) + 1, _TUPLES, dtype)
        bounds += [low, low + dtype.type(most * share)]
    start = np.sort(rng.integers(0, _WINDOW // 2, _TUPLES))
    return window, Task(bounds, start, start + _WINDOW // 2, room=_TUPLES * _WINDOW)


def _join(device: BoardDevice, program: BandProgram) -> str:
    window, task = _inputs(program)
    with CpuDevice() as cpu:
        found = []
        for one in (device, cpu):
            kernel = one.open(program)
            try:
                buffer = kernel.allocate(_WINDOW)
                buffer.write(0, window)
                found.append(_pairs(kernel, buffer, task))
                buffer.free()
            finally:
                kernel.close()
    ours, right = found
    if ours != right:
        raise DeviceError(
            f"the kernel computes another predicate: {len(ours - right)} pairs that do not match, "
            f"{len(right - ours)} of {len(right)} missing"
        )
    return f"{len(right):,} pairs of {_TUPLES * _WINDOW // 2:,} as on the CPU device"


def _pairs(kernel: Kernel, buffer: WindowBuffer, task: Task) -> set[tuple[int, int]]:
    found: set[tuple[int, int]] = set()
    room = max(kernel.min_room, task.room)
    for chunk in run_task(kernel, buffer, task.stream, task.start, task.end, room=room, lanes=1):
        found |= set(zip(chunk.i.tolist(), chunk.j.tolist(), strict=True))
    return found


def _cycles(device: BoardDevice, program: BandProgram, package: Package) -> str:
    units = package.table["geometry"]["units"]
    window, _ = _inputs(program)
    dtype = window[0].dtype
    # No bounds that anything is within, so that no result waits for the memory.
    bounds = [np.full(units, high, dtype) for _ in range(program.tests) for high in (1, 0)]
    start = np.zeros(units, np.int64)
    kernel = device.open(program)
    assert isinstance(kernel, BoardKernel)
    try:
        buffer = kernel.allocate(_WINDOW)
        buffer.write(0, window)
        task = Task(bounds, start, start + _WINDOW, room=kernel.min_room)
        cycles = kernel.submit(buffer, task).result(device.timeout_s * 2).counters["cycles"]
        buffer.free()
    finally:
        kernel.close()
    expected = task_cycles(Probe(units, _WINDOW, 0), units)
    rate = package.clock_mhz * 1e6 * units * _WINDOW / cycles
    text = f"{cycles:,} cycles, the model has {expected:,.0f}: {rate:.3g} evaluations/s"
    if abs(cycles / expected - 1) > _TOLERANCE:
        raise DeviceError(f"{text}; the memory is slower than the kernel needs")
    return text
