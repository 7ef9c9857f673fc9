import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.errors import UsageError
from penstock.expr import ops
from penstock.hw.cells import _cells
from penstock.hw.export import TOP, export, export_kernel
from penstock.hw.join.config import JoinConfig
from penstock.hw.join.fjoin.config import FJoinConfig
from penstock.hw.join.kernel.config import KernelConfig
from penstock.program import GeneralProgram, Mode
from penstock.types import BOOL, int_of
from tests.hw.kit import needs_yosys, tools_accept

GOLDEN = Path(__file__).parent / "export.json"


def general_program():
    number, flag = int_of(20, nullable=False), BOOL.as_nullable(False)
    s = [ops.key("s", i, number) for i in range(2)]
    w = [ops.key("w", i, number) for i in range(2)]
    dx, dy = (ops.sub(a, b) for a, b in zip(s, w, strict=True))
    circle = ops.lt(ops.add(ops.mul(dx, dx), ops.mul(dy, dy)), ops.const(90_000))
    parts = [
        circle,
        ops.eq(ops.mod(dx, ops.const(7)), ops.const(-3)),
        ops.lt(ops.const(0), ops.bit_and(ops.bit_xor(s[0], w[1]), ops.const(255))),
        ops.le(ops.least(*s, *w), ops.bit_not(ops.shl(w[0], ops.bit_and(s[1], ops.const(7))))),
        ops.eq(ops.case([(ops.lt(*w), w[0])], ops.const(5)), ops.neg(s[1])),
    ]
    predicate = ops.and_(ops.key("w", 2, flag), ops.or_(*parts))
    return GeneralProgram((number, number), (number, number, flag), predicate)


CONFIGS = {
    "one test": JoinConfig(units=5, units_per_block=3, tests=1, key_bits=8),
    "two tests": JoinConfig(units=8, units_per_block=4, tests=2, key_bits=32),
    "table in LUTRAM": JoinConfig(units=4, units_per_block=32, tests=5, key_bits=16),
    "general": JoinConfig(units=4, units_per_block=2, program=general_program()),
    "paper": FJoinConfig(units=4, units_per_block=2, program=general_program()),
}


@needs_yosys
@pytest.mark.parametrize("name", CONFIGS)
def test_tools_accept_it(name, tmp_path):
    tools_accept(export(CONFIGS[name]), TOP, tmp_path)


@needs_yosys
def test_same_bytes_without_dates_or_paths(tmp_path, fresh_tools):
    text = export(JoinConfig(units=4, units_per_block=2, tests=2, key_bits=8))
    other = JoinConfig(units=4, units_per_block=2, tests=2, key_bits=8)
    assert export(other) == text
    assert str(tmp_path.parent) not in text
    assert "src =" not in text
    assert re.search(r"^module penstock_join\(", text, re.M)


SMALL = KernelConfig.fit(JoinConfig(units=4, units_per_block=2, tests=1, key_bits=8))
MODES = {"modes": frozenset(Mode) - {Mode.NEAREST}, "value_bits": 16}
#: What a memory begins with is most of a kernel's text; the short run has kernels with little.
LITTLE = {"burst_words": 16, "read_words": 16, "write_words": 16, "lane_records": 4}
GOLDEN_KERNELS = {
    "": SMALL,
    "modes/": replace(SMALL, join=replace(SMALL.join, **MODES)),
    "little/": replace(SMALL, **LITTLE),
    "little, modes/": replace(SMALL, **LITTLE, join=replace(SMALL.join, **MODES)),
}


@needs_yosys
@pytest.mark.parametrize(
    "folder",
    [pytest.param(f, marks=() if f[:1] == "l" else pytest.mark.slow) for f in GOLDEN_KERNELS],
)
def test_golden_kernels(folder, tmp_path):
    """Hashes of small kernels' files: nobody changes what is exported without noticing."""
    found = {
        folder + file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in export_kernel(GOLDEN_KERNELS[folder], "u280", tmp_path)
    }
    recorded = json.loads(GOLDEN.read_text())
    assert found == {name: recorded.get(name) for name in found}, (
        f"the export changed; if that is meant, write to {GOLDEN.name}:\n"
        f"{json.dumps(found, indent=2)}"
    )


def test_nothing_is_recorded_that_is_not_tested():
    names = {name.rpartition("/")[0] for name in json.loads(GOLDEN.read_text())}
    assert names == {folder.rpartition("/")[0] for folder in GOLDEN_KERNELS}


def test_cells_of_a_report():
    report = """
        1   BUFG
       10   FDRE
        2   FDSE
        3   INV
        7   LUT2
        5   LUT6
        2   RAM64M8
        1   RAMB36E2
    """
    assert _cells(report) == type(_cells(""))(lut=3 + 7 + 5 + 16, ff=12, bram=1)


def test_a_card_takes_so_many_kernels(tmp_path):
    config = KernelConfig.fit(JoinConfig(units=8, units_per_block=4, tests=2, key_bits=32))
    with pytest.raises(UsageError, match="u280 takes 1 to 60 kernels, not 61"):
        export_kernel(config, "u280", tmp_path, kernels=61)
