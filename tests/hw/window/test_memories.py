"""Which memory the queues of a build lie in."""

import pytest

from penstock.constraints.boards import BOARDS
from penstock.hw.verilog import run_yosys
from penstock.hw.window.config import WindowConfig
from penstock.hw.window.export import TOP, export
from penstock.hw.window.memories import bank_rams, bank_urams, placed
from tests.hw.kit import needs_yosys

BUILD = {"banks": 64, "tests": 2, "key_bits": 32}


@pytest.mark.parametrize(
    ("board", "depth", "kind"),
    [
        ("u280", 1 << 16, "auto"),
        ("u280", 1 << 18, "uram"),
        ("zcu104", 1 << 18, "uram"),
        ("pynq-z2", 1 << 18, "auto"),
    ],
)
def test_the_smaller_share(board, depth, kind):
    found = placed(WindowConfig(depth=depth, **BUILD), BOARDS[board])
    assert found.memories == (kind, kind)


def test_each_queue_has_its_own():
    narrow = BUILD | {"key_bits": 16}
    build = WindowConfig(depth=1 << 17, payload_a_bits=40, payload_b_bits=4, **narrow)
    assert placed(build, BOARDS["u280"]).memories == ("uram", "auto")


@pytest.mark.parametrize("kind", ["auto", "uram"])
def test_the_largest_windows_fit_a_u280(kind):
    """ROWS 65,536 with 64 banks, whichever memory they lie in."""
    if kind == "auto":
        assert 2 * 64 * bank_rams(96, 1024) == 384 < BOARDS["u280"].bram
    else:
        assert 2 * 64 * bank_urams(96, 1024) == 256 < BOARDS["u280"].uram


@needs_yosys
def test_yosys_takes_ultraram(tmp_path):
    """Two queues of one bank: 64 bits are one UltraRAM of 72 bits, 96 are two."""
    build = WindowConfig(depth=4096, payload_b_bits=64, memory_a="uram", memory_b="uram")
    (tmp_path / "in.v").write_text(export(build))
    script = [f"synth_xilinx -family xcup -flatten -top {TOP}", "tee -q -o stat.txt stat"]
    run_yosys(["read_verilog in.v", *script], tmp_path)
    lines = (tmp_path / "stat.txt").read_text().splitlines()
    (count,) = (line.split()[0] for line in lines if "URAM288" in line)
    assert int(count) == bank_urams(64, 4096) + bank_urams(96, 4096) == 3
    assert not any("RAMB" in line for line in lines)
