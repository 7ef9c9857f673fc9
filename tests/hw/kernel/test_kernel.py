from dataclasses import replace

import pytest

from penstock.errors import FileError, UsageError
from penstock.expr import ops
from penstock.hw.export import export_kernel, kernel_verilog
from penstock.hw.join.config import JoinConfig
from penstock.hw.join.fjoin.config import FJoinConfig
from penstock.hw.join.kernel.config import KernelConfig
from penstock.hw.join.kernel.describe import KERNEL
from penstock.program import Mode
from tests.hw.kit import needs_yosys, tools_accept
from tests.hw.test_export import general_program
from tests.kit.effort import effort

pytestmark = needs_yosys


def with_value(program):
    """The product of a stream and a window key."""
    keys = [ops.key("s", 1, program.stream[1]), ops.key("w", 0, program.window[0])]
    return replace(program, value=ops.bit_and(ops.mul(*keys), ops.const(0x7FFF_FFFF)))


def kernel(join, pipelines=1):
    """With little memory in the short run: tools take seconds to read what a memory begins with."""
    config = KernelConfig.fit(join, pipelines)
    sizes = {"burst_words": 16, "read_words": 16, "write_words": 16, "lane_records": 4}
    return effort(config, replace(config, **sizes))


CONFIGS = {
    "band": kernel(JoinConfig(units=6, units_per_block=2, tests=2, key_bits=24)),
    "wide band": kernel(JoinConfig(units=2, tests=8, key_bits=64)),
    "general": kernel(JoinConfig(units=4, units_per_block=2, program=general_program())),
    "band with aggregates": kernel(
        JoinConfig(units=2, tests=1, modes=frozenset(Mode) - {Mode.NEAREST}, value_bits=32), 2
    ),
    "general with aggregates": kernel(
        JoinConfig(units=2, program=with_value(general_program()), modes=frozenset(Mode))
    ),
    "three pipelines": kernel(JoinConfig(units=2, tests=1, key_bits=8), 3),
    "small": kernel(JoinConfig(units=2, tests=1, key_bits=4)),
    "paper": kernel(FJoinConfig(units=4, units_per_block=2, program=general_program())),
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n == "three pipelines" else pytest.mark.slow) for n in CONFIGS],
)
def test_tools_accept_it(name, tmp_path):
    tools_accept(kernel_verilog(CONFIGS[name]), KERNEL, tmp_path)


@pytest.mark.slow
def test_export_is_the_same_bytes(tmp_path, fresh_tools):
    config = CONFIGS[effort("band", "small")]
    first = export_kernel(config, "u280", tmp_path / "a")
    second = export_kernel(config, "u280", tmp_path / "b")
    assert [file.name for file in first] == [
        *(f"{KERNEL}.v", f"{KERNEL}.json", f"{KERNEL}.h", "registers.md", "kernel.xml", "link.cfg"),
    ]
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()
        assert str(tmp_path) not in one.read_text()
    ports = first[0].read_text().partition(f"module {KERNEL}(")[2].partition(");")[0]
    for port in ("ap_clk", "ap_rst_n", "interrupt", "s_axi_control_AWADDR", "m_axi_gmem2_WSTRB"):
        assert port in ports.replace(",", " ").split()


def test_export_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="cannot be made"):
        export_kernel(CONFIGS["band"], "u280", tmp_path / "file")
    with pytest.raises(UsageError, match="no board named 'a/b'"):
        export_kernel(CONFIGS["band"], "a/b", tmp_path)
