"""What PYNQ's clients do that a driver must know of: each trap with its remedy."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pynq.remote", exc_type=ModuleNotFoundError)

from penstock.errors import DeviceError
from penstock.host.devices.board.link import BoardLink
from penstock.host.devices.board.package import Package
from penstock.host.devices.board.port import BoardMemory, CorePort
from penstock.hw.board.placement import clock_of, register_range, system_of
from penstock.hw.join.config import JoinConfig
from penstock.hw.join.kernel.config import KernelConfig
from penstock.sim.virtual_board.deploy import virtual_package
from penstock.sim.virtual_board.service import Server
from tests.host.kit.virtual_board import serve

pytestmark = pytest.mark.slow

CONFIG = KernelConfig.fit(JoinConfig(units=4, units_per_block=2, tests=2, key_bits=32))
CTRL = 0
#: Dividers of the first clock of the logic: UltraScale+, and Zynq-7000.
CLOCKS = {"zcu104": (0xFF5E00C0, 8), "pynq-z2": (0xF8000170, 8)}


@pytest.fixture(scope="module", params=list(CLOCKS))
def package(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Package:
    return virtual_package(CONFIG, request.param, tmp_path_factory.mktemp("package"))


@pytest.fixture
def server(package: Package) -> Iterator[Server]:
    with serve(package.board) as one:
        yield one


def link_to(server: Server) -> BoardLink:
    return BoardLink.remote(f"127.0.0.1:{server.port}")


def test_a_changed_handoff_of_the_same_bitstream_is_read(
    server: Server, package: Package, tmp_path: Path
) -> None:
    """PYNQ keeps handoffs by the hash of the bitstream, for all processes."""
    link = link_to(server)
    link.load(package)
    changed = replace(package, overlay="other.bit", folder=tmp_path)
    (tmp_path / "other.bit").write_bytes(package.path.read_bytes())
    handoff = package.path.with_suffix(".hwh").read_text()
    (tmp_path / "other.hwh").write_text(handoff.replace('"result_words"', '"renamed"'))
    link.load(changed)
    registers = link.overlay.ip_dict[package.instances[0]]["registers"]
    assert "renamed" in registers
    assert "result_words" not in registers


def test_names_change_with_the_handoff(package: Package, tmp_path: Path) -> None:
    """A board has a file of a name already: it is not sent again."""
    other = virtual_package(CONFIG, package.board, tmp_path, leds=True)
    assert other.overlay != package.overlay
    for made in (package, other):
        content = hashlib.sha256()
        for name in made.files:
            assert made.folder is not None
            content.update(hashlib.sha256((made.folder / name).read_bytes()).digest())
        assert made.overlay == f"penstock_{content.hexdigest()[:16]}.bit"


def test_memory_is_synchronised_whole(server: Server) -> None:
    """A slice of a remote buffer would land at the start of the buffer."""
    memory = link_to(server).allocate(10_000)
    memory.array[:] = 7
    memory.to_device()
    memory.array[5000:5100] = 9
    memory.to_device()
    (buffer,) = server.machine.memory.buffers()
    right = np.full(10_000, 7, np.uint8)
    right[5000:5100] = 9
    np.testing.assert_array_equal(buffer.data[:10_000], right)


def test_registers_take_any_integer(server: Server, package: Package) -> None:
    """Versions read words signed, refuse NumPy's integers, and cut what is longer than a word."""
    (port,) = link_to(server).load(package)
    for value in (np.uint64(0xFEDC_BA98_7654_3210), 0x8000_0000_FFFF_FFFF):
        port.write("window", value)
        assert port.read("window") == int(value)
    port.write("result_words", np.int64(0xFFFF_FFFF))
    assert port.read("result_words") == 0xFFFF_FFFF


def test_control_is_written_once_and_never_modified(server: Server, package: Package) -> None:
    """To look at CTRL clears ap_done; to read and write it back starts or stops something else."""
    (port,) = link_to(server).load(package)
    written: list[tuple[int, int]] = []
    write = server.machine.write

    def noted(address: int, value: int) -> None:
        written.append((address, value))
        write(address, value)

    server.machine.write = noted
    # A task of nothing ends at once, with a status that says so.
    port.run(dict.fromkeys(("passes", "tuples", "window", "results"), 0), 30.0)
    base = next(address for address, _ in written) // 0x1_0000 * 0x1_0000
    assert [value for address, value in written if address == base + CTRL] == [1]


def test_a_kernel_that_nobody_waits_for(server: Server, package: Package) -> None:
    (port,) = link_to(server).load(package)

    class Busy:
        def read(self, offset: int) -> int:
            return 0

    busy = CorePort(Busy(), package.table, port.name)
    with pytest.raises(DeviceError, match="is busy with a task that nobody waits for"):
        busy.run({}, 1.0)


def test_sizes_are_signed_words(server: Server) -> None:
    with pytest.raises(DeviceError, match="PYNQ allocates below 2 GiB"):
        BoardMemory(object(), 1 << 31)
    with pytest.raises(DeviceError, match="does not fit: 1073741824 bytes are free"):
        link_to(server).allocate((1 << 31) - 1)


def test_clocks_are_those_of_the_board_that_is_loaded(package: Package) -> None:
    """PYNQ keeps the first board whose clocks it set."""
    from penstock.constraints.boards import board

    address, shift = CLOCKS[package.board]
    with serve(package.board) as one, serve(package.board) as other:
        link_to(one).load(package)
        before = one.machine.read(address)
        one.machine.write(address, 0)
        link_to(other).load(package)
        assert other.machine.read(address) == before
        assert one.machine.read(address) == 0
    entry = board(package.board)
    divisor = before >> shift & 0x3F
    assert system_of(entry).pll_mhz / divisor == clock_of(entry)


def test_registers_lie_where_the_handoff_says(server: Server, package: Package) -> None:
    from penstock.constraints.boards import board

    link = link_to(server)
    link.load(package)
    found = link.overlay.ip_dict[package.instances[0]]["phys_addr"]
    assert found == register_range(board(package.board), 0).start
