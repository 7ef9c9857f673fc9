import re

import pytest

from penstock.constraints.boards import BOARDS, ToolFlow, board
from penstock.errors import UsageError

#: Names of the first letters of a part's family.
FAMILIES = {ToolFlow.VITIS: r"xcu\d+-", ToolFlow.VIVADO: r"xc(7z\d+|zu\d+|k\d+)"}


def test_unknown_board():
    with pytest.raises(UsageError, match=r"no board named 'u55'; choose one of u50, .*ultra96v2$"):
        board("u55")


@pytest.mark.parametrize("name", BOARDS)
def test_entry_is_plausible(name):
    entry = board(name)
    assert re.match(FAMILIES[entry.flow], entry.part)
    assert entry.ff == 2 * entry.lut
    assert (entry.memory == "PS") == (entry.flow is ToolFlow.VIVADO)
    assert (entry.uram > 0) == (name not in ("pynq-z2", "ultra96v2"))
    # PYNQ dropped Alveo cards after 3.0.1.
    assert (entry.pynq == "3.0.1") == (entry.flow is ToolFlow.VITIS)
    if entry.flow is ToolFlow.VITIS:
        assert entry.platform.startswith(f"xilinx_{name}_")
    else:
        assert re.fullmatch(r"[\w.-]+:[\w-]+:part0:1\.[\dx]", entry.platform)


def test_parts_and_platforms_are_not_copied():
    for field in ("part", "platform"):
        assert len({getattr(entry, field) for entry in BOARDS.values()}) == len(BOARDS)


@pytest.mark.parametrize("name", BOARDS)
def test_a_lower_clock(name):
    entry = board(name)
    assert board(name, entry.clock_mhz) == entry
    lower = board(name, entry.clock_mhz - 10)
    assert lower.clock_mhz == entry.clock_mhz - 10
    assert lower.part == entry.part
    for clock_mhz in (0, 24, entry.clock_mhz + 1):
        message = f"kernels of {name} are built for 25 to {entry.clock_mhz} MHz, not {clock_mhz}"
        with pytest.raises(UsageError, match=message):
            board(name, clock_mhz)
