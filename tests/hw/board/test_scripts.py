"""The vendors' scripts in a Tcl interpreter in which the vendors' commands are recorded."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from penstock.constraints.boards import BOARDS, Flow, board
from penstock.errors import DeviceError, MissingToolError
from penstock.hw.board.build import build_overlay, check_tools
from penstock.hw.board.placement import register_range, system_of
from penstock.hw.board.scripts import DESIGN, PACKAGE, XDC, build_scripts
from penstock.hw.join.config import JoinConfig
from penstock.hw.kernel.config import KernelConfig
from penstock.hw.kernel.describe import describe
from penstock.hw.kernel.description import Description
from penstock.hw.kernel.link import compute_units
from penstock.hw.window.config import WindowConfig
from penstock.hw.window.kernel.config import WindowKernelConfig
from penstock.hw.window.kernel.describe import describe as describe_window

KERNEL = describe(KernelConfig.fit(JoinConfig(units=4, units_per_block=2, tests=2, key_bits=32)))
WINDOW = describe_window(WindowKernelConfig(window=WindowConfig(depth=16, tests=2)))
KERNELS = [pytest.param(KERNEL, id="join"), pytest.param(WINDOW, id="window")]
VENDOR = Path(__file__).with_name("vendor.tcl")
ZYNQ = [name for name, entry in BOARDS.items() if entry.flow is Flow.VIVADO]

#: Options of each command that the scripts use, as the manuals have them; ``*`` takes no value.
OPTIONS = {
    "add_files": {"-norecurse*", "-fileset"},
    "apply_bd_automation": {"-rule", "-config"},
    "close_project": {"-delete*"},
    "create_bd_cell": {"-type", "-vlnv"},
    "create_project": {"-force*", "-part"},
    "get_board_parts": {"-quiet*"},
    "ipx::associate_bus_interfaces": {"-busif", "-clock"},
    "ipx::check_integrity": {"-kernel*"},
    "ipx::edit_ip_in_project": {"-upgrade", "-name", "-directory"},
    "ipx::get_bus_interfaces": {"-of_objects"},
    "ipx::get_user_parameters": {"-of_objects"},
    "ipx::package_project": {
        "-root_dir",
        "-vendor",
        "-library",
        "-taxonomy",
        "-import_files*",
        "-set_current",
    },
    "launch_runs": {"-to_step", "-jobs"},
    "make_wrapper": {"-files", "-top*", "-import*"},
    "package_xo": {"-force*", "-xo_path", "-kernel_name", "-ip_directory", "-kernel_xml"},
    "report_timing_summary": {"-file"},
    "report_utilization": {"-hierarchical*", "-file"},
    "set_property": {"-dict"},
    "update_compile_order": {"-fileset"},
    "file copy": {"-force*"},
}

needs_tcl = pytest.mark.skipif(shutil.which("tclsh") is None, reason="tclsh is not installed")


def run(script: Path, **answers: str) -> subprocess.CompletedProcess[str]:
    given = {"BOARD_PARTS": "part:1.0 part:1.1", "PROGRESS": "100%", "WNS": "0.1"} | answers
    return subprocess.run(
        ["tclsh", str(VENDOR), str(script)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **given},
    )


def calls(script: Path) -> list[list[str]]:
    """What the script asks of the tools, once it has been parsed and run to its end."""
    done = run(script)
    assert done.returncode == 0, done.stderr
    return [line.split("\x1f") for line in done.stdout.splitlines()]


def written(
    name: str, folder: Path, kernel: Description = KERNEL, copies: int = 2
) -> dict[str, Path]:
    scripts = build_scripts(kernel, board(name), compute_units(copies, kernel.kernel))
    for file, text in scripts.items():
        (folder / file).write_text(text)
    return {file: folder / file for file in scripts}


def checked_options(made: list[list[str]]) -> None:
    for name, *arguments in made:
        known = OPTIONS.get(name, set())
        at = 0
        while at < len(arguments):
            word = arguments[at]
            at += 1
            if not re.fullmatch(r"-[a-z_]+", word):
                continue
            assert word in known or f"{word}*" in known, f"{name} has no option {word}"
            if word in known:
                assert at < len(arguments), f"{name} {word} lacks its value"
                at += 1


@needs_tcl
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", BOARDS)
def test_package(name: str, kernel: Description, tmp_path: Path) -> None:
    made = calls(written(name, tmp_path, kernel)[PACKAGE])
    checked_options(made)
    order = [call[0] for call in made]
    before = ["create_project", "add_files", "ipx::package_project", "ipx::edit_ip_in_project"]
    before += ["ipx::add_memory_map", "ipx::check_integrity", "ipx::save_core", "close_project"]
    assert sorted(before, key=order.index) == before
    registers = {c[1] for c in made if c[0] == "ipx::add_register"}
    assert registers == {entry["name"] for entry in kernel.table()["registers"]}
    offsets = [int(c[2], 0) for c in made if c[:2] == ["set_property", "address_offset"]]
    assert offsets == [entry["offset"] for entry in kernel.table()["registers"]]
    clocked = {c[c.index("-busif") + 1] for c in made if c[0] == "ipx::associate_bus_interfaces"}
    assert clocked == {"s_axi_control", *kernel.ports}
    is_card = BOARDS[name].flow is Flow.VITIS
    assert ("package_xo" in order) == is_card
    assert (["set_property", "sdx_kernel", "true", "<ipx::current_core>"] in made) == is_card


@needs_tcl
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", ZYNQ)
def test_design(name: str, kernel: Description, tmp_path: Path) -> None:
    files = written(name, tmp_path, kernel)
    made = calls(files[DESIGN])
    checked_options(made)
    order = [call[0] for call in made]
    before = ["create_project", "update_ip_catalog", "create_bd_design", "create_bd_cell"]
    before += ["apply_bd_automation", "validate_bd_design", "save_bd_design", "make_wrapper"]
    before += ["launch_runs", "wait_on_run", "open_run", "file copy"]
    assert sorted(before, key=order.index) == before
    entry = board(name)
    system = system_of(entry).instance
    assert [c[-1] for c in made if c[0] == "create_bd_cell"] == [
        system,
        *compute_units(2, kernel.kernel),
    ]
    joined = [c for c in made if c[0] == "apply_bd_automation" and "axi4" in c[2]]
    assert len(joined) == 2 * (1 + len(kernel.ports))
    assert all(f"/{system}/" in c[4] for c in joined)
    offsets = [int(c[2], 0) for c in made if c[:2] == ["set_property", "offset"]]
    assert offsets == [register_range(entry, number).start for number in range(2)]
    # The newest of several versions of the board files.
    assert ["set_property", "board_part", "part:1.1", "<current_project>"] in made


@needs_tcl
@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({"BOARD_PARTS": ""}, "Vivado has no board files for xilinx.com:zcu104:part0:1.1"),
        ({"PROGRESS": "47%"}, "implementation failed"),
        ({"WNS": "-0.2"}, "timing is not met at 200 MHz; build fewer units or banks"),
    ],
)
def test_what_goes_wrong_is_said(answers: dict[str, str], message: str, tmp_path: Path) -> None:
    done = run(written("zcu104", tmp_path)[DESIGN], **answers)
    assert done.returncode == 1
    assert message in done.stderr
    assert "file copy" not in done.stdout


@needs_tcl
def test_an_unknown_command_is_an_error(tmp_path: Path) -> None:
    script = written("zcu104", tmp_path)[PACKAGE]
    script.write_text(script.read_text().replace("ipx::save_core", "ipx::save_cores"))
    assert 'invalid command name "ipx::save_cores"' in run(script).stderr


def test_cards_have_no_design(tmp_path: Path) -> None:
    assert set(written("u280", tmp_path)) == {PACKAGE}
    assert set(written("kv260", tmp_path)) == {PACKAGE, DESIGN, XDC}


class TestTools:
    """The vendor's tools as programs that say what they were asked."""

    @pytest.fixture
    def path(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        folder = tmp_path / "bin"
        folder.mkdir()
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
        return folder

    def tool(self, path: Path, name: str, version: str, act: str = "") -> None:
        file = path / name
        file.write_text(f'#!/bin/sh\ncase "$1" in -version|--version) echo "{version}";; *)\n')
        file.write_text(file.read_text() + f'echo "$0 $@" >> calls; {act}\n;; esac\n')
        file.chmod(0o755)

    def test_missing(self, path: Path) -> None:
        with pytest.raises(MissingToolError, match=r"vivado is not on the path; install Vivado"):
            check_tools(board("zcu104"))
        self.tool(path, "vivado", "vivado v2023.2 (64-bit)")
        assert check_tools(board("zcu104")) == {"vivado": "v2023.2"}
        with pytest.raises(MissingToolError, match=r"v\+\+ is not on the path; install Vitis"):
            check_tools(board("u280"))

    def test_too_old(self, path: Path) -> None:
        self.tool(path, "vivado", "Vivado v2018.3")
        with pytest.raises(MissingToolError, match=r"vivado is v2018.3; the scripts are for 2021"):
            check_tools(board("zcu104"))

    @pytest.mark.parametrize(("name", "made"), [("zcu104", ".bit"), ("u280", ".xclbin")])
    def test_build(self, name: str, made: str, path: Path, tmp_path: Path) -> None:
        self.tool(path, "vivado", "vivado v2022.1")
        self.tool(path, "v++", "v++ v2022.1")
        steps: list[str] = []
        overlay = build_overlay(KERNEL, board(name), tmp_path, steps.append)
        assert overlay.suffix == made
        assert [line.rpartition("/")[2] for line in (tmp_path / "calls").read_text().splitlines()]
        assert (tmp_path / "calls").read_text().count("\n") == len(steps) == 2
        assert "-source package.tcl" in steps[0]
        assert ("--config link.cfg" in steps[1]) == (made == ".xclbin")

    def test_a_tool_that_fails(self, path: Path, tmp_path: Path) -> None:
        self.tool(path, "vivado", "vivado v2022.1", act="echo 'ERROR: no licence'; exit 3")
        with pytest.raises(DeviceError, match="vivado failed: ERROR: no licence"):
            build_overlay(KERNEL, board("zcu104"), tmp_path, lambda step: None)
