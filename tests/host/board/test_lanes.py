"""Joins of the runtime on boards: several as one device, and boards that vanish under a task."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import numpy as np
import pytest

pytest.importorskip("pynq.remote", exc_type=ModuleNotFoundError)

from penstock.errors import DeviceError
from penstock.host.device.base import Device, Task
from penstock.host.devices.board.device import BoardDevice
from penstock.host.devices.cpu import CpuDevice
from penstock.host.execute.running import Running
from penstock.host.join.stream import Flow, JoinStream
from penstock.hw.join.config import JoinConfig
from penstock.hw.join.kernel.config import KernelConfig
from penstock.program import BandProgram
from penstock.query import compile_query
from penstock.sim.virtual_board.deploy import virtual_package
from penstock.sim.virtual_board.service import Server
from tests.host.board.process import Started, virtual_board
from tests.host.kit.faulty import FaultyDevice
from tests.host.kit.streams import SCHEMA, Feed, batch_of, time_join
from tests.host.kit.virtual_board import serve

pytestmark = pytest.mark.slow

SCHEMAS = {"a": SCHEMA, "b": SCHEMA}
SQL = "SELECT a.n AS a, b.n AS b FROM a JOIN b ON abs(a.t - b.t) <= 4 AND a.x - b.x BETWEEN 0 AND 1"
ROWS = 240


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = KernelConfig.fit(JoinConfig(units=4, units_per_block=2, tests=2, key_bits=32))
    return virtual_package(config, "zcu104", tmp_path_factory.mktemp("package")).path.parent


@pytest.fixture
def process(package: Path) -> Iterator[Started]:
    with virtual_board("zcu104", "--package", str(package)) as started:
        yield started


def joined(*devices: Device, timeout_s: float = 60.0) -> JoinStream:
    """A stream that has joined many rows in small tasks, exactly."""
    running = Running(task_evaluations=64, most_failures=2, timeout_s=timeout_s)
    query = compile_query(SQL, SCHEMAS, time={"a": "t", "b": "t"})
    stream = JoinStream(query, SCHEMAS, devices, flow=Flow(running=running))
    rng = Random(7)
    rows = {name: [(k, k // 3, rng.randint(0, 4)) for k in range(ROWS)] for name in "ab"}
    for at in range(0, ROWS, 8):
        for name in "ab":
            stream.push(name, batch_of(rows[name][at : at + 8]))
    table = stream.close()
    found = sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))
    feeds = [Feed(rows[name], [ROWS], 0) for name in "ab"]
    assert found == time_join(*feeds, 4, 4, lambda x, y: y <= x <= y + 1)
    return stream


def at_task(number: int, act: Callable[[], None]) -> Callable[[], str]:
    """Do something as a task starts, while the one before is still on the board."""
    left = iter(range(number))

    def fate() -> str:
        if next(left, None) == number - 1:
            act()
        return "ok"

    return fate


def watched(server: Server) -> list[int]:
    """Addresses of the registers that clients write."""
    addresses: list[int] = []
    write = server.machine.write

    def noted(address: int, value: int) -> None:
        addresses.append(address)
        write(address, value)

    server.machine.write = noted
    return addresses


def test_two_boards_are_one_device(package: Path) -> None:
    with serve("zcu104") as one, serve("zcu104") as other:
        written = [watched(server) for server in (one, other)]
        address = f"127.0.0.1:{one.port},127.0.0.1:{other.port}"
        with BoardDevice(address, package=package) as device:
            assert device.lanes == 2
            stream = joined(device)
            assert stream.failures() == {}
        assert all(written)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_board_vanishes_and_the_join_goes_on(
    process: Started, package: Path, how: signal.Signals
) -> None:
    """Killed, its connection breaks; stopped, it is silent as one without power is."""
    with CpuDevice(threads=1) as cpu:
        board = BoardDevice(process.address, package=package, timeout_s=4.0)
        vanishing = FaultyDevice(board, at_task(6, lambda: os.kill(process.process.pid, how)))
        # Wrapped, the CPU does not run small tasks before the board could have them.
        stream = joined(vanishing, FaultyDevice(cpu), timeout_s=20.0)
        assert stream.parked() == ["faulty-board-0"]
        assert stream.failures()["faulty-board-0"] >= 2
        parked = [lane.name for lane in stream.report().lanes if lane.parked]
        assert parked == ["faulty-board-0"]
        with pytest.raises(DeviceError, match="the board is gone, and what was on it: open it"):
            board.open(BandProgram(tests=1, table=2))
        # What was on the board is gone with it; closing is no error.
        board.close()


def test_a_silent_board_is_an_error_within_the_timeout(process: Started, package: Path) -> None:
    board = BoardDevice(process.address, package=package, timeout_s=2.0)
    kernel = board.open(BandProgram(tests=1, table=2))
    buffer = kernel.allocate(100)
    buffer.write(0, [np.arange(100, dtype=np.uint32)])
    os.kill(process.process.pid, signal.SIGSTOP)
    zero, low = np.zeros(1, np.int64), np.zeros(1, np.uint32)
    future = kernel.submit(buffer, Task([low, low], zero, zero + 100, room=400))
    with pytest.raises(DeviceError, match=f"board {process.address}: .*the board is gone"):
        future.result(10)
    board.close()
