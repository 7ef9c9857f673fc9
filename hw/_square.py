"""A Yosys techmap that makes the operands of a cell as wide as the operation.

Amaranth trims operands and leaves their extension to Verilog's rules: that is exact, but every
linter warns of it. A zero even becomes an operand without bits. This map writes each extension out,
so a width warning means a mistake.
"""

from __future__ import annotations

_MODULE = """
(* techmap_celltype = "${cell}" *)
module _square_{cell} (A, B, Y);
  parameter A_SIGNED = 0;
  parameter B_SIGNED = 0;
  parameter A_WIDTH = 1;
  parameter B_WIDTH = 1;
  parameter Y_WIDTH = 1;
  localparam WIDTH = {width};
  input [A_WIDTH-1:0] A;
  input [B_WIDTH-1:0] B;
  output [Y_WIDTH-1:0] Y;
  wire _TECHMAP_FAIL_ = A_WIDTH == WIDTH && B_WIDTH == WIDTH;
  wire [WIDTH-1:0] a, b;
  generate
    if (A_WIDTH == 0) assign a = 0;
    else if (A_SIGNED && B_SIGNED) assign a = $signed(A);
    else assign a = A;
    if (B_WIDTH == 0) assign b = 0;
    else if (A_SIGNED && B_SIGNED) assign b = $signed(B);
    else assign b = B;
  endgenerate
  \\${cell} #(.A_SIGNED(A_SIGNED), .B_SIGNED(B_SIGNED),
    .A_WIDTH(WIDTH), .B_WIDTH(WIDTH), .Y_WIDTH(Y_WIDTH)) _TECHMAP_REPLACE_ (.A(a), .B(b), .Y(Y));
endmodule
"""

_UNARY_MODULE = """
(* techmap_celltype = "${cell}" *)
module _square_{cell} (A, Y);
  parameter A_SIGNED = 0;
  parameter A_WIDTH = 1;
  parameter Y_WIDTH = 1;
  input [A_WIDTH-1:0] A;
  output [Y_WIDTH-1:0] Y;
  wire _TECHMAP_FAIL_ = A_WIDTH == Y_WIDTH;
  wire [Y_WIDTH-1:0] a;
  generate
    if (A_SIGNED) assign a = $signed(A);
    else assign a = A;
  endgenerate
  \\${cell} #(.A_SIGNED(A_SIGNED), .A_WIDTH(Y_WIDTH), .Y_WIDTH(Y_WIDTH))
    _TECHMAP_REPLACE_ (.A(a), .Y(Y));
endmodule
"""

_SHIFT_MODULE = """
(* techmap_celltype = "$shl" *)
module _square_shl (A, B, Y);
  parameter A_SIGNED = 0;
  parameter B_SIGNED = 0;
  parameter A_WIDTH = 1;
  parameter B_WIDTH = 1;
  parameter Y_WIDTH = 1;
  input [A_WIDTH-1:0] A;
  input [B_WIDTH-1:0] B;
  output [Y_WIDTH-1:0] Y;
  wire _TECHMAP_FAIL_ = A_WIDTH == Y_WIDTH;
  wire [Y_WIDTH-1:0] a;
  generate
    if (A_SIGNED) assign a = $signed(A);
    else assign a = A;
  endgenerate
  \\$shl #(.A_SIGNED(A_SIGNED), .B_SIGNED(0),
    .A_WIDTH(Y_WIDTH), .B_WIDTH(B_WIDTH), .Y_WIDTH(Y_WIDTH))
    _TECHMAP_REPLACE_ (.A(a), .B(B), .Y(Y));
endmodule
"""

_NOT_MODULE = """
(* techmap_celltype = "$logic_not" *)
module _square_logic_not (A, Y);
  parameter A_SIGNED = 0;
  parameter A_WIDTH = 1;
  parameter Y_WIDTH = 1;
  input [A_WIDTH-1:0] A;
  output [Y_WIDTH-1:0] Y;
  wire _TECHMAP_FAIL_ = A_WIDTH == 1;
  assign Y = A == {A_WIDTH{1'b0}};
endmodule
"""


def techmap() -> str:
    """The map, in Verilog."""
    wider = "A_WIDTH > B_WIDTH ? A_WIDTH : B_WIDTH"
    binary = dict.fromkeys(["add", "sub", "mul", "and", "or", "xor"], "Y_WIDTH")
    binary |= dict.fromkeys(["eq", "ne", "lt", "le", "gt", "ge"], wider)
    modules = [
        *(
            _MODULE.replace("{cell}", cell).replace("{width}", width)
            for cell, width in binary.items()
        ),
        *(_UNARY_MODULE.replace("{cell}", cell) for cell in ("neg", "not")),
        _SHIFT_MODULE,
        _NOT_MODULE,
    ]
    return "".join(modules)
