"""The window-join operator on a virtual board, through PYNQ: what its conformance suite lacks."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pynq", exc_type=ModuleNotFoundError)
pytest.importorskip("pynq.remote", exc_type=ModuleNotFoundError)

import penstock
from penstock.errors import DeviceError, FileError
from penstock.host.device.window_join import WindowTask
from penstock.host.devices.board.device import BoardDevice
from penstock.host.devices.board.link import BoardLink
from penstock.host.devices.board.package import Package
from penstock.host.devices.board.selftest import selftest
from penstock.hw.join.config import JoinConfig
from penstock.hw.join.kernel.config import KernelConfig
from penstock.hw.window.config import WindowConfig
from penstock.hw.window.kernel.config import WindowKernelConfig
from penstock.hw.window.kernel.describe import describe
from penstock.hw.window.kernel.export import window_kernel_verilog
from penstock.program import BandProgram
from penstock.sim.deploy import deploy
from penstock.sim.verilated.compile_kernel import cache_folder
from penstock.sim.verilated.verilated_board import MemoryModel
from penstock.sim.virtual_board.deploy import virtual_package
from penstock.sim.virtual_board.service import Server
from tests.host.kit.arrivals import arrivals, expected, pairs_of, pulled
from tests.host.kit.findings import at, failed, failed_when_broken
from tests.host.kit.virtual_board import serve

pytestmark = pytest.mark.slow

#: The build of tests/host/test_window_join.py, so that it is compiled once.
CONFIG = WindowKernelConfig(window=WindowConfig(depth=16, banks=1, tests=2, key_bits=32))
JOIN = KernelConfig.fit(JoinConfig(units=4, units_per_block=2, tests=2, key_bits=32))
BOARDS = ["zcu104", "pynq-z2"]
ROWS = (16, 9)


@pytest.fixture(scope="module", params=BOARDS)
def package(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Package:
    return virtual_package(CONFIG, request.param, tmp_path_factory.mktemp("package"), kernels=2)


@pytest.fixture
def server(package: Package) -> Iterator[Server]:
    with serve(package.board) as one:
        yield one


class TestSelftest:
    def test_passes(self, server: Server, package: Package) -> None:
        with BoardDevice(at(server), package=package.folder) as device:
            findings = list(selftest(device))
        assert failed(iter(findings)) == []
        steps = ["registers", "memory", "known join", "cycles"]
        assert [f.step.rpartition(": ")[2] for f in findings] == steps
        assert "tuples/s per side with ROWS 16" in findings[-1].text

    def test_slow_memory_fails_the_model(self, package: Package) -> None:
        with (
            serve(package.board, MemoryModel(bandwidth=0.02)) as server,
            BoardDevice(at(server), package=package.folder) as device,
        ):
            (found,) = failed(selftest(device))
        assert ": cycles: " in found
        assert "slower than the kernel needs" in found

    def test_both_sorts_of_kernels(self, package: Package, tmp_path: Path) -> None:
        """Each package is tested on its own overlay, the second one after the first."""
        other = virtual_package(JOIN, package.board, tmp_path)
        folders = f"{other.folder},{package.folder}"
        with (
            serve(package.board) as server,
            BoardDevice(at(server), package=folders) as device,
        ):
            findings = list(selftest(device))
        assert failed(iter(findings)) == []
        tested = [f.step for f in findings if "known join" in f.step]
        assert tested == [f"{one.overlay}: known join" for one in (other, package)]


#: What is replaced in the Verilog, by what, what the message says, and what the board adds.
BROKEN = {
    "computes a wrong predicate": (
        "m_axi_gmem0_RDATA })",
        "m_axi_gmem0_RDATA ^ 512'h20000000 })",
        "computes another predicate",
        "",
    ),
    "ends bursts early": (
        "assign m_axi_gmem1_WLAST = o_result_port__word__payload[512];",
        "assign m_axi_gmem1_WLAST = 1'h1;",
        "did not end a task within 3 s",
        "WLAST is not with the last word",
    ),
    "never finishes": (
        ".o_result_port__word__valid(m_axi_gmem1_WVALID)",
        ".o_result_port__word__valid()",
        "did not end a task within 3 s",
        "",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_kernels_are_caught(name: str, tmp_path: Path) -> None:
    old, new, message, fault = BROKEN[name]
    verilog = window_kernel_verilog(CONFIG, cache=cache_folder())
    found = failed_when_broken(CONFIG, verilog, old, new, tmp_path)
    assert any(message in text and fault in text for text in found), found


class TestLoading:
    def test_from_the_folder_on_the_board(self, package: Package, tmp_path: Path) -> None:
        """The window operator's package is found among others, and its kernels share the tasks."""
        other = virtual_package(JOIN, package.board, tmp_path / "join")
        deploy([other, package], tmp_path / "deployed")
        tuples, program = arrivals(np.random.default_rng(1), 400, rows=ROWS)
        with (
            serve(package.board, deployed=tmp_path / "deployed") as server,
            BoardDevice(at(server)) as device,
        ):
            assert [one.is_window for one in device.packages] == [False, True]
            assert device.lanes == 2
            chunks = pulled(device, tuples, program, most=500)
            assert device.counters()["tuples"] == 400
        assert len(chunks) > 2
        assert pairs_of(chunks) == expected(tuples, program)

    def test_one_overlay_at_a_time(self, package: Package, tmp_path: Path) -> None:
        other = virtual_package(JOIN, package.board, tmp_path)
        _, program = arrivals(np.random.default_rng(1), 2, rows=ROWS)
        with (
            serve(package.board) as server,
            BoardDevice(at(server), package=f"{other.folder},{package.folder}") as device,
        ):
            kernel = device.open(program)
            with pytest.raises(DeviceError, match="is in use, and this program needs"):
                device.open(BandProgram(tests=1, table=2))
            kernel.close()
            device.open(BandProgram(tests=1, table=2)).close()

    def test_handoff_has_every_register(self, server: Server, package: Package) -> None:
        """PYNQ's own parser finds each register where the declaration has it."""
        link = BoardLink.remote(at(server))
        link.load(package)
        expected = {}
        for entry in describe(CONFIG).table()["registers"]:
            words = entry["bits"] // 32
            for word in range(words):
                own = entry["name"] if words == 1 else f"{entry['name']}_{word + 1}"
                expected[own] = entry["offset"] + 4 * word
        for name in package.instances:
            parsed = link.overlay.ip_dict[name]
            assert {
                key: one["address_offset"] for key, one in parsed["registers"].items()
            } == expected
            assert parsed["type"] == describe(CONFIG).vlnv


class TestPrograms:
    def test_programs_share_the_kernels(self, server: Server, package: Package) -> None:
        """Tasks of several programs that are open at once, more than there are kernels."""
        with BoardDevice(at(server), package=package.folder) as device:
            joins = [arrivals(np.random.default_rng(seed), 200, rows=ROWS) for seed in range(3)]
            kernels = [device.open(program) for _, program in joins]
            futures = [
                kernel.submit(None, WindowTask(tuples, 0, 1 << 14))
                for kernel, (tuples, _) in zip(kernels, joins, strict=True)
                for _ in range(3)
            ]
            results = [future.result(60) for future in futures]
            for kernel in kernels:
                kernel.close()
        for number, result in enumerate(results):
            tuples, program = joins[number // 3]
            found = sorted(zip(result.i, result.j, strict=True))
            assert found == expected(tuples, program)

    def test_of_the_other_operation(self, server: Server, package: Package) -> None:
        with (
            BoardDevice(at(server), package=package.folder) as device,
            pytest.raises(DeviceError, match="has the window-join operator, and range joins are"),
        ):
            device.open(BandProgram(tests=1, table=2))

    def test_more_than_the_kernel_has(self, server: Server, package: Package) -> None:
        _, wide = arrivals(np.random.default_rng(1), 2, tests=3, rows=ROWS)
        _, program = arrivals(np.random.default_rng(1), 2, rows=ROWS)
        with BoardDevice(at(server), package=package.folder) as device:
            assert "has 2 band tests, not 3" in str(device.refuses(wide))
            with pytest.raises(DeviceError, match="hold 16 rows, fewer than 17; build it with"):
                device.open(replace(program, rows=(4, 17)))

    def test_after_it_was_closed(self, server: Server, package: Package) -> None:
        tuples, program = arrivals(np.random.default_rng(1), 20, rows=ROWS)
        with BoardDevice(at(server), package=package.folder) as device:
            kernel = device.open(program)
            kernel.close()
            future = kernel.submit(None, WindowTask(tuples, 0, 1 << 14))
            with pytest.raises(DeviceError, match="was closed; open the program again"):
                future.result(60)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


class TestFailures:
    def test_a_board_that_vanishes(self, package: Package) -> None:
        """In the middle of a task: an error within the timeout that names the board."""
        server = serve(package.board)
        device = BoardDevice(at(server), package=package.folder, timeout_s=20.0)
        # About ten million cycles.
        tuples, program = arrivals(np.random.default_rng(1), 800_000, rows=ROWS)
        kernel = device.open(program)
        future = kernel.submit(None, WindowTask(tuples, 0, 1 << 23))
        wait_until(lambda: server.machine.running or future.done())
        assert not future.done()
        server.close()
        with pytest.raises(DeviceError, match=re.escape(f"board {at(server)}")):
            future.result(60)
        device.close()

    def test_a_kernel_that_hangs(self, package: Package, tmp_path: Path) -> None:
        """A memory that takes nothing: an error after the timeout; the device can be closed."""
        tuples, program = arrivals(np.random.default_rng(1), 4000, rows=ROWS)
        slow = MemoryModel(bandwidth=1e-6)
        with (
            serve(package.board, slow) as server,
            BoardDevice(at(server), package=package.folder, timeout_s=1.0) as device,
        ):
            kernel = device.open(program)
            future = kernel.submit(None, WindowTask(tuples, 0, 1 << 16))
            name = f"board {at(server)}, {package.instances[0][:-2]}"
            with pytest.raises(DeviceError, match=rf"{re.escape(name)}_\d did not end a task"):
                future.result(60)

    def test_memory_is_full(self, package: Package) -> None:
        tuples, program = arrivals(np.random.default_rng(1), 4000, rows=ROWS)
        with (
            serve(package.board, memory_bytes=1 << 16) as server,
            BoardDevice(at(server), package=package.folder) as device,
        ):
            kernel = device.open(program)
            future = kernel.submit(None, WindowTask(tuples, 0, 1 << 16))
            with pytest.raises(DeviceError, match="does not fit"):
                future.result(60)

    def test_a_description_of_another_sort(self, package: Package) -> None:
        values = json.loads(package.describe()) | {"operator": "sideways"}
        with pytest.raises(FileError, match="'sideways' is not a valid Operator"):
            Package.parse(json.dumps(values), "package.json")


def test_sql(package: Package, tmp_path: Path) -> None:
    """A ROWS query gives the rows of the CPU device, by both operations of one board."""
    other = virtual_package(JOIN, package.board, tmp_path)
    rng = np.random.default_rng(4)
    tables = {
        name: pa.table(
            {
                "id": np.arange(300),
                "t": np.sort(rng.integers(0, 100, 300)),
                "x": pa.array(rng.integers(0, 40, 300), mask=rng.random(300) < 0.1),
            }
        )
        for name in "ab"
    }
    query = "SELECT a.id AS i, b.id AS j FROM a JOIN b ON abs(a.x - b.x) <= 2"
    given = {"time": {"a": "t", "b": "t"}, "rows": {"a": 16, "b": 5}}
    wanted = penstock.sql(query, tables, **given)
    order = [("i", "ascending"), ("j", "ascending")]
    with (
        serve(package.board) as server,
        BoardDevice(at(server), package=f"{other.folder},{package.folder}") as device,
    ):
        for operator in ("window", "range"):
            found = penstock.sql(query, tables, **given, device=device, operator=operator)
            assert found.sort_by(order).equals(wanted.sort_by(order))
    assert wanted.num_rows > 200
