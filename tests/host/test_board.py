"""The board device through PYNQ's own client on a virtual board; kernels that are broken."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pynq.remote", exc_type=ModuleNotFoundError)

from penstock.constraints.boards import board
from penstock.errors import DeviceError, FileError
from penstock.host.device.base import Task
from penstock.host.devices.board.device import BoardDevice
from penstock.host.devices.board.link import BoardLink
from penstock.host.devices.board.package import DESCRIPTION, Package
from penstock.host.devices.board.selftest import selftest
from penstock.hw.export import kernel_verilog
from penstock.hw.join.config import JoinConfig
from penstock.hw.join.kernel.config import KernelConfig
from penstock.hw.join.kernel.describe import describe
from penstock.program import BandProgram, Mode
from penstock.sim.deploy import deploy
from penstock.sim.verilated.compile_kernel import cache_folder
from penstock.sim.verilated.verilated_board import MemoryModel
from penstock.sim.virtual_board.bitfile import Image, read_bin, write_bit
from penstock.sim.virtual_board.deploy import virtual_package
from penstock.sim.virtual_board.service import Server
from tests.host.kit.findings import at, failed_when_broken
from tests.host.kit.virtual_board import serve

pytestmark = pytest.mark.slow

CONFIG = KernelConfig.fit(JoinConfig(units=4, units_per_block=2, tests=2, key_bits=32))
PROGRAM = BandProgram(tests=1, table=2)
BOARDS = ["zcu104", "pynq-z2"]


@pytest.fixture(scope="module", params=BOARDS)
def package(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Package:
    folder = tmp_path_factory.mktemp("package")
    return virtual_package(CONFIG, request.param, folder, kernels=2)


@pytest.fixture
def server(package: Package) -> Iterator[Server]:
    with serve(package.board) as one:
        yield one


def join(device: BoardDevice, rows: int = 6, window: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of a band join, and how many there should be."""
    rng = np.random.default_rng(3)
    keys = rng.integers(0, 50, window, np.uint32)
    low = rng.integers(0, 50, rows, np.uint32)
    start = np.sort(rng.integers(0, window // 2, rows))
    kernel = device.open(PROGRAM)
    try:
        buffer = kernel.allocate(window)
        buffer.write(0, [keys])
        task = Task([low, low + 9], start, start + window // 2, room=rows * window)
        found = kernel.submit(buffer, task).result(120)
    finally:
        kernel.close()
    right = [
        (i, j)
        for i in range(rows)
        for j in range(start[i], start[i] + window // 2)
        if low[i] <= keys[j] <= low[i] + 9
    ]
    return np.array(sorted(zip(found.i, found.j, strict=True))), np.array(right)


class TestSelftest:
    def test_passes(self, server: Server, package: Package) -> None:
        with BoardDevice(at(server), package=package.folder) as device:
            findings = list(selftest(device))
        assert [f.text for f in findings if not f.passed] == []
        assert {f.step.rpartition(": ")[2] for f in findings} == {
            "registers",
            "memory",
            "known join",
            "cycles",
        }

    def test_slow_memory_fails_the_model(self, package: Package) -> None:
        slow = MemoryModel(bandwidth=0.05)
        with (
            serve(package.board, slow) as server,
            BoardDevice(at(server), package=package.folder) as device,
        ):
            failed = [f for f in selftest(device) if not f.passed]
        assert [f.step.rpartition(": ")[2] for f in failed] == ["cycles"]
        assert "slower than the kernel needs" in failed[0].text


#: What is replaced in the Verilog, by what, what the message says, and what the board adds.
BROKEN = {
    "computes a wrong predicate": (
        "m_axi_gmem1_RDATA })",
        "m_axi_gmem1_RDATA ^ 512'h20000000 })",
        "computes another predicate",
        "",
    ),
    "ends bursts early": (
        "assign m_axi_gmem2_WLAST = o_result_port__word__payload[512];",
        "assign m_axi_gmem2_WLAST = 1'h1;",
        "did not end a task within 3 s",
        "WLAST is not with the last word",
    ),
    "never finishes": (
        ".o_result_port__word__valid(m_axi_gmem2_WVALID)",
        ".o_result_port__word__valid()",
        "did not end a task within 3 s",
        "",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_kernels_are_caught(name: str, tmp_path: Path) -> None:
    old, new, message, fault = BROKEN[name]
    verilog = kernel_verilog(CONFIG, cache=cache_folder())
    found = failed_when_broken(CONFIG, verilog, old, new, tmp_path)
    assert any(message in text and fault in text for text in found), found


class TestLoading:
    def test_several_kernels_share_the_tasks(self, server: Server, package: Package) -> None:
        with BoardDevice(at(server), package=package.folder) as device:
            assert device.lanes == 2
            found, right = join(device)
        np.testing.assert_array_equal(found, right)

    def test_from_the_folder_on_the_board(self, package: Package, tmp_path: Path) -> None:
        deploy([package], tmp_path)
        with serve(package.board, deployed=tmp_path) as server, BoardDevice(at(server)) as device:
            found, right = join(device)
        np.testing.assert_array_equal(found, right)

    def test_a_rebuilt_overlay_is_loaded(self, tmp_path: Path) -> None:
        """Same board, same names of kernels: only the hash in the file's name tells them apart."""
        other = KernelConfig.fit(JoinConfig(units=6, units_per_block=3, tests=2, key_bits=32))
        with serve("zcu104") as server:
            for number, config in enumerate((CONFIG, other)):
                made = virtual_package(config, "zcu104", tmp_path / str(number))
                with BoardDevice(at(server), package=made.folder) as device:
                    kernel = device.open(PROGRAM)
                    assert kernel.min_room == config.units
                    kernel.close()
                    found, right = join(device)
                np.testing.assert_array_equal(found, right)

    def test_another_boards_bitstream(self, tmp_path: Path) -> None:
        made = virtual_package(CONFIG, "kv260", tmp_path)
        with (
            serve("zcu104") as server,
            BoardDevice(at(server), package=made.folder) as device,
            pytest.raises(DeviceError, match="is for xck26-sfvc784-2LV-c, this is xczu7ev"),
        ):
            device.open(PROGRAM)

    def test_one_overlay_at_a_time(self, tmp_path: Path) -> None:
        counting = KernelConfig.fit(
            JoinConfig(
                units=4,
                units_per_block=2,
                tests=2,
                key_bits=32,
                modes=frozenset({Mode.PAIRS, Mode.COUNT}),
            )
        )
        folders = []
        for number, config in enumerate((CONFIG, counting)):
            made = virtual_package(config, "zcu104", tmp_path / str(number))
            folders.append(str(made.folder))
        with (
            serve("zcu104") as server,
            BoardDevice(at(server), package=",".join(folders)) as device,
        ):
            kernel = device.open(PROGRAM)
            with pytest.raises(DeviceError, match="is in use, and this program needs"):
                device.open(PROGRAM, frozenset({Mode.COUNT}))
            kernel.close()
            device.open(PROGRAM, frozenset({Mode.COUNT})).close()

    def test_handoff_has_every_register(self, server: Server, package: Package) -> None:
        """PYNQ's own parser finds each register where the declaration has it."""
        link = BoardLink.remote(at(server))
        link.load(package)
        for name in package.instances:
            parsed = link.overlay.ip_dict[name]["registers"]
            found = {key: entry["address_offset"] for key, entry in parsed.items()}
            expected = {}
            for entry in describe(CONFIG).table()["registers"]:
                words = entry["bits"] // 32
                for word in range(words):
                    own = entry["name"] if words == 1 else f"{entry['name']}_{word + 1}"
                    expected[own] = entry["offset"] + 4 * word
            assert found == expected


class TestFailures:
    def test_a_board_that_vanishes(self, package: Package) -> None:
        """An error within the timeout; nothing waits for the board for ever."""
        server = serve(package.board)
        device = BoardDevice(at(server), package=package.folder, timeout_s=5.0)
        kernel = device.open(PROGRAM)
        buffer = kernel.allocate(100)
        buffer.write(0, [np.arange(100, dtype=np.uint32)])
        server.close()
        zero = np.zeros(1, np.int64)
        low = np.zeros(1, np.uint32)
        future = kernel.submit(buffer, Task([low, low], zero, zero + 100, room=400))
        with pytest.raises(DeviceError, match=re.escape(f"board {at(server)}")):
            future.result(30)

    def test_nobody_there(self) -> None:
        with pytest.raises(DeviceError, match=re.escape("board 127.0.0.1:1: Failed")):
            BoardDevice("127.0.0.1:1", package="nowhere")

    def test_memory_is_full(self, package: Package) -> None:
        with (
            serve(package.board) as server,
            BoardDevice(at(server), package=package.folder) as device,
        ):
            kernel = device.open(PROGRAM)
            with pytest.raises(DeviceError, match="does not fit"):
                kernel.allocate(3 << 26)

    def test_no_such_package(self, server: Server, tmp_path: Path) -> None:
        with pytest.raises(FileError, match="is no board package"):
            BoardDevice(at(server), package=tmp_path)

    def test_a_package_that_lacks_a_file(
        self, server: Server, package: Package, tmp_path: Path
    ) -> None:
        (tmp_path / DESCRIPTION).write_text(package.describe())
        with pytest.raises(FileError, match=f"lacks {package.overlay}"):
            BoardDevice(at(server), package=tmp_path)

    def test_a_damaged_description(self, server: Server, tmp_path: Path) -> None:
        (tmp_path / DESCRIPTION).write_text(json.dumps({"board": "zcu104"}))
        with pytest.raises(FileError, match="does not describe a board package"):
            BoardDevice(at(server), package=tmp_path)

    def test_a_vendors_bitstream(self) -> None:
        with pytest.raises(DeviceError, match="was not made for a virtual board"):
            read_bin(bytes(64))

    def test_a_truncated_bitstream(self) -> None:
        entry = board("zcu104")
        image = Image(entry.part, "k", "module k; endmodule", {"ports": {}}, [0])
        data = write_bit(image, "k")
        body = np.frombuffer(data[-(len(data) // 4 * 4) :], "u1").tobytes()
        start = body.index(b"PENSTOCK")
        cut = body[start : start + 40]
        with pytest.raises(DeviceError, match="is damaged"):
            read_bin(np.frombuffer(cut, "<u4").byteswap().tobytes())
