"""Devices that queries run on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from penstock.host.device.base import PAIRS
from penstock.host.devices.cpu import CpuDevice
from penstock.program import GeneralProgram, Mode, Program
from penstock.sim.amaranth_device import AmaranthDevice
from penstock.sim.rtl_device import RtlDevice
from tests.penstock.kit.devices import InterpretingCpu

CHUNKS = {"cpu": 25, "amaranth": 25, "rtl": 25}
"""Seeds that one process runs before it reports, by device."""

COMPILED_EVERY = 50
"""One query of so many is compiled, which takes about a second; others are interpreted."""

KEPT: dict[str, Any] = {}
"""Simulated devices of this process, which keep what they have built."""


def refusal_of(program: Program) -> str | None:
    """Why a simulated device does not run a program: building one takes up to a minute."""
    if isinstance(program, GeneralProgram):
        return "tests.fuzz runs the band form alone on simulated devices"
    return None


class BandAmaranth(AmaranthDevice):
    """Amaranth's simulator for programs in band form."""

    def refuses(self, program: Program, modes: frozenset[Mode] = PAIRS) -> str | None:
        return refusal_of(program) or super().refuses(program, modes)


class BandRtl(RtlDevice):
    """The Verilated kernel for programs in band form."""

    def refuses(self, program: Program, modes: frozenset[Mode] = PAIRS) -> str | None:
        return refusal_of(program) or super().refuses(program, modes)


@contextmanager
def opened(device: str, seed: int) -> Iterator[Any]:
    """The device for the query of a seed."""
    if device == "cpu":
        made = CpuDevice() if seed % COMPILED_EVERY == 0 else InterpretingCpu()
        try:
            yield made
        finally:
            made.close()
        return
    if device not in KEPT:
        KEPT[device] = BandAmaranth() if device == "amaranth" else BandRtl()
    yield KEPT[device]
