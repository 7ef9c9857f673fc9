"""What the self-test of a virtual board finds."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.host.devices.board.device import BoardDevice
from penstock.host.devices.board.selftest import StepOutcome, selftest
from penstock.hw.join.kernel.config import KernelConfig
from penstock.hw.window.kernel.config import WindowKernelConfig
from penstock.sim.virtual_board.deploy import virtual_package
from tests.host.kit.virtual_board import serve

if TYPE_CHECKING:
    from penstock.sim.virtual_board.service import Server


def at(server: Server) -> str:
    """Where a board of this host listens."""
    return f"127.0.0.1:{server.port}"


def failed(findings: Iterable[StepOutcome]) -> list[str]:
    """The steps that failed."""
    return [f"{finding.step}: {finding.text}" for finding in findings if not finding.passed]


def failed_when_broken(
    config: KernelConfig | WindowKernelConfig, verilog: str, old: str, new: str, folder: Path
) -> list[str]:
    """The steps that fail on a kernel in whose Verilog something is replaced."""
    assert old in verilog, f"{old!r} is not in the Verilog; give another mutation"
    broken = virtual_package(config, "zcu104", folder, verilog=verilog.replace(old, new))
    with (
        serve("zcu104") as server,
        BoardDevice(at(server), package=broken.folder, timeout_s=3.0) as device,
    ):
        return failed(selftest(device))
