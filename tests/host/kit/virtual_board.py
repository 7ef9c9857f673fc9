"""The board device on a virtual board or card in the same process."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.constraints.boards import ToolFlow, board
from penstock.host.device.base import PAIRS, Kernel
from penstock.host.devices.board.device import BoardDevice
from penstock.host.devices.board.link import BoardLink
from penstock.host.devices.board.package import Package
from penstock.hw.export import kernel_verilog
from penstock.hw.hls.compare import SIMULATION
from penstock.hw.window.config import WindowConfig
from penstock.hw.window.kernel.config import WindowKernelConfig
from penstock.program import BandProgram, Mode, Program
from penstock.sim.rtl_device import RtlDevice
from penstock.sim.verilated.compile_kernel import cache_folder
from penstock.sim.verilated.verilated_board import MemoryModel
from penstock.sim.virtual_board.deploy import virtual_package
from penstock.sim.virtual_board.machine import Machine

if TYPE_CHECKING:
    from penstock.sim.virtual_board.service import Server

MEMORY_BYTES = 1 << 30
_BUFFERS = {"burst_words": 8, "read_words": 16, "write_words": 16}
#: Whether kernels leave comparisons to the simulator, as ``RtlDevice(fast=True)`` does; they are
#: compiled in a third of the time, of which there is not much in continuous integration.
_QUICK = "PENSTOCK_TEST_QUICK" in os.environ


def serve(
    name: str,
    memory: MemoryModel | None = None,
    deployed: Path | None = None,
    memory_bytes: int = MEMORY_BYTES,
) -> Server:
    """A virtual board on a free port of this host."""
    # PYNQ 3.0, for Alveo cards, has no remote protocol.
    from penstock.sim.virtual_board import service

    return service.serve(
        name, memory or MemoryModel(), memory_bytes=memory_bytes, deployed=deployed
    )


class Simulated(BoardDevice):
    """A board device whose board, or card, is a virtual one of its own.

    Parameters
    ----------
    board_name : str
    package : Package
        What can be loaded at first.
    **memory
        Arguments of :class:`MemoryModel`.

    Attributes
    ----------
    machine : Machine
        Of a card.
    """

    def __init__(self, board_name: str, package: Package, **memory: Any) -> None:
        self._board_name = board_name
        self._model = MemoryModel(**memory)
        super().__init__(package=package.folder)

    def _connect(self, address: str | None, cards: int) -> list[BoardLink]:
        if board(self._board_name).flow is ToolFlow.VITIS:
            from penstock.sim.virtual_board.card import virtual_card

            self.machine = Machine(board(self._board_name), self._model)
            self._end = self.machine.unload
            return [BoardLink(virtual_card(self.machine), "virtual card")]
        server = serve(self._board_name, self._model)
        self._end = server.close
        return [BoardLink.remote(f"127.0.0.1:{server.port}")]

    def close(self) -> None:
        super().close()
        self._end()


class VirtualBoard(Simulated):
    """Refuses what the rtl device refuses; each program gets a package as it is opened."""

    def __init__(self, board_name: str, units: int = 4, kernels: int = 1, **memory: Any) -> None:
        self._planner = RtlDevice(units, word_bits=board(board_name).port_bits)
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-packages-")
        self._kernels = kernels
        self._board_name = board_name
        super().__init__(board_name, self._package(BandProgram(tests=1, table=2), PAIRS), **memory)
        # A program of any width gets units as wide.
        self.key_widths, self.narrow_widths = (32, 64), ()

    def _package(self, program: Program, modes: frozenset[Mode]) -> Package:
        # Small buffers do the same and are compiled in half the time.
        config = replace(self._planner.build_for(program, modes), **_BUFFERS)
        folder = Path(tempfile.mkdtemp(dir=self._folder.name))
        verilog = None
        if _QUICK:
            verilog = kernel_verilog(config, cache=cache_folder(), platform=SIMULATION)
        return virtual_package(
            config, self._board_name, folder, kernels=self._kernels, verilog=verilog
        )

    def refuses(self, program: Program, modes: frozenset[Mode] = PAIRS) -> str | None:
        return self._planner.refuses(program, modes)

    def open(self, program: Program, modes: frozenset[Mode] = PAIRS) -> Kernel:
        if all(package.refuses(program, modes) is not None for package in self.packages):
            self.packages.append(self._package(program, modes))
        return super().open(program, modes)

    def close(self) -> None:
        super().close()
        self._planner.close()
        self._folder.cleanup()


class VirtualWindowBoard(Simulated):
    """A board with window-join operators of two band tests."""

    def __init__(
        self, board_name: str, depth: int, banks: int = 1, kernels: int = 1, **memory: Any
    ) -> None:
        window = WindowConfig(depth=depth, banks=banks, tests=2, key_bits=32)
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-packages-")
        width = board(board_name).port_bits
        config = WindowKernelConfig(window=window, word_bits=width, **_BUFFERS)
        folder = Path(self._folder.name)
        package = virtual_package(config, board_name, folder, kernels=kernels)
        super().__init__(board_name, package, **memory)

    def close(self) -> None:
        super().close()
        self._folder.cleanup()
