"""Runs the vendor's tools on exported files: from Verilog to the file that a board loads."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

from penstock.constraints.boards import Board, ToolFlow
from penstock.errors import MissingToolError

from ..kernel.description import Description
from ..kernel.link import LINK
from ..tools import run_tool
from .scripts import DESIGN, PACKAGE, PBLOCKS

#: Releases that the scripts are written for, from the first to the last year.
_FIRST, _LAST = 2021, 2024
#: Longest run of one tool: implementation of a full card takes many hours.
_TIMEOUT_S = 48 * 3600.0


def needed_tools(board: Board) -> list[str]:
    """Programs that a build for a board runs."""
    return ["vivado", "v++"] if board.flow is ToolFlow.VITIS else ["vivado"]


def check_tools(board: Board) -> dict[str, str]:
    """The tools and their versions.

    Raises
    ------
    MissingToolError
        One is not on the path, or the scripts were not written for its release.
    """
    found = {}
    for name in needed_tools(board):
        if shutil.which(name) is None:
            suite = "Vitis" if name == "v++" else "Vivado"
            raise MissingToolError(
                f"{name} is not on the path; install {suite} {_FIRST} to {_LAST}, source its "
                "settings64.sh, and build again. Without it, run the kernel on a virtual board: "
                "penstock board --virtual"
            )
        option = "--version" if name == "v++" else "-version"
        said = run_tool(name, [name, option], Path.cwd(), timeout_s=120.0).stdout
        version = re.search(r"v?(20\d\d)\.(\d)", said)
        if version is None or not _FIRST <= int(version[1]) <= _LAST:
            shown = "of an unknown version" if version is None else version[0]
            raise MissingToolError(
                f"{name} is {shown}; the scripts are for {_FIRST} to {_LAST}: source the "
                "settings64.sh of one of these"
            )
        found[name] = version[0]
    return found


def build_overlay(
    description: Description, board: Board, folder: Path, say: Callable[[str], None]
) -> Path:
    """Build the overlay from the files and scripts in a folder; gives its path.

    Parameters
    ----------
    description : Description
    board : Board
    folder : Path
        Holds what :func:`penstock.hw.export.write_package` and
        :func:`penstock.hw.board.scripts.build_scripts` wrote.
    say : callable
        Called with the name of each step before it runs.

    Raises
    ------
    MissingToolError
        A tool is missing.
    DeviceError
        A tool fails; the message has the end of what it printed.
    """
    check_tools(board)
    kernel = description.kernel
    steps = [["vivado", "-mode", "batch", "-nojournal", "-source", PACKAGE]]
    if board.flow is ToolFlow.VITIS:
        common = ["v++", "--target", "hw", "--platform", board.platform, "--save-temps"]
        # Vivado resolves relative paths of such scripts in a folder of its own.
        before = f"run.impl_1.STEPS.PLACE_DESIGN.TCL.PRE={(folder / PBLOCKS).resolve()}"
        link = ["--link", "--config", LINK, "--vivado.prop", before]
        link += ["-o", f"{kernel}.xclbin"]
        steps.append([*common, *link, f"{kernel}.xo"])
        made = folder / f"{kernel}.xclbin"
    else:
        steps.append(["vivado", "-mode", "batch", "-nojournal", "-source", DESIGN])
        made = folder / "penstock.bit"
    for step in steps:
        say(" ".join(step))
        run_tool(step[0], step, folder, timeout_s=_TIMEOUT_S)
    return made
