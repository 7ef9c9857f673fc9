# amaranth: UnusedElaboratable=no
"""What is written once and instantiated is what Amaranth elaborates each time."""

import pytest
from amaranth.back import rtlil

from penstock.errors import DeviceError
from penstock.hw.export import TOP, export
from penstock.hw.instance import Modules
from penstock.hw.join.block import Block
from penstock.hw.join.config import JoinConfig
from penstock.hw.verilog import run_yosys, verilog
from penstock.program import Mode
from tests.hw.kit import needs_yosys

TINY = JoinConfig(units=3, units_per_block=2, tests=1, key_bits=2, ordinal_bits=3, spare_records=1)
FOLDING = JoinConfig(
    units=3, units_per_block=2, tests=1, key_bits=2, modes=frozenset({Mode.PAIRS, Mode.COUNT})
)
BUILDS = {
    "first block": lambda: Block(TINY, 0),
    "last block": lambda: Block(TINY, 1),
    "folding": lambda: Block(FOLDING, 1),
}

#: Gates and registers, the table bit by bit. Amaranth numbers signals of one name as they come, so
#: those with a number, and the first ``hit``, need not be the same signal in both designs.
_FLAT = ["proc", "flatten", "rename -hide w:*$* w:hit", "opt_clean", "memory_map", "opt_clean"]
_FLAT += ["splitnets w:table", "opt_clean"]


def prove(component, text, folder):
    """Yosys proves Verilog equal to a component as Amaranth elaborates it, signal by signal."""
    (folder / "plain.il").write_text(rtlil.convert(component, name="plain", emit_src=False))
    (folder / "in.v").write_text(text)
    script = [
        *["read_rtlil plain.il", "hierarchy -top plain", *_FLAT, "design -stash plain"],
        *["read_verilog in.v", f"hierarchy -top {TOP}", *_FLAT, f"design -stash {TOP}"],
        *(f"design -copy-from {name} -as {name} {name}" for name in ("plain", TOP)),
        *[f"equiv_make plain {TOP} both", "hierarchy -top both", "opt_clean"],
        *["equiv_struct", "equiv_simple -seq 3", "equiv_induct", "equiv_status -assert"],
    ]
    run_yosys(script, folder)


@needs_yosys
@pytest.mark.parametrize("build", BUILDS)
def test_the_verilog_is_proved_equal_to_what_is_elaborated(build, tmp_path):
    prove(BUILDS[build](), verilog(BUILDS[build](), TOP), tmp_path)


@needs_yosys
def test_the_proof_notices_a_change(tmp_path):
    text = verilog(Block(FOLDING, 1), TOP)
    assert "live <= valid" in text
    changed = text.replace("live <= valid", "live <= 1'h1")
    with pytest.raises(DeviceError, match="unproven"):
        prove(Block(FOLDING, 1), changed, tmp_path)


def test_names_of_different_components():
    modules = Modules("top")
    modules.instance(Block(TINY, 0), "block", 0)
    modules.instance(Block(TINY, 0), "block", 0)
    with pytest.raises(AssertionError, match="two components of different make are named block"):
        modules.instance(Block(TINY, 1), "block", 1)


@needs_yosys
def test_units_are_written_once():
    few, many = (
        export(JoinConfig(units=units, units_per_block=4, tests=1, key_bits=4)) for units in (4, 8)
    )
    for text in (few, many):
        names = [line.split()[1] for line in text.splitlines() if line.startswith("module ")]
        assert sum(name.endswith("unit") for name in names) == 2
    assert many.count(f"\\{TOP}.unit  ") == 7
