"""Packages with narrow units run programs of wider codes, for pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("amaranth", reason="needs the rtl extra")

import penstock
from penstock.errors import DeviceError
from penstock.host.device.base import PAIRS
from penstock.host.devices.board.device import BoardDevice
from penstock.host.devices.board.link import BoardLink
from penstock.host.devices.board.package import DESCRIPTION, Package
from penstock.hw.join.config import JoinConfig
from penstock.hw.join.kernel.config import KernelConfig
from penstock.hw.join.kernel.describe import table
from penstock.program import BandProgram, Mode

Made = Callable[..., BoardDevice]


class Unconnected(BoardDevice):
    """A board that nobody calls."""

    def _connect(self, address: str | None, cards: int) -> list[BoardLink]:
        return [cast(BoardLink, None)]


def config(bits: int, modes: frozenset[Mode] = PAIRS) -> KernelConfig:
    return KernelConfig.fit(
        JoinConfig(units=2, units_per_block=1, tests=2, key_bits=bits, modes=modes)
    )


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Made]:
    """Makes a device with a package for each build."""
    devices: list[BoardDevice] = []

    def make(*builds: KernelConfig) -> BoardDevice:
        folders = []
        for number, build in enumerate(builds):
            bits = build.join.key_bits
            folder = tmp_path / str(number)
            folder.mkdir()
            package = Package("zcu104", 200.0, f"p{bits}.bit", ["k"], table(build))
            (folder / DESCRIPTION).write_text(package.describe(), encoding="utf-8")
            for name in package.files:
                (folder / name).touch()
            folders.append(str(folder))
        devices.append(Unconnected(package=",".join(folders)))
        return devices[-1]

    yield make
    for device in devices:
        device.close()


def chosen(device: BoardDevice, program: BandProgram) -> tuple[str, int | None]:
    package, bits = device._choose(program, PAIRS)
    return package.overlay, bits


WIDE = BandProgram(2, 0b1000, 32)


def test_a_wide_program_runs_on_the_widest_units(made: Made) -> None:
    device = made(config(16), config(24))
    assert device.narrow_widths == (16, 24)
    assert device.key_widths == (16, 24, 32)
    assert chosen(device, WIDE) == ("p24.bit", 24)
    assert chosen(device, replace(WIDE, key_bits=16)) == ("p16.bit", None)


def test_the_width_that_is_asked_for_comes_first(made: Made) -> None:
    device = made(config(32), config(16), config(24))
    assert chosen(device, WIDE) == ("p32.bit", None)
    assert chosen(device, replace(WIDE, unit_bits=16)) == ("p16.bit", 16)
    assert chosen(device, replace(WIDE, unit_bits=20)) == ("p24.bit", 24)


def test_folds_need_units_as_wide_as_the_codes(made: Made) -> None:
    modes = frozenset({Mode.PAIRS, Mode.EXISTS})
    device = made(config(16, modes))
    reason = device.refuses(WIDE, frozenset({Mode.EXISTS}))
    assert reason is not None
    assert "need exact codes" in reason
    assert device.refuses(replace(WIDE, key_bits=16), modes) is None
    assert device.refuses(WIDE) is None


def test_what_no_width_helps_is_refused_as_before(made: Made) -> None:
    device = made(config(16), config(32))
    with pytest.raises(DeviceError, match=r"p16.bit has 2 band tests, not 3.*p32.bit has 2"):
        device._choose(replace(WIDE, tests=3, table=0b10), PAIRS)
    assert "built without count" in (device.refuses(WIDE, frozenset({Mode.COUNT})) or "")


def test_units_of_32_bits_get_codes_of_32_bits(made: Made) -> None:
    device = made(config(32))
    assert device.key_widths == (16, 32)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["u280", "zcu104"])
def test_joins_on_a_virtual_board(name: str, tmp_path: Path) -> None:
    pytest.importorskip("pynq", exc_type=ModuleNotFoundError)
    # PYNQ drives cards up to 3.0 only, which has no remote protocol.
    part = "pynq._3rdparty.xrt" if name == "u280" else "pynq.remote"
    pytest.importorskip(part, exc_type=ImportError)
    from penstock.sim.virtual_board.deploy import virtual_package
    from tests.host.kit.virtual_board import Simulated

    rng = np.random.default_rng(1)
    sides = {
        side: pa.table(
            {
                "id": np.arange(200),
                "t": np.sort(rng.integers(0, 4000, 200)),
                "x": rng.integers(0, 1 << 30, 200),
            }
        )
        for side in "rs"
    }
    condition = """ON s.t BETWEEN r.t - 500 AND r.t + 500
        AND s.x BETWEEN r.x - 30000000 AND r.x + 30000000"""
    package = virtual_package(config(8), name, tmp_path, kernels=2)
    with Simulated(name, package) as device:
        for select in (
            "SELECT r.id AS a, s.id AS b FROM r JOIN s",
            "SELECT r.id AS a FROM r ANTI JOIN s",
        ):
            text, time = f"{select} {condition}", {"r": "t", "s": "t"}
            found = penstock.sql(text, sides, time=time, device=device)
            wanted = penstock.sql(text, sides, time=time)
            order = [(column, "ascending") for column in wanted.column_names]
            assert len(wanted)
            assert found.sort_by(order) == wanted.sort_by(order)
        assert device.counters()["narrow_pairs"]
