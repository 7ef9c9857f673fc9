import re

import pytest

from penstock.errors import FileError
from penstock.hw.window.config import WindowConfig
from penstock.hw.window.export import TOP, count_cells, export, main
from tests.hw.kit import needs_yosys, tools_accept
from tests.kit.effort import effort

CONFIGS = {
    "equality": WindowConfig(depth=64, key_bits=104),
    "banks, two results": WindowConfig(depth=64, banks=4, outputs=2, payload_a_bits=7),
    "band tests and times": WindowConfig(depth=16, banks=2, tests=2, key_bits=12, time_bits=20),
    "table in LUTRAM": WindowConfig(depth=16, banks=2, tests=5, key_bits=8),
    "sequential": WindowConfig(depth=16, parallel=False),
}


@needs_yosys
@pytest.mark.parametrize("name", CONFIGS)
def test_tools_accept_it(name, tmp_path):
    tools_accept(export(CONFIGS[name]), TOP, tmp_path)


@needs_yosys
def test_same_bytes_without_dates_or_paths(tmp_path, fresh_tools):
    text = export(WindowConfig(depth=16, banks=2))
    assert export(WindowConfig(depth=16, banks=2)) == text
    assert str(tmp_path.parent) not in text
    assert "src =" not in text
    assert re.search(rf"^module {TOP}\(", text, re.M)


@needs_yosys
def test_queues_have_no_first_contents():
    """Slots are read where they were written only, and 65,536 zeros would be as many lines."""
    text = export(WindowConfig(depth=64, banks=2))
    assert re.search(r"bank_1 \[31:0\];", text)
    assert not re.search(r"bank_\d\[\d+\] = ", text)


#: ROWS that a build has whose cells are counted; in the short run Yosys counts those of one.
COUNTED = effort(4096, 1024)


@needs_yosys
def test_queues_are_block_ram():
    """Tuples of 64 bits: two queues, each of a block of 32 Kbit (36 with parity) per 512 ROWS."""
    cells = count_cells(WindowConfig(depth=COUNTED))
    assert cells.bram == 2 * COUNTED // 512
    assert cells.lut < 800


@needs_yosys
def test_command(tmp_path, capsys):
    file = tmp_path / "out.v"
    options = ["--depth", "8", "--key-bits", "4", "--sequential"]
    assert main([*options, "-o", str(file)]) == 0
    assert main(options) == 0
    assert capsys.readouterr().out == file.read_text()
    counted = effort([*options, "--cells"], ["--depth", str(COUNTED), "--cells"])
    assert main(counted) == 0
    assert re.fullmatch(r"\d+ LUT, \d+ FF, \d+ block RAM\n", capsys.readouterr().out)
    with pytest.raises(SystemExit) as stopped:
        main([*options, "-o", str(tmp_path / "none" / "out.v")])
    assert stopped.value.code == FileError.exit_code
    assert "cannot be written" in capsys.readouterr().err


def test_command_with_bad_options(capsys):
    with pytest.raises(SystemExit):
        main(["--depth", "9"])
    assert "depth must be a power of two, not 9" in capsys.readouterr().err
