"""What is written for a board, by name and by hash."""

import hashlib
import json
import re
from functools import cache
from pathlib import Path
from xml.etree import ElementTree as xml

import pytest

from penstock.hw.kernel.registers import RegisterMap
from penstock.hw.window.config import WindowConfig
from penstock.hw.window.kernel.config import WindowKernelConfig
from penstock.hw.window.kernel.describe import KERNEL, REGISTERS, TABLE_A, TABLE_B, describe
from penstock.hw.window.kernel.export import export_window_kernel, window_kernel_verilog
from tests.hw.kit import needs_verilator, needs_yosys, verilator_accepts, yosys_accepts

GOLDEN = Path(__file__).parent / "export.json"
DOCUMENT = Path(__file__).parents[4] / "docs" / "hardware" / "window-operator.md"

SMALL = WindowConfig(depth=16, banks=2, tests=1, key_bits=8)
BUILDS = {
    KERNEL: {
        "band": WindowKernelConfig(window=SMALL),
        "wide keys": WindowKernelConfig(window=WindowConfig(depth=16, key_bits=1100, time_bits=40)),
        "one at a time, narrow ports": WindowKernelConfig(
            window=WindowConfig(depth=16, tests=6, key_bits=20, parallel=False), word_bits=128
        ),
    },
}
RUNS = [
    pytest.param(
        top,
        config,
        id=f"{top}, {name}",
        marks=() if name == "band" else pytest.mark.slow,
    )
    for top, builds in BUILDS.items()
    for name, config in builds.items()
]


verilog_of = cache(window_kernel_verilog)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"window": WindowConfig(payload_a_bits=31)},
            r"payloads must have 32 bits, not \(31, 32\)",
        ),
        ({"window": WindowConfig(outputs=2)}, "outputs must be 1, not 2"),
        ({"burst_words": 3}, "burst_words must be a power of two, 1 to 64, not 3"),
        ({"read_words": 32}, "must hold a burst of 64 words, not 32 and 256"),
    ],
)
def test_bad_values(arguments, message):
    with pytest.raises(ValueError, match=message):
        WindowKernelConfig(**{"window": WindowConfig(), **arguments})


def test_bad_kinds():
    with pytest.raises(TypeError, match="window must be a WindowConfig, not 3"):
        WindowKernelConfig(window=3)


def test_registers_do_not_overlap():
    taken = set()
    placed = RegisterMap(REGISTERS, {TABLE_A.name: 8, TABLE_B.name: 8})
    for register in placed.registers:
        for _, offset in placed.instances(register):
            words = {offset + 4 * word for word in range(register.bits // 32)}
            assert not words & taken
            taken |= words
        assert register.text


@needs_yosys
@pytest.mark.parametrize(("top", "config"), RUNS)
class TestTools:
    def test_yosys_accepts_it(self, top, config, tmp_path):
        yosys_accepts(verilog_of(config), top, tmp_path)

    @needs_verilator
    def test_verilator_accepts_it(self, top, config, tmp_path):
        verilator_accepts(verilog_of(config), top, tmp_path)


@needs_yosys
@pytest.mark.parametrize("top", BUILDS)
def test_golden(top, tmp_path):
    """Hashes of small kernels' files: nobody changes what is exported without noticing."""
    files = export_window_kernel(BUILDS[top]["band"], "u280", tmp_path)
    found = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    assert found == json.loads(GOLDEN.read_text())[top], (
        f"the export changed; if that is meant, write to {GOLDEN.name}:\n"
        f"{json.dumps({top: found}, indent=2)}"
    )


def test_types_of_scalars_in_kernel_xml():
    """Those that PYNQ's ``call`` takes; it raises KeyError for others."""
    root = xml.fromstring(describe(WindowKernelConfig(window=SMALL)).kernel_xml())
    scalars = [arg.attrib for arg in root.iter("arg") if arg.attrib["addressQualifier"] == "0"]
    types = {(arg["size"], arg["type"]) for arg in scalars}
    assert types == {("0x4", "uint"), ("0x8", "unsigned long long")}


def test_c_header():
    made = describe(BUILDS[KERNEL]["band"])
    text = made.c_header()
    names = re.findall(r"#define (\w+) ", text)
    assert len(names) == len(set(names))
    assert all(name.startswith("PENSTOCK_WINDOW") for name in names)
    assert f"#define {made.prefix}_STATE_OUTPUT_STALLED (1u << 4)\n" in text


def test_documents_agree():
    text = DOCUMENT.read_text(encoding="utf-8")
    assert describe(BUILDS[KERNEL]["band"]).documentation() in text
