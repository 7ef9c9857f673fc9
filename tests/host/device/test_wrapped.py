"""A device around another one offers all that the other one does."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np

from penstock.host.device.base import Device, Kernel, WindowBuffer, WindowName
from penstock.host.device.wrapped import WrappedBuffer, WrappedDevice, WrappedKernel
from penstock.host.devices.cpu import CpuDevice
from penstock.program import BandProgram, WindowProgram

PROGRAM = BandProgram(1, 0b10, 32)
NAME = WindowName("scope", "block", "content")


class KeepingKernel(WrappedKernel):
    """Keeps windows by name."""

    def __init__(self, inner) -> None:
        super().__init__(inner)
        self.kept: dict[WindowName, WindowBuffer] = {}

    def resident(
        self, name: WindowName, capacity: int, columns: Callable[[], Sequence[np.ndarray]]
    ) -> WindowBuffer:
        if name not in self.kept:
            self.kept[name] = self.allocate(capacity)
            self.kept[name].write(0, columns())
        return self.kept[name]


class KeepingDevice(WrappedDevice):
    """Keeps windows by name, and notes which ones are still wanted."""

    def __init__(self, inner) -> None:
        super().__init__(inner)
        self.keeps_windows = True
        self.wanted: list[tuple[str, list[str]]] = []

    def open(self, program, modes=frozenset()):
        return KeepingKernel(self.inner.open(program))

    def keep_windows(self, scope: str, blocks: Collection[str]) -> None:
        self.wanted.append((scope, list(blocks)))


def test_windows_are_kept_through_it() -> None:
    written = []

    def keys() -> list[np.ndarray]:
        written.append(True)
        return [np.arange(5, dtype=np.uint32)]

    keeping = KeepingDevice(CpuDevice(1))
    with WrappedDevice(keeping) as device:
        assert device.keeps_windows
        kernel = device.open(PROGRAM)
        for _ in range(2):
            window = kernel.resident(NAME, 5, keys)
            assert isinstance(window, WrappedBuffer)
            assert window.capacity == 5
        device.keep_windows("scope", ["block"])
    assert written == [True]
    assert keeping.wanted == [("scope", ["block"])]


def test_where_none_are_kept() -> None:
    with WrappedDevice(CpuDevice(1)) as device:
        assert not device.keeps_windows
        assert device.open(PROGRAM).resident(NAME, 5, list) is None


def test_window_joins_go_through_it() -> None:
    program = WindowProgram(PROGRAM, PROGRAM, (3, 7))
    with WrappedDevice(CpuDevice(1)) as device:
        assert device.refuses(program) is None
        kernel = device.open(program)
        assert kernel.min_room == 7
        kernel.close()


def test_all_of_the_contract_goes_through_it() -> None:
    """All but tasks in the thread that asks, which a subclass would not see."""
    with WrappedDevice(CpuDevice(1)) as device:
        kernel = device.open(PROGRAM)
        buffer = kernel.allocate(5)
        for contract, wrapped, but in (
            (Device, device, {"runs_here"}),
            (Kernel, kernel, {"run", "here_evaluations"}),
            (WindowBuffer, buffer, set()),
        ):
            offered = {*vars(contract), *contract.__annotations__}
            wanted = {name for name in offered if not name.startswith("_")} - but
            assert wanted <= {*vars(type(wrapped)), *vars(wrapped)}
