"""Alveo cards through PYNQ 3.0.1, in front of kernels of this process."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pynq", exc_type=ModuleNotFoundError)
pytest.importorskip(
    "pynq._3rdparty.xrt", reason="PYNQ drives cards up to 3.0 only", exc_type=ImportError
)

from pynq.pl_server.xclbin_parser import XclBin  # pyright: ignore

import penstock
from penstock.constraints.boards import board
from penstock.errors import DeviceError
from penstock.host.device.base import Task
from penstock.host.devices.board.device import BoardDevice
from penstock.host.devices.board.link import BoardLink
from penstock.host.devices.board.package import Package
from penstock.host.devices.board.selftest import selftest
from penstock.hw.join.config import JoinConfig
from penstock.hw.join.kernel.config import KernelConfig
from penstock.hw.join.kernel.describe import describe
from penstock.hw.kernel.link import link_config
from penstock.program import BandProgram
from penstock.sim import deploy
from penstock.sim.verilated.verilated_board import MemoryModel
from penstock.sim.virtual_board import deploy as virtual_deploy
from penstock.sim.virtual_board.card import virtual_card
from penstock.sim.virtual_board.deploy import virtual_package
from penstock.sim.virtual_board.machine import Machine
from tests.host.kit.virtual_board import Simulated

pytestmark = pytest.mark.slow

CONFIG = KernelConfig.fit(JoinConfig(units=4, units_per_block=2, tests=2, key_bits=32))
COPIES = 3
PROGRAM = BandProgram(tests=1, table=2)


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
    text = link_config(describe(CONFIG), entry, COPIES)
    wanted = re.findall(r"^sp=(\w+)\.(\w+):(\S+)$", text, re.M)
    parsed = XclBin(str(package.path)).ip_dict
    for number, unit in enumerate(package.instances):
        for argument, resource in [(a, r) for u, a, r in wanted if u == unit]:
            register = parsed[unit]["registers"][argument]
            tags = register.get("MBG", [register["memory"]])
            assert list(package.banks_of(number, argument)) == tags
            ends = re.findall(r"\d+", resource)
            assert [tags[0], tags[-1]] == [
                f"{entry.memory}[{ends[0]}]",
                f"{entry.memory}[{ends[-1]}]",
            ]
    used = {tag for tag, bank in XclBin(str(package.path)).mem_dict.items() if bank["used"]}
    assert used == {tag for own in package.banks for tags in own.values() for tag in tags}
    assert package.shared_banks


class _Cards(BoardDevice):
    """Cards of this process."""

    def _connect(self, address: str | None, cards: int) -> list[BoardLink]:
        self.machines = [Machine(board("u280"), MemoryModel()) for _ in range(cards)]
        return [
            BoardLink(virtual_card(machine), f"card {number}")
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
        assert all(len(machine.memory.buffers()) > 1 for machine in device.machines)
        kernel.close()
    for machine in device.machines:
        machine.unload()


def _task(low: int, high: int) -> Task:
    start = np.zeros(1, np.int64)
    bounds = [np.array([bound], np.uint32) for bound in (low, high)]
    return Task(bounds, start, start + 100, 800)


@pytest.fixture
def card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Simulated]:
    """A card whose banks are small enough to be filled."""
    for module in (deploy, virtual_deploy):
        monkeypatch.setattr(module, "find_board", lambda *given: replace(board(*given), bank_mib=2))
    package = virtual_package(CONFIG, "u280", tmp_path, kernels=2)
    with Simulated("u280", package) as device:
        yield device


def test_pynq_itself_refuses_memory_without_a_bank(card: Simulated) -> None:
    card.load(card.packages[0])
    with pytest.raises(DeviceError, match="Multiple memories active in design"):
        card.links[0].allocate(4096)


def test_buffers_lie_where_their_ports_reach(card: Simulated) -> None:
    kernel = card.open(PROGRAM)
    window = kernel.allocate_in(3, 100)
    window.write(0, [np.arange(100, dtype=np.uint32)])
    kernel.submit(window, _task(0, 100)).result(60)
    package, banks = card.packages[0], {b.bank for b in card.machine.memory.buffers()}
    assert int(package.shared_banks[3].strip("HBM[]")) in banks
    own = {
        int(tag.strip("HBM[]")) for p, (tag, *_) in package.banks[0].items() if p != "m_axi_gmem1"
    }
    assert own <= banks
    kernel.close()


def test_a_port_gets_an_error_from_a_bank_that_it_does_not_reach(card: Simulated) -> None:
    kernel = card.open(PROGRAM)
    private = card.packages[0].banks[0]["m_axi_gmem2"][0]
    memory = card.links[0].allocate(4096, [private])
    window = kernel.allocate(100)
    window.write(0, [np.arange(100, dtype=np.uint32)])
    window.on = lambda link: memory.address  # type: ignore[method-assign]
    with pytest.raises(DeviceError, match="status"):
        kernel.submit(window, _task(0, 100)).result(60)
    kernel.close()


def test_no_buffer_is_larger_than_a_bank(card: Simulated) -> None:
    kernel = card.open(PROGRAM)
    assert kernel.most_positions is not None
    kernel.allocate(kernel.most_positions).free()
    with pytest.raises(DeviceError, match=r"do not fit HBM\[31\], which has 2097152"):
        kernel.allocate(kernel.most_positions + 16)
    kernel.close()


def test_banks_fill_one_after_the_other(card: Simulated) -> None:
    kernel = card.open(PROGRAM)
    assert kernel.most_positions is not None
    kept = [kernel.allocate(kernel.most_positions) for _ in range(kernel.banks)]
    with pytest.raises(DeviceError, match="Allocate failed"):
        kernel.allocate(1000)
    kept.pop().free()
    kernel.allocate(1000).free()
    for window in kept:
        window.free()
    kernel.close()


@pytest.mark.parametrize("pruning", [False, True])
def test_a_window_longer_than_a_bank_lies_in_several(card: Simulated, pruning: bool) -> None:
    rows = 600_000  # of eight bytes each: three banks of 2 MiB
    rng = np.random.default_rng(6)
    window = pa.table({"t": np.sort(rng.integers(0, rows, rows)), "v": rng.integers(0, rows, rows)})
    stream = pa.table({"t": [rows // 2, rows], "v": rng.integers(0, rows, 2), "id": [0, 1]})
    query = f"""SELECT s.id, r.v FROM s JOIN r ON r.v BETWEEN s.v - 50 AND s.v + 50
        AND r.t BETWEEN s.t - {rows} AND s.t"""
    sides, time = {"s": stream, "r": window}, {"s": "t", "r": "t"}
    found = penstock.sql(query, sides, time=time, device=card, pruning=pruning)
    right = penstock.sql(query, sides, time=time)
    order = [("id", "ascending"), ("v", "ascending")]
    assert found.sort_by(order) == right.sort_by(order)
    assert len(right) > 100


@pytest.mark.parametrize(("name", "kernels"), [("u280", 1), ("u280", 3), ("u200", 3)])
def test_selftest_and_join(name: str, kernels: int, tmp_path: Path) -> None:
    package = virtual_package(CONFIG, name, tmp_path, kernels=kernels)
    rng = np.random.default_rng(8)

    def side(rows: int) -> pa.Table:
        x, y = rng.integers(0, 200, (2, rows))
        return pa.table(
            {"id": np.arange(rows), "t": np.sort(rng.integers(0, 500, rows)), "x": x, "y": y}
        )

    sides, time = {"s": side(300), "r": side(2000)}, {"s": "t", "r": "t"}
    query = """SELECT s.id AS a, r.id AS b FROM s JOIN r
        ON abs(s.x - r.x) < 9 AND abs(s.y - r.y) < 9 AND r.t BETWEEN s.t - 100 AND s.t"""
    with Simulated(name, package) as device:
        for finding in selftest(device):
            assert finding.passed, finding.text
        found = penstock.sql(query, sides, time=time, device=device)
    right = penstock.sql(query, sides, time=time)
    order = [("a", "ascending"), ("b", "ascending")]
    assert found.sort_by(order) == right.sort_by(order)
    assert len(right)


def test_windows_of_more_than_a_bank_in_total(tmp_path: Path) -> None:
    package = virtual_package(CONFIG, "u280", tmp_path, kernels=3)
    with Simulated("u280", package) as device:
        kernel, values = device.open(PROGRAM), np.arange(100, dtype=np.uint32)
        assert kernel.most_positions == (256 << 20) // 8
        windows = [kernel.allocate(kernel.most_positions * 3 // 4) for _ in range(2)]
        assert len({buffer.bank for buffer in device.machine.memory.buffers()}) == 2
        for number, window in enumerate(windows):
            window.write(0, [values + 50 * number])
            found = kernel.submit(window, _task(50, 59)).result(60)
            assert sorted(found.j.tolist()) == list(range(50 - 50 * number, 60 - 50 * number))
            window.free()
        kernel.close()
