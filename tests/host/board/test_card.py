"""Alveo cards through PYNQ 3.0.1, in front of kernels of this process."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pynq", exc_type=ModuleNotFoundError)

from pynq.pl_server.xclbin_parser import XclBin  # pyright: ignore

from penstock.constraints.boards import board
from penstock.host.device.base import Task
from penstock.host.devices.board.device import BoardDevice
from penstock.host.devices.board.link import BoardLink
from penstock.host.devices.board.package import Package
from penstock.hw.join.config import JoinConfig
from penstock.hw.kernel.config import KernelConfig
from penstock.hw.kernel.describe import describe
from penstock.hw.kernel.link import link_config
from penstock.program import BandProgram
from penstock.sim.verilated.board import MemoryModel
from penstock.sim.virtual_board.card import VirtualCard
from penstock.sim.virtual_board.deploy import virtual_package
from penstock.sim.virtual_board.machine import Machine

pytestmark = pytest.mark.slow

CONFIG = KernelConfig.fit(JoinConfig(units=4, units_per_block=2, tests=2, key_bits=32))
MEMORY_BYTES = 1 << 28
COPIES = 3


@pytest.fixture(scope="module", params=["u280", "u250"])
def package(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Package:
    folder = tmp_path_factory.mktemp("card")
    return virtual_package(CONFIG, request.param, folder, kernels=COPIES)


def test_card_metadata_has_every_argument(package: Package) -> None:
    """PYNQ's own parser finds each register of kernel.xml where the declaration has it."""
    expected = {
        entry["name"]: (entry["offset"], entry["bits"])
        for entry in describe(CONFIG).table()["registers"]
        if entry["access"] == "argument"
    }
    parsed = XclBin(str(package.path)).ip_dict
    assert set(parsed) == set(package.instances)
    for name in package.instances:
        registers = parsed[name]["registers"]
        found = {key: (r["address_offset"], r["size"]) for key, r in registers.items()}
        control = found.pop("CTRL")
        assert control[0] == 0
        assert found == expected


def test_card_pointers_lie_in_the_banks_of_the_linker(package: Package) -> None:
    entry = board(package.board)
    text = link_config(COPIES, entry.memory, entry.banks, entry.slrs)
    wanted = re.findall(r"^sp=(\w+)\.(\w+):(\S+)$", text, re.M)
    parsed = XclBin(str(package.path)).ip_dict
    found = {(u, a): parsed[u]["registers"][a]["memory"] for u, a, _ in wanted}
    assert found == {(unit, argument): bank for unit, argument, bank in wanted}
    assert len(set(found.values())) == min(entry.banks, COPIES * len(describe(CONFIG).ports))


class _Cards(BoardDevice):
    """Cards of this process."""

    def _connect(self, address: str | None, cards: int) -> list[BoardLink]:
        self.machines = [Machine(board("u280"), MEMORY_BYTES, MemoryModel()) for _ in range(cards)]
        return [
            BoardLink(VirtualCard(f"virtual u280 {number}", machine), f"card {number}")
            for number, machine in enumerate(self.machines)
        ]


def test_several_cards_are_one_device(tmp_path: Path) -> None:
    package = virtual_package(CONFIG, "u280", tmp_path, kernels=2)
    rng = np.random.default_rng(4)
    keys = rng.integers(0, 50, 200, np.uint32)
    with _Cards(package=package.folder, cards=2) as device:
        assert device.lanes == 4
        kernel = device.open(BandProgram(tests=1, table=2))
        buffer = kernel.allocate(200)
        buffer.write(0, [keys])
        futures = []
        lows = rng.integers(0, 50, 8, np.uint32)
        for low in lows:
            bound = np.array([low], np.uint32)
            start = np.zeros(1, np.int64)
            futures.append(kernel.submit(buffer, Task([bound, bound + 5], start, start + 200, 800)))
        for low, future in zip(lows, futures, strict=True):
            right = np.flatnonzero((keys >= low) & (keys <= low + 5))
            np.testing.assert_array_equal(np.sort(future.result(120).j), right)
        # Both cards have the window: every lane may run any task.
        assert all(len(machine.buffers()) > 1 for machine in device.machines)
        kernel.close()
    for machine in device.machines:
        machine.unload()
