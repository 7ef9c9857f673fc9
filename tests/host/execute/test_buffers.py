"""Buffers by bank: spread, used again, and the next bank where one is full."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from penstock.errors import DeviceError
from penstock.host.device.base import Kernel, WindowBuffer
from penstock.host.devices.cpu import CpuDevice
from penstock.host.execute.buffers import KEPT_FREE, Buffers
from penstock.host.execute.memory import LEAST_CAPACITY, DeviceMemory
from penstock.program import BandProgram
from tests.host.execute.test_memory import bound, run
from tests.host.kit.banked import Banked, BankedBuffer

PROGRAM = BandProgram(tests=1, table=0b10)


@pytest.fixture
def cpu() -> Iterator[CpuDevice]:
    with CpuDevice(threads=1) as opened:
        yield opened


def bank_of(buffer: WindowBuffer) -> int:
    assert isinstance(buffer, BankedBuffer)
    return buffer.bank


def taken(buffers: Buffers, kernel: Kernel, capacity: int) -> WindowBuffer:
    found = buffers.take(kernel, capacity)
    assert isinstance(found, WindowBuffer), found
    return found


def test_windows_are_spread_over_the_banks(cpu: CpuDevice) -> None:
    device = Banked(cpu, [1000, 1000, 1000])
    kernel, buffers = device.open(PROGRAM), Buffers("banked")
    first = [taken(buffers, kernel, 100) for _ in range(6)]
    assert [bank_of(buffer) for buffer in first] == [0, 1, 2, 0, 1, 2]
    assert buffers.positions == 600


def test_the_next_bank_where_one_is_full(cpu: CpuDevice) -> None:
    device = Banked(cpu, [100, 300])
    kernel, buffers = device.open(PROGRAM), Buffers("banked")
    banks = [bank_of(taken(buffers, kernel, 100)) for _ in range(4)]
    assert banks == [0, 1, 1, 1]
    refused = buffers.take(kernel, 100)
    assert isinstance(refused, DeviceError)
    assert "is full" in str(refused)


def test_free_buffers_are_used_again_in_their_bank(cpu: CpuDevice) -> None:
    device = Banked(cpu, [1000, 1000])
    kernel, buffers = device.open(PROGRAM), Buffers("banked")
    first = [taken(buffers, kernel, 100) for _ in range(8)]
    for buffer in first:
        buffers.give_back(buffer, again=True)
    assert device.used == {0: 100 * KEPT_FREE, 1: 100 * KEPT_FREE}
    again = [taken(buffers, kernel, 100) for _ in range(4)]
    assert set(again) <= set(first)
    assert Counter(bank_of(buffer) for buffer in again) == {0: 2, 1: 2}
    buffers.give_back(again[0], again=False)
    assert buffers.shed() is False
    for buffer in again[1:]:
        buffers.give_back(buffer, again=True)
    buffers.close()
    assert not +device.used
    assert buffers.positions == 0


def test_windows_of_a_device_with_banks(cpu: CpuDevice) -> None:
    """Two windows fill both banks; a third makes the idle one give way."""
    device = Banked(cpu, [LEAST_CAPACITY, LEAST_CAPACITY])
    memory = DeviceMemory(device)
    runs = [run(5) for _ in range(3)]
    made = [bound(own) for own in runs]
    held = memory.lease(runs[0].snapshot(), made[0], 0, 5, 1)
    idle = memory.lease(runs[1].snapshot(), made[1], 0, 5, 1)
    assert device.used == {0: LEAST_CAPACITY, 1: LEAST_CAPACITY}
    with pytest.raises(DeviceError, match=r"no memory for a window of 5 tuples for 0\.01 s"):
        memory.lease(runs[2].snapshot(), made[2], 0, 5, 0.01)
    memory.release(idle)
    third = memory.lease(runs[2].snapshot(), made[2], 0, 5, 1)
    memory.release(held)
    memory.release(third)
    memory.close()
    assert not +device.used


def test_a_kernel_with_one_bank_has_no_other(cpu: CpuDevice) -> None:
    kernel = cpu.open(PROGRAM)
    assert kernel.allocate_in(0, 10).capacity == 10
    with pytest.raises(DeviceError, match="bank 1 was asked for"):
        kernel.allocate_in(1, 10)
